// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/flags/Arguments.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"

#include <CLI/CLI.hpp>

using namespace mpc;
using namespace mpc::tools;

// Splits "TEXT:{mean,sum}" into the placeholder TEXT of the value and the list
// of choices.
static void describeValue(llvm::StringRef type, Argument &to) {
  auto [value, list] = type.split(":{");
  to.value = value.str();
  if (!list.consume_back("}"))
    return;
  llvm::SmallVector<llvm::StringRef> words;
  list.split(words, ',');
  for (llvm::StringRef word : words)
    to.choices.push_back(word.str());
}

static bool isPath(llvm::StringRef value) {
  llvm::SmallVector<llvm::StringRef> words;
  value.split(words, '|');
  return llvm::any_of(words, [](llvm::StringRef word) {
    word = word.substr(word.rfind('=') + 1); // npos + 1 is 0
    return word == "FILE" || word == "FOLDER" || word == "PATH" ||
           word == "MODEL" || word == "INPUT";
  });
}

Argument mpc::tools::describeArgument(const CLI::Option &option) {
  // A positional argument is the one kind without short and long names.
  Argument argument;
  for (const std::string &name : option.get_snames())
    argument.flags.push_back("-" + name);
  for (const std::string &name : option.get_lnames())
    argument.flags.push_back("--" + name);
  if (argument.flags.empty())
    argument.name = option.get_name(/*positional=*/true);
  if (option.get_items_expected_max() > 0)
    describeValue(option.get_type_name(), argument);
  argument.description = option.get_description();
  argument.byDefault = option.get_default_str();
  argument.group = option.get_group();
  argument.isRequired = option.get_required();
  argument.isRepeatable =
      option.get_expected_max() >= CLI::detail::expected_max_vector_size;
  argument.isPath = isPath(argument.value);
  argument.isCache = argument.value == "DIR";
  return argument;
}

std::vector<Argument> mpc::tools::argumentsOf(const CLI::App &command) {
  // Collect positional arguments first, then flags by group. Groups are in the
  // order of their first flags.
  std::vector<Argument> arguments, flags;
  std::vector<std::string> groups;
  for (const CLI::Option *option : command.get_options()) {
    Argument argument = describeArgument(*option);
    if (argument.group.empty())
      continue;
    if (argument.flags.empty()) {
      arguments.push_back(std::move(argument));
      continue;
    }
    if (!llvm::is_contained(groups, argument.group))
      groups.push_back(argument.group);
    flags.push_back(std::move(argument));
  }
  for (const std::string &group : groups)
    llvm::copy_if(flags, std::back_inserter(arguments),
                  [&](const Argument &flag) { return flag.group == group; });
  return arguments;
}

std::vector<const CLI::App *> mpc::tools::commandsOf(const CLI::App &program) {
  return program.get_subcommands(
      [](const CLI::App *command) { return !command->get_group().empty(); });
}

std::vector<std::string> mpc::tools::longNamesOf(const CLI::App &command) {
  std::vector<std::string> names;
  for (const CLI::Option *option : command.get_options())
    for (const std::string &name : option->get_lnames())
      names.push_back(name);
  return names;
}

std::vector<std::string> mpc::tools::commandNames(const CLI::App &program) {
  std::vector<std::string> names;
  for (const CLI::App *command : commandsOf(program))
    names.push_back(command->get_name());
  return names;
}

std::string mpc::tools::environmentVariable(const CLI::Option &option) {
  if (option.get_lnames().empty() || !option.get_configurable() ||
      describeArgument(option).isPath)
    return "";
  std::string name = "MPC_";
  for (char c : option.get_lnames().front())
    name += c == '-' ? '_' : llvm::toUpper(c);
  return name;
}
