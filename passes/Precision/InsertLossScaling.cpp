// Multiplies the seed of the backward pass by the loss scale, and unscales
// gradients where they enter the update. If a gradient is not finite, the step
// is skipped: the update changes nothing.
//
// The scale, the number of good steps and the number of overflows left before a
// backoff are state on the device. The update has a condition operand, so no
// step waits for the host. All state of the update is guarded, whether
// optimizer ops or ops of the model write the state. GuardedState.h lists the
// state that changes even in skipped steps.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/AMP/ConstantAttrs.h"
#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "compiler/Precision/Facts.h"
#include "compiler/Support/ExitCode.h"
#include "passes/Precision/FloatTypes.h"
#include "passes/Precision/GuardedState.h"
#include "passes/Precision/LossScaleAnalysis.h"
#include "passes/Precision/Passes.h"
#include "passes/Precision/RequestOptions.h"
#include "passes/Precision/ScaledValues.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/Format.h"

namespace mpc {
#define GEN_PASS_DEF_INSERTLOSSSCALINGPASS
#include "passes/Precision/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;
using namespace mpc::amp;

namespace {
struct InsertLossScalingPass
    : mpc::impl::InsertLossScalingPassBase<InsertLossScalingPass> {
  using InsertLossScalingPassBase::InsertLossScalingPassBase;
  void runOnOperation() override;

private:
  LogicalResult readOptions();
  void warnOfSmallScale();
  void declareState();
  LogicalResult rewrite(FunctionOpInterface function);
  void replaceSeeds(FunctionOpInterface function);
  Value getScale(FunctionOpInterface function);
  SmallVector<Value> unscaleGradients(FunctionOpInterface function);
  void setConditions(FunctionOpInterface function, Value finite);
  LogicalResult selectState(FunctionOpInterface function, Value finite);
  void guardStatistics(FunctionOpInterface function);
  LogicalResult guardUpdate(FunctionOpInterface function, Value finite);
  void advanceScale(FunctionOpInterface function, Value finite);
  Value createOnes(OpBuilder &builder, Location loc, Type type);

  PrecisionMode mode = PrecisionMode::FP32True;
  LossScale kind = LossScale::None;
  double staticScale = 1.0;
  std::optional<VariableTable> variables;
  VariableOp scale, goodSteps, hysteresisLeft;
  /// Maps each function to the constant with the static scale.
  llvm::DenseMap<Operation *, Value> constants;
};
} // namespace

//===----------------------------------------------------------------------===//
// Options and state
//===----------------------------------------------------------------------===//

LogicalResult InsertLossScalingPass::readOptions() {
  if (failed(applyOptions(getOperation(), {/*mode=*/"", lossScale})))
    return failure();
  Request request = getRequest(getOperation());
  // If AssignPrecision has recorded a mode in the module, that mode counts.
  if (auto decided =
          getOperation()->getAttrOfType<PrecisionModeAttr>(kModeAttr))
    request.mode = decided.getValue();
  LossScaling scaling = request.getLossScaling();
  mode = request.mode;
  kind = scaling.kind;
  staticScale = scaling.scale;
  return success();
}

// Returns the narrowest type that a mode stores gradients in.
static FloatType getGradientType(MLIRContext *context, PrecisionMode mode) {
  switch (mode) {
  case PrecisionMode::FP16Mixed:
    return Float16Type::get(context);
  case PrecisionMode::BF16Mixed:
    return BFloat16Type::get(context);
  case PrecisionMode::FP32True:
    return Float32Type::get(context);
  case PrecisionMode::FP64True:
    return Float64Type::get(context);
  }
  llvm_unreachable("unknown mode");
}

// Warns if a constant scale rounds gradients of usual size to zero. A run would
// then change no parameter, and report nothing.
void InsertLossScalingPass::warnOfSmallScale() {
  // A size that gradients of most networks exceed.
  constexpr double kUsualGradient = 0x1p-14;
  FloatType type = getGradientType(&getContext(), mode);
  // Half of the smallest number rounds to zero.
  const double least =
      APFloat::getSmallest(type.getFloatSemantics()).convertToDouble() / 2;
  if (staticScale * kUsualGradient >= least)
    return;
  std::string text;
  llvm::raw_string_ostream(text)
      << "the loss scale " << llvm::format("%g", staticScale)
      << " rounds gradients below " << llvm::format("%.3g", least / staticScale)
      << " to zero in " << type << "; expected a scale of at least "
      << llvm::format("%.3g", least / kUsualGradient)
      << "; use --loss-scale dynamic, or a larger number";
  getOperation().emitWarning() << text;
}

void InsertLossScalingPass::declareState() {
  Builder builder(&getContext());
  auto real = RankedTensorType::get({}, builder.getF32Type());
  auto count = RankedTensorType::get({}, builder.getI64Type());
  scale =
      variables->declare(kLossScaleVariable, real, Role::LossScale, initScale);
  goodSteps = variables->declare(kGoodStepsVariable, count, Role::LossScale);
  hysteresisLeft = variables->declare(kHysteresisVariable, count,
                                      Role::LossScale, hysteresis);
}

//===----------------------------------------------------------------------===//
// Scaling and unscaling
//===----------------------------------------------------------------------===//

Value InsertLossScalingPass::createOnes(OpBuilder &builder, Location loc,
                                        Type type) {
  auto tensor = cast<RankedTensorType>(type);
  auto one = builder.getFloatAttr(tensor.getElementType(), 1.0);
  return mpc::ConstantOp::create(builder, loc, tensor,
                                 DenseElementsAttr::get(tensor, one));
}

// Returns the loss scale in `function`: an argument with the state of a dynamic
// scale, or a constant.
Value InsertLossScalingPass::getScale(FunctionOpInterface function) {
  if (kind == LossScale::Dynamic) {
    FunctionEditor ports(function);
    Value value = ports.state(scale);
    ports.finish();
    return value;
  }
  Value &constant = constants[function];
  if (constant)
    return constant;
  auto builder = OpBuilder::atBlockBegin(&function.getFunctionBody().front());
  auto type = RankedTensorType::get({}, builder.getF32Type());
  auto value = builder.getF32FloatAttr(static_cast<float>(staticScale));
  constant = mpc::ConstantOp::create(
      builder, NameLoc::get(builder.getStringAttr(kLossScaleVariable)), type,
      DenseElementsAttr::get(type, value));
  return constant;
}

void InsertLossScalingPass::replaceSeeds(FunctionOpInterface function) {
  SmallVector<GradientSeedOp> seeds;
  function->walk([&](GradientSeedOp seed) { seeds.push_back(seed); });
  if (seeds.empty())
    return;
  Value factor = kind == LossScale::None ? Value() : getScale(function);
  for (GradientSeedOp seed : seeds) {
    OpBuilder builder(seed);
    Value value = createOnes(builder, seed.getLoc(), seed.getType());
    if (factor) {
      auto scaled = ScaleLossOp::create(builder, seed.getLoc(), seed.getType(),
                                        value, factor);
      setPhase(scaled, Phase::Backward);
      value = scaled;
    } else {
      // Without amp.scale_loss, the attribute says where gradients start.
      value.getDefiningOp()->setAttr(kSeedAttr, builder.getUnitAttr());
    }
    seed.getOutput().replaceAllUsesWith(value);
    seed.erase();
  }
}

// Unscales each scaled value that the update reads or the function returns, and
// returns the unscaled values. All readers of a value share one amp.unscale.
SmallVector<Value>
InsertLossScalingPass::unscaleGradients(FunctionOpInterface function) {
  llvm::DenseSet<Value> scaled = findScaledValues(function, *variables);
  llvm::DenseSet<unsigned> mayBeScaled =
      findScaledResults(function, *variables);
  bool updates = updatesParameters(function, *variables);
  auto mustUnscale = [&](OpOperand &use) {
    if (use.getOwner() == getReturn(function))
      return !mayBeScaled.contains(use.getOperandNumber());
    return updates && belongsToUpdate(use.getOwner());
  };
  // Group the operands to change by value.
  llvm::MapVector<Value, SmallVector<OpOperand *>> uses;
  function->walk([&](Operation *op) {
    for (OpOperand &use : op->getOpOperands())
      if (scaled.contains(use.get()) && mustUnscale(use))
        uses[use.get()].push_back(&use);
  });
  SmallVector<Value> gradients;
  if (uses.empty())
    return gradients;
  // Unscale to fp32: a 16-bit gradient could underflow.
  Value factor = getScale(function);
  OpBuilder builder(&getContext());
  for (auto &[gradient, readers] : uses) {
    builder.setInsertionPointAfterValue(gradient);
    auto type = cast<RankedTensorType>(gradient.getType());
    if (type.getElementTypeBitWidth() < 32)
      type = cast<RankedTensorType>(type.clone(builder.getF32Type()));
    auto unscaled = UnscaleOp::create(
        builder, readers.front()->getOwner()->getLoc(), type, gradient, factor);
    setPhase(unscaled, Phase::Optimizer);
    for (OpOperand *use : readers)
      use->set(unscaled);
    gradients.push_back(unscaled);
  }
  return gradients;
}

//===----------------------------------------------------------------------===//
// The update
//===----------------------------------------------------------------------===//

// Returns the increment that computes a counter's new value. If the forward
// pass also reads the increment (as the number of this batch), clones it for
// the update: the forward pass cannot wait for the gradients.
static IncrementOp splitCount(IncrementOp op, OpOperand &state) {
  if (llvm::all_of(op->getUsers(), [&](Operation *user) {
        return user == state.getOwner() || belongsToUpdate(user);
      }))
    return op;
  OpBuilder builder(state.getOwner());
  auto own = cast<IncrementOp>(builder.clone(*op));
  state.set(own);
  return own;
}

// Sets `finite` as the condition of all optimizer ops, and of increments that
// update the counter they read.
void InsertLossScalingPass::setConditions(FunctionOpInterface function,
                                          Value finite) {
  llvm::SetVector<Operation *> conditional;
  function->walk([&](OptimizerOpInterface op) { conditional.insert(op); });
  Operation *terminator = getReturn(function);
  for (unsigned i = 0, count = function.getNumResults(); i < count; ++i) {
    VariableOp variable = getUpdatedVariable(function, i, *variables);
    auto increment = terminator->getOperand(i).getDefiningOp<IncrementOp>();
    auto counter = increment ? dyn_cast<BlockArgument>(increment.getCounter())
                             : BlockArgument();
    if (variable && isGuarded(variable) && counter &&
        variables->lookupVariable(getArgumentPort(counter).getState()) ==
            variable)
      conditional.insert(splitCount(increment, terminator->getOpOperand(i)));
  }
  for (Operation *op : conditional) {
    MutableOperandRange apply = *getCondition(op);
    if (apply.empty()) {
      apply.assign(finite);
      continue;
    }
    // If the model gives the op a condition, require both.
    OpBuilder builder(op);
    Value own = apply[0].get();
    auto both =
        AndOp::create(builder, op->getLoc(), finite.getType(), finite, own);
    setPhase(both, Phase::Optimizer);
    apply.assign(both);
  }
}

// Records the decision of a guard `op`: a select that keeps old state, or a
// test of new state. A guard does not round, so it runs in the type of the
// state.
static void setGuardDecision(Operation *op, FloatType element, StringRef why) {
  MLIRContext *context = op->getContext();
  SmallVector<Type> operands, results;
  for (Value operand : op->getOperands())
    if (FloatType type = getFloatType(operand))
      operands.push_back(type);
  for (Value result : op->getResults())
    if (FloatType type = getFloatType(result))
      results.push_back(type);
  op->setAttr(DecisionAttr::attrName,
              DecisionAttr::get(context, operands, results, element,
                                PrecisionClass::Clear,
                                StringAttr::get(context, "loss-scale"),
                                StringAttr::get(context, why), Reason::Update,
                                ArrayAttr::get(context, {}), Evidence::Proved,
                                /*sources=*/ArrayAttr(), /*flip=*/StringAttr(),
                                /*model=*/ArrayAttr()));
}

// Makes a skipped step keep all other guarded state: inserts select(finite,
// new, old) at results of ops without a condition. Models may write updates as
// plain arithmetic, or assign the new value of one variable to another.
LogicalResult InsertLossScalingPass::selectState(FunctionOpInterface function,
                                                 Value finite) {
  Operation *terminator = getReturn(function);
  FunctionEditor ports(function);
  OpBuilder builder(terminator);
  for (unsigned i = 0, count = function.getNumResults(); i < count; ++i) {
    VariableOp variable = getUpdatedVariable(function, i, *variables);
    if (!variable || !isGuarded(variable))
      continue;
    Value next = terminator->getOperand(i), old = ports.state(variable);
    // An op with a condition keeps the old value without a select.
    auto result = dyn_cast<OpResult>(next);
    if (next == old || (result && getReplacedOperand(result) == old))
      continue;
    auto type = cast<RankedTensorType>(next.getType());
    auto element = dyn_cast<FloatType>(type.getElementType());
    if (!element)
      return withExitCode(mlir::emitError(next.getLoc()), ExitCode::Unsupported)
             << "state '" << variable.getSymName() << "' is of type " << type
             << "; with a loss scale, state other than floats can only count "
                "updates (itself + 1); train with --loss-scale none or "
                "another --precision";
    std::string name = (variable.getSymName() + kGuardSuffix).str();
    auto guarded =
        SelectOp::create(builder, NameLoc::get(builder.getStringAttr(name)),
                         type, finite, next, old);
    setPhase(guarded, Phase::Optimizer);
    setGuardDecision(guarded, element, "a skipped step changes no state");
    terminator->setOperand(i, guarded);
  }
  ports.finish();
  return success();
}

// Keeps running statistics finite. Skipped steps update statistics too. A
// channel with an infinite or NaN statistic would never become finite again, so
// such a channel keeps its old value.
void InsertLossScalingPass::guardStatistics(FunctionOpInterface function) {
  Operation *terminator = getReturn(function);
  FunctionEditor ports(function);
  OpBuilder builder(terminator);
  for (unsigned i = 0, count = function.getNumResults(); i < count; ++i) {
    VariableOp variable = getUpdatedVariable(function, i, *variables);
    Value next = terminator->getOperand(i);
    auto type = cast<RankedTensorType>(next.getType());
    FloatType element = getFloatType(next);
    if (!variable || variable.getRole() != Role::Statistic || !element)
      continue;
    Value old = ports.state(variable);
    if (next == old)
      continue;
    // guarded = select(isinf(next) or isnan(next), old, next)
    std::string name = (variable.getSymName() + kGuardSuffix).str();
    Location loc = NameLoc::get(builder.getStringAttr(name));
    auto flags = type.clone(builder.getI1Type());
    builder.setInsertionPointAfterValue(next);
    auto isInf = IsInfOp::create(builder, loc, flags, next);
    auto isNaN = IsNaNOp::create(builder, loc, flags, next);
    Value isBroken = OrOp::create(builder, loc, flags, isInf, isNaN);
    auto guarded = SelectOp::create(builder, loc, type, isBroken, old, next);
    for (Operation *op :
         {isInf.getOperation(), isNaN.getOperation(), guarded.getOperation()})
      setGuardDecision(op, element, "statistics stay finite");
    terminator->setOperand(i, guarded);
  }
  ports.finish();
}

LogicalResult InsertLossScalingPass::guardUpdate(FunctionOpInterface function,
                                                 Value finite) {
  setConditions(function, finite);
  if (failed(selectState(function, finite)))
    return failure();
  // Counters advance only if the gradients are finite, but an increment may
  // come before the gradients in the block, so sort the ops.
  if (!sortTopologically(&function.getFunctionBody().front()))
    return withExitCode(function->emitError(), ExitCode::Unsupported)
           << "expected gradients that do not depend on their own update, "
              "which is made only if they are finite";
  return success();
}

void InsertLossScalingPass::advanceScale(FunctionOpInterface function,
                                         Value finite) {
  OpBuilder builder(getReturn(function));
  // The function returns the scale that this step has used.
  Location loc = finite.getLoc();
  Value current = getScale(function);
  FunctionEditor ports(function);
  // Update a dynamic scale: it shrinks if `finite` is false, and grows after
  // many good steps.
  if (kind == LossScale::Dynamic) {
    Value good = ports.state(goodSteps);
    Value left = ports.state(hysteresisLeft);
    auto next = UpdateScaleOp::create(
        builder, loc, current.getType(), good.getType(), left.getType(),
        current, good, left, finite, APFloat(growthFactor),
        APFloat(backoffFactor), growthInterval, APFloat(minScale),
        APFloat(maxScale), hysteresis);
    setPhase(next, Phase::Optimizer);
    ports.addUpdate(scale, next.getNewScale());
    ports.addUpdate(goodSteps, next.getNewGoodSteps());
    ports.addUpdate(hysteresisLeft, next.getNewHysteresisLeft());
  }
  // The runtime prints the two outputs and counts skipped steps.
  ports.addOutput("finite", Role::Finite, finite);
  ports.addOutput("loss_scale", Role::LossScale, current);
  ports.finish();
}

LogicalResult InsertLossScalingPass::rewrite(FunctionOpInterface function) {
  replaceSeeds(function);
  if (kind == LossScale::None)
    return success();
  guardStatistics(function);
  // A function without an update, such as @accumulate, needs no condition.
  SmallVector<Value> gradients = unscaleGradients(function);
  if (!updatesParameters(function, *variables))
    return success();
  if (gradients.empty())
    return withExitCode(function->emitError(), ExitCode::Unsupported)
           << "expected a gradient of a loss to scale, found none in this "
              "update";

  // A single condition tests all gradients of the update.
  OpBuilder builder(getReturn(function));
  auto flag = RankedTensorType::get({}, builder.getI1Type());
  Value finite = AllFiniteOp::create(
      builder, NameLoc::get(builder.getStringAttr(kLossScaleVariable)), flag,
      gradients);
  setPhase(finite.getDefiningOp(), Phase::Optimizer);
  advanceScale(function, finite);
  return guardUpdate(function, finite);
}

// Returns any op of the backward phase; null if there is none.
static Operation *findBackward(ModuleOp module) {
  Operation *found = nullptr;
  module.walk([&](Operation *op) {
    if (getPhase(op) != Phase::Backward)
      return WalkResult::advance();
    found = op;
    return WalkResult::interrupt();
  });
  return found;
}

// True if the op is of the backward pass that the model brings along. Gradient
// ops made by mpc have names with a suffix, such as "relu1#dx".
static bool isOwnBackward(Operation *op) {
  return getPhase(op) == Phase::Backward && !getNodeName(op).contains('#');
}

// Reports an error if the model's own backward pass computes a value that is
// not a multiple of the loss scale, such as the logarithm of a gradient.
// Ignores ops made by mpc, which VerifyPrecision checks.
static LogicalResult verifyOwnGradients(ModuleOp module,
                                        const VariableTable &variables) {
  bool violated = false;
  auto report = [&](Operation *op) -> std::optional<InFlightDiagnostic> {
    if (!isOwnBackward(op))
      return std::nullopt;
    violated = true;
    return withExitCode(op->emitOpError(), ExitCode::Unsupported)
           << "of the model's own backward pass (--precision bf16-mixed and "
              "--loss-scale none train without a loss scale) ";
  };
  for (auto function : module.getOps<FunctionOpInterface>())
    LossScaleAnalysis(function, variables, report);
  return failure(violated);
}

void InsertLossScalingPass::runOnOperation() {
  constants.clear();
  variables.emplace(getOperation());
  if (failed(readOptions()))
    return signalPassFailure();
  // Without a seed there is nothing to scale.
  bool differentiated =
      getOperation()
          .walk([](GradientSeedOp) { return WalkResult::interrupt(); })
          .wasInterrupted();
  // A module that neither differentiates nor updates has no loss scale at all,
  // not even none.
  bool updates = llvm::any_of(getOperation().getOps<FunctionOpInterface>(),
                              [&](FunctionOpInterface function) {
                                return updatesParameters(function, *variables);
                              });
  if (differentiated || updates)
    getOperation()->setAttr(
        kLossScaleAttr,
        LossScaleAttr::get(&getContext(),
                           differentiated ? kind : LossScale::None));
  if (kind == LossScale::Dynamic && differentiated)
    declareState();
  if (kind == LossScale::Static && differentiated)
    warnOfSmallScale();
  if (!differentiated && kind != LossScale::None)
    if (Operation *op = findBackward(getOperation())) {
      withExitCode(op->emitError(), ExitCode::Unsupported)
          << "cannot apply a loss scale to the model's own backward pass: "
             "found no value that all gradients are proportional to; use "
             "--precision bf16-mixed, or --loss-scale none";
      return signalPassFailure();
    }
  // All gradients are zero, so there is no backward pass and no scale.
  if (!differentiated)
    return;
  for (auto function :
       llvm::to_vector(getOperation().getOps<FunctionOpInterface>()))
    if (failed(rewrite(function)))
      return signalPassFailure();
  if (kind != LossScale::None &&
      failed(verifyOwnGradients(getOperation(), *variables)))
    signalPassFailure();
}
