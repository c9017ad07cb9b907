// mpc compile: compiles a model into an artifact, or prints the model after any
// stage.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Artifact/ArtifactWriter.h"
#include "tools/mpc/commands/Commands.h"
#include "tools/mpc/flags/Validators.h"
#include "tools/mpc/model/Driver.h"
#include "tools/mpc/model/Overwriting.h"

#include <CLI/CLI.hpp>

using namespace mpc;
using namespace mpc::tools;

namespace {
struct CompileCommand {
  CompileOptions options;
  std::string output;
  std::string emit = "artifact";
  std::string device = "auto";
  bool withData = false;
};

/// A format of the kernels' code that --emit accepts, besides the names of
/// stages.
struct CodeInfo {
  llvm::StringLiteral name;
  CodeFormat format;
  llvm::StringLiteral summary;
};
} // namespace

static constexpr CodeInfo codeFormats[] = {
    {"llvm", CodeFormat::LLVM, "optimised LLVM IR"},
    {"ptx", CodeFormat::PTX, "GPU assembly"},
    {"asm", CodeFormat::Assembly, "CPU assembly"},
    {"obj", CodeFormat::Object, "an object file with the kernels, for a CPU"},
};

/// The value of --emit for the stage before the import, which prints ONNX text.
static constexpr llvm::StringLiteral kRepairStage = "repair";

/// The text of a stage leaves out constants with more elements.
static constexpr int64_t kLargeConstant = 16;

static bool isText(llvm::StringRef emit) {
  return emit != "artifact" && emit != "obj";
}

// Prints the module after a stage. Also prints locations, which hold the names
// of model nodes; passes in mpc-opt need the names.
static std::string printModule(mlir::ModuleOp module, bool withData) {
  std::string text;
  llvm::raw_string_ostream os(text);
  mlir::OpPrintingFlags flags;
  flags.enableDebugInfo();
  // Without data, elide constants and resources. Large weights are resources.
  if (!withData)
    flags.elideLargeElementsAttrs(kLargeConstant).elideLargeResourceString(0);
  module.print(os, flags);
  // MLIR prints an empty resource section "{-# #-}" even if all resources are
  // elided, so remove the section.
  llvm::StringRef whole = llvm::StringRef(text).rtrim();
  whole.consume_back("{-#\n\n#-}");
  text.resize(whole.rtrim().size());
  return text + "\n";
}

// Compiles up to the stage or code format that --emit names, and stores the
// text or object file in `bytes`.
static ExitCode emit(const CompileCommand &command, Driver &driver,
                     std::string &bytes) {
  if (command.emit == kRepairStage) {
    llvm::raw_string_ostream os(bytes);
    return driver.printRepaired(command.options.model,
                                command.withData ? INT64_MAX : kLargeConstant,
                                os);
  }
  for (const StageInfo &info : getStages())
    if (command.emit == info.name) {
      ExitCode code = driver.compile(command.options, info.stage);
      if (code == ExitCode::Done)
        bytes = printModule(driver.getModule(), command.withData);
      return code;
    }
  for (const CodeInfo &info : codeFormats)
    if (command.emit == info.name)
      return driver.compileCode(command.options, info.format, bytes);
  llvm_unreachable("the option's check knows the others");
}

static ExitCode writeOutput(const std::string &file, ByteWriter write,
                            llvm::sys::fs::perms rights) {
  if (file.empty() || file == "-") {
    if (llvm::Error error = write(llvm::outs()))
      return reportFileError(std::move(error));
    return ExitCode::Done;
  }
  if (llvm::Error error = writeFileAtomically(file, write, rights))
    return reportFileError(std::move(error), file + ": ");
  return ExitCode::Done;
}

static bool isStage(llvm::StringRef emit) {
  return emit == kRepairStage ||
         llvm::any_of(getStages(),
                      [&](const StageInfo &info) { return emit == info.name; });
}

static ExitCode runCompile(CompileCommand &command) {
  if (command.withData && !isStage(command.emit))
    return reportError(ExitCode::Usage,
                       "--emit-data: --emit=" + command.emit +
                           " always has all data; leave the flag out");
  if (command.output.empty() && !isText(command.emit))
    return reportError(ExitCode::Usage,
                       "expected -o FILE for --emit=" + command.emit +
                           ", or -o - for stdout");
  if (command.emit == "artifact" &&
      llvm::StringRef(command.output).ends_with(".onnx"))
    return reportError(ExitCode::Usage,
                       "-o " + command.output +
                           ": mpc compile writes machine code, not a model; "
                           "expected a name such as model.mpc");
  if (ExitCode code =
          refuseOverwriting("-o", command.output, inputFiles(command.options));
      code != ExitCode::Done)
    return code;
  if (ExitCode code =
          checkDestination("-o", command.output, /*replaces=*/false);
      code != ExitCode::Done)
    return code;
  Driver driver;
  CompiledArtifact artifact;
  std::string bytes;
  bool isArtifact = command.emit == "artifact";
  command.options.findsSamples = isArtifact;
  ExitCode code = isArtifact ? driver.compileArtifact(command.options, artifact)
                             : emit(command, driver, bytes);
  if (code != ExitCode::Done)
    return code;
  if (driver.hasModel())
    if (ExitCode replaces =
            refuseReplacingData("-o", command.output, *driver.shareModel());
        replaces != ExitCode::Done)
      return replaces;
  // Print a note that the model is only a forward model, unless a loss is
  // given. With a loss, the module may be forward-only because --emit stops
  // before the stage that adds the loss.
  if (command.options.pipeline.recipe.losses.empty() &&
      command.emit != kRepairStage)
    noteForwardOnly(driver.getModule());
  return writeOutput(
      command.output,
      [&](llvm::raw_ostream &out) -> llvm::Error {
        if (isArtifact)
          return artifact.write(out);
        out << bytes;
        return llvm::Error::success();
      },
      isArtifact ? kProgramRights
                 : llvm::sys::fs::all_read | llvm::sys::fs::all_write);
}

void mpc::tools::addCompileCommand(CLI::App &program, int &exitCode) {
  auto command = std::make_shared<CompileCommand>();
  CLI::App *app = program.add_subcommand(
      "compile", "compile a model into an artifact, or show any stage");
  addCompileOptions(*app, command->options);
  app->add_option("-o,--output", command->output, "file to write, - for stdout")
      ->type_name("FILE");
  // --emit accepts `artifact`, the name of a stage, or a format of the kernels'
  // code.
  std::vector<std::string> names = {"artifact", kRepairStage.str()};
  std::string help = "output to write:\nartifact: the .mpc file\nrepair: the "
                     "model as ONNX text, with what its exporter left out";
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
  app->add_flag("--emit-data", command->withData,
                "print the values of large constants and parameters, too; "
                "mpc-opt needs them to read the output");
  addKernelCacheOption(*app, command->options);
  app->add_option(
         "--threads", command->options.threads,
         "kernels compiled at once; default: one per core that mpc may "
         "use")
      ->transform(wholeNumber(0))
      ->check(threadCount());
  app->add_option("--device", command->device,
                  "device to compile for, unless --target is given: cpu; cuda "
                  "or cuda:N (for the GPU found, or for sm_80 and newer if "
                  "there is none); or auto")
      ->capture_default_str();
  // --device auto or cuda may require a query of the GPU, to know the target to
  // compile for.
  app->callback([app, command, &exitCode] {
    exitCode = static_cast<int>(
        matchTargetAndDevice(*app, command->options.pipeline.target,
                             command->device, WithoutGPU::CompileForAny));
    if (exitCode == 0)
      exitCode = static_cast<int>(runCompile(*command));
  });
}
