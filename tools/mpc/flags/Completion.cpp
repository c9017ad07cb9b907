// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/flags/Completion.h"

#include "tools/mpc/flags/Arguments.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <CLI/CLI.hpp>

using namespace mpc;
using namespace mpc::tools;

//===----------------------------------------------------------------------===//
// Bash
//===----------------------------------------------------------------------===//

// The start of the bash script, which finds the current word and the flag
// before. Bash splits --flag=value into three words, --flag, = and value.
static constexpr llvm::StringLiteral kBashHead =
    R"(# Completes mpc in bash: source <(mpc completion bash)
_mpc() {
  local word=${COMP_WORDS[COMP_CWORD]} flag=${COMP_WORDS[COMP_CWORD - 1]}
  local command= i
  if [[ $word == = ]]; then
    word=
  elif [[ $flag == = ]]; then
    flag=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  COMPREPLY=()
)";

// Quotes the words of `compgen -W`, so that bash expands nothing in them.
static std::string quote(llvm::ArrayRef<std::string> words) {
  std::string text = "'";
  for (char c : llvm::join(words, " "))
    text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

// Prints one branch of a bash `case` statement. The branch completes the
// current word to one of `words`.
static void printBashWords(llvm::StringRef pattern,
                           llvm::ArrayRef<std::string> words,
                           llvm::raw_ostream &os) {
  os << "  " << pattern << ")\n    COMPREPLY=($(compgen -W " << quote(words)
     << " -- \"$word\"))\n";
}

// Prints the branches that complete values of the command's flags.
static void printBashValues(const CLI::App &command, llvm::StringRef name,
                            llvm::raw_ostream &os) {
  for (const Argument &argument : argumentsOf(command)) {
    if (argument.flags.empty() || argument.isSwitch())
      continue;
    std::vector<std::string> patterns;
    for (const std::string &flag : argument.flags)
      patterns.push_back(name.str() + ":" + flag);
    const std::string pattern = llvm::join(patterns, " | ");
    if (!argument.choices.empty())
      printBashWords(pattern, argument.choices, os);
    else
      os << "  " << pattern << ")\n    "
         << ((argument.isPath || argument.isCache)
                 ? "compopt -o default 2>/dev/null"
                 : ":")
         << "\n";
    os << "    return ;;\n";
  }
}

static std::vector<std::string> flagsOf(const CLI::App &command) {
  std::vector<std::string> flags;
  for (const Argument &argument : argumentsOf(command))
    llvm::append_range(flags, argument.flags);
  return flags;
}

// Prints the branch for the first positional argument whose values are known,
// like the command of `mpc help`. Without a branch, bash completes file
// names.
static void printBashArguments(const CLI::App &command, llvm::raw_ostream &os) {
  for (const Argument &argument : argumentsOf(command))
    if (argument.flags.empty() && !argument.choices.empty()) {
      printBashWords(command.get_name(), argument.choices, os);
      os << "    ;;\n";
      return;
    }
}

void mpc::tools::printBashCompletion(const CLI::App &program,
                                     llvm::raw_ostream &os) {
  // The script takes the first word that is the name of a command.
  const std::vector<std::string> names = commandNames(program);
  os << kBashHead << "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
     << "    case ${COMP_WORDS[i]} in\n    " << llvm::join(names, " | ")
     << ")\n      command=${COMP_WORDS[i]}\n      break ;;\n"
     << "    --config)\n      ((i++)) ;;\n    esac\n  done\n"
     << "  case $command:$flag in\n";
  // If the word before is a flag that takes a value, the script completes the
  // value.
  printBashValues(program, "", os);
  for (const CLI::App *command : commandsOf(program))
    printBashValues(*command, command->get_name(), os);
  // If the word begins with a dash, the script completes flags.
  os << "  esac\n  if [[ $word == -* ]]; then\n  case $command in\n";
  printBashWords("''", flagsOf(program), os);
  os << "    ;;\n";
  for (const CLI::App *command : commandsOf(program)) {
    printBashWords(command->get_name(), flagsOf(*command), os);
    os << "    ;;\n";
  }
  // Otherwise the script completes commands or positional arguments.
  os << "  esac\n  return\n  fi\n  case $command in\n";
  printBashWords("''", names, os);
  os << "    ;;\n";
  for (const CLI::App *command : commandsOf(program))
    printBashArguments(*command, os);
  os << "  *)\n    compopt -o default 2>/dev/null ;;\n  esac\n}\n"
     << "complete -F _mpc mpc\n";
}

//===----------------------------------------------------------------------===//
// Zsh
//===----------------------------------------------------------------------===//

// Escapes text for a string in single quotes in zsh. A backslash goes before
// each character of `special`.
static std::string escapeZsh(llvm::StringRef text, llvm::StringRef special) {
  std::string escaped;
  for (char c : text) {
    if (c == '\'')
      escaped += "'\\''";
    else if (special.contains(c) || c == '\\')
      escaped += std::string("\\") + c;
    else
      escaped += c == '\n' ? ' ' : c;
  }
  return escaped;
}

// Returns ":VALUE:ACTION", by which zsh's _arguments completes a value. ACTION
// is the list of choices, or _files to complete file names.
static std::string describeZshValue(const Argument &argument,
                                    llvm::StringRef name) {
  std::string action;
  if (!argument.choices.empty())
    action = "(" + llvm::join(argument.choices, " ") + ")";
  else if (argument.isPath || argument.isCache)
    action = "_files";
  return ":" + escapeZsh(name, ":") + ":" + action;
}

// Prints one specification per argument for zsh's _arguments.
static void printZshArguments(const CLI::App &command, llvm::raw_ostream &os) {
  for (const Argument &argument : argumentsOf(command)) {
    if (argument.flags.empty()) {
      os << " \\\n      '" << (argument.isRepeatable ? "*" : "")
         << describeZshValue(argument, argument.name) << "'";
      continue;
    }
    for (llvm::StringRef flag : argument.flags) {
      // If the flag cannot be repeated, one spelling excludes the others: after
      // -o, zsh does not offer --output.
      std::vector<std::string> others = argument.flags;
      llvm::erase(others, flag.str());
      std::string before = argument.isRepeatable ? "*"
                           : others.empty()
                               ? ""
                               : "(" + llvm::join(others, " ") + ")";
      llvm::StringRef sign = argument.isSwitch()      ? ""
                             : flag.starts_with("--") ? "="
                                                      : "+";
      os << " \\\n      '" << before << flag << sign << "["
         << escapeZsh(argument.description, "[]:") << "]"
         << (argument.isSwitch() ? ""
                                 : describeZshValue(argument, argument.value))
         << "'";
    }
  }
  os << "\n";
}

void mpc::tools::printZshCompletion(const CLI::App &program,
                                    llvm::raw_ostream &os) {
  os << "#compdef mpc\n"
     << "# Completes mpc in zsh: mpc completion zsh >~/.zfunc/_mpc\n"
     << "_mpc() {\n  local state line\n  local -a commands=(\n";
  for (const CLI::App *command : commandsOf(program))
    os << "    '" << escapeZsh(command->get_name(), ":") << ":"
       << escapeZsh(command->get_description(), "") << "'\n";
  os << "  )\n  _arguments -C '1:command:->command' '*::argument:->argument'";
  printZshArguments(program, os);
  os << "  case $state in\n  command)\n    _describe command commands ;;\n"
     << "  argument)\n    case $line[1] in\n";
  for (const CLI::App *command : commandsOf(program)) {
    os << "    " << command->get_name() << ")\n      _arguments";
    printZshArguments(*command, os);
    os << "      ;;\n";
  }
  os << "    esac ;;\n  esac\n}\n\nif [ \"$funcstack[1]\" = _mpc ]; then\n"
     << "  _mpc \"$@\"\nelse\n  compdef _mpc mpc\nfi\n";
}
