// Turns a forward model into @step and @eval, which compute a loss.
//
// The loss is named by the user as NAME, NAME@OUTPUT, NAME@OUTPUT:AXIS or
// output:NAME, where OUTPUT is a graph output or, for a model that ends in
// something training must not see (a Softmax), the name of the node whose
// result to take, and AXIS is the one that classes are on.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/Passes.h"

#include "compiler/Dialect/MPC/Facts/SampleLoss.h"
#include "compiler/Dialect/MPC/NodeNames.h"
#include "compiler/Support/ExitCode.h"
#include "passes/Differentiation/InferenceMode.h"
#include "passes/Differentiation/LossBuilder.h"
#include "passes/Differentiation/PhaseListener.h"

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
static Value findByName(const FunctionEditor &function, StringRef name) {
  if (Value output = function.output(name))
    return output;
  for (Operation &op : function.getBody())
    if (getNodeName(&op) == name && op.getNumResults() > 0)
      return op.getResult(0);
  return {};
}

// Takes the AXIS off OUTPUT:AXIS. Names may have a colon and a number of their
// own, so what names something is left alone.
static LogicalResult splitAxis(const FunctionEditor &function, LossSpec &spec) {
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
static FailureOr<Value> pickOutput(const FunctionEditor &function,
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
static Value findLabels(FunctionEditor &function) {
  Value prediction;
  for (Operation &op : function.getBody()) {
    if (!isa<SoftmaxCrossEntropyLossOp, NLLLossOp>(op))
      continue;
    // Models of sequences flatten them first.
    auto labels = dyn_cast<BlockArgument>(skipReshapes(op.getOperand(1)));
    if (labels && function.variableOf(labels).empty()) {
      function.setInputRole(labels, Role::Label);
      prediction = op.getOperand(0);
    }
  }
  return prediction;
}

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

namespace {
/// A loss, and the output and the labels of one function that it compares.
struct PlacedLoss {
  LossSpec spec;
  Value output;
  std::string target; ///< the name of the label input
};

class AddLossPass : public mpc::impl::AddLossPassBase<AddLossPass> {
public:
  using AddLossPassBase::AddLossPassBase;

private:
  void runOnOperation() override;
  LogicalResult verifyOptions(ArrayRef<LossSpec> specs);
  LogicalResult addTo(func::FuncOp function, ArrayRef<LossSpec> specs,
                      bool forEvaluation);
  FailureOr<SmallVector<PlacedLoss>> place(const FunctionEditor &function,
                                           ArrayRef<LossSpec> specs);
  FailureOr<SmallVector<Loss>> buildLosses(FunctionEditor &function,
                                           OpBuilder &builder,
                                           ArrayRef<PlacedLoss> placed,
                                           bool forEvaluation);
  FailureOr<std::optional<Shape>> parseLabelShape(StringRef target);
  LossSettings settings() const;
};
} // namespace

// "7x5" or "scalar" of the target or of all; nothing where it is not known.
FailureOr<std::optional<Shape>> AddLossPass::parseLabelShape(StringRef target) {
  // The last shape that is of this target, or of all.
  StringRef found;
  for (StringRef text : labelShapes) {
    auto [name, shape] = text.rsplit('=');
    if (!text.contains('=') || name == target)
      found = text.contains('=') ? shape : text;
  }
  if (found.empty())
    return std::optional<Shape>();
  // "scalar" has no axes.
  Shape shape;
  SmallVector<StringRef> parts;
  if (found != "scalar")
    found.split(parts, 'x');
  for (StringRef part : parts)
    if (part.getAsInteger(10, shape.emplace_back()) || shape.back() < 0)
      return mlir::emitError(getOperation().getLoc())
             << "expected label-shape such as 7x5, or scalar, found '" << found
             << "'";
  return std::optional(shape);
}

LossSettings AddLossPass::settings() const {
  LossSettings all;
  all.isSum = reduction == "sum";
  all.isDouble = float64;
  if (ignoreIndex != kNoIgnoreIndex)
    all.ignoreIndex = ignoreIndex;
  all.labelSmoothing = labelSmoothing;
  all.classWeights.assign(classWeights.begin(), classWeights.end());
  all.posWeight.assign(posWeight.begin(), posWeight.end());
  return all;
}

LogicalResult AddLossPass::verifyOptions(ArrayRef<LossSpec> specs) {
  auto usage = [&] {
    return withExitCode(mlir::emitError(getOperation().getLoc()),
                        ExitCode::Usage);
  };
  if (specs.empty())
    return usage() << "expected a loss";
  if (reduction != "mean" && reduction != "sum")
    return usage() << "expected reduction mean or sum, found '"
                   << reduction.getValue() << "'";
  // A --target-array is of all losses, or of one: OUTPUT=NAME.
  std::string common = findCommonTarget(targetArrays);
  for (StringRef text : targetArrays) {
    bool isOne = !text.contains('=');
    if (isOne && text != common)
      return usage() << "expected one --target-array for all losses, found '"
                     << common << "' and '" << text << "'";
    // A name that no loss uses, or two for one, is a mistake.
    bool isUsed = isOne || llvm::any_of(specs, [&](const LossSpec &spec) {
                    return isTargetOf(text, spec.output);
                  });
    if (!isUsed)
      return usage() << "--target-array " << text << ": no --loss is of @"
                     << text.rsplit('=').first;
    bool isTwice = llvm::any_of(targetArrays, [&](StringRef other) {
      return other != text && !isOne && other.contains('=') &&
             other.rsplit('=').first == text.rsplit('=').first;
    });
    if (isTwice)
      return usage() << "--target-array " << text << ": '"
                     << text.rsplit('=').first << "' has two";
  }
  return success();
}

// What each loss is of, found before any is built.
FailureOr<SmallVector<PlacedLoss>>
AddLossPass::place(const FunctionEditor &function, ArrayRef<LossSpec> specs) {
  SmallVector<PlacedLoss> placed;
  for (LossSpec spec : specs) {
    std::string target = findTarget(targetArrays, spec.output);
    if (failed(splitAxis(function, spec)))
      return failure();
    FailureOr<Value> output = pickOutput(function, spec);
    if (failed(output))
      return failure();
    placed.push_back({spec, *output, target});
  }
  return placed;
}

//===----------------------------------------------------------------------===//
// The sum
//===----------------------------------------------------------------------===//

// value * factor; just `value` if the factor is 1.
static Value scaleBy(OpBuilder &builder, double factor, Value value) {
  if (!value || factor == 1.0)
    return value;
  auto type = cast<RankedTensorType>(value.getType());
  Type element = type.getElementType();
  Location location = namedLocation(builder.getContext(), "loss.factor");
  Value number = ConstantOp::create(
      builder, location,
      DenseElementsAttr::get(type.clone(ArrayRef<int64_t>()),
                             builder.getFloatAttr(element, factor)));
  return MulOp::create(builder, location, type, value, number);
}

// Adds up values of one shape, in f64 if any of them is f64.
static Value addUp(OpBuilder &builder, ArrayRef<Value> values) {
  if (values.size() == 1)
    return values.front();
  bool isWide =
      llvm::any_of(values, [](Value v) { return elementOf(v).isF64(); });
  Location location = namedLocation(builder.getContext(), "loss.all");
  auto type = cast<RankedTensorType>(values.front().getType());
  if (isWide)
    type = cast<RankedTensorType>(type.clone(builder.getF64Type()));
  Value sum;
  for (Value value : values) {
    if (value.getType() != type)
      value = mpc::CastOp::create(builder, location, type, value);
    sum = sum ? AddOp::create(builder, location, type, sum, value).getOutput()
              : value;
  }
  return sum;
}

// Outputs of what each sample adds: of all losses that take a plain mean or sum
// together, and of each that divides by weights beside them.
static void addSampleOutputs(FunctionEditor &function, OpBuilder &builder,
                             ArrayRef<Loss> losses) {
  // A loss that is no sum over samples has nothing to report for each.
  if (!llvm::all_of(losses,
                    [](const Loss &loss) { return bool(loss.perSample); }))
    return;
  // Plain losses have one output together.
  SmallVector<Value> plain;
  for (const Loss &loss : losses)
    if (!loss.sampleWeight)
      plain.push_back(loss.perSample);
  if (!plain.empty())
    function.addOutput("sample_loss", Role::SampleLoss, addUp(builder, plain));
  // Weighted ones follow, each with its weights.
  int64_t next = plain.empty() ? 0 : 1;
  for (const Loss &loss : losses) {
    if (!loss.sampleWeight)
      continue;
    std::string suffix = next == 0 ? "" : "_" + std::to_string(next);
    ++next;
    function.addOutput("sample_loss" + suffix, Role::SampleLoss,
                       loss.perSample);
    function.addOutput("sample_weight" + suffix, Role::SampleWeight,
                       loss.sampleWeight);
  }
}

//===----------------------------------------------------------------------===//
// The functions
//===----------------------------------------------------------------------===//

FailureOr<SmallVector<Loss>>
AddLossPass::buildLosses(FunctionEditor &function, OpBuilder &builder,
                         ArrayRef<PlacedLoss> placed, bool forEvaluation) {
  // What the model computes itself, before ours is among it.
  bool hasOwn = llvm::any_of(placed, [](const PlacedLoss &one) {
    return one.spec.kind == LossKind::Output;
  });
  Value ownPrediction = hasOwn ? findLabels(function) : Value();
  Operation *ownLoss = findLabelLoss(function.getBody());
  // Each loss, times its factor.
  SmallVector<Loss> losses;
  for (const PlacedLoss &one : placed) {
    FailureOr<std::optional<Shape>> labels = parseLabelShape(one.target);
    if (failed(labels))
      return failure();
    LossBuilder build(function, builder, forEvaluation, *labels, settings());
    FailureOr<Loss> loss = build.build(one.spec, one.output, one.target);
    if (failed(loss))
      return failure();
    bool isOwn = one.spec.kind == LossKind::Output;
    if (isOwn) {
      loss->prediction = ownPrediction;
      loss->labelLoss = ownLoss;
    }
    // Which labels a loss of the model's own leaves out is not known of a sum.
    loss->perSample = isOwn && placed.size() > 1
                          ? Value()
                          : scaleBy(builder, one.spec.factor, loss->perSample);
    loss->total = scaleBy(builder, one.spec.factor, loss->total);
    losses.push_back(*loss);
  }
  return losses;
}

LogicalResult AddLossPass::addTo(func::FuncOp func, ArrayRef<LossSpec> specs,
                                 bool forEvaluation) {
  FunctionEditor function(func);
  PhaseListener phase(Phase::Loss);
  OpBuilder builder = function.builder();
  builder.setListener(&phase);
  // Which outputs the losses are of, then the ops that compute them.
  FailureOr<SmallVector<PlacedLoss>> placed = place(function, specs);
  if (failed(placed))
    return failure();
  FailureOr<SmallVector<Loss>> built =
      buildLosses(function, builder, *placed, forEvaluation);
  if (failed(built))
    return failure();
  ArrayRef<Loss> losses = *built;
  // They take the place of the outputs.
  if (forEvaluation)
    function.dropUpdates();
  function.dropOutputs();
  auto totals = llvm::map_to_vector(
      losses, [](const Loss &loss) -> Value { return loss.total; });
  function.addOutput("loss", Role::Loss, addUp(builder, totals));
  // Accuracy and prediction are of the first loss, as a run reports one of
  // each.
  const Loss &first = losses.front();
  if (forEvaluation) {
    addSampleOutputs(function, builder, losses);
    if (first.prediction)
      function.addOutput("prediction", Role::Prediction, first.prediction);
  }
  // Counting right labels needs labels: a loss between tensors has none.
  Value correct;
  if (first.labelLoss && (forEvaluation || trainAccuracy))
    correct = buildAccuracy(builder, first.labelLoss);
  if (correct)
    function.addOutput("correct", Role::Correct, correct);
  else if (trainAccuracy)
    return withExitCode(mlir::emitError(func.getLoc()), ExitCode::Usage)
           << "--train-accuracy is for losses of class labels, and the first "
              "loss is none";
  function.finish();
  return success();
}

void AddLossPass::runOnOperation() {
  ModuleOp module = getOperation();
  auto forward = module.lookupSymbol<func::FuncOp>(kForwardFunction);
  if (!forward) {
    withExitCode(mlir::emitError(module.getLoc()), ExitCode::Usage)
        << "--loss applies to a forward model, but this one is a training "
           "graph already";
    return signalPassFailure();
  }
  // Read and check all losses before anything changes.
  SmallVector<LossSpec> specs;
  for (StringRef text : loss) {
    FailureOr<LossSpec> spec = readLoss(text, module.getLoc());
    if (failed(spec))
      return signalPassFailure();
    specs.push_back(*spec);
  }
  if (failed(verifyOptions(specs)))
    return signalPassFailure();
  // One copy of the model trains, one evaluates.
  func::FuncOp eval = forward.clone();
  eval.setName(kEvalFunction);
  module.push_back(eval);
  forward.setName(kStepFunction);
  if (failed(addTo(forward, specs, /*forEvaluation=*/false)) ||
      failed(addTo(eval, specs, /*forEvaluation=*/true)))
    return signalPassFailure();
  convertToInference(eval);
}
