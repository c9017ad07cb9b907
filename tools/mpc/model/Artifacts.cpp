// Compiles modules to machine code and .mpc files, and opens .mpc files.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Artifact/ArtifactWriter.h"
#include "compiler/Artifact/GPU.h"
#include "compiler/Artifact/PlanToJSON.h"
#include "frontends/ONNX/Export/Export.h"
#include "frontends/ONNX/Model/File.h"
#include "frontends/ONNX/Model/Model.h"
#include "passes/Differentiation/LossSpec.h"
#include "passes/KernelCompiler.h"
#include "runtime/ArtifactFormat.h"
#include "runtime/cpu/Cores.h"
#include "tools/mpc/flags/CompileFlags.h"
#include "tools/mpc/flags/LossFlags.h"
#include "tools/mpc/flags/RecordedFlags.h"
#include "tools/mpc/model/AdapterFiles.h"
#include "tools/mpc/model/Driver.h"
#include "tools/mpc/model/TrustedFile.h"
#include "tools/mpc/print/Notes.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace mpc;
using namespace mpc::tools;
namespace json = llvm::json;

//===----------------------------------------------------------------------===//
// The recipe that an artifact records
//===----------------------------------------------------------------------===//

// Adds the range of valid labels to `object`: a common range if all losses have
// the same, else a range per input. An input that several losses read gets no
// range then.
static void addLabels(json::Object &object, llvm::ArrayRef<LabelFacts> labels) {
  auto describe = [](const LabelFacts &facts, json::Object &to) {
    to["classes"] = *facts.classes;
    if (facts.ignoreIndex)
      to["ignore_index"] = *facts.ignoreIndex;
  };
  auto agree = [&](const LabelFacts &facts) {
    return facts.hasRangeOf(labels.front());
  };
  if (!labels.empty() && llvm::all_of(labels, agree))
    return describe(labels.front(), object);
  // Skip an input that several losses read, since the ranges may differ.
  json::Object inputs;
  for (const LabelFacts &facts : labels) {
    bool isOnly = llvm::count_if(labels, [&](const LabelFacts &other) {
                    return other.input == facts.input;
                  }) == 1;
    json::Object range;
    describe(facts, range);
    if (isOnly)
      inputs[facts.input] = std::move(range);
  }
  if (!inputs.empty())
    object["labels"] = std::move(inputs);
}

// Adds the inputs that hold binary targets, whose values must be in [0, 1].
static void addProbabilities(json::Object &object, const Recipe &recipe) {
  json::Object inputs;
  for (const LossSpec &loss : recipe.losses)
    if (hasBinaryTargets(loss.kind))
      inputs[json::fixUTF8(findTarget(recipe.targets, loss.output))] =
          llvm::StringRef(stringify(loss.kind));
  if (!inputs.empty())
    object["probabilities"] = std::move(inputs);
}

json::Object Driver::describeRecipe() const {
  json::Object object{{"loss", ""},
                      {"accumulate", recipe.accumulateGradBatches}};
  // If there are several losses, record the first, whose output and labels
  // evaluation compares.
  std::string output;
  if (!recipe.losses.empty()) {
    LossSpec first = recipe.losses.front();
    first.factor = 1;
    // A loss that the model computes itself is recorded as output:NAME.
    if (first.kind != LossKind::Output)
      std::swap(output, first.output);
    object["loss"] = json::fixUTF8(printLoss(first));
  }
  // Record the output unless it is the model's only output, which is the
  // default.
  const auto &graph = model->getProto().graph();
  bool isOnly = graph.output_size() == 1 && graph.output(0).name() == output;
  if (!output.empty() && !isOnly)
    object["loss_output"] = json::fixUTF8(output);
  addLabels(object, labels);
  addProbabilities(object, recipe);
  if (normalizations.updated > 0)
    object["running_variance"] =
        normalizations.isUnbiased ? "unbiased" : "population";
  if (normalizations.kept > 0)
    object["kept_normalizations"] = normalizations.kept;
  if (!adapters.empty())
    object["adapters"] = describeAdapters(adapters);
  // The optimizer flags below do not apply to a training graph, which has an
  // optimizer.
  if (!addsOptimizer)
    return object;
  bool isScaled = !recipe.losses.empty() && recipe.losses.front().factor != 1;
  if (recipe.losses.size() > 1 || isScaled) {
    json::Array losses;
    for (const LossSpec &loss : recipe.losses)
      losses.push_back(json::fixUTF8(printLoss(loss)));
    object["losses"] = std::move(losses);
  }
  if (recipe.losses.size() > 1) {
    object["target"] = findTarget(recipe.targets, output);
    json::Array targets;
    for (const LossSpec &loss : recipe.losses)
      targets.push_back(json::fixUTF8(findTarget(recipe.targets, loss.output)));
    object["targets"] = std::move(targets);
  }
  addLossFlags(object, recipe);
  addOptimizerFlags(object, recipe);
  return object;
}

static json::Object describeAxes(const std::map<std::string, int64_t> &axes) {
  json::Object object;
  for (const auto &[name, axis] : axes)
    object[json::fixUTF8(name)] = axis;
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

// Describes the model for the artifact: name, opset, and hash of the file. For
// a folder of training artifacts, the file is the training graph.
static json::Object describeModel(llvm::StringRef path,
                                  const onnx_frontend::Model &model) {
  onnx_frontend::ModelIdentity identity = onnx_frontend::identifyModel(model);
  llvm::StringRef name = path == onnx_frontend::kStandardInput
                             ? llvm::StringRef("stdin")
                             : llvm::sys::path::stem(path);
  return json::Object{{"name", name},
                      {"hash", std::move(identity.hash)},
                      {"opset", identity.opset}};
}

// Adds the model file without its weights to the artifact, so that the runtime
// can write the trained model. `description` gets the place in the data
// section, or the reason why there is none. The trained model has `record`.
static void addTemplate(const std::string &path,
                        std::shared_ptr<onnx_frontend::Model> model,
                        mlir::ModuleOp module, const RecordEntries &record,
                        DataSection &data, json::Object &description) {
  onnx_frontend::ShapeMap shapes;
  for (auto variable : module.getOps<VariableOp>())
    if (isModelRole(variable.getRole()))
      shapes[variable.getSymName().str()] =
          llvm::SmallVector<int64_t>(variable.getTensorType().getShape());
  if (llvm::sys::fs::is_directory(path)) {
    description["no_template"] = "a folder of training artifacts is no model";
    return;
  }
  auto made = onnx_frontend::ExportModel::makeTemplate(std::move(model), shapes,
                                                       record);
  if (!made) {
    description["no_template"] =
        json::fixUTF8(llvm::toString(made.takeError()));
    return;
  }
  json::Array holes;
  for (const onnx_frontend::ModelTemplate::Hole &hole : made->holes)
    holes.push_back(
        json::Object{{"name", json::fixUTF8(hole.variable)},
                     {"type", llvm::StringRef(stringify(*toDType(hole.type)))},
                     {"position", hole.position}});
  const DataEntry entry = data.add(std::move(made->bytes));
  description["template"] = json::Object{{"offset", entry.offset},
                                         {"bytes", entry.bytes},
                                         {"holes", std::move(holes)}};
}

//===----------------------------------------------------------------------===//
// Compiling
//===----------------------------------------------------------------------===//

// Reports an error of code generation. By then the model is valid, so the error
// is a bug of the compiler.
static ExitCode reportInternal(llvm::Error error) {
  return reportError(ExitCode::Internal, llvm::toString(std::move(error)));
}

ExitCode mpc::tools::reportFileError(llvm::Error error,
                                     const llvm::Twine &where) {
  ExitCode code = ExitCode::IO;
  std::string message;
  llvm::handleAllErrors(std::move(error), [&](const llvm::ErrorInfoBase &info) {
    if (info.convertToErrorCode() == llvm::inconvertibleErrorCode())
      code = ExitCode::Internal;
    message = info.message();
  });
  return reportError(code, where + message);
}

// Opens the kernel cache in the folder that --kernel-cache names. nullopt if
// there is no usable cache, so that all kernels must be compiled. An error if
// the user named a folder that cannot be opened.
static llvm::Expected<std::optional<CodeCache>>
openCache(const std::string &name) {
  std::string folder = CodeCache::findFolder(name);
  if (folder.empty())
    return std::nullopt;
  auto cache = CodeCache::open(folder);
  if (cache)
    return std::optional<CodeCache>(std::move(*cache));
  if (name != "auto")
    return cache.takeError();
  note("no kernel cache: " + llvm::toString(cache.takeError()));
  return std::nullopt;
}

ExitCode Driver::compileToKernels(const CompileOptions &options,
                                  const TargetInfo &target,
                                  std::string &kernels) {
  auto cache = openCache(options.kernelCache);
  if (!cache)
    return reportError(ExitCode::IO,
                       "--kernel-cache: " + llvm::toString(cache.takeError()));
  int threads =
      options.threads > 0 ? options.threads : runtime::countUsableCores();
  return compile(options, Stage::Plan, llvm::errs(), [&] {
    auto compiled = compilePlannedKernels(
        *module, {target, static_cast<unsigned>(threads), std::move(*cache)},
        &times.kernels);
    if (succeeded(compiled))
      kernels = std::move(*compiled);
    return compiled;
  });
}

ExitCode Driver::compileCode(const CompileOptions &options, CodeFormat format,
                             std::string &code) {
  auto target = TargetInfo::get(options.pipeline.target);
  if (!target)
    return reportError(ExitCode::Usage, llvm::toString(target.takeError()));
  if (!hasFormat(*target, format))
    return reportError(
        ExitCode::Usage,
        "--emit: target '" + target->getName() +
            "' has no code of this format, expected --emit=llvm or " +
            (target->isGPU() ? "ptx" : "asm or obj"));
  // For PTX, print exactly the text that an artifact holds. Other formats print
  // one module with all kernels.
  if (format == CodeFormat::PTX)
    return compileToKernels(options, *target, code);
  if (ExitCode status = compile(options, Stage::Codegen);
      status != ExitCode::Done)
    return status;
  auto compiled = compileKernels(*module, *target, format);
  if (!compiled)
    return reportInternal(compiled.takeError());
  code = std::move(*compiled);
  return ExitCode::Done;
}

// Assembles PTX kernels to a cubin if a PTX assembler is installed. Returns an
// empty text otherwise; the GPU's driver then assembles the PTX whenever the
// artifact is opened.
static llvm::Expected<std::string> assemble(llvm::StringRef kernels,
                                            const TargetInfo &target) {
  std::optional<std::string> assembler;
  if (target.isGPU())
    assembler = findPTXAssembler();
  if (!assembler)
    return std::string();
  return assemblePTX(*assembler, kernels, target);
}

llvm::Error CompiledArtifact::write(llvm::raw_ostream &out) const {
  return writeArtifact({kernels, plan, data.getPieces(), cubin, nodes}, *target,
                       out);
}

ExitCode Driver::compileArtifact(const CompileOptions &options,
                                 CompiledArtifact &artifact) {
  auto target = TargetInfo::get(options.pipeline.target);
  if (!target)
    return reportError(ExitCode::Usage, llvm::toString(target.takeError()));
  if (ExitCode code = compileToKernels(options, *target, artifact.kernels);
      code != ExitCode::Done)
    return code;
  auto cubin = assemble(artifact.kernels, *target);
  if (!cubin)
    return reportFileError(cubin.takeError());
  artifact.cubin = std::move(*cubin);
  // planToJSON fills `artifact.data`, and `members` point into it.
  auto members = planToJSON(*module, artifact.data);
  if (failed(members))
    return reportError(ExitCode::Internal, "the plan could not be written");
  // The recipe records the compile flags, so that a run can be resumed, and the
  // sample axes, so that `mpc run` can form batches.
  json::Object recipe = describeRecipe();
  addCompileFlags(recipe, options, decisionDigest, addsOptimizer);
  if (samples && !samples->inputs.empty())
    recipe["samples"] =
        json::Object{{"inputs", describeAxes(samples->inputs)},
                     {"outputs", describeAxes(samples->outputs)}};
  json::Object description = describeModel(options.model.model, *model);
  // Only an artifact that is saved and trains needs the model.
  const bool trains = members->functions.get(kStepFunction) ||
                      members->functions.get(kAccumulateFunction);
  if (options.findsSamples && trains) {
    ModelRecord record;
    if (ExitCode code = recordOptions(options, record); code != ExitCode::Done)
      return code;
    addTemplate(options.model.model, model, *module,
                printRecord(record, /*preparation=*/""), artifact.data,
                description);
  }
  llvm::raw_string_ostream(artifact.plan) << json::Value(json::Object{
      {"format", format::kVersion},
      {"producer", "mpc " MPC_VERSION},
      {"model", std::move(description)},
      {"precision",
       amp::stringifyPrecisionMode(options.pipeline.precision.mode)},
      {"recipe", std::move(recipe)},
      {"target", describeTarget(*target)},
      {"constant_bytes", members->constantBytes},
      {"state", std::move(members->state)},
      {"functions", std::move(members->functions)},
      {"kernels", std::move(members->kernels)}});
  llvm::raw_string_ostream(artifact.nodes)
      << json::Value(nodesToJSON(*module, phases));
  artifact.target = std::move(*target);
  return ExitCode::Done;
}

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

bool mpc::tools::isArtifact(const std::string &path) {
  // Do not open a pipe, since opening would block until somebody writes.
  if (!llvm::sys::fs::is_regular_file(path))
    return false;
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

// Compiles the model, writes the artifact to an unnamed temporary file, and
// opens it. The weights are then in memory only once, in file pages, which the
// system may drop.
static ExitCode
compileAndOpen(Driver &driver, const CompileOptions &options,
               std::shared_ptr<const runtime::Artifact> &artifact) {
  CompiledArtifact compiled;
  if (ExitCode code = driver.compileArtifact(options, compiled);
      code != ExitCode::Done)
    return code;
  auto file = writeUnnamedFile(
      [&](llvm::raw_ostream &out) { return compiled.write(out); });
  if (!file)
    return reportFileError(file.takeError());
  return finish(runtime::Artifact::fromDescriptor(*file, options.model.model),
                artifact);
}

ExitCode
mpc::tools::loadArtifact(Driver &driver, const CompileOptions &options,
                         std::shared_ptr<const runtime::Artifact> &artifact) {
  const std::string &path = options.model.model;
  if (!isArtifact(path))
    return compileAndOpen(driver, options, artifact);
  auto file = openArtifact(path, options.isTrusted);
  if (!file)
    return reportError(file.takeError());
  return finish(runtime::Artifact::fromDescriptor(*file, path), artifact);
}

ExitCode
mpc::tools::openSession(std::shared_ptr<const runtime::Artifact> artifact,
                        const runtime::SessionOptions &options,
                        OpenSession &opened) {
  auto session = runtime::Session::create(std::move(artifact), options);
  if (!session.ok())
    return reportError(session.status());
  auto trainee = runtime::train::makeTrainee(**session);
  if (!trainee.ok())
    return reportError(trainee.status());
  opened = {std::move(*session), std::move(*trainee)};
  return ExitCode::Done;
}
