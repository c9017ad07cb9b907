// Flags of `mpc train` that set the schedule of the learning rate.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_FLAGS_SCHEDULEFLAGS_H
#define MPC_TOOLS_MPC_FLAGS_SCHEDULEFLAGS_H

#include "compiler/Support/ExitCode.h"
#include "runtime/train/Schedule.h"

#include <CLI/CLI.hpp>

#include <string>

namespace mpc::tools {

/// The values of the flags as typed, like "step:10".
struct ScheduleFlags {
  std::string scheduler = "constant";
};

void addScheduleFlags(CLI::App &app, ScheduleFlags &flags,
                      runtime::train::Schedule &schedule);

/// Parses the flags into `schedule`. Prints an error and returns Usage if a
/// flag is malformed or has no effect with the chosen schedule.
ExitCode resolve(const ScheduleFlags &flags,
                 runtime::train::Schedule &schedule);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_SCHEDULEFLAGS_H
