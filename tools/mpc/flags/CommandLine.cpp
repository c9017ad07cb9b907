// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/flags/CommandLine.h"

#include "compiler/Support/NearestNames.h"
#include "tools/mpc/flags/Arguments.h"
#include "tools/mpc/flags/OtherNames.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <CLI/CLI.hpp>

#include <sstream>

using namespace mpc;
using namespace mpc::tools;

//===----------------------------------------------------------------------===//
// Help
//===----------------------------------------------------------------------===//

/// The width of a terminal line in characters.
static constexpr size_t kLineWidth = 80;

// Breaks paragraphs into lines of at most `width` characters.
static std::string wrap(llvm::StringRef text, size_t width = kLineWidth) {
  std::string wrapped;
  size_t column = 0;
  for (llvm::StringRef paragraph : llvm::split(text, '\n')) {
    for (llvm::StringRef word : llvm::split(paragraph, ' ')) {
      const bool breaks = column > 0 && column + 1 + word.size() > width;
      if (column > 0)
        wrapped += breaks ? "\n" : " ";
      column = (breaks || column == 0 ? 0 : column + 1) + word.size();
      wrapped += word.str();
    }
    wrapped += "\n";
    column = 0;
  }
  return wrapped;
}

namespace {
/// Formats help like CLI11, but wraps lines to the width of the terminal. Shows
/// flags as users type them; CLI11 would append {false} to a flag that turns
/// something off.
class HelpFormatter : public CLI::Formatter {
public:
  std::string make_option_name(const CLI::Option *option,
                               bool isPositional) const override {
    if (isPositional)
      return CLI::Formatter::make_option_name(option, isPositional);
    return llvm::join(describeArgument(*option).flags, ",");
  }

  std::string make_option_desc(const CLI::Option *option) const override {
    return column(option->get_description());
  }

  std::string make_subcommand(const CLI::App *command) const override {
    std::ostringstream os;
    CLI::detail::format_help(os, command->get_name(),
                             column(command->get_description()),
                             get_column_width());
    return os.str();
  }

  std::string make_description(const CLI::App *command) const override {
    // The description of the program itself has line breaks already.
    return command->get_parent() ? wrap(command->get_description())
                                 : CLI::Formatter::make_description(command);
  }

private:
  /// Wraps text to the width of the right column, which describes flags.
  std::string column(llvm::StringRef text) const {
    const std::string lines = wrap(text, kLineWidth - get_column_width());
    return llvm::StringRef(lines).rtrim('\n').str();
  }
};
} // namespace

std::string mpc::tools::explainFlags(const CLI::App &command) {
  const std::vector<Argument> arguments = argumentsOf(command);
  // A paragraph appears only if the command has flags of the kind it explains.
  const bool hasPatterns =
      llvm::any_of(arguments, [](const Argument &argument) {
        return llvm::StringRef(argument.value).contains("REGEX");
      });
  std::string text;
  if (hasPatterns)
    text += "REGEX is a POSIX extended regular expression that may match "
            "anywhere in a name: fc1 matches fc1.weight and fc10.bias, "
            "^fc1\\.weight$ matches only fc1.weight.\n";
  if (command.get_option_no_throw("--trust"))
    text += "Artifacts are programs. Models, arrays and checkpoints are data, "
            "but an artifact is machine code: train, eval, run and profile "
            "execute it with all your permissions. They accept an artifact "
            "whose name "
            "ends in .mpc, that you or root own, and that nobody else may "
            "write to. Any other artifact needs --trust. check and inspect "
            "execute nothing.\n";
  const bool hasVariables =
      llvm::any_of(command.get_options(), [](const CLI::Option *option) {
        return !environmentVariable(*option).empty();
      });
  if (hasVariables)
    text += "A flag that you leave out takes its value from the environment "
            "(MPC_BATCH_SIZE for --batch-size, and so on; not flags that name "
            "files), else from the --config file: from the section of the "
            "command, else from the keys above all sections. If you give a "
            "flag twice, the last value counts, unless the flag is "
            "repeatable.\n";
  return text;
}

// True if the option takes at most one value, and CLI11's default still
// applies: giving the option twice is an error.
static bool takesOne(const CLI::Option &option) {
  return option.get_expected_max() <= 1 &&
         option.get_multi_option_policy() == CLI::MultiOptionPolicy::Throw;
}

static void finish(CLI::App &command) {
  command.formatter(std::make_shared<HelpFormatter>());
  for (CLI::Option *option : command.get_options())
    if (takesOne(*option))
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  std::string footer = wrap(explainFlags(command));
  if (!footer.empty())
    command.footer(footer);
}

void mpc::tools::finishCommands(CLI::App &program) {
  program.formatter(std::make_shared<HelpFormatter>());
  program.footer(
      "mpc help COMMAND explains a command, mpc help --man prints manual "
      "pages, and\nsource <(mpc completion bash) completes commands and "
      "flags.\n");
  for (CLI::App *command : program.get_subcommands({}))
    finish(*command);
}

//===----------------------------------------------------------------------===//
// Mistakes
//===----------------------------------------------------------------------===//

// Returns "; did you mean NAME?" with the name nearest to `word`; empty if no
// name is near.
static std::string hint(llvm::ArrayRef<std::string> names, llvm::StringRef word,
                        llvm::StringRef prefix) {
  std::string name = findNearestName(word, names);
  return name.empty() ? "" : "; did you mean " + prefix.str() + name + "?";
}

// Returns the message for an unknown command or flag, with the nearest known
// name.
static std::string describeWord(const CLI::App &program,
                                const std::string &word) {
  std::vector<std::string> names = longNamesOf(program);
  llvm::StringRef name = word;
  const bool flag = name.consume_front("--");
  if (!flag)
    names = commandNames(program);
  const std::string meant = flag ? "" : findMeantCommand(name);
  return (flag ? "unknown flag '" : "unknown command '") + word + "'" +
         (meant.empty() ? hint(names, name, flag ? "--" : "")
                        : "; did you mean " + meant + "?");
}

// Rewords CLI11's "VALUE not in {A,B}" and adds the nearest choice.
static std::string describeChoice(const std::string &message) {
  llvm::StringRef text(message);
  const size_t at = text.rfind(" not in {");
  if (at == llvm::StringRef::npos || !text.ends_with("}"))
    return message;
  llvm::StringRef list = text.drop_front(at + 9).drop_back();
  std::vector<std::string> names;
  for (llvm::StringRef word : llvm::split(list, ','))
    names.push_back(word.str());
  auto [flag, word] = text.take_front(at).rsplit(": ");
  flag = flag.ltrim('-');
  // In an error of `mpc help`, the flag is called "command".
  if (flag == "command")
    return "unknown command '" + word.str() + "'" + hint(names, word, "");
  const std::string meant = findMeantValue(flag, word, names);
  if (meant.empty() && flag == "target")
    return message + "; --target-array names the labels";
  return meant.empty() ? message : message + "; did you mean " + meant + "?";
}

// If `word`, which the command does not take, is a file of arrays, suggests
// --data; else returns an empty text.
static std::string adviseWord(const CLI::App &command, llvm::StringRef word) {
  const bool isData = word.ends_with(".npz") || word.ends_with(".npy") ||
                      word.ends_with(".csv") || word.ends_with(".safetensors");
  return isData && command.get_option_no_throw("--data")
             ? "; did you mean --data " + word.str() + "?"
             : "";
}

// Returns the message for an argument that the command does not take: the first
// unknown flag, or else the first extra word. Empty if there is none.
static std::string describeExtra(const CLI::App &program,
                                 const CLI::App &command) {
  const std::vector<std::string> extras = command.remaining();
  if (extras.empty())
    return "";
  const auto flag = llvm::find_if(extras, [](llvm::StringRef word) {
    return word.size() > 1 && word.starts_with("-");
  });
  if (flag == extras.end())
    return "unexpected argument '" + extras.front() + "'" +
           adviseWord(command, extras.front());
  auto [name, value] = llvm::StringRef(*flag).split('=');
  return "unknown flag '" + name.str() + "'" +
         adviseFlag(program, command, name, value);
}

std::string mpc::tools::describe(const CLI::App &program,
                                 const CLI::Error &error) {
  if (program.get_subcommands().empty() && !program.remaining().empty())
    return describeWord(program, program.remaining().front());
  if (program.get_subcommands().empty() &&
      error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError))
    return "expected a command: " + llvm::join(commandNames(program), ", ") +
           "; mpc --help says what they are for";
  for (const std::string &word : program.remaining())
    if (llvm::StringRef(word).starts_with("--"))
      return word + " goes before the command; the command's flags follow it";
  // First look for unknown arguments: a required argument may be missing
  // because of a misspelt name.
  const auto code = static_cast<CLI::ExitCodes>(error.get_exit_code());
  if (code == CLI::ExitCodes::ExtrasError ||
      code == CLI::ExitCodes::RequiredError)
    for (const CLI::App *command : program.get_subcommands())
      if (std::string extra = describeExtra(program, *command); !extra.empty())
        return extra;
  return describeChoice(error.what());
}
