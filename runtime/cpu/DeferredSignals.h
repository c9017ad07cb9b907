// Signals wait while a thread is in a library's kernels.
//
// Some of oneDNN's kernels point the stack pointer at their buffers. A signal
// handler that runs then, if it has no stack of its own (sigaltstack), is given
// its frame in front of such a buffer: in the middle of the heap. Whose handler
// it is, the runtime cannot know: its process may be Python.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_DEFERREDSIGNALS_H
#define MPC_RUNTIME_CPU_DEFERREDSIGNALS_H

#include <csignal>

namespace mpc::runtime {

/// While this lives, the thread and those that it starts take no signals from
/// outside; what has come is delivered after it. Signals of a thread's own
/// faults come at once.
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
