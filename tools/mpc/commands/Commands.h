// Declares the subcommands of mpc. Each function adds one command and its flags
// to the program. After the command has run, `exitCode` holds its exit code.
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
void addProfileCommand(CLI::App &program, int &exitCode);
void addRunCommand(CLI::App &program, int &exitCode);
void addExportCommand(CLI::App &program, int &exitCode);
void addExplainCommand(CLI::App &program, int &exitCode);
void addCheckCommand(CLI::App &program, int &exitCode);
void addInspectCommand(CLI::App &program, int &exitCode);
void addReportCommand(CLI::App &program, int &exitCode);
void addDoctorCommand(CLI::App &program, int &exitCode);
/// Adds `help` and `completion`. Call last: both list the commands that the
/// program has.
void addHelpCommands(CLI::App &program);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_COMMANDS_COMMANDS_H
