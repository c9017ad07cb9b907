// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/flags/Configuration.h"

#include "compiler/Support/NearestNames.h"
#include "tools/mpc/flags/Arguments.h"
#include "tools/mpc/flags/OtherNames.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <CLI/CLI.hpp>
#include <toml++/toml.h>

#include <charconv>
#include <cstdlib>
#include <fstream>
#include <optional>

using namespace mpc;
using namespace mpc::tools;

using Values = std::vector<std::string>;

static CLI::ConfigError makeError(const std::string &where,
                                  const std::string &message) {
  return {where + ": " + message, CLI::ExitCodes::ConfigError};
}

//===----------------------------------------------------------------------===//
// Keys
//===----------------------------------------------------------------------===//

// Returns the key of an option in a file of flags: the name of the flag without
// dashes, or of the positional argument. Empty if a file cannot set the option.
static std::string keyOf(const CLI::Option &option) {
  if (!option.get_configurable())
    return "";
  return option.get_lnames().empty() ? option.get_name(/*positional=*/true)
                                     : option.get_lnames().front();
}

static CLI::Option *findOption(CLI::App &command, llvm::StringRef key) {
  for (CLI::Option *option : command.get_options())
    if (!key.empty() && keyOf(*option) == key)
      return option;
  return nullptr;
}

// Returns the commands that have the flag --config.
static std::vector<CLI::App *> configurable(CLI::App &program) {
  return program.get_subcommands([](CLI::App *command) {
    return command->get_option_no_throw("--config") != nullptr;
  });
}

static Values keysOf(CLI::App &command) {
  Values keys;
  for (const CLI::Option *option : command.get_options())
    if (std::string key = keyOf(*option); !key.empty())
      keys.push_back(std::move(key));
  return keys;
}

// Returns "; did you mean NAME?" with the name nearest to `word`; empty if no
// name is near.
static std::string hint(llvm::StringRef word, const Values &names) {
  std::string name = findNearestName(word, names);
  return name.empty() ? "" : "; did you mean " + name + "?";
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

static bool isSwitch(const CLI::Option &option) {
  return option.get_items_expected_max() == 0 ||
         describeArgument(option).isSwitch();
}

// Sets the values of an option, with the same checks as for flags. `where` is
// the source of the values, for errors.
static void set(CLI::Option &option, const std::string &where,
                const Values &values) {
  try {
    for (const std::string &value : values)
      option.add_result(value);
    option.run_callback();
  } catch (const CLI::Error &error) {
    throw makeError(where, error.what());
  }
}

// Turns a switch on if `on`. Otherwise does nothing, as if the switch were not
// mentioned.
static void turn(CLI::Option &option, const std::string &where, bool on) {
  if (on)
    set(option, where, {option.get_flag_value(keyOf(option), "true")});
}

static std::string locate(const std::string &file,
                          const toml::source_region &region) {
  return file + ":" + std::to_string(region.begin.line) + ":" +
         std::to_string(region.begin.column);
}

static std::string nameOf(toml::node_type type) {
  switch (type) {
  case toml::node_type::table:
    return "a table";
  case toml::node_type::array:
    return "an array";
  case toml::node_type::string:
    return "a string";
  case toml::node_type::integer:
    return "an integer";
  case toml::node_type::floating_point:
    return "a float";
  case toml::node_type::boolean:
    return "a boolean";
  default:
    return "a date or a time";
  }
}

// Formats a TOML number or string like the value of a flag; nullopt for other
// types.
static std::optional<std::string> textOf(const toml::node &node) {
  if (const auto *text = node.as_string())
    return text->get();
  if (const auto *integer = node.as_integer())
    return std::to_string(integer->get());
  const auto *number = node.as_floating_point();
  if (!number)
    return std::nullopt;
  char digits[64];
  auto [end, error] =
      std::to_chars(digits, digits + sizeof(digits), number->get());
  return std::string(digits, error == std::errc() ? end : digits);
}

namespace {
/// One entry of a TOML file: the key, the value, and the position.
struct Entry {
  std::string name;  ///< the key, such as "train.optimizer"
  std::string where; ///< of the value, such as "c.toml:3:1"
  const toml::node *node;
};
} // namespace

static Values textsOf(const Entry &entry, bool mayBeSeveral) {
  auto refuse = [&](const toml::node &node) {
    return makeError(entry.where,
                     entry.name + ": expected a number or a string" +
                         (mayBeSeveral ? ", or an array of them" : "") +
                         ", found " + nameOf(node.type()));
  };
  // An array is accepted only for a flag that may be repeated.
  Values values;
  const toml::array *array = entry.node->as_array();
  if (!array || !mayBeSeveral) {
    std::optional<std::string> text = textOf(*entry.node);
    if (!text)
      throw refuse(*entry.node);
    return {*text};
  }
  for (const toml::node &element : *array) {
    std::optional<std::string> text = textOf(element);
    if (!text)
      throw refuse(element);
    values.push_back(*text);
  }
  return values;
}

//===----------------------------------------------------------------------===//
// The file
//===----------------------------------------------------------------------===//

// Reads a TOML file of flags. The limit of 1 MiB also holds for a pipe, whose
// size is not known.
static std::string readText(const std::string &file) {
  constexpr size_t kMostBytes = size_t(1) << 20;
  std::ifstream input(file == "-" ? "/dev/stdin" : file, std::ios::binary);
  if (!input)
    throw CLI::FileError("--config " + file + ": cannot open",
                         CLI::ExitCodes::FileError);
  std::string text(kMostBytes + 1, '\0');
  input.read(text.data(), std::streamsize(text.size()));
  text.resize(size_t(input.gcount()));
  if (input.bad() || (text.empty() && !input.eof()))
    throw CLI::FileError("--config " + file + ": cannot read",
                         CLI::ExitCodes::FileError);
  if (text.size() > kMostBytes)
    throw makeError("--config " + file, "expected at most 1 MiB of flags");
  return text;
}

// Limits the number of dots in the file. The TOML parser recurses for each part
// of a dotted key, so a long key could exhaust the stack.
static void checkKeys(const std::string &file, llvm::StringRef text) {
  constexpr size_t kMostDots = 5000;
  if (size_t dots = text.count('.'); dots > kMostDots)
    throw makeError("--config " + file,
                    "expected at most " + std::to_string(kMostDots) +
                        " dots, found " + std::to_string(dots));
}

static toml::table parse(const std::string &file) {
  const std::string text = readText(file);
  checkKeys(file, text);
  try {
    return toml::parse(text, file);
  } catch (const toml::parse_error &error) {
    throw makeError(locate(file, error.source()),
                    std::string(error.description()));
  }
}

namespace {
/// The entries of a file that apply to one command: `own` from the command's
/// section, `shared` from the lines above all sections.
struct FileEntries {
  std::vector<std::pair<CLI::Option *, Entry>> own, shared;
};

/// Reads the entries for one command. Checks every key of the file, also those
/// for other commands.
class FileReader {
public:
  FileReader(CLI::App &program, CLI::App &command, std::string file)
      : program(program), command(command), file(std::move(file)) {}

  FileEntries read(const toml::table &table);

private:
  void readSection(const std::string &name, const toml::table &table);
  void readShared(const toml::key &key, const toml::node &node);
  Entry makeEntry(const std::string &name, const toml::node &node) const {
    return {name, locate(file, node.source()), &node};
  }
  [[noreturn]] void refuseKey(const toml::key &key, const std::string &name,
                              llvm::ArrayRef<CLI::App *> commands) const;

  CLI::App &program, &command;
  std::string file;
  FileEntries entries;
};
} // namespace

void FileReader::refuseKey(const toml::key &key, const std::string &name,
                           llvm::ArrayRef<CLI::App *> commands) const {
  // Suggest a flag: the key may be the flag's name in another tool, or
  // misspelt.
  std::string meant;
  for (CLI::App *each : commands)
    if (meant.empty())
      meant = findMeantFlag(*each, key.str());
  throw makeError(locate(file, key.source()),
                  name + ": unknown key" +
                      (meant.empty()
                           ? hint(key.str(), keysOf(*commands.front()))
                           : "; did you mean " + meant + "?"));
}

void FileReader::readSection(const std::string &name,
                             const toml::table &table) {
  CLI::App &section = *program.get_subcommand(name);
  for (auto &&[key, node] : table) {
    const std::string text(key.str());
    CLI::Option *option = findOption(section, text);
    if (!option)
      refuseKey(key, name + "." + text, &section);
    if (&section == &command)
      entries.own.emplace_back(option, makeEntry(name + "." + text, node));
  }
}

// Reads an entry above all sections. The entry applies to every command with a
// flag of this name. An error if no command has the flag.
void FileReader::readShared(const toml::key &key, const toml::node &node) {
  const std::string text(key.str());
  const std::vector<CLI::App *> commands = configurable(program);
  if (llvm::none_of(commands, [&](CLI::App *each) {
        return findOption(*each, text) != nullptr;
      }))
    refuseKey(key, text, commands);
  if (CLI::Option *option = findOption(command, text))
    entries.shared.emplace_back(option, makeEntry(text, node));
}

FileEntries FileReader::read(const toml::table &table) {
  for (auto &&[key, node] : table) {
    // A TOML table is the section of one command. Other entries apply to all
    // commands.
    const toml::table *section = node.as_table();
    if (!section) {
      readShared(key, node);
      continue;
    }
    const std::string name(key.str());
    Values names;
    for (const CLI::App *each : configurable(program))
      names.push_back(each->get_name());
    if (!llvm::is_contained(names, name))
      throw makeError(locate(file, key.source()),
                      "[" + name + "]: there is no such command" +
                          hint(name, names) +
                          " (keys for all commands stand above the sections)");
    readSection(name, *section);
  }
  return std::move(entries);
}

static void set(CLI::Option &option, const Entry &entry) {
  if (!isSwitch(option))
    return set(option, entry.where,
               textsOf(entry, describeArgument(option).isRepeatable));
  const auto *value = entry.node->as_boolean();
  if (!value)
    throw makeError(entry.where, entry.name +
                                     ": expected true or false, found " +
                                     nameOf(entry.node->type()));
  turn(option, entry.where, value->get());
}

//===----------------------------------------------------------------------===//
// Configuration
//===----------------------------------------------------------------------===//

Configuration::Configuration(CLI::App &program) : program(program) {
  const std::string help = "TOML file of flags: keys for all commands first, "
                           "then a section per command; - for stdin";
  CLI::Option *option =
      program
          .add_option_function<std::string>(
              "--config", [this](const std::string &file) { apply(file); },
              help)
          ->configurable(false)
          ->type_name("FILE")
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  // Give --config a value, here "", even if the flag is absent: CLI11 then runs
  // the callback of --config after parsing and before checking the arguments.
  // At that time the callback must set values from the environment and the
  // file.
  option->add_result("");
  for (CLI::App *command : program.get_subcommands({}))
    command
        ->add_option_function<std::string>(
            "--config",
            [option](const std::string &file) {
              option->clear();
              option->add_result(file);
            },
            help)
        ->configurable(false)
        ->type_name("FILE")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
        ->trigger_on_parse();
}

std::string Configuration::sourceOf(const CLI::Option &option) const {
  auto source = sources.find(&option);
  return source == sources.end() ? "" : source->second;
}

std::string Configuration::take(CLI::Option &option, const std::string &source,
                                const Values &values) {
  try {
    for (const std::string &value : values)
      option.add_result(value);
    option.run_callback();
  } catch (const CLI::Error &error) {
    option.clear();
    return error.what();
  }
  sources[&option] = source;
  return "";
}

void Configuration::takeEnvironment(CLI::App &command) {
  for (CLI::Option *option : command.get_options()) {
    const std::string name = environmentVariable(*option);
    const char *value = name.empty() ? nullptr : std::getenv(name.c_str());
    // Treat an empty variable like one that is not set.
    if (!value || !*value || option->count() > 0)
      continue;
    sources[option] = name;
    if (!isSwitch(*option)) {
      set(*option, name, {value});
      continue;
    }
    const llvm::StringRef text(value);
    const bool on = text == "1" || text.equals_insensitive("true");
    if (!on && text != "0" && !text.equals_insensitive("false"))
      throw makeError(name,
                      "expected true or false, found '" + text.str() + "'");
    turn(*option, name, on);
  }
}

void Configuration::takeFile(CLI::App &command, const std::string &file) {
  const toml::table table = parse(file);
  FileEntries entries = FileReader(program, command, file).read(table);
  for (const auto *part : {&entries.own, &entries.shared})
    for (const auto &[option, entry] : *part) {
      // Skip an option that has a value, or a source: a switch that was turned
      // off has only a source.
      if (option->count() > 0 || sources.count(option))
        continue;
      sources[option] = entry.where;
      set(*option, entry);
    }
}

void Configuration::apply(const std::string &file) {
  for (CLI::App *command : program.get_subcommands()) {
    // Skip commands with --help, so that help works in spite of mistakes in the
    // environment or the file.
    if (command->get_help_ptr() && command->get_help_ptr()->count() > 0)
      continue;
    takeEnvironment(*command);
    if (!file.empty())
      takeFile(*command, file);
  }
}
