// Signals: which end a run after a save, and how a crash is reported.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_INTERRUPTION_H
#define MPC_TOOLS_MPC_MODEL_INTERRUPTION_H

#include <atomic>

namespace mpc::tools {

/// To be called before anything else: remembers which signals whoever started
/// mpc wants ignored (nohup, a shell's background jobs), and keeps the report
/// of a crash from running llvm-symbolizer, which it would wait for without
/// limit. The report has addresses.
void prepareSignals();

/// To be called after LLVM has installed its handlers: the report of a crash
/// ends after some seconds, and with it the process, by the signal that came.
/// The report allocates memory, which waits for ever where malloc crashed, and
/// writes to the standard error, which may have no reader.
void limitCrashReports();

/// To be called after LLVM has installed its handlers: writing beyond the
/// limit of file sizes (ulimit -f) is a failed write, not a crash.
void ignoreFileSizeSignal();

/// From here on SIGINT, SIGTERM, SIGHUP and SIGXCPU (ulimit -t) raise the flag
/// that is returned, to the signal's number, and say what is waited for. A
/// second one ends the process as if there were no handler, but not within a
/// second of the first: that is a key pressed twice, or a signal sent to the
/// process and to its group. SIGXCPU repeats by itself, and ends nothing.
/// Signals that were ignored stay so.
const std::atomic<int> &installStopHandlers();

/// From here on SIGUSR1 raises the flag that is returned.
std::atomic<bool> &installSaveHandler();

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_INTERRUPTION_H
