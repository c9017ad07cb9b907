// Command-line behaviour of all commands: the look of help, repeated flags, and
// messages for mistakes.
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

/// Sets the help format of every command. If a flag that takes one value is
/// given twice, the last value wins. Call after all flags have been added.
void finishCommands(CLI::App &program);

/// Explains how the flags of a command are matched and where values come from.
/// Paragraphs have no line breaks.
std::string explainFlags(const CLI::App &command);

/// Returns the message for a rejected command line, with the nearest known name
/// if a name was misspelt.
std::string describe(const CLI::App &program, const CLI::Error &error);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_COMMANDLINE_H
