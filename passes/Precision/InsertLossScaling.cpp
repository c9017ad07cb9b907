// Scales the seed of the backward pass and unscales gradients where they enter
// the update, which happens only if all of them are finite.
//
// The scale, the count of good steps and the overflows left are state on the
// device; the update is predicated, so no step waits for the host. All state of
// the update is guarded, whether an optimizer op writes it or ops of the
// model's own; GuardedState.h says what goes on regardless.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "compiler/Support/ExitCode.h"
#include "passes/Precision/GuardedState.h"
#include "passes/Precision/LossScaleAnalysis.h"
#include "passes/Precision/Passes.h"
#include "passes/Precision/ScaledValues.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

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

  LossScale kind = LossScale::None;
  double staticScale = 1.0;
  VariableOp scale, goodSteps, hysteresisLeft;
  /// The constant of a static scale in each function.
  llvm::DenseMap<Operation *, Value> constants;
};
} // namespace

//===----------------------------------------------------------------------===//
// Options and state
//===----------------------------------------------------------------------===//

LogicalResult InsertLossScalingPass::readOptions() {
  StringRef wanted = lossScale;
  auto mode = getOperation()->getAttrOfType<PrecisionModeAttr>(kModeAttr);
  std::optional<LossScale> named = symbolizeLossScale(wanted);
  if (wanted.empty()) {
    kind = mode && mode.getValue() == PrecisionMode::FP16Mixed
               ? LossScale::Dynamic
               : LossScale::None;
  } else if (named && *named != LossScale::Static) {
    kind = *named;
  } else {
    kind = LossScale::Static;
    // The scale is state in float32.
    bool isNumber = !wanted.getAsDouble(staticScale);
    auto stored = static_cast<float>(staticScale);
    if (!isNumber || !std::isfinite(stored) || stored <= 0.0f)
      return withExitCode(getOperation().emitError(), ExitCode::Usage)
             << "expected a loss scale of dynamic, none or a number above 0, "
                "found '"
             << wanted << "'";
  }
  getOperation()->setAttr(kLossScaleAttr,
                          LossScaleAttr::get(&getContext(), kind));
  return success();
}

void InsertLossScalingPass::declareState() {
  Builder builder(&getContext());
  auto real = RankedTensorType::get({}, builder.getF32Type());
  auto count = RankedTensorType::get({}, builder.getI64Type());
  VariableTable variables(getOperation());
  scale =
      variables.declare(kLossScaleVariable, real, Role::LossScale, initScale);
  goodSteps = variables.declare(kGoodStepsVariable, count, Role::LossScale);
  hysteresisLeft = variables.declare(kHysteresisVariable, count,
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

// The scale as `function` sees it: state, or one constant.
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
    }
    seed.getOutput().replaceAllUsesWith(value);
    seed.erase();
  }
}

// Unscales every gradient where it enters the update, once however many ops
// read it there, and returns the results.
SmallVector<Value>
InsertLossScalingPass::unscaleGradients(FunctionOpInterface function) {
  llvm::DenseSet<Value> scaled = findScaledValues(function);
  llvm::DenseSet<unsigned> mayBeScaled = findScaledResults(function);
  bool updates = updatesParameters(function);
  // Whether a scaled value must not reach `use` as it is.
  auto mustUnscale = [&](OpOperand &use) {
    if (use.getOwner() == getReturn(function))
      return !mayBeScaled.contains(use.getOperandNumber());
    return updates && belongsToUpdate(use.getOwner());
  };
  // Values with all uses that must see them unscaled: one unscale serves them
  // all.
  llvm::MapVector<Value, SmallVector<OpOperand *>> uses;
  function->walk([&](Operation *op) {
    for (OpOperand &use : op->getOpOperands())
      if (scaled.contains(use.get()) && mustUnscale(use))
        uses[use.get()].push_back(&use);
  });
  SmallVector<Value> gradients;
  if (uses.empty())
    return gradients;
  // A scaled half may be too small once it is unscaled: the result is fp32.
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

// An increment that is the new value of a counter and nothing before the update
// reads: where the forward pass counts with it, as with the number of this
// batch, it cannot wait for that pass's gradients, so the state gets its own.
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

// The condition goes to every op that can have one: all optimizer ops, and the
// increments that are the new value of the counter they read.
void InsertLossScalingPass::setConditions(FunctionOpInterface function,
                                          Value finite) {
  VariableTable variables(getOperation());
  llvm::SetVector<Operation *> conditional;
  // Optimizer ops have a condition each.
  function->walk([&](OptimizerOpInterface op) { conditional.insert(op); });
  Operation *terminator = getReturn(function);
  for (unsigned i = 0, count = function.getNumResults(); i < count; ++i) {
    VariableOp variable = getUpdatedVariable(function, i, variables);
    auto increment = terminator->getOperand(i).getDefiningOp<IncrementOp>();
    auto counter = increment ? dyn_cast<BlockArgument>(increment.getCounter())
                             : BlockArgument();
    if (variable && isGuarded(variable) && counter &&
        variables.lookupVariable(getArgumentPort(counter).getState()) ==
            variable)
      conditional.insert(splitCount(increment, terminator->getOpOperand(i)));
  }
  // An op without a condition gets this one.
  for (Operation *op : conditional) {
    MutableOperandRange apply = *getCondition(op);
    if (apply.empty()) {
      apply.assign(finite);
      continue;
    }
    // The model's own condition holds, too.
    OpBuilder builder(op);
    Value own = apply[0].get();
    auto both =
        AndOp::create(builder, op->getLoc(), finite.getType(), finite, own);
    setPhase(both, Phase::Optimizer);
    apply.assign(both);
  }
}

// The record of a guard: selection is exact, in the type of the state.
static DecisionAttr getGuardDecision(RankedTensorType type, StringRef why) {
  MLIRContext *context = type.getContext();
  auto element = cast<FloatType>(type.getElementType());
  return DecisionAttr::get(
      context, element, element, element, PrecisionClass::Clear,
      StringAttr::get(context, "loss-scale"), StringAttr::get(context, why),
      Reason::Update, ArrayAttr::get(context, {}), Evidence::Proved,
      /*native=*/true, 0, 0, 0, 0, 0, StringAttr());
}

// Puts select(finite, new, old) at every state result whose op has no condition
// of its own. So a step is skipped whole, also where the model writes updates
// as plain arithmetic, or gives one variable the new value of another.
LogicalResult InsertLossScalingPass::selectState(FunctionOpInterface function,
                                                 Value finite) {
  VariableTable variables(getOperation());
  Operation *terminator = getReturn(function);
  FunctionEditor ports(function);
  OpBuilder builder(terminator);
  for (unsigned i = 0, count = function.getNumResults(); i < count; ++i) {
    // State that the scale guards, and that changes.
    VariableOp variable = getUpdatedVariable(function, i, variables);
    if (!variable || !isGuarded(variable))
      continue;
    Value next = terminator->getOperand(i), old = ports.state(variable);
    // An optimizer keeps the old value by its own condition.
    auto result = dyn_cast<OpResult>(next);
    if (next == old || (result && getReplacedOperand(result) == old))
      continue;
    auto type = cast<RankedTensorType>(next.getType());
    if (!isa<FloatType>(type.getElementType()))
      return withExitCode(mlir::emitError(next.getLoc()), ExitCode::Unsupported)
             << "state '" << variable.getSymName() << "' is of type " << type
             << "; where the loss is scaled, state other than floats can only "
                "count updates (itself + 1); train with --loss-scale none or "
                "another --precision";
    // The old value where a gradient is infinite or NaN.
    std::string name = (variable.getSymName() + "#guard").str();
    auto guarded =
        SelectOp::create(builder, NameLoc::get(builder.getStringAttr(name)),
                         type, finite, next, old);
    setPhase(guarded, Phase::Optimizer);
    guarded->setAttr(DecisionAttr::attrName,
                     getGuardDecision(type, "a skipped step changes no state"));
    terminator->setOperand(i, guarded);
  }
  ports.finish();
  return success();
}

// Running statistics are updated in skipped steps, too. But a channel whose new
// statistic is infinite or NaN keeps the old one: the average would never be
// finite again.
void InsertLossScalingPass::guardStatistics(FunctionOpInterface function) {
  VariableTable variables(getOperation());
  Operation *terminator = getReturn(function);
  FunctionEditor ports(function);
  OpBuilder builder(terminator);
  for (unsigned i = 0, count = function.getNumResults(); i < count; ++i) {
    VariableOp variable = getUpdatedVariable(function, i, variables);
    Value next = terminator->getOperand(i);
    auto type = cast<RankedTensorType>(next.getType());
    if (!variable || variable.getRole() != Role::Statistic ||
        !isa<FloatType>(type.getElementType()))
      continue;
    Value old = ports.state(variable);
    if (next == old)
      continue;
    // select(next is infinite or NaN, old, next)
    std::string name = (variable.getSymName() + "#guard").str();
    Location loc = NameLoc::get(builder.getStringAttr(name));
    auto flags = type.clone(builder.getI1Type());
    builder.setInsertionPointAfterValue(next);
    auto isInf = IsInfOp::create(builder, loc, flags, next);
    auto isNaN = IsNaNOp::create(builder, loc, flags, next);
    Value isBroken = OrOp::create(builder, loc, flags, isInf, isNaN);
    auto guarded = SelectOp::create(builder, loc, type, isBroken, old, next);
    for (Operation *op :
         {isInf.getOperation(), isNaN.getOperation(), guarded.getOperation()})
      op->setAttr(DecisionAttr::attrName,
                  getGuardDecision(type, "statistics stay finite"));
    terminator->setOperand(i, guarded);
  }
  ports.finish();
}

LogicalResult InsertLossScalingPass::guardUpdate(FunctionOpInterface function,
                                                 Value finite) {
  setConditions(function, finite);
  if (failed(selectState(function, finite)))
    return failure();
  // The flag is known only after the backward pass; counters may stand before.
  if (!sortTopologically(&function.getFunctionBody().front()))
    return withExitCode(function->emitError(), ExitCode::Unsupported)
           << "expected gradients not to depend on what their finiteness "
              "guards";
  return success();
}

void InsertLossScalingPass::advanceScale(FunctionOpInterface function,
                                         Value finite) {
  OpBuilder builder(getReturn(function));
  // The scale of this step is an output, whatever becomes of it.
  Location loc = finite.getLoc();
  Value current = getScale(function);
  FunctionEditor ports(function);
  // A dynamic scale has a next value, which follows from whether this step was
  // finite.
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
  // Callers print both, and count skipped steps by them.
  ports.addOutput("finite", Role::Finite, finite);
  ports.addOutput("loss_scale", Role::LossScale, current);
  ports.finish();
}

LogicalResult InsertLossScalingPass::rewrite(FunctionOpInterface function) {
  replaceSeeds(function);
  if (kind == LossScale::None)
    return success();
  guardStatistics(function);
  // Only functions that update parameters have a condition.
  SmallVector<Value> gradients = unscaleGradients(function);
  if (!updatesParameters(function))
    return success();
  if (gradients.empty())
    return withExitCode(function->emitError(), ExitCode::Unsupported)
           << "no gradient of this update comes from a loss that could be "
              "scaled";

  // One flag for all gradients of the update.
  OpBuilder builder(getReturn(function));
  auto flag = RankedTensorType::get({}, builder.getI1Type());
  Value finite = AllFiniteOp::create(
      builder, NameLoc::get(builder.getStringAttr(kLossScaleVariable)), flag,
      gradients);
  setPhase(finite.getDefiningOp(), Phase::Optimizer);
  advanceScale(function, finite);
  return guardUpdate(function, finite);
}

// An op of a backward pass; null where there is none.
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

// Whether an op is a node of the model's own backward pass: gradients that are
// computed here have a suffix, such as "relu1#dx".
static bool isOwnBackward(Operation *op) {
  return getPhase(op) == Phase::Backward && !getNodeName(op).contains('#');
}

// Refuses models that compute from gradients what is no multiple of the loss
// scale, such as their logarithm. Only the model's own ops are looked at: of
// ops that mpc made, the verifier reports it as an error of the compiler.
static LogicalResult verifyOwnGradients(ModuleOp module) {
  VariableTable variables(module);
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
  if (failed(readOptions()))
    return signalPassFailure();
  // Without a backward pass there is nothing to scale, whatever was asked.
  bool differentiated =
      getOperation()
          .walk([](GradientSeedOp) { return WalkResult::interrupt(); })
          .wasInterrupted();
  if (kind == LossScale::Dynamic && differentiated)
    declareState();
  if (!differentiated && kind != LossScale::None)
    if (Operation *op = findBackward(getOperation())) {
      withExitCode(op->emitError(), ExitCode::Unsupported)
          << "the model's own backward pass has no start that a loss scale "
             "could be given to; use --precision bf16-mixed, or --loss-scale "
             "none";
      return signalPassFailure();
    }
  if (!differentiated) {
    // Gradients that are zero everywhere need no pass: nothing to scale either.
    if (llvm::any_of(getOperation().getOps<FunctionOpInterface>(),
                     updatesParameters))
      getOperation()->setAttr(
          kLossScaleAttr, LossScaleAttr::get(&getContext(), LossScale::None));
    return;
  }
  for (auto function :
       llvm::to_vector(getOperation().getOps<FunctionOpInterface>()))
    if (failed(rewrite(function)))
      return signalPassFailure();
  if (kind != LossScale::None && failed(verifyOwnGradients(getOperation())))
    signalPassFailure();
}
