// Sets flags that the command line does not give, from environment variables or
// from the TOML file that --config names.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_FLAGS_CONFIGURATION_H
#define MPC_TOOLS_MPC_FLAGS_CONFIGURATION_H

#include <map>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
} // namespace CLI

namespace mpc::tools {

/// Sets the values of flags. In order of priority, a value comes from the
/// command line, from the environment (`MPC_*`), from the command's section of
/// the file, or from the lines above all sections, which apply to every command
/// with the flag.
class Configuration {
public:
  /// Adds --config to the program and to all its commands, so add the commands
  /// first. The Configuration must live as long as the program.
  explicit Configuration(CLI::App &program);

  /// Returns where the value of `option` comes from, like "c.toml:3:1" or
  /// "MPC_LR". Empty if the command line gives the value, or if there is none.
  std::string sourceOf(const CLI::Option &option) const;

  /// Sets `option`, which has no value, to `values` from `source`, with the
  /// checks of flags. Returns the problem, and leaves the option without a
  /// value, if a check fails; else returns "".
  std::string take(CLI::Option &option, const std::string &source,
                   const std::vector<std::string> &values);

private:
  void apply(const std::string &file);
  void takeEnvironment(CLI::App &command);
  void takeFile(CLI::App &command, const std::string &file);

  CLI::App &program;
  std::map<const CLI::Option *, std::string> sources;
};

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_CONFIGURATION_H
