// Scales the seed of the backward pass and unscales gradients where they enter
// the update, which happens only if all of them are finite.
//
// The scale, the count of good steps and the overflows left are state on the
// device; the update is predicated, so no step waits for the host. Parameters,
// moments and the step count are guarded; BatchNormalization statistics, the
// micro-step counter and the scale itself always advance.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Support/ExitCode.h"
#include "passes/Precision/FunctionState.h"
#include "passes/Precision/Passes.h"
#include "passes/Precision/ScaledValues.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "llvm/ADT/MapVector.h"

namespace mpc {
#define GEN_PASS_DEF_INSERTLOSSSCALINGPASS
#include "passes/Precision/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;
using namespace mpc::amp;

static constexpr llvm::StringLiteral kScaleName = "mpc.loss_scale";
static constexpr llvm::StringLiteral kGoodStepsName = "mpc.good_steps";
static constexpr llvm::StringLiteral kHysteresisName = "mpc.hysteresis";
static constexpr llvm::StringLiteral kMicroStepName = "mpc.micro_step";

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
  LogicalResult guardUpdate(FunctionOpInterface function, Value finite);
  void advanceScale(FunctionOpInterface function, Value finite);
  Value createOnes(OpBuilder &builder, Location loc, Type type);

  enum class Kind { None, Static, Dynamic } kind = Kind::None;
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
  auto mode = getOperation()->getAttrOfType<StringAttr>(kModeAttr);
  if (wanted.empty())
    wanted = mode && mode.getValue() == "16-mixed" ? "dynamic" : "none";
  if (wanted == "none") {
    kind = Kind::None;
  } else if (wanted == "dynamic") {
    kind = Kind::Dynamic;
  } else {
    kind = Kind::Static;
    // The scale is state in float32.
    bool isNumber = !wanted.getAsDouble(staticScale);
    auto stored = static_cast<float>(staticScale);
    if (!isNumber || !std::isfinite(stored) || stored <= 0.0f)
      return withExitCode(getOperation().emitError(), ExitCode::Usage)
             << "expected a loss scale of dynamic, none or a number above 0, "
                "found '"
             << wanted << "'";
  }
  static constexpr llvm::StringLiteral names[] = {"none", "static", "dynamic"};
  getOperation()->setAttr(
      kLossScaleAttr,
      StringAttr::get(&getContext(), names[static_cast<int>(kind)]));
  return success();
}

void InsertLossScalingPass::declareState() {
  Builder builder(&getContext());
  auto real = RankedTensorType::get({}, builder.getF32Type());
  auto count = RankedTensorType::get({}, builder.getI64Type());
  VariableTable variables(getOperation());
  scale = variables.declare(kScaleName, real, "loss_scale", initScale);
  goodSteps = variables.declare(kGoodStepsName, count, "loss_scale");
  hysteresisLeft =
      variables.declare(kHysteresisName, count, "loss_scale", hysteresis);
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
  if (kind == Kind::Dynamic) {
    FunctionState state(function);
    Value value = state.read(scale);
    state.finish();
    return value;
  }
  Value &constant = constants[function];
  if (constant)
    return constant;
  auto builder = OpBuilder::atBlockBegin(&function.getFunctionBody().front());
  auto type = RankedTensorType::get({}, builder.getF32Type());
  auto value = builder.getF32FloatAttr(static_cast<float>(staticScale));
  constant = mpc::ConstantOp::create(
      builder, NameLoc::get(builder.getStringAttr(kScaleName)), type,
      DenseElementsAttr::get(type, value));
  return constant;
}

void InsertLossScalingPass::replaceSeeds(FunctionOpInterface function) {
  SmallVector<GradientSeedOp> seeds;
  function->walk([&](GradientSeedOp seed) { seeds.push_back(seed); });
  if (seeds.empty())
    return;
  Value factor = kind == Kind::None ? Value() : getScale(function);
  for (GradientSeedOp seed : seeds) {
    OpBuilder builder(seed);
    Value value = createOnes(builder, seed.getLoc(), seed.getType());
    if (factor) {
      auto scaled = ScaleLossOp::create(builder, seed.getLoc(), seed.getType(),
                                        value, factor);
      scaled->setAttr(kPhaseAttr, builder.getStringAttr("backward"));
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
  llvm::MapVector<Value, SmallVector<OpOperand *>> uses;
  function->walk([&](Operation *op) {
    for (OpOperand &use : op->getOpOperands())
      if (scaled.contains(use.get()) && mustUnscale(use))
        uses[use.get()].push_back(&use);
  });
  SmallVector<Value> gradients;
  if (uses.empty())
    return gradients;
  Value factor = getScale(function);
  OpBuilder builder(&getContext());
  for (auto &[gradient, readers] : uses) {
    builder.setInsertionPointAfterValue(gradient);
    auto type = cast<RankedTensorType>(gradient.getType());
    if (type.getElementTypeBitWidth() < 32)
      type = cast<RankedTensorType>(type.clone(builder.getF32Type()));
    auto unscaled = UnscaleOp::create(
        builder, readers.front()->getOwner()->getLoc(), type, gradient, factor);
    unscaled->setAttr(kPhaseAttr, builder.getStringAttr("optimizer"));
    for (OpOperand *use : readers)
      use->set(unscaled);
    gradients.push_back(unscaled);
  }
  return gradients;
}

//===----------------------------------------------------------------------===//
// The update
//===----------------------------------------------------------------------===//

// Whether a counter counts forward passes rather than updates.
static bool countsMicroSteps(IncrementOp op, const VariableTable &variables) {
  auto argument = dyn_cast<BlockArgument>(op.getCounter());
  VariableOp variable =
      argument ? getVariable(argument, variables) : VariableOp();
  return variable && variable.getSymName() == kMicroStepName;
}

LogicalResult InsertLossScalingPass::guardUpdate(FunctionOpInterface function,
                                                 Value finite) {
  VariableTable variables(getOperation());
  WalkResult walk = function->walk([&](Operation *op) {
    MutableOperandRange apply(op, 0, 0);
    if (auto optimizer = dyn_cast<OptimizerOpInterface>(op))
      apply = optimizer.getApplyOperand();
    else if (auto increment = dyn_cast<IncrementOp>(op);
             increment && !countsMicroSteps(increment, variables))
      apply = increment.getApplyMutable();
    else
      return WalkResult::advance();
    if (!apply.empty()) {
      withExitCode(op->emitOpError(), ExitCode::Unsupported)
          << "expected an update without a condition of its own where the "
             "loss is scaled";
      return WalkResult::interrupt();
    }
    apply.assign(finite);
    return WalkResult::advance();
  });
  if (walk.wasInterrupted())
    return failure();
  // The flag is known only after the backward pass; counters may stand before.
  if (!sortTopologically(&function.getFunctionBody().front()))
    return function->emitError("expected gradients not to depend on what their "
                               "finiteness guards");
  return success();
}

void InsertLossScalingPass::advanceScale(FunctionOpInterface function,
                                         Value finite) {
  OpBuilder builder(getReturn(function));
  Location loc = finite.getLoc();
  Value current = getScale(function);
  FunctionState state(function);
  if (kind == Kind::Dynamic) {
    Value good = state.read(goodSteps);
    Value left = state.read(hysteresisLeft);
    auto next = UpdateScaleOp::create(
        builder, loc, current.getType(), good.getType(), left.getType(),
        current, good, left, finite, APFloat(growthFactor),
        APFloat(backoffFactor), growthInterval, APFloat(minScale),
        APFloat(maxScale), hysteresis);
    next->setAttr(kPhaseAttr, builder.getStringAttr("optimizer"));
    state.write(scale, next.getNewScale());
    state.write(goodSteps, next.getNewGoodSteps());
    state.write(hysteresisLeft, next.getNewHysteresisLeft());
  }
  state.addOutput("finite", "finite", finite);
  state.addOutput("loss_scale", "loss_scale", current);
  state.finish();
}

LogicalResult InsertLossScalingPass::rewrite(FunctionOpInterface function) {
  replaceSeeds(function);
  if (kind == Kind::None)
    return success();
  SmallVector<Value> gradients = unscaleGradients(function);
  if (!updatesParameters(function))
    return success();
  if (gradients.empty())
    return withExitCode(function->emitError(), ExitCode::Unsupported)
           << "no gradient of this update comes from a loss that could be "
              "scaled";

  OpBuilder builder(getReturn(function));
  auto flag = RankedTensorType::get({}, builder.getI1Type());
  Value finite = AllFiniteOp::create(
      builder, NameLoc::get(builder.getStringAttr(kScaleName)), flag,
      gradients);
  finite.getDefiningOp()->setAttr(kPhaseAttr,
                                  builder.getStringAttr("optimizer"));
  advanceScale(function, finite);
  return guardUpdate(function, finite);
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
  if (kind == Kind::Dynamic && differentiated)
    declareState();
  if (!differentiated) {
    // Gradients that are zero everywhere need no pass: nothing to scale either.
    if (llvm::any_of(getOperation().getOps<FunctionOpInterface>(),
                     updatesParameters))
      getOperation()->setAttr(kLossScaleAttr,
                              StringAttr::get(&getContext(), "none"));
    return;
  }
  for (auto function :
       llvm::to_vector(getOperation().getOps<FunctionOpInterface>()))
    if (failed(rewrite(function)))
      return signalPassFailure();
}
