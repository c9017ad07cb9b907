// The flags of `mpc train` that say how the learning rate goes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_FLAGS_SCHEDULEFLAGS_H
#define MPC_TOOLS_MPC_FLAGS_SCHEDULEFLAGS_H

#include "compiler/Support/ExitCode.h"
#include "runtime/train/Schedule.h"

#include <CLI/CLI.hpp>

#include <string>

namespace mpc::tools {

/// As they are written, such as "step:10".
struct ScheduleFlags {
  std::string scheduler = "constant";
};

void addScheduleFlags(CLI::App &app, ScheduleFlags &flags,
                      runtime::train::Schedule &schedule);

/// Gives `schedule` what the flags say. Usage where one is malformed, or has no
/// effect on that schedule.
ExitCode resolve(const ScheduleFlags &flags,
                 runtime::train::Schedule &schedule);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_SCHEDULEFLAGS_H
