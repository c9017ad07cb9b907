// Adds the gradients of the loss and the update of the trainable parameters: to
// @step, or, if gradients accumulate over micro-batches, as @accumulate and
// @update.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/Passes.h"

#include "compiler/Dialect/MPC/Facts/VariableTable.h"
#include "compiler/Dialect/MPC/NodeNames.h"
#include "compiler/Dialect/MPC/RunningVariance.h"
#include "compiler/Support/ExitCode.h"
#include "passes/Differentiation/GradientRules.h"
#include "passes/Differentiation/ParameterGroups.h"
#include "passes/Differentiation/PhaseListener.h"
#include "passes/Differentiation/RecipeOptions.h"
#include "passes/Differentiation/Trainables.h"
#include "passes/Differentiation/Updates/Muon.h"
#include "passes/Differentiation/Updates/Optimizers.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"

#include <map>

namespace mpc {
#define GEN_PASS_DEF_ADDOPTIMIZERPASS
#include "passes/Differentiation/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// The update
//===----------------------------------------------------------------------===//

namespace {
/// The optimizer of one parameter.
struct ParameterUpdate {
  const Optimizer *algorithm = nullptr;
  OptimizerSettings settings;
  SmallVector<StringRef> state; ///< suffixes of state, such as ".m"
  bool inputsFirst = false;     ///< see UpdateInputs

  explicit ParameterUpdate(const OptimizerSettings &given)
      : algorithm(&getOptimizer(given.kind)), settings(withDefaults(given)),
        state(algorithm->getState(settings)) {}
};

class AddOptimizerPass
    : public mpc::impl::AddOptimizerPassBase<AddOptimizerPass> {
public:
  using AddOptimizerPassBase::AddOptimizerPassBase;
  AddOptimizerPass(const AddOptimizerPass &other)
      : AddOptimizerPassBase(other) {}

private:
  void runOnOperation() override;
  LogicalResult readRecipe();
  LogicalResult chooseTrained(FunctionEditor &step, Value loss);
  LogicalResult chooseUpdates(FunctionEditor &step);
  LogicalResult reduceStatistics(FunctionEditor &step);
  SmallVector<Value> takeGradients(FunctionEditor &step);
  SmallVector<Value> addGradients(FunctionEditor &step, Value loss);
  void reduceOverRanks(OpBuilder &builder, SmallVector<Value> &gradients);
  void accumulateGradients(FunctionEditor &step, ValueRange gradients);
  SmallVector<Value> readAccumulators(FunctionEditor &update);
  void addUpdates(FunctionEditor &function, SmallVector<Value> gradients);
  void clipGradients(FunctionEditor &function, OpBuilder &builder,
                     SmallVector<Value> &gradients);
  LogicalResult createState();
  void declareAverage(VariableOp param, StringRef name);
  void averageParameter(FunctionEditor &function, OpBuilder &builder,
                        VariableOp param, Value next);

  VariableOp counter(StringRef name) {
    auto type = RankedTensorType::get({}, IntegerType::get(&getContext(), 64));
    return getVariable(name, type, Role::Counter);
  }
  VariableOp companion(VariableOp param, StringRef suffix, Role role) {
    return getVariable((param.getSymName() + suffix).str(),
                       getGradientType(param.getType()), role);
  }
  VariableOp getVariable(StringRef name, RankedTensorType type, Role role) {
    VariableOp found = variables->lookupVariable(name);
    return found ? found : variables->declare(name, type, role);
  }
  Location at(const Twine &name) { return namedLocation(&getContext(), name); }

  RecipeOptions options{*this, RecipeOptions::Part::Optimizer};
  Recipe recipe;
  SmallVector<VariableOp> trainables;
  SmallVector<ParameterUpdate> parameterUpdates; ///< of each trainable
  SmallVector<ParameterGroup> groups;            ///< settings of each trainable
  DenseSet<Operation *> tables; ///< trainables of which @step looks up rows
  std::optional<VariableTable> variables;
};
} // namespace

LogicalResult AddOptimizerPass::readRecipe() {
  if (failed(options.applyTo(getOperation())))
    return failure();
  recipe = getRecipe(getOperation());
  // A --no-decay without any weight decay is a mistake of the user.
  if (!recipe.noDecay.empty() &&
      *withDefaults(recipe.optimizer).weightDecay == 0.0)
    return withExitCode(mlir::emitError(getOperation().getLoc()),
                        ExitCode::Usage)
           << "--no-decay has no effect: the weight decay of "
           << stringify(recipe.optimizer.kind)
           << " is 0; give another with --weight-decay";
  return success();
}

// Declares the state variables of the optimizer, such as `fc1.weight.m`.
// Reports an error if the model already has a variable with the name of a state
// variable.
LogicalResult AddOptimizerPass::createState() {
  SmallVector<StringRef> common;
  if (recipe.accumulateGradBatches > 1)
    common.push_back(kGradientSuffix);
  if (recipe.ema > 0.0)
    common.push_back(kAverageSuffix);
  for (auto [param, update] : llvm::zip_equal(trainables, parameterUpdates))
    for (StringRef suffix : llvm::concat<StringRef>(update.state, common)) {
      // A name joins the names of parameter and state: `fc1.weight.m`.
      std::string name = (param.getSymName() + suffix).str();
      if (variables->lookup(name))
        return withExitCode(mlir::emitError(getOperation().getLoc()),
                            ExitCode::Unsupported)
               << "the model has a parameter '" << name
               << "', but the optimizer state of '" << param.getSymName()
               << "' needs that name; rename it";
      if (suffix == kAverageSuffix)
        declareAverage(param, name);
      else
        companion(param, suffix,
                  suffix == kGradientSuffix ? Role::Accumulator
                                            : Role::OptimizerState);
    }
  return success();
}

// Declares the average of a parameter, which starts as the parameter.
void AddOptimizerPass::declareAverage(VariableOp param, StringRef name) {
  VariableOp average = getVariable(name, param.getTensorType(), Role::Average);
  if (ElementsAttr init = param.getInitAttr())
    average.setInitAttr(init);
  if (FloatAttr fill = param.getFillAttr())
    average.setFillAttr(fill);
}

// Returns the gradients that the model computes itself; null for a missing
// gradient.
SmallVector<Value> AddOptimizerPass::takeGradients(FunctionEditor &step) {
  SmallVector<Value> gradients;
  for (VariableOp variable : trainables)
    gradients.push_back(
        step.outputOfRole(Role::Gradient, variable.getSymName()));
  step.dropOutputsOfRole(Role::Gradient);
  return gradients;
}

SmallVector<Value> AddOptimizerPass::addGradients(FunctionEditor &step,
                                                  Value loss) {
  OpBuilder builder = step.builder();
  SmallVector<Value> params;
  SmallVector<Type> types;
  for (VariableOp variable : trainables) {
    params.push_back(step.state(variable));
    types.push_back(getGradientType(variable.getType()));
  }
  auto gradients =
      GradientOp::create(builder, loss.getLoc(), types, loss, params);
  return llvm::to_vector_of<Value>(gradients.getResults());
}

// Replaces the gradients by the means or sums over the ranks of a distributed
// run, so that tests for infinities, clipping and the update see equal
// gradients on all ranks. The ops belong to the backward pass, since the loss
// scale is still in the gradients. One op per gradient: Planning joins those
// that it wants to send together. If the optimizer is sharded, only the owner
// of a parameter gets the result. All ranks then get the whole new table from
// the owner, so few rows of a gradient would save little.
void AddOptimizerPass::reduceOverRanks(OpBuilder &builder,
                                       SmallVector<Value> &gradients) {
  if (!recipe.dataParallel && !recipe.shardOptimizer)
    return;
  PhaseListener phase(Phase::Backward);
  builder.setListener(&phase);
  Reduce kind =
      recipe.gradientReduction() == Reduction::Sum ? Reduce::Sum : Reduce::Mean;
  for (auto [param, gradient] : llvm::zip_equal(trainables, gradients)) {
    ArrayAttr owners;
    UnitAttr rows;
    if (recipe.shardOptimizer)
      owners = builder.getArrayAttr(FlatSymbolRefAttr::get(param));
    else if (tables.contains(param))
      rows = builder.getUnitAttr();
    gradient = AllReduceOp::create(
                   builder, at(param.getSymName() + "#all_reduce"),
                   TypeRange(gradient.getType()),
                   ReduceAttr::get(&getContext(), kind), gradient, owners, rows)
                   .getOutputs()
                   .front();
  }
  builder.setListener(nullptr);
}

// Makes the statistics of BatchNormalization those of all ranks. Reports an
// error for a normalization in a loop or a branch: ranks that take other
// branches would wait for one another.
LogicalResult AddOptimizerPass::reduceStatistics(FunctionEditor &step) {
  if (!recipe.syncBatchNorm)
    return success();
  bool isFound = false;
  WalkResult result = step.get().walk([&](Operation *op) {
    if (!isa<BatchNormOp, BatchNormGradOp>(op))
      return WalkResult::advance();
    isFound = true;
    if (!recipe.dataParallel)
      return WalkResult::advance();
    if (op->getParentOp() != step.get()) {
      withExitCode(op->emitError(), ExitCode::Unsupported)
          << "cannot reduce statistics over the ranks inside a loop or a "
             "condition, where ranks may go other ways; leave out "
             "--sync-batch-norm";
      return WalkResult::interrupt();
    }
    op->setAttr(kOverRanksAttr, UnitAttr::get(&getContext()));
    return WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  if (isFound)
    return success();
  return withExitCode(mlir::emitError(getOperation().getLoc()), ExitCode::Usage)
         << "--sync-batch-norm has no effect: the model has no "
            "BatchNormalization that normalizes by its batch; leave the flag "
            "out";
}

void AddOptimizerPass::accumulateGradients(FunctionEditor &step,
                                           ValueRange gradients) {
  PhaseListener phase(Phase::Backward);
  OpBuilder builder = step.builder();
  builder.setListener(&phase);
  for (auto [param, gradient] : llvm::zip(trainables, gradients)) {
    VariableOp sum = companion(param, kGradientSuffix, Role::Accumulator);
    Value next = AddOp::create(builder, at(sum.getSymName() + "#sum"),
                               sum.getType(), step.state(sum), gradient);
    step.addUpdate(sum, next);
  }
}

// Returns the accumulated gradients, and resets the accumulators to zero.
SmallVector<Value> AddOptimizerPass::readAccumulators(FunctionEditor &update) {
  OpBuilder builder = update.builder();
  SmallVector<Value> gradients;
  for (VariableOp param : trainables)
    gradients.push_back(
        update.state(companion(param, kGradientSuffix, Role::Accumulator)));
  reduceOverRanks(builder, gradients);
  PhaseListener phase(Phase::Optimizer);
  builder.setListener(&phase);
  for (auto [param, gradient] : llvm::zip_equal(trainables, gradients)) {
    VariableOp sum = companion(param, kGradientSuffix, Role::Accumulator);
    auto type = sum.getTensorType();
    Type element = type.getElementType();
    // A mean divides the sum by the number of micro-batches.
    if (recipe.gradientReduction() == Reduction::Mean) {
      Location location = at(sum.getSymName() + "#mean");
      Value count = ConstantOp::create(
          builder, location,
          DenseElementsAttr::get(
              type.clone(ArrayRef<int64_t>()),
              builder.getFloatAttr(
                  element, static_cast<double>(recipe.accumulateGradBatches))));
      gradient = DivOp::create(builder, location, type, gradient, count);
    }
    // Reset the accumulator to zero for the next update.
    Value zero = ConstantOp::create(
        builder, at(sum.getSymName() + "#reset"),
        DenseElementsAttr::get(type, builder.getZeroAttr(element)));
    update.addUpdate(sum, zero);
  }
  return gradients;
}

void AddOptimizerPass::clipGradients(FunctionEditor &function,
                                     OpBuilder &builder,
                                     SmallVector<Value> &gradients) {
  double clipNorm = recipe.gradientClipVal.value_or(0.0);
  if (clipNorm <= 0.0)
    return;
  auto normType = RankedTensorType::get(
      {}, cast<RankedTensorType>(gradients.front().getType()).getElementType());
  auto clip = ClipGradNormOp::create(
      builder, at("clip_grad_norm"), TypeRange(ValueRange(gradients)), normType,
      gradients, builder.getF64FloatAttr(clipNorm));
  gradients = llvm::to_vector_of<Value>(clip.getClipped());
  function.addOutput("grad_norm", Role::GradNorm, clip.getNorm());
}

// Returns the learning rate of a group of parameters: `rate` times the factor
// of the group. `rates` maps each factor to the product, so groups with equal
// factors share an op.
static Value scaleRate(OpBuilder &builder, Value rate,
                       const ParameterGroup &group,
                       std::map<double, Value> &rates) {
  Value &scaled = rates[group.learningRateScale];
  if (scaled)
    return scaled;
  Location location = namedLocation(builder.getContext(),
                                    Twine(kLearningRateInput) + "#scaled");
  auto type = cast<RankedTensorType>(rate.getType());
  Value factor = ConstantOp::create(
      builder, location,
      DenseElementsAttr::get(type,
                             builder.getFloatAttr(type.getElementType(),
                                                  group.learningRateScale)));
  return scaled = MulOp::create(builder, location, type, rate, factor);
}

// Updates the average as torch.lerp does: average + (next - average) * (1 -
// decay).
void AddOptimizerPass::averageParameter(FunctionEditor &function,
                                        OpBuilder &builder, VariableOp param,
                                        Value next) {
  std::string name = (param.getSymName() + kAverageSuffix).str();
  VariableOp average = variables->lookupVariable(name);
  RankedTensorType type = average.getTensorType();
  Location location = at(name + "#update");
  Value old = function.state(average);
  Value way = ConstantOp::create(
      builder, location,
      DenseElementsAttr::get(
          type.clone(ArrayRef<int64_t>()),
          builder.getFloatAttr(type.getElementType(), 1.0 - *recipe.ema)));
  Value change = SubOp::create(builder, location, type, next, old);
  Value part = MulOp::create(builder, location, type, change, way);
  function.addUpdate(average,
                     AddOp::create(builder, location, type, old, part));
}

void AddOptimizerPass::addUpdates(FunctionEditor &function,
                                  SmallVector<Value> gradients) {
  PhaseListener phase(Phase::Optimizer);
  OpBuilder builder = function.builder();
  builder.setListener(&phase);
  clipGradients(function, builder, gradients);
  // All parameters share one step counter. `step` is the number of earlier
  // updates, `nextStep` includes this update.
  VariableOp stepCounter = counter(kStepVariable);
  UpdateInputs in;
  in.step = function.state(stepCounter);
  in.nextStep = IncrementOp::create(builder, at("mpc.step#update"),
                                    in.step.getType(), in.step, Value());
  // The learning rate is float64 if any parameter is.
  bool isWide = llvm::any_of(trainables, [](VariableOp param) {
    return param.getTensorType().getElementType().isF64();
  });
  Type rateType = isWide ? Type(builder.getF64Type()) : builder.getF32Type();
  in.learningRate = function.addInput(kLearningRateInput, Role::Scalar,
                                      RankedTensorType::get({}, rateType));
  Value commonRate = in.learningRate;
  // Maps the factor of a group to the scaled learning rate.
  std::map<double, Value> rates = {{1.0, commonRate}};
  for (auto [param, gradient, group, update] :
       llvm::zip_equal(trainables, gradients, groups, parameterUpdates)) {
    in.param = function.state(param);
    in.grad = gradient;
    in.learningRate = scaleRate(builder, commonRate, group, rates);
    in.inputsFirst = update.inputsFirst;
    OptimizerSettings own = update.settings;
    if (!group.decays)
      own.weightDecay = 0.0;
    in.state.clear();
    for (StringRef suffix : update.state)
      in.state.push_back(
          function.state(companion(param, suffix, Role::OptimizerState)));
    SmallVector<Value> next = update.algorithm->build(
        builder, at(param.getSymName() + "#update"), in, own);
    function.addUpdate(param, next.front());
    for (auto [suffix, value] :
         llvm::zip_equal(update.state, llvm::drop_begin(next)))
      function.addUpdate(companion(param, suffix, Role::OptimizerState), value);
    if (recipe.ema > 0.0)
      averageParameter(function, builder, param, next.front());
  }
  function.addUpdate(stepCounter, in.nextStep);
}

// Adds 1 to the counter of micro-batches. A skipped update counts too.
static void countMicroStep(FunctionEditor &function, VariableOp counter) {
  PhaseListener phase(Phase::Optimizer);
  OpBuilder builder = function.builder();
  builder.setListener(&phase);
  Value count = function.state(counter);
  Location location =
      namedLocation(counter.getContext(), counter.getSymName() + "#update");
  function.addUpdate(
      counter,
      IncrementOp::create(builder, location, count.getType(), count, Value()));
}

// Returns the state variables for which the model computes gradients.
static DenseSet<Value> findGivenSources(const FunctionEditor &step) {
  DenseSet<Value> sources;
  for (Value argument : step.get().getArguments())
    if (StringRef variable = step.variableOf(argument);
        !variable.empty() && step.outputOfRole(Role::Gradient, variable))
      sources.insert(argument);
  return sources;
}

// Chooses the optimizer of each parameter. A run with Muon has two optimizers.
LogicalResult AddOptimizerPass::chooseUpdates(FunctionEditor &step) {
  const OptimizerSettings &given = recipe.optimizer;
  parameterUpdates.assign(trainables.size(), ParameterUpdate(given));
  if (given.kind != OptimizerKind::Muon)
    return success();
  auto choices = chooseMuon(step, trainables, given);
  if (failed(choices))
    return failure();
  // --eps bounds Muon's norm. AdamW has an epsilon of another meaning and size.
  OptimizerSettings others = given;
  others.kind = OptimizerKind::AdamW;
  others.epsilon.reset();
  for (auto [choice, update, group] :
       llvm::zip_equal(*choices, parameterUpdates, groups)) {
    update.inputsFirst = choice.inputsFirst;
    if (choice.isMuon)
      continue;
    update = ParameterUpdate(others);
    group.learningRateScale *= given.adamWLRScale;
  }
  return success();
}

// True if all uses of `param` look up rows, the parts along axis 0.
static bool isTable(Value param) {
  return !param.use_empty() &&
         llvm::all_of(param.getUses(), [](OpOperand &use) {
           auto gather = dyn_cast<GatherOp>(use.getOwner());
           return gather && use.get() == gather.getData() &&
                  gather.getAxis() == 0 && gather.getBatchDims() == 0;
         });
}

// Chooses the trained parameters and their groups, and declares their state.
LogicalResult AddOptimizerPass::chooseTrained(FunctionEditor &step,
                                              Value loss) {
  DenseSet<Value> sources =
      givenGradients ? findGivenSources(step) : findDifferentiableSources(loss);
  auto found = selectTrainables(getOperation(), step, sources,
                                {recipe.train, recipe.freeze});
  if (failed(found))
    return failure();
  trainables = *found;
  tables.clear();
  for (VariableOp param : trainables)
    if (isTable(step.state(param)))
      tables.insert(param);
  // Parameters may differ in learning rate and weight decay.
  auto grouped =
      findParameterGroups(step, trainables, {recipe.noDecay, recipe.lrScale});
  if (failed(grouped))
    return failure();
  groups = std::move(*grouped);
  if (failed(chooseUpdates(step)))
    return failure();
  variables.emplace(getOperation());
  return createState();
}

void AddOptimizerPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(readRecipe()))
    return signalPassFailure();
  // With `givenGradients`, the pass uses only the gradients that @step returns.
  // It leaves a module without such gradients unchanged, and reports no error.
  auto func = module.lookupSymbol<func::FuncOp>(kStepFunction);
  if (givenGradients &&
      (!func || !FunctionEditor(func).outputOfRole(Role::Gradient))) {
    // A rank would train by itself, and the ranks' weights would drift apart.
    if ((recipe.dataParallel || recipe.shardOptimizer) &&
        (func || module.lookupSymbol(kUpdateFunction))) {
      withExitCode(mlir::emitError(module.getLoc()), ExitCode::Unsupported)
          << "cannot train on several ranks: the model brings its own update, "
             "which reads the gradients of one rank; train the model that the "
             "graph was made from, with --loss";
      return signalPassFailure();
    }
    return;
  }
  if (!func) {
    withExitCode(mlir::emitError(module.getLoc()), ExitCode::Usage)
        << "expected a function @step with a loss; give one with --loss";
    return signalPassFailure();
  }
  FunctionEditor step(func);
  Value loss = step.outputOfRole(Role::Loss);
  if (!loss) {
    withExitCode(mlir::emitError(func.getLoc()), ExitCode::InvalidInput)
        << "expected a result of role loss in @step, found none";
    return signalPassFailure();
  }
  if (failed(chooseTrained(step, loss)) || failed(reduceStatistics(step)))
    return signalPassFailure();
  // The learning rate becomes an input of @step. Report an error if the model
  // has an input of the same name.
  if (step.input(kLearningRateInput)) {
    withExitCode(mlir::emitError(func.getLoc()), ExitCode::Unsupported)
        << "the model has an input '" << kLearningRateInput
        << "', but an input of the optimizer needs that name; rename it";
    return signalPassFailure();
  }

  // The update follows the gradients in @step. If gradients accumulate over
  // micro-batches, @step becomes @accumulate, and the function @update holds
  // the update.
  SmallVector<Value> gradients =
      givenGradients ? takeGradients(step) : addGradients(step, loss);
  if (recipe.accumulateGradBatches > 1) {
    func.setName(kAccumulateFunction);
    accumulateGradients(step, gradients);
    FunctionEditor update =
        FunctionEditor::create(module, module.getLoc(), kUpdateFunction);
    addUpdates(update, readAccumulators(update));
    update.finish();
  } else {
    OpBuilder builder = step.builder();
    reduceOverRanks(builder, gradients);
    addUpdates(step, gradients);
  }
  // Count micro-batches even without accumulation: the count seeds dropout.
  countMicroStep(step, counter(kMicroStepVariable));
  step.finish();
}
