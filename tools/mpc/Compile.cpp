// mpc compile: model in, any stage out.
//
// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/Commands.h"
#include "tools/mpc/Driver.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/ToolOutputFile.h"

#include <CLI/CLI.hpp>

using namespace mpc;
using namespace mpc::tools;

namespace {
struct CompileCommand {
  CompileOptions options;
  std::string output = "-";
  std::string emit = "artifact";
};
} // namespace

// Prints the module as it is after `stage`.
static ExitCode emitStage(const CompileCommand &command, Stage stage) {
  Driver driver;
  if (ExitCode code = driver.compile(command.options, stage);
      code != ExitCode::Done)
    return code;
  std::error_code error;
  llvm::ToolOutputFile file(command.output, error, llvm::sys::fs::OF_None);
  if (error)
    return reportError(ExitCode::IO, command.output + ": " + error.message());
  mlir::OpPrintingFlags flags;
  flags.elideLargeElementsAttrs(16).elideLargeResourceString(16);
  driver.getModule().print(file.os(), flags);
  file.keep();
  return ExitCode::Done;
}

static ExitCode runCompile(const CompileCommand &command) {
  for (const StageInfo &info : getStages())
    if (command.emit == info.name)
      return emitStage(command, info.stage);
  return reportError(ExitCode::Usage, "unknown stage " + command.emit);
}

void mpc::tools::addCompileCommand(CLI::App &program, int &exitCode) {
  auto command = std::make_shared<CompileCommand>();
  CLI::App *app = program.add_subcommand(
      "compile", "compile a model into an artifact, or show any stage");
  addCompileOptions(*app, command->options);
  app->add_option("-o,--output", command->output, "file to write, - for stdout")
      ->type_name("FILE");
  std::string help = "what to write:";
  std::vector<std::string> names;
  for (const StageInfo &info : getStages()) {
    names.push_back(info.name.str());
    help += "\n" + info.name.str() + ": " + info.summary.str();
  }
  app->add_option("--emit", command->emit, help)
      ->check(CLI::IsMember(names))
      ->type_name("STAGE");
  app->callback([command, &exitCode] {
    exitCode = static_cast<int>(runCompile(*command));
  });
}
