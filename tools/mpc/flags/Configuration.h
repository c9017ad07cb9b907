// Where a flag's value comes from when the command line does not give it: the
// environment, or the TOML file that --config names.
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

/// Makes flags win over the environment (`MPC_*`), that over the command's
/// section in the file, and that over the keys above all sections, which are
/// for every command that has the flag.
class Configuration {
public:
  /// Adds --config to the program and to each of its commands: call it after
  /// the commands have been added. The program must not outlive it.
  explicit Configuration(CLI::App &program);

  /// Where the value is from that no flag gave, such as "c.toml:3:1" or
  /// "MPC_LR"; empty for what was given as a flag, or not at all.
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
