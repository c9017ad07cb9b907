// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/model/Driver.h"

#include "passes/Differentiation/LossSpec.h"
#include "tools/mpc/flags/CompileFlags.h"
#include "tools/mpc/flags/DeclaredShapes.h"
#include "tools/mpc/flags/Effects.h"
#include "tools/mpc/flags/LossFlags.h"
#include "tools/mpc/model/AdapterFiles.h"
#include "tools/mpc/model/ModulePorts.h"
#include "tools/mpc/model/SampleBatch.h"
#include "tools/mpc/model/WeightFiles.h"
#include "tools/mpc/print/FlagOrigins.h"
#include "tools/mpc/print/Notes.h"
#include "tools/mpc/print/ONNXWords.h"
#include "tools/mpc/print/PrintableStream.h"

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Dialect/MPC/RunningVariance.h"
#include "compiler/Kernels/LibraryAttention.h"
#include "compiler/Precision/DecisionReport.h"
#include "compiler/Precision/GivenValues.h"
#include "frontends/ONNX/Export/Text.h"
#include "frontends/ONNX/Model/Names.h"
#include "frontends/ONNX/Model/Weights.h"
#include "runtime/distributed/RankErrors.h"
#include "runtime/train/data/ArrayFile.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

#include <cassert>

using namespace mlir;
using namespace mpc;
using namespace mpc::tools;
namespace json = llvm::json;

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

static void printError(llvm::raw_ostream &os, llvm::StringRef message) {
  const std::string line =
      "error: " + printable(message) + printable(explainOrigin(message)) + "\n";
  if (holdsErrors() && &os == &llvm::errs())
    keepError(line);
  else
    os << rankPrefix() << line;
}

ExitCode mpc::tools::reportError(ExitCode code, const llvm::Twine &message) {
  printError(llvm::errs(), message.str());
  return code;
}

ExitCode mpc::tools::reportError(llvm::Error error, llvm::raw_ostream &os) {
  onnx_frontend::Findings findings =
      onnx_frontend::takeFindings(std::move(error));
  for (const std::string &message : findings.messages)
    printError(os, inONNXWords(message));
  return static_cast<ExitCode>(findings.exitCode);
}

ExitCode mpc::tools::reportError(const runtime::Status &status) {
  if (status.ok())
    return ExitCode::Done;
  // Several messages would say the same, so only rank 0 reports the reason,
  // unless rank 0 is lost or hangs.
  if (status.getCode() == ExitCode::Rank && !rankPrefix().empty() &&
      !runtime::blamesFirstRank(status.message()))
    return ExitCode::Rank;
  // StatusCode and ExitCode have the same numbers.
  return reportError(status.getCode(), status.message());
}

namespace {
/// Prints MLIR diagnostics in the form `error: model.onnx: node 'conv1':
/// message`. Keeps the exit code of the first error.
class DiagnosticPrinter : public ScopedDiagnosticHandler {
public:
  DiagnosticPrinter(MLIRContext *context, StringRef model,
                    llvm::raw_ostream &os)
      : ScopedDiagnosticHandler(context), model(model), os(os) {
    setHandler([this](Diagnostic &diagnostic) {
      print(diagnostic);
      return success();
    });
  }

  ExitCode getExitCode() const { return exitCode; }

private:
  void print(Diagnostic &diagnostic, bool isAttached = false) {
    // Words in the order of DiagnosticSeverity: note, warning, error, remark.
    // MLIR reports a note that belongs to no error as a remark.
    static constexpr llvm::StringLiteral severities[] = {"note", "warning",
                                                         "error", "note"};
    DiagnosticSeverity severity = diagnostic.getSeverity();
    if (severity == DiagnosticSeverity::Error && exitCode == ExitCode::Done)
      exitCode = mpc::getExitCode(diagnostic);
    std::string message = model.str() + ": ";
    if (auto name = diagnostic.getLocation()->findInstanceOf<NameLoc>())
      message += "node '" + name.getName().str() + "': ";
    message += inONNXWords(diagnostic.str());
    // `warn` and `note` print each text once. A note that belongs to an error
    // must appear whenever the error does, so print it here.
    if (severity == DiagnosticSeverity::Error || isAttached)
      os << severities[static_cast<int>(severity)] << ": " << printable(message)
         << (isAttached ? "" : printable(explainOrigin(message))) << "\n";
    else if (severity == DiagnosticSeverity::Warning)
      warn(message, os);
    else
      note(message, os);
    for (Diagnostic &attached : diagnostic.getNotes())
      print(attached, /*isAttached=*/true);
  }

  StringRef model;
  llvm::raw_ostream &os;
  ExitCode exitCode = ExitCode::Done;
};
} // namespace

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

static Type toElementType(runtime::DType type, MLIRContext *context) {
  Builder builder(context);
  using runtime::DType;
  // The IR uses signless types for signed integers.
  switch (type) {
  case DType::F16:
    return builder.getF16Type();
  case DType::BF16:
    return builder.getBF16Type();
  case DType::F32:
    return builder.getF32Type();
  case DType::F64:
    return builder.getF64Type();
  case DType::I1:
    return builder.getI1Type();
  case DType::I8:
    return builder.getI8Type();
  case DType::I16:
    return builder.getI16Type();
  case DType::I32:
    return builder.getI32Type();
  case DType::I64:
    return builder.getI64Type();
  case DType::U8:
  case DType::U16:
  case DType::U32:
  case DType::U64:
    return builder.getIntegerType(8 * runtime::sizeOf(type),
                                  /*isSigned=*/false);
  }
  llvm_unreachable("all types are above");
}

// Parses NAME=1 or NAME=none, a value of --batch-axis, into `to`.
static llvm::Error parseBatchAxis(StringRef text,
                                  onnx_frontend::ImportOptions &to) {
  auto [name, word] = text.rsplit('=');
  int64_t axis = onnx_frontend::kNoBatchAxis;
  bool isAxis = word == "none" || (!word.getAsInteger(10, axis) && axis >= 0);
  if (name.empty() || !isAxis)
    return onnx_frontend::makeError(
        onnx_frontend::ErrorKind::Usage,
        "--batch-axis " + text +
            ": expected NAME=AXIS or NAME=none, such as ids=1");
  if (to.batchAxes.emplace(name.str(), axis).second)
    return llvm::Error::success();
  return onnx_frontend::makeError(onnx_frontend::ErrorKind::Usage,
                                  "--batch-axis " + text + ": '" + name +
                                      "' has an axis already");
}

// Returns an error if --batch-axis names labels that a loss of mpc reads.
// Samples of such labels are always on axis 0.
llvm::Error
Driver::checkLabelAxes(const onnx_frontend::ImportOptions &importOptions,
                       const CompileOptions &options) const {
  const Recipe &recipe = options.pipeline.recipe;
  const auto inputs = readDeclaredInputs(*model);
  for (const LossSpec &loss : recipe.losses) {
    const std::string target = findTarget(recipe.targets, loss.output);
    bool isInput = llvm::any_of(inputs, [&](const DeclaredShape &input) {
      return input.name == target;
    });
    if (importOptions.batchAxes.count(target) && !isInput)
      return onnx_frontend::makeError(
          onnx_frontend::ErrorKind::Usage,
          "--batch-axis " + target +
              ": labels are compiled with their samples on the first axis; "
              "the flag is for data of mpc train and mpc eval, which turn "
              "labels of another layout");
  }
  return llvm::Error::success();
}

onnx_frontend::HostTensor
mpc::tools::toHostTensor(const runtime::Tensor &tensor, MLIRContext *context) {
  auto type =
      RankedTensorType::get(tensor.shape, toElementType(tensor.type, context));
  auto [copy, bytes] = onnx_frontend::HostTensor::allocate(type);
  assert(copy.data.size() == tensor.bytes.size() &&
         "both tell booleans in bytes");
  std::memcpy(bytes, tensor.bytes.data(), tensor.bytes.size());
  return copy;
}

//===----------------------------------------------------------------------===//
// Driver
//===----------------------------------------------------------------------===//

Driver::Driver() {
  DialectRegistry registry;
  registry.insert<MPCDialect, amp::AMPDialect, func::FuncDialect>();
  context.appendDialectRegistry(registry);
  // Do not print ops in messages: users know the names of nodes, not the IR.
  context.printOpOnDiagnostic(false);
}

// Parses NAME=32x3x224x224, a value of --shape, into `to`.
static llvm::Error parseShape(StringRef text,
                              onnx_frontend::ImportOptions &to) {
  auto [name, extents] = text.rsplit('=');
  SmallVector<StringRef> parts;
  extents.split(parts, 'x');
  std::vector<int64_t> shape;
  for (StringRef part : parts) {
    int64_t extent;
    if (name.empty() || part.getAsInteger(10, extent) || extent < 0)
      return onnx_frontend::makeError(
          onnx_frontend::ErrorKind::Usage,
          "--shape " + text + ": expected NAME=SIZExSIZE..., such as x=32x64");
    shape.push_back(extent);
  }
  auto [known, isNew] = to.shapes.emplace(name.str(), shape);
  if (isNew || known->second == shape)
    return llvm::Error::success();
  return onnx_frontend::makeError(
      onnx_frontend::ErrorKind::Usage,
      "--shape " + text + ": '" + name + "' has the shape " +
          runtime::toString(known->second) + " already");
}

onnx_frontend::HostTensor
mpc::tools::toHostTensor(const runtime::train::Array &array,
                         MLIRContext *context) {
  Type elementType =
      toElementType(runtime::train::toDType(array.type), context);
  auto type = RankedTensorType::get(array.shape, elementType);
  llvm::ArrayRef<char> bytes(reinterpret_cast<const char *>(array.data),
                             array.bytes());
  bool isBoolean = elementType.isInteger(1);
  if (!isBoolean &&
      llvm::isAddrAligned(llvm::Align(alignof(int64_t)), array.data))
    return {type, bytes, array.owner};
  auto [copy, data] = onnx_frontend::HostTensor::allocate(type);
  llvm::transform(bytes, data,
                  [&](char byte) { return isBoolean ? byte != 0 : byte; });
  return copy;
}

llvm::Error Driver::readModel(StringRef path, ArrayRef<std::string> noRepair) {
  auto read = onnx_frontend::readModel(path, &context, noRepair);
  if (!read)
    return read.takeError();
  model = std::move(*read);
  return llvm::Error::success();
}

ExitCode Driver::printRepaired(const ModelOptions &options,
                               int64_t mostElements, llvm::raw_ostream &os) {
  DiagnosticPrinter printer(&context, options.model, llvm::errs());
  if (llvm::Error error = readModel(options))
    return reportError(std::move(error));
  onnx_frontend::emitLog(*model, /*withNotes=*/true);
  if (llvm::Error error = onnx_frontend::printText(*model, mostElements, os))
    return reportError(std::move(error));
  return ExitCode::Done;
}

// True if the model is a graph with gradients as outputs, to which mpc must add
// an optimizer.
static bool givesGradients(ModuleOp module) {
  auto step = module.lookupSymbol<func::FuncOp>(kStepFunction);
  for (unsigned i = 0; step && i < step.getNumResults(); ++i)
    if (getResultPort(step, i).getRole() == Role::Gradient)
      return true;
  return false;
}

llvm::Error Driver::import(const CompileOptions &options) {
  onnx_frontend::ImportOptions importOptions;
  for (const std::string &shape : options.model.shapes)
    if (llvm::Error error = parseShape(shape, importOptions))
      return error;
  if (options.model.batchSize > 0)
    importOptions.batchSize = options.model.batchSize;
  for (const std::string &axis : options.model.batchAxes)
    if (llvm::Error error = parseBatchAxis(axis, importOptions))
      return error;
  const Recipe &recipe = options.pipeline.recipe;
  using onnx_frontend::ImportMode;
  importOptions.mode = options.asExported      ? ImportMode::AsExported
                       : recipe.losses.empty() ? ImportMode::Evaluation
                                               : ImportMode::Training;
  importOptions.findsSteps = !options.asExported && recipe.losses.empty();
  importOptions.findsSpeltOutSteps = !options.wantsOutputs;
  if (!recipe.losses.empty() && !options.wantsOutputs) {
    importOptions.lossSources.emplace();
    for (const LossSpec &loss : recipe.losses)
      importOptions.lossSources->push_back(loss.output);
  }
  importOptions.runningVariance = options.runningVariance;
  importOptions.trainableScalars = recipe.train;
  importOptions.optimizerModel = options.model.optimizerModel;
  importOptions.offered = offered;
  if (!model)
    if (llvm::Error error = readModel(options.model))
      return error;
  if (options.assumesBatch && leavesBatchOpen(*model, options.model)) {
    const int64_t batch = assumeBatch(*model, options.model);
    importOptions.batchSize = batch;
    note("a batch of " + llvm::Twine(batch) +
         " is assumed, as the model leaves it open; --batch-size chooses");
  }
  if (llvm::Error error =
          readWeightFiles(options.model, *model, importOptions, &context))
    return error;
  if (llvm::Error error = checkLabelAxes(importOptions, options))
    return error;
  const auto weightFiles = importOptions.weightFiles;
  auto adapterValues =
      takeAdapterValues(*model, importOptions, !recipe.lora.empty());
  if (!adapterValues)
    return adapterValues.takeError();
  auto imported = onnx_frontend::importModel(*model, importOptions);
  if (!imported)
    return imported.takeError();
  module = std::move(*imported);
  declareAdapterValues(*module, *adapterValues);
  importOptions.weightFiles = weightFiles;
  onnx_frontend::replaceIntegers(*model, importOptions.weights);
  addsOptimizer = !recipe.losses.empty() || givesGradients(*module);
  // Check training flags here, because only the imported model tells if it is
  // trained, and by which optimizer.
  if (llvm::Error error = checkTrainingFlags(options, *module, addsOptimizer))
    return error;
  noteWeights(*module, importOptions);
  if (options.findsSamples)
    findSamples(importOptions);
  return llvm::Error::success();
}

// Finds the sample axis of each input and output. If there is none, the model
// is compiled for a single batch, and the reasons, like "node 'a' ...; node 'b'
// ...", are kept for a later error.
void Driver::findSamples(const onnx_frontend::ImportOptions &options) {
  auto found = findSampleAxes(*model, options, *module);
  if (found) {
    samples = std::move(*found);
    return;
  }
  SmallVector<std::string> findings;
  llvm::handleAllErrors(found.takeError(),
                        [&](const llvm::ErrorInfoBase &info) {
                          findings.push_back(info.message());
                        });
  samplesFinding = llvm::join(findings, "; ");
}

void Driver::offerValue(StringRef name, const runtime::Tensor &value) {
  offered[name] = toHostTensor(value, &context);
}

// Returns the ONNX name of the input that `argument` is; empty if it is no
// input.
static std::string nameOfInput(Value argument) {
  StringAttr name = getArgumentPort(argument).getInput();
  return name ? name.str() : "";
}

// Finds the range of valid labels in each input whose labels are read by a loss
// of type `OpT`.
template <typename OpT>
static void findLabels(ModuleOp module, SmallVectorImpl<LabelFacts> &found) {
  module.walk([&](OpT loss) {
    Value labels = loss.getLabels();
    while (auto reshape = labels.getDefiningOp<ReshapeOp>())
      labels = reshape.getInput();
    if (!isa<BlockArgument>(labels))
      return;
    auto scores = cast<RankedTensorType>(loss->getOperand(0).getType());
    LabelFacts facts{nameOfInput(labels), scores.getDimSize(1),
                     loss.getIgnoreIndex()};
    bool isNew = llvm::none_of(found, [&](const LabelFacts &other) {
      return other.input == facts.input && other.hasRangeOf(facts);
    });
    if (isNew)
      found.push_back(facts);
  });
}

static SmallVector<LabelFacts> findLabels(ModuleOp module) {
  SmallVector<LabelFacts> found;
  findLabels<SoftmaxCrossEntropyLossOp>(module, found);
  findLabels<NLLLossOp>(module, found);
  return found;
}

static NormalizationFacts findNormalizations(ModuleOp module) {
  NormalizationFacts facts;
  for (StringRef name : {kStepFunction, kAccumulateFunction}) {
    auto function = module.lookupSymbol<func::FuncOp>(name);
    if (!function)
      continue;
    function.walk([&](BatchNormOp norm) {
      ++facts.updated;
      facts.isUnbiased |= norm->hasAttr(kUnbiasedRunningVarAttr);
    });
    function.walk([&](BatchNormInferenceOp) { ++facts.kept; });
  }
  return facts;
}

static llvm::Error checkRunningVariance(const CompileOptions &options,
                                        const NormalizationFacts &facts) {
  if (options.runningVariance == onnx_frontend::RunningVariance::Auto ||
      facts.updated > 0)
    return llvm::Error::success();
  return onnx_frontend::makeError(
      onnx_frontend::ErrorKind::Usage,
      "--running-variance has no effect: no BatchNormalization updates its "
      "running statistics here");
}

// Splits the text "bias,norm" into two. Other texts stay whole, because a
// regular expression may contain commas.
static void splitWords(std::vector<std::string> &texts) {
  std::vector<std::string> words;
  for (StringRef text : texts) {
    SmallVector<StringRef> parts;
    text.split(parts, ',');
    bool areWords = llvm::all_of(
        parts, [](StringRef part) { return part == "bias" || part == "norm"; });
    if (!areWords)
      parts = {text};
    words.insert(words.end(), parts.begin(), parts.end());
  }
  texts = std::move(words);
}

DecisionSummary Driver::readDecisions() {
  DecisionReport decisions(*module);
  decisionDigest = decisions.getDigest();
  labels = findLabels(*module);
  normalizations = findNormalizations(*module);
  phases = collectPhases(*module);
  adapters = listAdapters(*module);
  return DecisionSummary(*module, decisions.getDecisions());
}

// Returns the stage after which the module's inputs have the types of the
// artifact. In 64-true, the Precision stage changes the types of a training
// graph, so returns this stage.
static Stage findPortStage(const PipelineOptions &pipeline) {
  return pipeline.precision.mode == amp::PrecisionMode::FP64True &&
                 pipeline.recipe.losses.empty()
             ? Stage::Precision
             : Stage::Differentiate;
}

static void recordRecipe(runtime::train::TraineeInfo &info,
                         json::Object recipe) {
  info.recipe.clear();
  llvm::raw_string_ostream(info.recipe) << json::Value(std::move(recipe));
}

std::vector<std::string> Driver::listMetInputs(const CompileOptions &options) {
  using amp::PrecisionMode;
  FloatType low;
  const PrecisionMode mode = options.pipeline.precision.mode;
  if (mode == PrecisionMode::FP16Mixed)
    low = Float16Type::get(&context);
  if (mode == PrecisionMode::BF16Mixed)
    low = BFloat16Type::get(&context);
  if (!low)
    return {};
  const auto names = GivenValues::listMetInputs(*module, low);
  return {names.begin(), names.end()};
}

ExitCode Driver::runEarlyCheck(const CompileOptions &options) {
  labels = findLabels(*module);
  normalizations = findNormalizations(*module);
  adapters = listAdapters(*module);
  earlyInfo = describeModule(*module);
  earlyInfo->precision =
      amp::stringifyPrecisionMode(options.pipeline.precision.mode);
  earlyInfo->modelHash = onnx_frontend::identifyModel(*model).hash;
  // At this time the Precision stage has made no decisions, so the recipe has
  // none.
  json::Object recipe = describeRecipe();
  addCompileFlags(recipe, options, /*decisions=*/"", addsOptimizer);
  recipe.erase("decisions");
  recordRecipe(*earlyInfo, std::move(recipe));
  if (runtime::Status status = readRecipe(*earlyInfo); !status.ok())
    return reportError(ExitCode::Internal, status.message());
  return earlyCheck(*earlyInfo);
}

ExitCode Driver::runDecidedCheck(const CompileOptions &options) {
  json::Object recipe = describeRecipe();
  addCompileFlags(recipe, options, decisionDigest, addsOptimizer);
  recordRecipe(*earlyInfo, std::move(recipe));
  return decidedCheck(*earlyInfo);
}

ExitCode Driver::compile(const CompileOptions &options, Stage last,
                         llvm::raw_ostream &findings,
                         llvm::function_ref<LogicalResult()> then) {
  DiagnosticPrinter printer(&context, options.model.model, findings);
  // `threads` includes the current thread, so 1 means no further threads.
  if (options.threads == 1)
    context.disableMultithreading();
  PipelineOptions pipeline = options.pipeline;
  if (ExitCode code = checkLossFlags(options); code != ExitCode::Done)
    return code;
  if (llvm::Error error = checkTargetFlags(options))
    return reportError(std::move(error));
  if (ExitCode code = readLossFiles(options, pipeline.recipe);
      code != ExitCode::Done)
    return code;
  splitWords(pipeline.recipe.noDecay);
  chooseOptimizer(options, pipeline.recipe);
  recipe = pipeline.recipe;
  Stopwatch stopwatch(times);
  if (llvm::Error error = import(options))
    return reportError(std::move(error), findings);
  stopwatch.lap("import");
  bool passed = true;
  Stage done = Stage::Import;
  DecisionSummary summary;
  for (const StageInfo &info : getStages()) {
    if (!passed || info.stage == Stage::Import || info.stage > last)
      continue;
    done = info.stage;
    passed = succeeded(runStage(*module, pipeline, done));
    // Read the decisions after the Precision stage, since later stages merge
    // and decompose ops.
    if (passed && done == Stage::Precision) {
      summary = readDecisions();
      if (llvm::Error error =
              checkAdapterConfigs(options.model.weights, adapters))
        return reportError(std::move(error));
      if (llvm::Error error = checkRunningVariance(options, normalizations))
        return reportError(std::move(error));
    }
    // The Fusion stage decides who computes attention.
    if (passed && done == Stage::Precision && options.attentionDevice &&
        hasLibraryAttention(*module))
      if (auto status = runtime::checkAttention(*options.attentionDevice);
          !status.ok()) {
        note("products compute attention: " + status.message());
        pipeline.attention = "products";
      }
    if (passed && done == Stage::Fusion)
      precisionSummary = summary.print(KernelCasts(*module).getTotal());
    stopwatch.lap(info.name);
    if (passed && earlyCheck && done == findPortStage(pipeline)) {
      if (ExitCode code = runEarlyCheck(options); code != ExitCode::Done)
        return code;
      stopwatch.lapOfReading();
    }
    if (passed && decidedCheck && earlyInfo && done == Stage::Precision)
      if (ExitCode code = runDecidedCheck(options); code != ExitCode::Done)
        return code;
  }
  passed = passed && succeeded(then());
  stopwatch.lap("kernels");
  if (passed)
    return ExitCode::Done;
  if (printer.getExitCode() == ExitCode::Done)
    return reportError(ExitCode::Internal, "a pass failed without a message");
  return printer.getExitCode();
}

void mpc::tools::noteForwardOnly(ModuleOp module) {
  if (module.lookupSymbol(kForwardFunction))
    note("without --loss this is the forward graph alone");
}
