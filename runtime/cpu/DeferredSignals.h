// Defers signals while a thread runs a library's kernels.
//
// Some of oneDNN's kernels point the stack pointer at their buffers. A signal
// handler without its own stack (sigaltstack) would then get a frame right
// below such a buffer, in the middle of the heap. The runtime cannot know the
// handlers of its process, which may be Python.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_DEFERREDSIGNALS_H
#define MPC_RUNTIME_CPU_DEFERREDSIGNALS_H

#include <csignal>
#include <initializer_list>

namespace mpc::runtime {

/// While alive, blocks signals from outside for the thread and for threads that
/// it starts; pending signals are delivered afterwards. Signals for the
/// thread's own faults are not blocked.
class DeferredSignals {
public:
  DeferredSignals() {
    sigset_t signals;
    sigfillset(&signals);
    for (int fault :
         {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS})
      sigdelset(&signals, fault);
    pthread_sigmask(SIG_BLOCK, &signals, &previous);
  }
  ~DeferredSignals() { pthread_sigmask(SIG_SETMASK, &previous, nullptr); }
  DeferredSignals(const DeferredSignals &) = delete;
  DeferredSignals &operator=(const DeferredSignals &) = delete;

private:
  sigset_t previous;
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_DEFERREDSIGNALS_H
