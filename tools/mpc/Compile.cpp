// mpc compile: model in, any stage out.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Target/ArtifactWriter.h"
#include "tools/mpc/Commands.h"
#include "tools/mpc/Driver.h"

#include <CLI/CLI.hpp>

using namespace mpc;
using namespace mpc::tools;

namespace {
struct CompileCommand {
  CompileOptions options;
  std::string output;
  std::string emit = "artifact";
  std::string device = "auto";
};

/// What can be emitted after the last stage.
struct CodeInfo {
  llvm::StringLiteral name;
  CodeFormat format;
  llvm::StringLiteral summary;
};
} // namespace

static constexpr CodeInfo codeFormats[] = {
    {"llvm", CodeFormat::LLVM, "optimised LLVM IR"},
    {"ptx", CodeFormat::PTX, "assembly of a GPU"},
    {"asm", CodeFormat::Assembly, "assembly of a CPU"},
    {"obj", CodeFormat::Object, "an object file of the kernels, of a CPU"},
};

static bool isText(llvm::StringRef emit) {
  return emit != "artifact" && emit != "obj";
}

// The module as it is after a stage, large constants left out.
static std::string printModule(mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  mlir::OpPrintingFlags flags;
  flags.elideLargeElementsAttrs(16).elideLargeResourceString(16);
  module.print(os, flags);
  os << "\n";
  return text;
}

// What `--emit` asks for, as bytes.
static ExitCode emit(const CompileCommand &command, Driver &driver,
                     std::string &bytes) {
  for (const StageInfo &info : getStages())
    if (command.emit == info.name) {
      ExitCode code = driver.compile(command.options, info.stage);
      if (code == ExitCode::Done)
        bytes = printModule(driver.getModule());
      return code;
    }
  for (const CodeInfo &info : codeFormats)
    if (command.emit == info.name)
      return driver.compileCode(command.options, info.format, bytes);
  return driver.compileArtifact(command.options, bytes);
}

static ExitCode runCompile(const CompileCommand &command) {
  if (command.output.empty() && !isText(command.emit))
    return reportError(ExitCode::Usage,
                       "expected -o FILE for --emit=" + command.emit +
                           ", or -o - for stdout");
  Driver driver;
  std::string bytes;
  if (ExitCode code = emit(command, driver, bytes); code != ExitCode::Done)
    return code;
  noteForwardOnly(driver.getModule());
  if (command.output.empty() || command.output == "-") {
    llvm::outs() << bytes;
    return ExitCode::Done;
  }
  if (llvm::Error error = writeFileAtomically(command.output, bytes))
    return reportError(ExitCode::IO, command.output + ": " +
                                         llvm::toString(std::move(error)));
  return ExitCode::Done;
}

void mpc::tools::addCompileCommand(CLI::App &program, int &exitCode) {
  auto command = std::make_shared<CompileCommand>();
  CLI::App *app = program.add_subcommand(
      "compile", "compile a model into an artifact, or show any stage");
  addCompileOptions(*app, command->options);
  app->add_option("-o,--output", command->output, "file to write, - for stdout")
      ->type_name("FILE");
  std::vector<std::string> names = {"artifact"};
  std::string help = "what to write:\nartifact: the .mpc file";
  for (const StageInfo &info : getStages()) {
    names.push_back(info.name.str());
    help += "\n" + info.name.str() + ": " + info.summary.str();
  }
  for (const CodeInfo &info : codeFormats) {
    names.push_back(info.name.str());
    help += "\n" + info.name.str() + ": " + info.summary.str();
  }
  app->add_option("--emit", command->emit, help)
      ->check(CLI::IsMember(names))
      ->type_name("STAGE")
      ->capture_default_str();
  app->add_option("--device", command->device,
                  "device to compile for, where --target names none")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  app->callback([app, command, &exitCode] {
    matchTargetAndDevice(*app, command->options.pipeline.target,
                         command->device);
    exitCode = static_cast<int>(runCompile(*command));
  });
}
