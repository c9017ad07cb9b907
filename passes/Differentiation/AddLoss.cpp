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
#include "passes/Differentiation/LossSpec.h"
#include "passes/Differentiation/PhaseListener.h"
#include "passes/Differentiation/RecipeOptions.h"

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

// If the loss names its output as OUTPUT:AXIS, cuts :AXIS off and stores the
// number in `classAxis`. Names of ONNX values may also end in a colon and a
// number, so cuts nothing off an existing name.
static LogicalResult splitAxis(const FunctionEditor &function,
                               PlacedLoss &loss) {
  LossSpec &spec = loss.spec;
  auto [name, text] = StringRef(spec.output).rsplit(':');
  int64_t axis;
  if (findByName(function, spec.output) || text.getAsInteger(10, axis))
    return success();
  if (!hasClasses(spec.kind))
    return withExitCode(
               mlir::emitError(function.get()->getParentOp()->getLoc()),
               ExitCode::Usage)
           << "'" << spec.output
           << "': only losses of class labels have classes on an axis, found "
           << stringify(spec.kind);
  loss.classAxis = axis;
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

// Finds the class labels that a loss op of the model reads, and gives the label
// input the role `label`, so that the runtime checks the range of labels.
// Returns the scores that the loss op compares with the labels; null if no
// input holds class labels.
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
class AddLossPass : public mpc::impl::AddLossPassBase<AddLossPass> {
public:
  using AddLossPassBase::AddLossPassBase;
  AddLossPass(const AddLossPass &other) : AddLossPassBase(other) {}

private:
  void runOnOperation() override;
  LogicalResult verifyRecipe();
  LogicalResult addTo(func::FuncOp function, bool forEvaluation);
  FailureOr<SmallVector<PlacedLoss>> place(const FunctionEditor &function);
  FailureOr<SmallVector<Loss>> buildLosses(FunctionEditor &function,
                                           OpBuilder &builder,
                                           ArrayRef<PlacedLoss> placed,
                                           bool forEvaluation);
  std::optional<Shape> findLabelShape(StringRef target) const;

  RecipeOptions options{*this, RecipeOptions::Part::Loss};
  Recipe recipe;
};
} // namespace

// Returns the shape that the recipe gives for the labels of one sample in the
// array `target`; nullopt if the recipe gives none.
std::optional<Shape> AddLossPass::findLabelShape(StringRef target) const {
  auto shape = recipe.labelShapes.find(target.str());
  if (shape == recipe.labelShapes.end())
    shape = recipe.labelShapes.find("");
  if (shape == recipe.labelShapes.end())
    return std::nullopt;
  return Shape(shape->second.begin(), shape->second.end());
}

LogicalResult AddLossPass::verifyRecipe() {
  auto usage = [&] {
    return withExitCode(mlir::emitError(getOperation().getLoc()),
                        ExitCode::Usage);
  };
  if (recipe.losses.empty())
    return usage() << "expected a loss";
  std::string common = findCommonTarget(recipe.targets);
  for (const TargetSpec &target : recipe.targets) {
    std::string text = printTarget(target);
    if (!target.output && target.array != common)
      return usage() << "expected one --target-array for all losses, found '"
                     << common << "' and '" << text << "'";
    // Reject a --target-array OUTPUT=ARRAY if no loss reads OUTPUT, or if two
    // flags name different arrays for OUTPUT.
    bool isUsed = !target.output ||
                  llvm::any_of(recipe.losses, [&](const LossSpec &loss) {
                    return isTargetOf(target, loss.output);
                  });
    if (!isUsed)
      return usage() << "--target-array " << text << ": no --loss is of @"
                     << *target.output;
    bool isTwice = llvm::any_of(recipe.targets, [&](const TargetSpec &other) {
      return target.output && other.output == target.output &&
             other.array != target.array;
    });
    if (isTwice)
      return usage() << "--target-array " << text << ": '" << *target.output
                     << "' has two";
  }
  return success();
}

// Finds the output and the label array of every loss in the recipe. Builds no
// ops.
FailureOr<SmallVector<PlacedLoss>>
AddLossPass::place(const FunctionEditor &function) {
  SmallVector<PlacedLoss> placed;
  for (const LossSpec &spec : recipe.losses) {
    PlacedLoss loss;
    loss.spec = spec;
    loss.target = findTarget(recipe.targets, spec.output);
    if (failed(splitAxis(function, loss)))
      return failure();
    FailureOr<Value> output = pickOutput(function, loss.spec);
    if (failed(output))
      return failure();
    loss.output = *output;
    placed.push_back(std::move(loss));
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

// Adds for each loss an output with its value per sample, and an output with
// the weights of the samples if they differ. Evaluation adds up the samples. A
// single loss has the outputs sample_loss and sample_weight; one of several has
// sample_loss.NAME and sample_weight.NAME. Returns false, and adds nothing, if
// a loss has no value per sample: the total loss of a sample is unknown then.
static bool addSampleOutputs(FunctionEditor &function, ArrayRef<Loss> losses,
                             ArrayRef<std::string> names) {
  if (!llvm::all_of(losses,
                    [](const Loss &loss) { return bool(loss.perSample); }))
    return false;
  auto nameOutput = [&](std::string_view prefix, size_t loss) {
    return names.empty() ? std::string(prefix.substr(0, prefix.size() - 1))
                         : std::string(prefix) + names[loss];
  };
  for (size_t i = 0; i < losses.size(); ++i) {
    function.addOutput(nameOutput(kSampleLossPrefix, i), Role::SampleLoss,
                       losses[i].perSample);
    if (losses[i].sampleWeight)
      function.addOutput(nameOutput(kSampleWeightPrefix, i), Role::SampleWeight,
                         losses[i].sampleWeight);
  }
  return true;
}

// Adds an output with the value of each of several losses, without its factor.
static void addTermOutputs(FunctionEditor &function, ArrayRef<Value> terms,
                           ArrayRef<std::string> names) {
  for (auto [term, name] : llvm::zip(terms, names))
    function.addOutput(std::string(kLossPrefix) + name, Role::Loss, term);
}

// Adds the predictions of the losses: "prediction" for the first loss,
// "prediction.NAME" for each of the others.
static void addPredictions(FunctionEditor &function, ArrayRef<Loss> losses,
                           ArrayRef<std::string> names) {
  for (auto [i, loss] : llvm::enumerate(losses))
    if (loss.prediction)
      function.addOutput(i == 0 ? "prediction"
                                : std::string(kPredictionPrefix) + names[i],
                         Role::Prediction, loss.prediction);
}

//===----------------------------------------------------------------------===//
// The functions
//===----------------------------------------------------------------------===//

FailureOr<SmallVector<Loss>>
AddLossPass::buildLosses(FunctionEditor &function, OpBuilder &builder,
                         ArrayRef<PlacedLoss> placed, bool forEvaluation) {
  // Look for loss ops of the model now: later, the loss ops that this pass adds
  // would be found too.
  bool hasOwn = llvm::any_of(placed, [](const PlacedLoss &one) {
    return one.spec.kind == LossKind::Output;
  });
  Value ownPrediction = hasOwn ? findLabels(function) : Value();
  Operation *ownLoss = findLabelLoss(function.getBody());
  SmallVector<Loss> losses;
  for (const PlacedLoss &one : placed) {
    LossBuilder build(function, builder, forEvaluation,
                      findLabelShape(one.target), recipe, float64);
    FailureOr<Loss> loss = build.build(one);
    if (failed(loss))
      return failure();
    bool isOwn = one.spec.kind == LossKind::Output;
    if (isOwn) {
      loss->prediction = ownPrediction;
      loss->labelLoss = ownLoss;
    }
    // A loss that the model computes may skip ignored labels, and then averages
    // over fewer samples. Its values per sample cannot be added to values per
    // sample of other losses.
    if (isOwn && placed.size() > 1)
      loss->perSample = {};
    losses.push_back(*loss);
  }
  return losses;
}

LogicalResult AddLossPass::addTo(func::FuncOp func, bool forEvaluation) {
  FunctionEditor function(func);
  PhaseListener phase(Phase::Loss);
  OpBuilder builder = function.builder();
  builder.setListener(&phase);
  // Find the outputs of all losses first: later, a name could match an op that
  // another loss has added.
  FailureOr<SmallVector<PlacedLoss>> placed = place(function);
  if (failed(placed))
    return failure();
  FailureOr<SmallVector<Loss>> built =
      buildLosses(function, builder, *placed, forEvaluation);
  if (failed(built))
    return failure();
  MutableArrayRef<Loss> losses = *built;
  // @step and @eval return losses instead of the model's outputs. @eval also
  // updates no state.
  if (forEvaluation)
    function.dropUpdates();
  function.dropOutputs();
  const std::vector<std::string> names = nameLosses(recipe.losses);
  SmallVector<Value> terms, totals;
  for (auto [loss, one] : llvm::zip(losses, *placed)) {
    // Evaluation multiplies the sums of several losses by their factors.
    if (names.empty())
      loss.perSample = scaleBy(builder, one.spec.factor, loss.perSample);
    terms.push_back(loss.total);
    totals.push_back(scaleBy(builder, one.spec.factor, loss.total));
  }
  function.addOutput("loss", Role::Loss, addUp(builder, totals));
  const bool hasSamples =
      forEvaluation && addSampleOutputs(function, losses, names);
  if (!hasSamples)
    addTermOutputs(function, terms, names);
  if (forEvaluation)
    addPredictions(function, losses, names);
  // Accuracy needs class labels; a loss between tensors has none. A run reports
  // a single accuracy, of the first loss.
  const Loss &first = losses.front();
  Value correct;
  if (forEvaluation || recipe.trainAccuracy) {
    if (first.labelLoss)
      correct = buildAccuracy(builder, first.labelLoss);
    else if (first.labels)
      correct = buildAccuracy(builder, first.total.getDefiningOp(),
                              first.scores, first.labels);
  }
  if (correct)
    function.addOutput("correct", Role::Correct, correct);
  else if (recipe.trainAccuracy)
    return withExitCode(mlir::emitError(func.getLoc()), ExitCode::Usage)
           << "--train-accuracy needs a loss of class labels as the first "
              "loss, found "
           << stringify(recipe.losses.front().kind);
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
  // Check all losses before the module changes, so that an error leaves the
  // module intact.
  if (failed(options.applyTo(module)))
    return signalPassFailure();
  recipe = getRecipe(module);
  if (failed(verifyRecipe()))
    return signalPassFailure();
  // @step trains the model; @eval evaluates a copy.
  func::FuncOp eval = forward.clone();
  eval.setName(kEvalFunction);
  module.push_back(eval);
  forward.setName(kStepFunction);
  if (failed(addTo(forward, /*forEvaluation=*/false)) ||
      failed(addTo(eval, /*forEvaluation=*/true)))
    return signalPassFailure();
  convertToInference(eval);
}
