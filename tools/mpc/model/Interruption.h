// Signal handling: some signals end a run after a save, others report a crash.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_INTERRUPTION_H
#define MPC_TOOLS_MPC_MODEL_INTERRUPTION_H

#include <atomic>

namespace mpc::tools {

/// Call before anything else. Remembers which signals the starter of mpc wants
/// ignored (nohup, a shell's background jobs). Keeps crash reports from running
/// llvm-symbolizer, as the report would wait for the symbolizer without limit;
/// reports have addresses instead.
void prepareSignals();

/// Call after LLVM has installed its handlers. Ends a crash report after 5
/// seconds, and the process with it, by the signal that came. A report
/// allocates memory, which blocks for ever after a crash in malloc, and writes
/// to standard error, which may have no reader.
void limitCrashReports();

/// Call after LLVM has installed its handlers. Makes writing beyond the file
/// size limit (ulimit -f) a failed write instead of a crash.
void ignoreFileSizeSignal();

/// Installs handlers for SIGINT, SIGTERM, SIGHUP and SIGXCPU (ulimit -t). The
/// first signal sets the returned flag to the signal's number and prints a
/// message. A second signal ends the process as if there were no handler,
/// unless it comes within a second of the first: a key pressed twice, or a
/// signal sent to the process and to its group. SIGXCPU repeats every second
/// and never ends the process. Signals that were ignored stay ignored.
const std::atomic<int> &installStopHandlers();

/// Installs a handler for SIGUSR1, which raises the returned flag.
std::atomic<bool> &installSaveHandler();

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_INTERRUPTION_H
