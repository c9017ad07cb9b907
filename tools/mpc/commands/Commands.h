// The subcommands of mpc. Each adds itself, its flags and what it runs to the
// program, and stores the exit code when it ran.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_COMMANDS_COMMANDS_H
#define MPC_TOOLS_MPC_COMMANDS_COMMANDS_H

#include "compiler/Support/ExitCode.h"

namespace CLI {
class App;
} // namespace CLI

namespace mpc::tools {

void addTrainCommand(CLI::App &program, int &exitCode);
void addCompileCommand(CLI::App &program, int &exitCode);
void addEvalCommand(CLI::App &program, int &exitCode);
void addRunCommand(CLI::App &program, int &exitCode);
void addExplainCommand(CLI::App &program, int &exitCode);
void addCheckCommand(CLI::App &program, int &exitCode);
void addInspectCommand(CLI::App &program, int &exitCode);
void addReportCommand(CLI::App &program, int &exitCode);
/// Adds `help` and `completion`, which list the commands that the program has:
/// call it last.
void addHelpCommands(CLI::App &program);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_COMMANDS_COMMANDS_H
