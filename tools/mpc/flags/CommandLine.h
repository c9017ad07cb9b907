// What all commands have in common on the command line: how help looks, which
// of several values holds, and how mistakes are told.
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

/// Gives every command its form of help, and lets the last of several values
/// of a flag that takes one hold. Call it when all flags have been added.
void finishCommands(CLI::App &program);

/// What to know about flags of every command: how names are matched, and where
/// values come from. Paragraphs without line breaks.
std::string explainFlags(const CLI::App &command);

/// The message for a command line that was rejected, with the nearest name
/// where one was misspelt.
std::string describe(const CLI::App &program, const CLI::Error &error);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_COMMANDLINE_H
