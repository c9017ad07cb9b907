// From a compiled module to machine code and .mpc files.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Target/ArtifactWriter.h"
#include "compiler/Target/GPU.h"
#include "compiler/Target/PlanToJSON.h"
#include "frontends/ONNX/File.h"
#include "runtime/ArtifactFormat.h"
#include "tools/mpc/Driver.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/xxhash.h"

using namespace mpc;
using namespace mpc::tools;
namespace json = llvm::json;

//===----------------------------------------------------------------------===//
// What an artifact says of itself
//===----------------------------------------------------------------------===//

// The recipe as the runtime and `mpc inspect` read it.
static json::Object describeRecipe(const RecipeOptions &recipe,
                                   const LabelFacts &labels) {
  auto [kind, output] = llvm::StringRef(recipe.loss).split('@');
  json::Object object{{"loss", kind},
                      {"accumulate", recipe.accumulateGradBatches}};
  if (!output.empty())
    object["loss_output"] = output;
  if (labels.classes)
    object["classes"] = *labels.classes;
  if (labels.ignoreIndex)
    object["ignore_index"] = *labels.ignoreIndex;
  if (!recipe.accumulateReduction.empty())
    object["accumulate_reduction"] = recipe.accumulateReduction;
  // A training graph brings an optimizer of its own.
  if (recipe.loss.empty())
    return object;
  object["optimizer"] = recipe.optimizer;
  object["momentum"] = recipe.momentum;
  object["beta1"] = recipe.beta1;
  object["beta2"] = recipe.beta2;
  object["eps"] = recipe.epsilon;
  object["weight_decay"] = recipe.weightDecay;
  object["gradient_clip_val"] = recipe.gradientClipVal;
  return object;
}

static json::Object describeTarget(const TargetInfo &target) {
  json::Array features;
  for (const std::string &feature : target.getFeatures())
    features.push_back(feature);
  return json::Object{{"triple", target.getTriple()},
                      {"cpu", target.getName()},
                      {"features", std::move(features)}};
}

// Null where the file cannot be read, which importing it has reported.
static std::unique_ptr<llvm::MemoryBuffer> mapFile(llvm::StringRef path) {
  auto file = onnx_frontend::File::open(path);
  if (!file) {
    llvm::consumeError(file.takeError());
    return nullptr;
  }
  auto bytes = llvm::MemoryBuffer::getOpenFile(
      file->getDescriptor(), path, file->getSize(),
      /*RequiresNullTerminator=*/false);
  return bytes ? std::move(*bytes) : nullptr;
}

// The model by name, opset, and the hash of its file, of the training graph
// where it is a directory of graphs.
static json::Object describeModel(const std::string &model,
                                  mlir::MLIRContext &context) {
  llvm::SmallString<128> path(model);
  if (llvm::sys::fs::is_directory(path))
    llvm::sys::path::append(path, "training_model.onnx");
  std::string hash;
  if (auto bytes = mapFile(path))
    hash = llvm::utohexstr(llvm::xxh3_64bits(bytes->getBuffer()),
                           /*LowerCase=*/true, /*Width=*/16);
  int64_t opset = 0;
  if (auto summary = onnx_frontend::summarizeModel(path, &context)) {
    for (const auto &[domain, version] : summary->opsets)
      if (domain.empty())
        opset = version;
  } else {
    llvm::consumeError(summary.takeError());
  }
  llvm::StringRef name = model == onnx_frontend::kStandardInput
                             ? llvm::StringRef("stdin")
                             : llvm::sys::path::stem(model);
  return json::Object{{"name", name}, {"hash", hash}, {"opset", opset}};
}

//===----------------------------------------------------------------------===//
// Compiling
//===----------------------------------------------------------------------===//

// A failure below the passes is the compiler's own.
static ExitCode reportInternal(llvm::Error error) {
  return reportError(ExitCode::Internal, llvm::toString(std::move(error)));
}

ExitCode Driver::compileCode(const CompileOptions &options, CodeFormat format,
                             std::string &code) {
  auto target = TargetInfo::get(options.pipeline.target);
  if (!target)
    return reportError(ExitCode::Usage, llvm::toString(target.takeError()));
  if (!hasFormat(*target, format))
    return reportError(ExitCode::Usage,
                       "there is no such code for target '" +
                           target->getName() + "', expected --emit=llvm or " +
                           (target->isGPU() ? "ptx" : "asm or obj"));
  if (ExitCode status = compile(options, Stage::Codegen);
      status != ExitCode::Done)
    return status;
  auto compiled = compileKernels(*module, *target, format);
  if (!compiled)
    return reportInternal(compiled.takeError());
  code = std::move(*compiled);
  return ExitCode::Done;
}

// The kernels as the machine executes them, where the assembler for it is at
// hand; a driver assembles them otherwise.
static llvm::Expected<std::string> assemble(llvm::StringRef kernels,
                                            const TargetInfo &target) {
  std::optional<std::string> assembler;
  if (target.isGPU())
    assembler = findPTXAssembler();
  if (!assembler)
    return std::string();
  return assemblePTX(*assembler, kernels, target);
}

ExitCode Driver::compileArtifact(const CompileOptions &options,
                                 std::string &bytes) {
  auto target = TargetInfo::get(options.pipeline.target);
  if (!target)
    return reportError(ExitCode::Usage, llvm::toString(target.takeError()));
  std::string kernels;
  CodeFormat format = target->isGPU() ? CodeFormat::PTX : CodeFormat::Object;
  if (ExitCode code = compileCode(options, format, kernels);
      code != ExitCode::Done)
    return code;
  auto cubin = assemble(kernels, *target);
  if (!cubin)
    return reportInternal(cubin.takeError());
  DataSection data;
  auto members = planToJSON(*module, data);
  if (failed(members))
    return reportError(ExitCode::Internal, "the plan could not be written");
  std::string plan;
  llvm::raw_string_ostream(plan) << json::Value(
      json::Object{{"format", format::kVersion},
                   {"producer", "mpc " MPC_VERSION},
                   {"model", describeModel(options.model.model, context)},
                   {"precision", options.pipeline.precision.mode},
                   {"recipe", describeRecipe(options.pipeline.recipe, labels)},
                   {"target", describeTarget(*target)},
                   {"state", std::move(members->state)},
                   {"functions", std::move(members->functions)}});
  auto linked = linkArtifact({kernels, plan, data.getBytes(), *cubin}, *target);
  if (!linked)
    return reportInternal(linked.takeError());
  bytes = std::move(*linked);
  return ExitCode::Done;
}

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

bool mpc::tools::isArtifact(const std::string &path) {
  auto file = llvm::MemoryBuffer::getFileSlice(path, 4, 0);
  return file && (*file)->getBuffer().starts_with("\x7f"
                                                  "ELF");
}

static ExitCode
finish(runtime::StatusOr<std::shared_ptr<const runtime::Artifact>> opened,
       std::shared_ptr<const runtime::Artifact> &artifact) {
  if (!opened.ok())
    return reportError(opened.status());
  artifact = std::move(*opened);
  return ExitCode::Done;
}

ExitCode
mpc::tools::loadArtifact(Driver &driver, const CompileOptions &options,
                         std::shared_ptr<const runtime::Artifact> &artifact) {
  const std::string &file = options.model.model;
  if (isArtifact(file)) {
    std::vector<std::string> given = options.given();
    if (!given.empty())
      return reportError(
          ExitCode::Usage,
          file + ": an artifact is compiled already; leave out " +
              llvm::join(given, ", ") + ", or compile the model again");
    return finish(runtime::Artifact::open(file), artifact);
  }
  std::string bytes;
  if (ExitCode code = driver.compileArtifact(options, bytes);
      code != ExitCode::Done)
    return code;
  return finish(runtime::Artifact::fromBytes(bytes.data(), bytes.size(), file),
                artifact);
}
