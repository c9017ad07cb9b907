// mpc help and mpc completion: print help, manual pages and shell completions,
// all derived from the commands and flags that CLI11 knows.
//
// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/commands/Commands.h"
#include "tools/mpc/flags/Arguments.h"
#include "tools/mpc/flags/Completion.h"
#include "tools/mpc/flags/Manual.h"

#include "llvm/Support/raw_ostream.h"

#include <CLI/CLI.hpp>

using namespace mpc;
using namespace mpc::tools;

namespace {
struct HelpCommand {
  std::string command, shell;
  bool isManual = false;
};
} // namespace

static void printHelp(const CLI::App &program, const HelpCommand &help) {
  const CLI::App *command =
      help.command.empty() ? nullptr : program.get_subcommand(help.command);
  if (help.isManual)
    return printManual(program, command, llvm::outs());
  const CLI::App &shown = command ? *command : program;
  const std::string name =
      command ? program.get_name() + " " + help.command : program.get_name();
  llvm::outs() << shown.get_formatter()->make_help(&shown, name,
                                                   CLI::AppFormatMode::Normal);
}

void mpc::tools::addHelpCommands(CLI::App &program) {
  auto help = std::make_shared<HelpCommand>();
  CLI::App *completion = program.add_subcommand(
      "completion", "print a script for the shell that completes commands and "
                    "flags");
  completion
      ->add_option("shell", help->shell,
                   "bash: source <(mpc completion bash); zsh: write it to _mpc "
                   "in a folder of $fpath")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh"}));
  completion->callback([help, &program] {
    help->shell == "bash" ? printBashCompletion(program, llvm::outs())
                          : printZshCompletion(program, llvm::outs());
  });
  CLI::App *app =
      program.add_subcommand("help", "explain a command; print manual pages");
  app->add_flag("--man", help->isManual,
                "print a manual page: mpc help --man train | man -l -")
      ->configurable(false);
  app->add_option("command", help->command, "default: the whole program")
      ->check(CLI::IsMember(commandNames(program)));
  app->callback([help, &program] { printHelp(program, *help); });
}
