// Turns a forward model into @step and @eval, which compute a loss.
//
// The loss is named by the user as KIND, KIND@OUTPUT or output:NAME, where
// OUTPUT is a graph output or, for a model that ends in something training must
// not see (a Softmax), the name of the node whose result to take.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/Passes.h"

#include "compiler/Dialect/MPC/SampleLoss.h"
#include "compiler/Support/ExitCode.h"
#include "passes/Differentiation/InferenceMode.h"
#include "passes/Differentiation/TrainingFunction.h"

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

namespace {
enum class LossKind { SoftmaxCrossEntropy, MSE, L1, BCEWithLogits, Output };

struct LossSpec {
  LossKind kind;
  std::string output; ///< empty: the model's only one
};
} // namespace

static FailureOr<LossSpec> parseLoss(StringRef text, Location location) {
  if (text.consume_front("output:"))
    return LossSpec{LossKind::Output, text.str()};
  auto [name, output] = text.split('@');
  static const std::pair<StringRef, LossKind> kinds[] = {
      {"softmax_cross_entropy", LossKind::SoftmaxCrossEntropy},
      {"mse", LossKind::MSE},
      {"l1", LossKind::L1},
      {"bce_with_logits", LossKind::BCEWithLogits}};
  for (auto [known, kind] : kinds)
    if (name == known)
      return LossSpec{kind, output.str()};
  return withExitCode(mlir::emitError(location), ExitCode::Usage)
         << "unknown loss '" << text
         << "'; expected softmax_cross_entropy, mse, l1, bce_with_logits, each "
            "with an optional @OUTPUT, or output:NAME";
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

//===----------------------------------------------------------------------===//
// Building a loss
//===----------------------------------------------------------------------===//

namespace {
/// What the loss functions below make: always the mean, and the loss of every
/// sample where asked for and possible.
struct Loss {
  Value mean, perSample;
};

/// Builds the loss of one function.
class LossBuilder {
public:
  LossBuilder(TrainingFunction &function, OpBuilder &builder, bool perSample)
      : function(function), builder(builder), perSample(perSample) {}

  FailureOr<Loss> build(const LossSpec &spec, Value output, StringRef target);

private:
  FailureOr<Value> addLabels(StringRef name, RankedTensorType type);
  FailureOr<Loss> buildSoftmaxCrossEntropy(Value scores, StringRef target);
  FailureOr<Loss> buildElementwise(LossKind kind, Value output,
                                   StringRef target);
  FailureOr<Loss> buildOutput(Value output);
  Value errorOf(LossKind kind, Value output, Value target);
  Value mean(Value value, unsigned firstAxis, StringRef name);
  /// The leading axis of all inputs of samples; nothing where they differ.
  std::optional<int64_t> batchSize();
  /// Whether it is the value's leading axis too.
  bool isPerSample(Value value);
  Location at(StringRef name) {
    return namedLocation(builder.getContext(), name);
  }

  TrainingFunction &function;
  OpBuilder &builder;
  bool perSample;
};
} // namespace

// The type losses of `output` are computed in.
static Type lossElementType(Value output) {
  Type element = elementOf(output);
  return element.isF64() ? element : Float32Type::get(output.getContext());
}

FailureOr<Value> LossBuilder::addLabels(StringRef name, RankedTensorType type) {
  Value found = function.input(name);
  if (!found)
    return function.addInput(name, "label", type);
  if (found.getType() != type)
    return withExitCode(
               mlir::emitError(function.get()->getParentOp()->getLoc()),
               ExitCode::InvalidInput)
           << "input '" << name << "' of the model is " << found.getType()
           << ", but the loss needs labels of " << type
           << "; name another array with --target-array";
  function.setInputRole(found, "label");
  return found;
}

Value LossBuilder::mean(Value value, unsigned firstAxis, StringRef name) {
  auto type = typeOf(value);
  auto axes = llvm::to_vector(llvm::seq<int64_t>(firstAxis, type.getRank()));
  if (axes.empty())
    return value;
  return ReduceMeanOp::create(builder, at(name),
                              type.clone(type.getShape().take_front(firstAxis)),
                              value, axes, false);
}

std::optional<int64_t> LossBuilder::batchSize() {
  std::optional<int64_t> batch;
  for (Value argument : function.get().getArguments()) {
    StringRef role = function.roleOf(argument);
    if (role != "data" && role != "label")
      continue;
    auto input = typeOf(argument);
    if (input.getRank() == 0 || (batch && *batch != input.getDimSize(0)))
      return std::nullopt;
    batch = input.getDimSize(0);
  }
  return batch;
}

bool LossBuilder::isPerSample(Value value) {
  auto type = typeOf(value);
  return type.getRank() > 0 && batchSize() == type.getDimSize(0);
}

FailureOr<Loss> LossBuilder::build(const LossSpec &spec, Value output,
                                   StringRef target) {
  if (!isa<FloatType>(elementOf(output)))
    return withExitCode(mlir::emitError(output.getLoc()),
                        ExitCode::InvalidInput)
           << "expected a float output for the loss, found "
           << output.getType();
  if (spec.kind == LossKind::SoftmaxCrossEntropy)
    return buildSoftmaxCrossEntropy(output, target);
  if (spec.kind == LossKind::Output)
    return buildOutput(output);
  return buildElementwise(spec.kind, output, target);
}

//===----------------------------------------------------------------------===//
// Cross entropy
//===----------------------------------------------------------------------===//

// The op whose values `value` holds, past changes of shape and type.
static Operation *throughViews(Value value) {
  Operation *op = value.getDefiningOp();
  while (isa_and_nonnull<ReshapeOp, mpc::CastOp, ExpandOp>(op))
    op = op->getOperand(0).getDefiningOp();
  return op;
}

// softmax_cross_entropy applies a softmax of its own. A second one trains, but
// slowly and to a worse model, which is hard to notice.
static LogicalResult verifyNoSoftmax(Value scores, bool warn) {
  Operation *op = throughViews(scores);
  if (!isa_and_nonnull<SoftmaxOp, LogSoftmaxOp>(op))
    return success();
  std::string advice =
      "train on the scores before it: --loss softmax_cross_entropy@NODE";
  if (Operation *before = op->getOperand(0).getDefiningOp())
    advice += ", here @" + getNodeName(before).str();
  if (isa<LogSoftmaxOp>(op)) {
    if (warn)
      mlir::emitWarning(op->getLoc())
          << "softmax_cross_entropy takes the logarithm of softmax again, "
             "which changes nothing but costs time; "
          << advice;
    return success();
  }
  return withExitCode(mlir::emitError(op->getLoc()), ExitCode::InvalidInput)
         << "expected scores for softmax_cross_entropy, which applies "
            "softmax itself, found the output of Softmax; "
         << advice;
}

FailureOr<Loss> LossBuilder::buildSoftmaxCrossEntropy(Value scores,
                                                      StringRef target) {
  auto type = typeOf(scores);
  if (type.getRank() < 2)
    return withExitCode(mlir::emitError(scores.getLoc()),
                        ExitCode::InvalidInput)
           << "expected scores of shape [batch, classes, ...] for "
              "softmax_cross_entropy, found "
           << type;
  // Once, not for each function.
  if (failed(verifyNoSoftmax(scores, /*warn=*/!perSample)))
    return failure();
  SmallVector<int64_t> shape(type.getShape());
  shape.erase(shape.begin() + 1);
  auto labelType = RankedTensorType::get(shape, builder.getI64Type());
  FailureOr<Value> labels = addLabels(target, labelType);
  if (failed(labels))
    return failure();
  bool split = perSample && isPerSample(scores);
  Type element = lossElementType(scores);
  auto lossType = split ? RankedTensorType::get(shape, element)
                        : RankedTensorType::get({}, element);
  auto op = SoftmaxCrossEntropyLossOp::create(
      builder, at("loss"), TypeRange{lossType, type.clone(element)}, scores,
      *labels, Value(), builder.getStringAttr(split ? "none" : "mean"),
      IntegerAttr());
  if (!split)
    return Loss{op.getLoss(), {}};
  Value samples = mean(op.getLoss(), 1, "loss.sample");
  return Loss{mean(samples, 0, "loss.mean"), samples};
}

//===----------------------------------------------------------------------===//
// Losses of elements
//===----------------------------------------------------------------------===//

Value LossBuilder::errorOf(LossKind kind, Value output, Value target) {
  Type type = typeOf(output).clone(lossElementType(output));
  if (kind == LossKind::BCEWithLogits)
    return BCEWithLogitsOp::create(builder, at("loss"), type, output, target);
  Value error = SubOp::create(builder, at("loss.error"), type, output, target);
  if (kind == LossKind::L1)
    return AbsOp::create(builder, at("loss"), type, error);
  return MulOp::create(builder, at("loss"), type, error, error);
}

FailureOr<Loss> LossBuilder::buildElementwise(LossKind kind, Value output,
                                              StringRef target) {
  auto type = typeOf(output);
  FailureOr<Value> labels =
      addLabels(target, type.clone(lossElementType(output)));
  if (failed(labels))
    return failure();
  Value error = errorOf(kind, output, *labels);
  if (!perSample || !isPerSample(error))
    return Loss{mean(error, 0, "loss.mean"), {}};
  Value samples = mean(error, 1, "loss.sample");
  return Loss{mean(samples, 0, "loss.mean"), samples};
}

// The model computes its loss. A loss of more than one element is averaged.
FailureOr<Loss> LossBuilder::buildOutput(Value output) {
  Value average = mean(output, 0, "loss.mean");
  std::optional<int64_t> batch = batchSize();
  if (!perSample || !batch)
    return Loss{average, {}};
  return Loss{average, buildSampleLoss(builder, average, *batch)};
}

// Class labels that a loss within the model reads are inputs of role label, so
// that their range is checked; what they are compared with is the prediction.
static Value findLabels(TrainingFunction &function) {
  Value prediction;
  for (Operation &op : function.get().getBody().front()) {
    if (!isa<SoftmaxCrossEntropyLossOp, NLLLossOp>(op))
      continue;
    auto labels = dyn_cast<BlockArgument>(op.getOperand(1));
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
  LogicalResult addTo(func::FuncOp function, const LossSpec &spec,
                      bool forEvaluation);
};
} // namespace

LogicalResult AddLossPass::addTo(func::FuncOp func, const LossSpec &spec,
                                 bool forEvaluation) {
  TrainingFunction function(func);
  PhaseListener phase(StringAttr::get(&getContext(), "loss"));
  OpBuilder builder = function.builder();
  builder.setListener(&phase);
  FailureOr<Value> output = pickOutput(function, spec);
  if (failed(output))
    return failure();
  Value prediction =
      spec.kind == LossKind::Output ? findLabels(function) : *output;
  LossBuilder losses(function, builder, forEvaluation);
  FailureOr<Loss> loss = losses.build(spec, *output, targetArray);
  if (failed(loss))
    return failure();
  if (forEvaluation)
    function.dropUpdates();
  function.dropOutputs();
  function.addOutput("loss", "loss", loss->mean);
  if (forEvaluation && loss->perSample)
    function.addOutput("sample_loss", "sample_loss", loss->perSample);
  if (forEvaluation && prediction)
    function.addOutput("prediction", "prediction", prediction);
  Operation *labelLoss =
      forEvaluation ? findLabelLoss(func.getBody().front()) : nullptr;
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
  FailureOr<LossSpec> spec = parseLoss(loss, module.getLoc());
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
