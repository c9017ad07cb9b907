// Behaviour of the command line that all commands share: the format of help,
// repeated flags, and messages for mistakes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_FLAGS_COMMANDLINE_H
#define MPC_TOOLS_MPC_FLAGS_COMMANDLINE_H

#include <string>

namespace CLI {
class App;
class Error;
} // namespace CLI

namespace mpc::tools {

/// Finishes all commands: sets the format of help, and makes the last value win
/// if a flag that takes one value is given twice. Call after all flags have
/// been added.
void finishCommands(CLI::App &program);

/// Returns help paragraphs on regular expressions, environment variables and
/// files of flags, if the command has such flags. Paragraphs have no line
/// breaks.
std::string explainFlags(const CLI::App &command);

/// Returns the message for a rejected command line, with the nearest known name
/// if a name was misspelt.
std::string describe(const CLI::App &program, const CLI::Error &error);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_COMMANDLINE_H
