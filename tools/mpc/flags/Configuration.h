// Fills in values missing on the command line, from the environment or from the
// TOML file of --config.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_FLAGS_CONFIGURATION_H
#define MPC_TOOLS_MPC_FLAGS_CONFIGURATION_H

#include <map>
#include <string>

namespace CLI {
class App;
class Option;
} // namespace CLI

namespace mpc::tools {

/// Gives flags priority over the environment (`MPC_*`), the environment over
/// the command's section in the file, and the section over the keys above all
/// sections. Keys above all sections apply to every command with the flag.
class Configuration {
public:
  /// Adds --config to the program and to each of its commands. Call after the
  /// commands have been added. The program must not outlive the Configuration.
  explicit Configuration(CLI::App &program);

  /// Returns the source of a value that no flag gave, like "c.toml:3:1" or
  /// "MPC_LR". Empty if a flag gave the value, or if there is none.
  std::string sourceOf(const CLI::Option &option) const;

private:
  void apply(const std::string &file);
  void takeEnvironment(CLI::App &command);
  void takeFile(CLI::App &command, const std::string &file);

  CLI::App &program;
  std::map<const CLI::Option *, std::string> sources;
};

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_CONFIGURATION_H
