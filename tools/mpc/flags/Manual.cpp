// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/flags/Manual.h"

#include "compiler/Support/ExitCode.h"
#include "tools/mpc/flags/Arguments.h"
#include "tools/mpc/flags/CommandLine.h"

#include "llvm/ADT/StringExtras.h"

#include <CLI/CLI.hpp>

using namespace mpc;
using namespace mpc::tools;

namespace {
/// An exit code and its meaning.
struct ExitStatus {
  int code;
  llvm::StringLiteral meaning;
};
} // namespace

static constexpr ExitStatus kExitStatuses[] = {
    {int(ExitCode::Done), "Done."},
    {int(ExitCode::FoundProblems), "A check found problems."},
    {int(ExitCode::Usage), "The command line is wrong."},
    {int(ExitCode::InvalidInput), "A file is damaged, or of the wrong kind or "
                                  "shape."},
    {int(ExitCode::Unsupported), "A file is valid, but not supported."},
    {int(ExitCode::IO),
     "A file cannot be read or written, or there is too little memory or too "
     "few threads."},
    {int(ExitCode::Device), "The device failed."},
    {int(ExitCode::Numeric),
     "The loss is not finite, or every step was skipped."},
    {int(ExitCode::Checkpoint), "A checkpoint cannot be used."},
    {int(ExitCode::Rank), "A rank was lost or never came."},
    {int(ExitCode::Internal), "Internal error."},
    {129, "Ended by SIGHUP, after a clean save."},
    {130, "Ended by SIGINT, after a clean save."},
    {138, "Ended by --requeue-signal USR1, after a clean save."},
    {140, "Ended by --requeue-signal USR2, after a clean save."},
    {143, "Ended by SIGTERM, after a clean save."},
    {152, "Ended by SIGXCPU (ulimit -t), after a clean save."},
};

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

// Escapes text for roff: backslashes, dashes, and a dot or quote at the start
// of a line, which roff would read as a command.
static std::string escape(llvm::StringRef text) {
  std::string escaped;
  for (char c : text) {
    if ((c == '.' || c == '\'') && (escaped.empty() || escaped.back() == '\n'))
      escaped += "\\&";
    if (c == '-')
      escaped += "\\-";
    else if (c == '\\')
      escaped += "\\e";
    else
      escaped += c;
  }
  return escaped;
}

static std::string bold(llvm::StringRef text) {
  return "\\fB" + escape(text) + "\\fR";
}

static std::string italic(llvm::StringRef text) {
  return "\\fI" + escape(text) + "\\fR";
}

// Prints each line of a description as a paragraph.
static void printParagraphs(llvm::StringRef text, llvm::raw_ostream &os) {
  llvm::SmallVector<llvm::StringRef> paragraphs;
  text.trim('\n').split(paragraphs, "\n");
  llvm::StringRef separator = "";
  for (llvm::StringRef paragraph : paragraphs) {
    os << separator << escape(paragraph) << "\n";
    separator = ".PP\n";
  }
}

//===----------------------------------------------------------------------===//
// Sections
//===----------------------------------------------------------------------===//

static std::string titleOf(const CLI::App &program, const CLI::App *command) {
  return program.get_name() + (command ? "-" + command->get_name() : "");
}

static void printSynopsis(const CLI::App &program, const CLI::App *command,
                          llvm::raw_ostream &os) {
  os << ".SH SYNOPSIS\n" << bold(program.get_name());
  if (!command) {
    os << " " << italic("COMMAND") << " [" << italic("OPTIONS") << "]\n";
    return;
  }
  os << " " << bold(command->get_name()) << " [" << italic("OPTIONS") << "]";
  for (const Argument &argument : argumentsOf(*command)) {
    if (!argument.flags.empty())
      continue;
    const std::string name =
        italic(argument.name) + (argument.isRepeatable ? "..." : "");
    os << " " << (argument.isRequired ? name : "[" + name + "]");
  }
  os << "\n";
}

static void printArgument(const Argument &argument, llvm::raw_ostream &os) {
  os << ".TP\n";
  if (argument.flags.empty())
    os << italic(argument.name);
  llvm::interleave(
      argument.flags, os, [&](const std::string &flag) { os << bold(flag); },
      ", ");
  if (!argument.flags.empty() && !argument.isSwitch())
    os << " " << italic(argument.value);
  os << "\n";
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(argument.description).split(lines, '\n');
  llvm::interleave(
      lines, os, [&](llvm::StringRef line) { os << escape(line) << "\n"; },
      ".br\n");
  // If the description has several lines, the lines explain the choices, so do
  // not list the choices again.
  if (!argument.choices.empty() && lines.size() == 1)
    os << ".br\nOne of " << escape(llvm::join(argument.choices, ", ")) << ".\n";
  if (!argument.byDefault.empty())
    os << ".br\nDefault: " << escape(argument.byDefault) << ".\n";
  if (argument.isRequired && !argument.flags.empty())
    os << ".br\nRequired.\n";
}

static void printArguments(const CLI::App &command, llvm::raw_ostream &os) {
  std::string heading;
  for (const Argument &argument : argumentsOf(command)) {
    const std::string wanted =
        argument.flags.empty() ? "Arguments" : argument.group;
    if (wanted != heading)
      os << ".SH " << escape(llvm::StringRef(wanted).upper()) << "\n";
    heading = wanted;
    printArgument(argument, os);
  }
}

static void printVariables(const CLI::App &command, llvm::raw_ostream &os) {
  std::vector<std::string> names;
  for (const CLI::Option *option : command.get_options())
    if (std::string name = environmentVariable(*option); !name.empty())
      names.push_back(name);
  if (names.empty())
    return;
  os << ".SH ENVIRONMENT\n"
     << "Each sets the flag of its name, unless the command line does:\n"
     << escape(llvm::join(names, ", ")) << ".\n";
}

static void printCommands(const CLI::App &program, llvm::raw_ostream &os) {
  os << ".SH COMMANDS\n";
  for (const CLI::App *each : commandsOf(program))
    os << ".TP\n"
       << bold(each->get_name()) << "\n"
       << escape(each->get_description()) << "\n";
}

static void printSeeAlso(const CLI::App &program, const CLI::App *command,
                         llvm::raw_ostream &os) {
  os << ".SH SEE ALSO\n";
  std::vector<std::string> titles;
  if (command)
    titles.push_back(titleOf(program, nullptr));
  for (const CLI::App *each : commandsOf(program))
    if (each != command)
      titles.push_back(titleOf(program, each));
  llvm::interleave(
      titles, os, [&](const std::string &title) { os << bold(title) << "(1)"; },
      ",\n");
  os << "\n";
}

void mpc::tools::printManual(const CLI::App &program, const CLI::App *command,
                             llvm::raw_ostream &os) {
  const CLI::App &page = command ? *command : program;
  const std::string title = titleOf(program, command);
  // The first line of a description is the summary, further lines are examples.
  const std::string description = page.get_description();
  auto [summary, rest] = llvm::StringRef(description).split('\n');
  os << ".TH " << llvm::StringRef(title).upper() << " 1 \"\" \"mpc "
     << MPC_VERSION << "\" \"mpc\"\n"
     << ".SH NAME\n"
     << escape(title) << " \\- " << escape(summary) << "\n";
  printSynopsis(program, command, os);
  if (!rest.trim().empty())
    os << ".SH EXAMPLES\n.nf\n" << escape(rest.trim('\n')) << "\n.fi\n";
  if (!command)
    printCommands(program, os);
  printArguments(page, os);
  if (std::string text = explainFlags(page); !text.empty()) {
    os << ".SH VALUES\n";
    printParagraphs(text, os);
  }
  printVariables(page, os);
  os << ".SH EXIT STATUS\n";
  for (const ExitStatus &status : kExitStatuses)
    os << ".TP\n" << status.code << "\n" << escape(status.meaning) << "\n";
  printSeeAlso(program, command, os);
}
