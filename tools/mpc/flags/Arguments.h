// What commands take, as help, manual pages and completions show it: read off
// the CLI11 program, so that no flag has to be told twice.
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
  /// "-o", "--output"; none of a positional argument.
  std::vector<std::string> flags;
  /// Of a positional argument, in the usage line.
  std::string name;
  /// What stands for its value, such as FILE; empty of a switch.
  std::string value;
  /// All values there are, where they can be listed.
  std::vector<std::string> choices;
  std::string description, byDefault;
  /// The heading it stands under.
  std::string group;
  bool isRequired = false, isRepeatable = false;
  /// Whether the value is a file or a folder, or has one in it.
  bool isPath = false;
  /// Whether it is a folder that keeps what can be made again.
  bool isCache = false;

  bool isSwitch() const { return !flags.empty() && value.empty(); }
};

Argument describeArgument(const CLI::Option &option);

/// All arguments of a command but the hidden ones: positional ones first, then
/// flags by group, in the order in which they were added.
std::vector<Argument> argumentsOf(const CLI::App &command);

/// The commands of the program, and their names.
std::vector<const CLI::App *> commandsOf(const CLI::App &program);
std::vector<std::string> commandNames(const CLI::App &program);

/// The names of a command's flags that begin with "--", without that.
std::vector<std::string> longNamesOf(const CLI::App &command);

/// The variable that gives an option's value where no flag does, such as
/// MPC_LOSS_SCALE; empty for what names files, which a variable that is left
/// over from another run must not choose, and for positional arguments.
std::string environmentVariable(const CLI::Option &option);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_ARGUMENTS_H
