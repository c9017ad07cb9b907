// Describes the arguments of commands for help, manual pages and shell
// completions. Reads everything from the CLI11 program, so that each flag is
// declared in one place.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_FLAGS_ARGUMENTS_H
#define MPC_TOOLS_MPC_FLAGS_ARGUMENTS_H

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
} // namespace CLI

namespace mpc::tools {

/// A flag or a positional argument.
struct Argument {
  /// The flag's spellings, like "-o" and "--output"; empty for a positional
  /// argument.
  std::vector<std::string> flags;
  /// The name of a positional argument in the usage line; empty for a flag.
  std::string name;
  /// The placeholder of the value, like FILE; empty for a switch.
  std::string value;
  /// All accepted values; empty if they cannot be listed.
  std::vector<std::string> choices;
  std::string description, byDefault;
  /// The heading under which help lists the argument.
  std::string group;
  bool isRequired = false, isRepeatable = false;
  /// True if the value is a file or a folder, or contains a path (NAME=FILE).
  bool isPath = false;
  /// True if the value is the folder of a cache. Losing the files does no harm.
  bool isCache = false;

  bool isSwitch() const { return !flags.empty() && value.empty(); }
};

Argument describeArgument(const CLI::Option &option);

/// Lists the arguments of a command except hidden ones: positional arguments
/// first, then flags by group, each in the order in which they were added.
std::vector<Argument> argumentsOf(const CLI::App &command);

/// commandsOf returns the commands of the program, commandNames their names.
std::vector<const CLI::App *> commandsOf(const CLI::App &program);
std::vector<std::string> commandNames(const CLI::App &program);

/// Lists the flags of a command that begin with "--", without the dashes.
std::vector<std::string> longNamesOf(const CLI::App &command);

/// Returns the environment variable, like MPC_LOSS_SCALE, that gives an
/// option's value if no flag does. Empty for positional arguments and for
/// options that name files: a variable left over from another run must not
/// choose files.
std::string environmentVariable(const CLI::Option &option);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_ARGUMENTS_H
