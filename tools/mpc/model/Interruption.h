// Handles signals: some end a run after saving, one requests a save, and others
// report a crash.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_INTERRUPTION_H
#define MPC_TOOLS_MPC_MODEL_INTERRUPTION_H

#include <atomic>

namespace mpc::tools {

/// Call first in main. Remembers which signals are ignored, for example by
/// nohup or for background jobs of a shell. Keeps crash reports from running
/// llvm-symbolizer, for which a report would wait without limit; reports have
/// addresses instead.
void prepareSignals();

/// Call after LLVM has installed its signal handlers. Ends a crash report, and
/// the process, after 5 seconds, by the signal of the crash. Without this
/// limit, a report can block for ever: it allocates memory, which blocks after
/// a crash in malloc, and writes to stderr, which may have no reader.
void limitCrashReports();

/// Call after LLVM has installed its signal handlers. Ignores SIGXFSZ, so that
/// a write beyond the file size limit (ulimit -f) fails instead of ending the
/// process.
void ignoreFileSizeSignal();

/// Installs handlers for SIGINT, SIGTERM, SIGHUP and SIGXCPU (ulimit -t), which
/// stop a run. The first signal prints a message and sets the returned flag to
/// the number of the signal. A second signal ends the process at once. Within a
/// second of the first, a second signal is ignored: a user may press a key
/// twice, or a signal may reach the process twice, through the process group.
/// SIGXCPU comes every second, and never ends the process. Signals that were
/// ignored at the start stay ignored.
const std::atomic<int> &installStopHandlers();

/// Installs a handler for SIGUSR1, which sets the returned flag: the run then
/// saves a checkpoint.
std::atomic<bool> &installSaveHandler();

/// Installs a handler for `signal`, SIGUSR1 or SIGUSR2. The signal sets the
/// flag of installStopHandlers, however often it comes. It counts as no first
/// signal of two: a scheduler sends it, and SIGTERM later. Call after
/// `installSaveHandler`.
void installRequeueHandler(int signal);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_INTERRUPTION_H
