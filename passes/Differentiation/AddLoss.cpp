// Turns a forward model into @step and @eval, which compute a loss.
//
// The loss is named by the user as NAME, NAME@OUTPUT, NAME@OUTPUT:AXIS or
// output:NAME, where OUTPUT is a graph output or, for a model that ends in
// something training must not see (a Softmax), the name of the node whose
// result to take, and AXIS is the one that classes are on.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/Passes.h"

#include "compiler/Dialect/MPC/SampleLoss.h"
#include "compiler/Support/ExitCode.h"
#include "passes/Differentiation/InferenceMode.h"
#include "passes/Differentiation/LossBuilder.h"

#include "llvm/ADT/StringExtras.h"

namespace mpc {
#define GEN_PASS_DEF_ADDLOSSPASS
#include "passes/Differentiation/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// What the user asked for
//===----------------------------------------------------------------------===//

static FailureOr<LossSpec> readLoss(StringRef text, Location location) {
  llvm::Expected<LossSpec> spec = parseLoss(text);
  if (spec)
    return *spec;
  return withExitCode(mlir::emitError(location), ExitCode::Usage)
         << llvm::toString(spec.takeError());
}

// The value called `name`: an output, or the result of a node.
static Value findByName(const TrainingFunction &function, StringRef name) {
  if (Value output = function.output(name))
    return output;
  for (Operation &op : function.get().getBody().front())
    if (getNodeName(&op) == name && op.getNumResults() > 0)
      return op.getResult(0);
  return {};
}

// Takes the AXIS off OUTPUT:AXIS. Names may have a colon and a number of their
// own, so what names something is left alone.
static LogicalResult splitAxis(const TrainingFunction &function,
                               LossSpec &spec) {
  auto [name, text] = StringRef(spec.output).rsplit(':');
  int64_t axis;
  if (findByName(function, spec.output) || text.getAsInteger(10, axis))
    return success();
  if (!spec.hasClasses())
    return withExitCode(
               mlir::emitError(function.get()->getParentOp()->getLoc()),
               ExitCode::Usage)
           << "'" << spec.output
           << "': only softmax_cross_entropy and nll have classes on an axis";
  spec.classAxis = axis;
  spec.output = name.str();
  return success();
}

// The value the loss is of.
static FailureOr<Value> pickOutput(const TrainingFunction &function,
                                   const LossSpec &spec) {
  SmallVector<StringRef> names = function.outputNames();
  Location location = function.get()->getParentOp()->getLoc();
  std::string known = llvm::join(names, ", ");
  if (!spec.output.empty()) {
    if (Value value = findByName(function, spec.output))
      return value;
    return withExitCode(mlir::emitError(location), ExitCode::Usage)
           << "no output or node is called '" << spec.output
           << "'; the model's outputs are: " << known;
  }
  if (names.size() == 1)
    return function.output(names.front());
  return withExitCode(mlir::emitError(location), ExitCode::Usage)
         << "the model has " << names.size() << " outputs (" << known
         << "); name the one the loss is of with --loss KIND@OUTPUT";
}

// Class labels that a loss within the model reads are inputs of role label, so
// that their range is checked; what they are compared with is the prediction.
static Value findLabels(TrainingFunction &function) {
  Value prediction;
  for (Operation &op : function.get().getBody().front()) {
    if (!isa<SoftmaxCrossEntropyLossOp, NLLLossOp>(op))
      continue;
    // Models of sequences flatten them first.
    Value read = op.getOperand(1);
    while (auto reshape = read.getDefiningOp<ReshapeOp>())
      read = reshape.getInput();
    auto labels = dyn_cast<BlockArgument>(read);
    if (labels && function.variableOf(labels).empty()) {
      function.setInputRole(labels, "label");
      prediction = op.getOperand(0);
    }
  }
  return prediction;
}

//===----------------------------------------------------------------------===//
// The functions
//===----------------------------------------------------------------------===//

namespace {
class AddLossPass : public mpc::impl::AddLossPassBase<AddLossPass> {
public:
  using AddLossPassBase::AddLossPassBase;

private:
  void runOnOperation() override;
  LogicalResult addTo(func::FuncOp function, LossSpec spec, bool forEvaluation);
  FailureOr<std::optional<Shape>> parseLabelShape();
  LossSettings settings() const;
};
} // namespace

// "7x5", "scalar", or nothing where it is not known.
FailureOr<std::optional<Shape>> AddLossPass::parseLabelShape() {
  if (labelShape.empty())
    return std::optional<Shape>();
  Shape shape;
  SmallVector<StringRef> parts;
  if (labelShape != "scalar")
    StringRef(labelShape).split(parts, 'x');
  for (StringRef part : parts)
    if (part.getAsInteger(10, shape.emplace_back()) || shape.back() < 0)
      return mlir::emitError(getOperation().getLoc())
             << "expected label-shape such as 7x5, or scalar, found '"
             << labelShape << "'";
  return std::optional(shape);
}

LossSettings AddLossPass::settings() const {
  LossSettings all;
  all.isSum = reduction == "sum";
  if (ignoreIndex != kNoIgnoreIndex)
    all.ignoreIndex = ignoreIndex;
  all.labelSmoothing = labelSmoothing;
  all.classWeights.assign(classWeights.begin(), classWeights.end());
  all.posWeight.assign(posWeight.begin(), posWeight.end());
  return all;
}

LogicalResult AddLossPass::addTo(func::FuncOp func, LossSpec spec,
                                 bool forEvaluation) {
  TrainingFunction function(func);
  PhaseListener phase(StringAttr::get(&getContext(), "loss"));
  OpBuilder builder = function.builder();
  builder.setListener(&phase);
  FailureOr<std::optional<Shape>> sampleLabels = parseLabelShape();
  if (failed(sampleLabels) || failed(splitAxis(function, spec)))
    return failure();
  FailureOr<Value> output = pickOutput(function, spec);
  if (failed(output))
    return failure();
  LossBuilder losses(function, builder, forEvaluation, *sampleLabels,
                     settings());
  FailureOr<Loss> loss = losses.build(spec, *output, targetArray);
  if (failed(loss))
    return failure();
  Value prediction =
      spec.kind == LossKind::Output ? findLabels(function) : loss->prediction;
  if (forEvaluation)
    function.dropUpdates();
  function.dropOutputs();
  function.addOutput("loss", "loss", loss->total);
  if (forEvaluation && loss->perSample)
    function.addOutput("sample_loss", "sample_loss", loss->perSample);
  if (forEvaluation && loss->sampleWeight)
    function.addOutput("sample_weight", "sample_weight", loss->sampleWeight);
  if (forEvaluation && prediction)
    function.addOutput("prediction", "prediction", prediction);
  Operation *labelLoss = nullptr;
  if (forEvaluation)
    labelLoss = spec.kind == LossKind::Output
                    ? findLabelLoss(func.getBody().front())
                    : loss->labelLoss;
  if (Value correct = labelLoss ? buildAccuracy(builder, labelLoss) : Value())
    function.addOutput("correct", "correct", correct);
  function.finish();
  return success();
}

void AddLossPass::runOnOperation() {
  ModuleOp module = getOperation();
  auto forward = module.lookupSymbol<func::FuncOp>("forward");
  if (!forward) {
    withExitCode(mlir::emitError(module.getLoc()), ExitCode::Usage)
        << "--loss applies to a forward model, but this one is a training "
           "graph already";
    return signalPassFailure();
  }
  if (reduction != "mean" && reduction != "sum") {
    withExitCode(mlir::emitError(module.getLoc()), ExitCode::Usage)
        << "expected reduction mean or sum, found '" << reduction.getValue()
        << "'";
    return signalPassFailure();
  }
  FailureOr<LossSpec> spec = readLoss(loss, module.getLoc());
  if (failed(spec))
    return signalPassFailure();
  func::FuncOp eval = forward.clone();
  eval.setName("eval");
  module.push_back(eval);
  forward.setName("step");
  if (failed(addTo(forward, *spec, /*forEvaluation=*/false)) ||
      failed(addTo(eval, *spec, /*forEvaluation=*/true)))
    return signalPassFailure();
  convertToInference(eval);
}
