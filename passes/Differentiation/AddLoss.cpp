// Turns a forward model into @step and @eval, which compute a loss.
//
// The loss is named by the user as KIND, KIND@OUTPUT, KIND@OUTPUT:AXIS or
// output:NAME, where OUTPUT is a graph output or, for a model that ends in
// something training must not see (a Softmax), the name of the node whose
// result to take, and AXIS is the one that classes are on.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/Passes.h"

#include "compiler/Dialect/MPC/SampleLoss.h"
#include "compiler/Support/ExitCode.h"
#include "passes/Differentiation/InferenceMode.h"
#include "passes/Differentiation/TrainingFunction.h"

#include "llvm/ADT/StringExtras.h"

#include <numeric>

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
  std::optional<int64_t> classAxis;
};
} // namespace

static FailureOr<LossSpec> parseLoss(StringRef text, Location location) {
  if (text.consume_front("output:"))
    return LossSpec{LossKind::Output, text.str(), {}};
  auto [name, output] = text.split('@');
  static const std::pair<StringRef, LossKind> kinds[] = {
      {"softmax_cross_entropy", LossKind::SoftmaxCrossEntropy},
      {"mse", LossKind::MSE},
      {"l1", LossKind::L1},
      {"bce_with_logits", LossKind::BCEWithLogits}};
  for (auto [known, kind] : kinds)
    if (name == known)
      return LossSpec{kind, output.str(), {}};
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

// Takes the AXIS off OUTPUT:AXIS. Names may have a colon and a number of their
// own, so what names something is left alone.
static LogicalResult splitAxis(const TrainingFunction &function,
                               LossSpec &spec) {
  auto [name, text] = StringRef(spec.output).rsplit(':');
  int64_t axis;
  if (findByName(function, spec.output) || text.getAsInteger(10, axis))
    return success();
  if (spec.kind != LossKind::SoftmaxCrossEntropy)
    return withExitCode(
               mlir::emitError(function.get()->getParentOp()->getLoc()),
               ExitCode::Usage)
           << "'" << spec.output
           << "': only softmax_cross_entropy has classes on an axis";
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

//===----------------------------------------------------------------------===//
// Building a loss
//===----------------------------------------------------------------------===//

namespace {
/// What the loss functions below make: always the mean, and the loss of every
/// sample where asked for and possible. `prediction` is what the loss is of,
/// with classes on axis 1.
struct Loss {
  Value mean, perSample, prediction;
};

using Shape = SmallVector<int64_t>;

/// Builds the loss of one function.
class LossBuilder {
public:
  /// `sampleLabels` is the shape of one sample's labels, where it is known.
  LossBuilder(TrainingFunction &function, OpBuilder &builder, bool perSample,
              std::optional<Shape> sampleLabels)
      : function(function), builder(builder), perSample(perSample),
        sampleLabels(std::move(sampleLabels)) {}

  FailureOr<Loss> build(const LossSpec &spec, Value output, StringRef target);

private:
  FailureOr<Value> addLabels(StringRef name, RankedTensorType type);
  /// The labels' shape, as far as the model's input or the data says it.
  std::optional<Shape> findLabelShape(StringRef target);
  FailureOr<int64_t> findClassAxis(const LossSpec &spec, Value scores,
                                   const std::optional<Shape> &labels);
  FailureOr<Shape> chooseLabelShape(ArrayRef<int64_t> positions,
                                    const std::optional<Shape> &labels,
                                    Value scores);
  /// Whether labels of that shape name one class for each of the positions,
  /// whose first axis may be of samples times positions.
  bool fits(ArrayRef<int64_t> labels, ArrayRef<int64_t> positions);
  FailureOr<Loss> buildSoftmaxCrossEntropy(const LossSpec &spec, Value scores,
                                           StringRef target);
  FailureOr<Loss> buildElementwise(LossKind kind, Value output,
                                   StringRef target);
  FailureOr<Loss> buildOutput(Value output);
  Value errorOf(LossKind kind, Value output, Value target);
  Value reshape(Value value, ArrayRef<int64_t> shape, StringRef name);
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
  std::optional<Shape> sampleLabels;
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
    return buildSoftmaxCrossEntropy(spec, output, target);
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

static Shape without(ArrayRef<int64_t> shape, int64_t axis) {
  Shape rest(shape);
  rest.erase(rest.begin() + axis);
  return rest;
}

static std::string print(ArrayRef<int64_t> shape) {
  std::string text = "[";
  llvm::raw_string_ostream os(text);
  llvm::interleave(shape, os, ",");
  return text + "]";
}

static int64_t countElements(ArrayRef<int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t(1),
                         std::multiplies<>());
}

std::optional<Shape> LossBuilder::findLabelShape(StringRef target) {
  if (Value found = function.input(target))
    return Shape(typeOf(found).getShape());
  std::optional<int64_t> batch = batchSize();
  if (!sampleLabels || !batch)
    return std::nullopt;
  Shape shape = {*batch};
  llvm::append_range(shape, *sampleLabels);
  return shape;
}

bool LossBuilder::fits(ArrayRef<int64_t> labels, ArrayRef<int64_t> positions) {
  if (labels == positions)
    return true;
  // [B, T] for the positions [B * T] that a model flattened.
  ArrayRef<int64_t> inner = positions.drop_front();
  return labels.size() > positions.size() &&
         labels.take_back(inner.size()) == inner &&
         countElements(labels) == countElements(positions);
}

// PyTorch has classes on axis 1, and models of sequences on the last.
FailureOr<int64_t>
LossBuilder::findClassAxis(const LossSpec &spec, Value scores,
                           const std::optional<Shape> &labels) {
  ArrayRef<int64_t> shape = typeOf(scores).getShape();
  int64_t last = shape.size() - 1;
  auto usage = [&] {
    return withExitCode(mlir::emitError(scores.getLoc()), ExitCode::Usage);
  };
  if (spec.classAxis) {
    int64_t axis = *spec.classAxis + (*spec.classAxis < 0 ? last + 1 : 0);
    if (axis < 1 || axis > last)
      return usage() << "classes cannot be on axis " << *spec.classAxis
                     << " of scores of shape " << print(shape)
                     << ", whose axis 0 is the batch";
    return axis;
  }
  if (last == 1)
    return 1;
  bool first = !labels || fits(*labels, without(shape, 1));
  bool final = !labels || fits(*labels, without(shape, last));
  if (first != final)
    return first ? 1 : last;
  if (!first)
    return withExitCode(mlir::emitError(scores.getLoc()),
                        ExitCode::InvalidInput)
           << "expected labels of shape " << print(without(shape, 1))
           << " (classes on axis 1) or " << print(without(shape, last))
           << " (classes on axis " << last << ") for scores of shape "
           << print(shape) << ", found " << print(*labels);
  std::string name =
      spec.output.empty() ? function.outputNames().front().str() : spec.output;
  std::string choice = "--loss softmax_cross_entropy@" + name + ":";
  return usage() << "scores of shape " << print(shape)
                 << " may have their classes on axis 1 or on axis " << last
                 << ", and "
                 << (labels
                         ? "the labels' shape " + print(*labels) + " fits both"
                         : "no shape of the labels is known")
                 << "; say which with " << choice << "1 or " << choice << last;
}

// What the labels' input is like: what is known of it, or one label for each
// position. A model that flattens samples and positions into one axis takes the
// labels of each sample together.
FailureOr<Shape>
LossBuilder::chooseLabelShape(ArrayRef<int64_t> positions,
                              const std::optional<Shape> &labels,
                              Value scores) {
  if (labels && fits(*labels, positions))
    return *labels;
  if (labels)
    return withExitCode(mlir::emitError(scores.getLoc()),
                        ExitCode::InvalidInput)
           << "expected labels of shape " << print(positions)
           << " for scores of shape " << print(typeOf(scores).getShape())
           << ", found " << print(*labels);
  std::optional<int64_t> batch = batchSize();
  Shape shape(positions);
  if (batch && *batch > 0 && shape[0] > *batch && shape[0] % *batch == 0) {
    shape[0] /= *batch;
    shape.insert(shape.begin(), *batch);
  }
  return shape;
}

Value LossBuilder::reshape(Value value, ArrayRef<int64_t> shape,
                           StringRef name) {
  auto type = typeOf(value).clone(shape);
  return type == value.getType()
             ? value
             : ReshapeOp::create(builder, at(name), type, value).getOutput();
}

// `value` with axis `from` moved to where it is axis `to`.
static Value moveAxis(OpBuilder &builder, Location loc, Value value,
                      int64_t from, int64_t to) {
  auto type = typeOf(value);
  if (from == to)
    return value;
  auto perm = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  perm.erase(perm.begin() + from);
  perm.insert(perm.begin() + to, from);
  Shape shape;
  for (int64_t axis : perm)
    shape.push_back(type.getDimSize(axis));
  return TransposeOp::create(builder, loc, type.clone(shape), value, perm);
}

FailureOr<Loss> LossBuilder::buildSoftmaxCrossEntropy(const LossSpec &spec,
                                                      Value scores,
                                                      StringRef target) {
  auto type = typeOf(scores);
  int64_t last = type.getRank() - 1;
  if (last < 1)
    return withExitCode(mlir::emitError(scores.getLoc()),
                        ExitCode::InvalidInput)
           << "expected scores of shape [batch, classes, ...] for "
              "softmax_cross_entropy, found "
           << type;
  // Once, not for each function.
  if (failed(verifyNoSoftmax(scores, /*warn=*/!perSample)))
    return failure();
  // Where the classes are, and what the labels are like.
  std::optional<Shape> known = findLabelShape(target);
  FailureOr<int64_t> axis = findClassAxis(spec, scores, known);
  if (failed(axis))
    return failure();
  Shape positions = without(type.getShape(), *axis);
  FailureOr<Shape> labelShape = chooseLabelShape(positions, known, scores);
  if (failed(labelShape))
    return failure();
  FailureOr<Value> labels = addLabels(
      target, RankedTensorType::get(*labelShape, builder.getI64Type()));
  if (failed(labels))
    return failure();
  // Classes on the last axis are rows of a matrix; others go to axis 1.
  int64_t classes = type.getDimSize(*axis);
  Value rows = scores;
  if (*axis == last) {
    positions = {countElements(positions)};
    rows = reshape(scores, {positions[0], classes}, "loss.scores");
  } else {
    rows = moveAxis(builder, at("loss.scores"), scores, *axis, 1);
  }
  bool split = perSample && isPerSample(*labels);
  Type element = lossElementType(scores);
  auto lossType = split ? RankedTensorType::get(positions, element)
                        : RankedTensorType::get({}, element);
  auto op = SoftmaxCrossEntropyLossOp::create(
      builder, at("loss"), TypeRange{lossType, typeOf(rows).clone(element)},
      rows, reshape(*labels, positions, "loss.labels"), Value(),
      builder.getStringAttr(split ? "none" : "mean"), IntegerAttr());
  // What evaluation compares with the labels has one axis more than they.
  Value prediction = rows;
  if (perSample && *labelShape != positions) {
    Shape shape(*labelShape);
    int64_t from = shape.size() - (positions.size() - 1);
    if (*axis == last)
      from = shape.size();
    shape.insert(shape.begin() + from, classes);
    prediction = moveAxis(builder, at("loss.prediction"),
                          reshape(rows, shape, "loss.prediction"), from, 1);
  }
  if (!split)
    return Loss{op.getLoss(), {}, prediction};
  Value each = reshape(op.getLoss(), *labelShape, "loss.sample");
  Value samples = mean(each, 1, "loss.sample");
  return Loss{mean(samples, 0, "loss.mean"), samples, prediction};
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

// bce_with_logits applies a sigmoid of its own, as softmax_cross_entropy does a
// softmax.
static LogicalResult verifyNoSigmoid(Value logits) {
  Operation *op = throughViews(logits);
  if (!isa_and_nonnull<SigmoidOp>(op))
    return success();
  std::string advice =
      "train on the logits before it: --loss bce_with_logits@NODE";
  if (Operation *before = op->getOperand(0).getDefiningOp())
    advice += ", here @" + getNodeName(before).str();
  return withExitCode(mlir::emitError(op->getLoc()), ExitCode::InvalidInput)
         << "expected logits for bce_with_logits, which applies sigmoid "
            "itself, found the output of Sigmoid; "
         << advice;
}

FailureOr<Loss> LossBuilder::buildElementwise(LossKind kind, Value output,
                                              StringRef target) {
  auto type = typeOf(output);
  if (kind == LossKind::BCEWithLogits && failed(verifyNoSigmoid(output)))
    return failure();
  FailureOr<Value> labels =
      addLabels(target, type.clone(lossElementType(output)));
  if (failed(labels))
    return failure();
  Value error = errorOf(kind, output, *labels);
  if (!perSample || !isPerSample(error))
    return Loss{mean(error, 0, "loss.mean"), {}, output};
  Value samples = mean(error, 1, "loss.sample");
  return Loss{mean(samples, 0, "loss.mean"), samples, output};
}

// The model computes its loss, of any rank but one element: what the mean of
// others would be, nobody has asked for.
FailureOr<Loss> LossBuilder::buildOutput(Value output) {
  auto type = typeOf(output);
  if (type.getNumElements() != 1)
    return withExitCode(mlir::emitError(output.getLoc()),
                        ExitCode::InvalidInput)
           << "expected a loss of one element for --loss output:NAME, found "
           << print(type.getShape())
           << "; reduce it in the model with ReduceMean, or name what to "
              "compute of it, such as --loss mse@NAME";
  Value average = mean(output, 0, "loss.mean");
  std::optional<int64_t> batch = batchSize();
  if (!perSample || !batch)
    return Loss{average, {}, {}};
  return Loss{average, buildSampleLoss(builder, average, *batch), {}};
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
  LossBuilder losses(function, builder, forEvaluation, *sampleLabels);
  FailureOr<Loss> loss = losses.build(spec, *output, targetArray);
  if (failed(loss))
    return failure();
  Value prediction =
      spec.kind == LossKind::Output ? findLabels(function) : loss->prediction;
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
