// Turns a forward model into @step and @eval, which compute a loss.
//
// The user names the loss as NAME, NAME@OUTPUT, NAME@OUTPUT:AXIS or
// output:NAME. OUTPUT is a graph output. If the model ends in an op that
// training must not see (a Softmax), OUTPUT is the name of the node before.
// AXIS is the axis of the classes.
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
// The user's request
//===----------------------------------------------------------------------===//

static FailureOr<LossSpec> readLoss(StringRef text, Location location) {
  llvm::Expected<LossSpec> spec = parseLoss(text);
  if (spec)
    return *spec;
  return withExitCode(mlir::emitError(location), ExitCode::Usage)
         << llvm::toString(spec.takeError());
}

// Returns the value called `name`: an output, or the result of a node. Null if
// there is none.
static Value findByName(const FunctionEditor &function, StringRef name) {
  if (Value output = function.output(name))
    return output;
  for (Operation &op : function.getBody())
    if (getNodeName(&op) == name && op.getNumResults() > 0)
      return op.getResult(0);
  return {};
}

// Moves the AXIS of OUTPUT:AXIS from `output` to `classAxis`. A name may itself
// end in a colon and a number, so an existing name stays whole.
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

// Returns the value that the loss is computed from. Reports an error if the
// name is unknown, or missing with several outputs.
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
         << "); name the output for the loss with --loss KIND@OUTPUT";
}

// Gives the role label to class labels of the model's own loss, so that the
// range of labels is checked. Returns the prediction that the labels are
// compared with; null if there are no such labels.
static Value findLabels(FunctionEditor &function) {
  Value prediction;
  for (Operation &op : function.getBody()) {
    if (!isa<SoftmaxCrossEntropyLossOp, NLLLossOp>(op))
      continue;
    // Models of sequences reshape labels [B, T] to [B * T] before the loss.
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
/// A loss, with the output and the labels in one function.
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

// Parses the label shape, "7x5" or "scalar", of `target` or of all targets;
// nullopt if not given.
FailureOr<std::optional<Shape>> AddLossPass::parseLabelShape(StringRef target) {
  // Later shapes override; a shape without a name is for all targets.
  StringRef found;
  for (StringRef text : labelShapes) {
    auto [name, shape] = text.rsplit('=');
    if (!text.contains('=') || name == target)
      found = text.contains('=') ? shape : text;
  }
  if (found.empty())
    return std::optional<Shape>();
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
  // A --target-array is for all losses, or for the loss of one output:
  // OUTPUT=NAME.
  std::string common = findCommonTarget(targetArrays);
  for (StringRef text : targetArrays) {
    bool isOne = !text.contains('=');
    if (isOne && text != common)
      return usage() << "expected one --target-array for all losses, found '"
                     << common << "' and '" << text << "'";
    // A name that no loss uses, or two names for one loss, is a mistake.
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

// Finds the output of each loss before any loss is built.
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

// Returns value * factor, or `value` if the factor is 1.
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

// Adds up values of one shape, in f64 if any value is f64.
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

// Adds outputs with the contribution of each sample. Losses that take a plain
// mean or sum share an output. A loss that divides by weights gets a separate
// output, and another for the weights.
static void addSampleOutputs(FunctionEditor &function, OpBuilder &builder,
                             ArrayRef<Loss> losses) {
  // Without a sum over samples, samples have no contributions to report.
  if (!llvm::all_of(losses,
                    [](const Loss &loss) { return bool(loss.perSample); }))
    return;
  SmallVector<Value> plain;
  for (const Loss &loss : losses)
    if (!loss.sampleWeight)
      plain.push_back(loss.perSample);
  if (!plain.empty())
    function.addOutput("sample_loss", Role::SampleLoss, addUp(builder, plain));
  // Weighted losses follow, each with its weights.
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
  // Look for the model's own losses before new losses join them.
  bool hasOwn = llvm::any_of(placed, [](const PlacedLoss &one) {
    return one.spec.kind == LossKind::Output;
  });
  Value ownPrediction = hasOwn ? findLabels(function) : Value();
  Operation *ownLoss = findLabelLoss(function.getBody());
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
    // The model's own loss may leave out labels, so its samples cannot be added
    // to those of other losses.
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
  // Find all outputs before new ops change the function.
  FailureOr<SmallVector<PlacedLoss>> placed = place(function, specs);
  if (failed(placed))
    return failure();
  FailureOr<SmallVector<Loss>> built =
      buildLosses(function, builder, *placed, forEvaluation);
  if (failed(built))
    return failure();
  ArrayRef<Loss> losses = *built;
  // The losses replace the outputs, which training and evaluation do not
  // return.
  if (forEvaluation)
    function.dropUpdates();
  function.dropOutputs();
  auto totals = llvm::map_to_vector(
      losses, [](const Loss &loss) -> Value { return loss.total; });
  function.addOutput("loss", Role::Loss, addUp(builder, totals));
  // A run reports a single accuracy and prediction: those of the first loss.
  const Loss &first = losses.front();
  if (forEvaluation) {
    addSampleOutputs(function, builder, losses);
    if (first.prediction)
      function.addOutput("prediction", Role::Prediction, first.prediction);
  }
  // Accuracy needs class labels; a loss between tensors has none.
  Value correct;
  if (first.labelLoss && (forEvaluation || trainAccuracy))
    correct = buildAccuracy(builder, first.labelLoss);
  if (correct)
    function.addOutput("correct", Role::Correct, correct);
  else if (trainAccuracy)
    return withExitCode(mlir::emitError(func.getLoc()), ExitCode::Usage)
           << "--train-accuracy needs a loss of class labels, and the first "
              "loss is not one";
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
  // Check all losses before the module changes, so that errors leave it intact.
  SmallVector<LossSpec> specs;
  for (StringRef text : loss) {
    FailureOr<LossSpec> spec = readLoss(text, module.getLoc());
    if (failed(spec))
      return signalPassFailure();
    specs.push_back(*spec);
  }
  if (failed(verifyOptions(specs)))
    return signalPassFailure();
  // @step trains the model; @eval evaluates a copy.
  func::FuncOp eval = forward.clone();
  eval.setName(kEvalFunction);
  module.push_back(eval);
  forward.setName(kStepFunction);
  if (failed(addTo(forward, specs, /*forEvaluation=*/false)) ||
      failed(addTo(eval, specs, /*forEvaluation=*/true)))
    return signalPassFailure();
  convertToInference(eval);
}
