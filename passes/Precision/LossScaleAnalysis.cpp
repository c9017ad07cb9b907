// SPDX-License-Identifier: Apache-2.0
#include "passes/Precision/LossScaleAnalysis.h"

#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "compiler/Precision/Lowered.h"
#include "passes/Precision/GuardedState.h"
#include "passes/Precision/ScaledValues.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::amp;

/// The names of ops, for the table of rules.
template <typename... OpTys>
static std::array<StringRef, sizeof...(OpTys)> namesOf() {
  return {OpTys::getOperationName()...};
}

static bool isFloatValue(Value value) {
  return isa<FloatType>(getElementTypeOrSelf(value.getType()));
}

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

LossScaleAnalysis::Multiple LossScaleAnalysis::lookup(Value value) const {
  return multiples.lookup(value);
}

// Returns the identity of a scale: the variable or the constant behind the
// value, or else the value.
const void *LossScaleAnalysis::identify(Value scale) const {
  if (auto argument = dyn_cast<BlockArgument>(scale))
    if (VariableOp variable =
            variables.lookupVariable(getArgumentPort(argument).getState()))
      return variable.getOperation();
  Attribute constant;
  if (matchPattern(scale, m_Constant(&constant)))
    return constant.getAsOpaquePointer();
  return scale.getAsOpaquePointer();
}

// All seeds will get one scale, so the op name identifies them.
static const void *identifySeeds(Operation *seed) {
  return seed->getName().getAsOpaquePointer();
}

LossScaleAnalysis::Multiple LossScaleAnalysis::scale(ScaleLossOp op) {
  Multiple seed = lookup(op.getSeed());
  if (seed.kind == Multiple::Scaled)
    complain(op, "scales what carries a loss scale already");
  return {Multiple::Scaled, identify(op.getScale()), /*ofSeed=*/true};
}

LossScaleAnalysis::Multiple LossScaleAnalysis::unscale(UnscaleOp op) {
  unscaled.push_back(op.getOutput());
  Multiple gradient = lookup(op.getGrad());
  if (gradient.kind == Multiple::Free)
    complain(op, "unscales what carries no loss scale");
  else if (gradient.kind == Multiple::Scaled &&
           gradient.scale != identify(op.getScale()))
    complain(op, "unscales by another value than the loss was scaled by");
  if (getElementTypeOrSelf(op.getType()).getIntOrFloatBitWidth() < 32)
    complain(op, "expected the unscaled gradient in fp32 at least, found ",
             op.getType());
  return {};
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

// Returns the multiple of a sum, selection or concatenation: a multiple of a
// scale only if all values are multiples of that scale.
LossScaleAnalysis::Multiple LossScaleAnalysis::join(Operation *op,
                                                    ValueRange values) {
  // Zeros are multiples of any scale; all other values must agree.
  Multiple result{Multiple::Zero};
  bool mixes = false, unknown = false;
  for (Value value : values) {
    Multiple multiple = lookup(value);
    unknown |= multiple.kind == Multiple::Unknown;
    if (multiple.kind == Multiple::Zero)
      continue;
    mixes |= result.kind != Multiple::Zero &&
             (multiple.kind != result.kind || multiple.scale != result.scale);
    result = multiple;
  }
  if (unknown)
    return {Multiple::Unknown};
  if (!mixes)
    return result;
  // A scaled value meets an unscaled value: a violation.
  complain(op, isa<AddOp, SubOp>(op) ? "adds" : "joins",
           " a value that carries the loss scale to one that does not");
  return {Multiple::Unknown};
}

LossScaleAnalysis::Multiple LossScaleAnalysis::product(Operation *op, Value lhs,
                                                       Value rhs) {
  Multiple a = lookup(lhs), b = lookup(rhs);
  if (a.kind == Multiple::Zero || b.kind == Multiple::Zero)
    return {Multiple::Zero};
  if (a.kind == Multiple::Unknown || b.kind == Multiple::Unknown)
    return {Multiple::Unknown};
  if (a.kind == Multiple::Scaled && b.kind == Multiple::Scaled) {
    complain(op, "multiplies two values that carry the loss scale");
    return {Multiple::Unknown};
  }
  return a.kind == Multiple::Scaled ? a : b;
}

// Returns the multiple of an op that is linear in `value`, or positively
// homogeneous (the selection in a maximum). No other operand may be scaled.
LossScaleAnalysis::Multiple LossScaleAnalysis::linear(Operation *op,
                                                      Value value) {
  for (Value operand : op->getOperands())
    if (operand != value && lookup(operand).kind == Multiple::Scaled) {
      complain(op, "is not linear in a value that carries the loss scale");
      return {Multiple::Unknown};
    }
  return lookup(value);
}

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

LossScaleAnalysis::Multiple LossScaleAnalysis::refuse(Operation *op) {
  complain(op, "is not linear, but reads a value that carries the loss scale");
  return {Multiple::Unknown};
}

LossScaleAnalysis::Multiple LossScaleAnalysis::joinAll(Operation *op) {
  return join(op, op->getOperands());
}

// The condition, operand 0, only chooses between the values.
LossScaleAnalysis::Multiple LossScaleAnalysis::select(Operation *op) {
  return join(op, op->getOperands().drop_front());
}

LossScaleAnalysis::Multiple LossScaleAnalysis::multiply(Operation *op) {
  return product(op, op->getOperand(0), op->getOperand(1));
}

LossScaleAnalysis::Multiple LossScaleAnalysis::divide(Operation *op) {
  if (lookup(op->getOperand(1)).kind == Multiple::Scaled)
    return refuse(op);
  return lookup(op->getOperand(0));
}

// Padding with a non-zero number adds an unscaled value.
LossScaleAnalysis::Multiple LossScaleAnalysis::pad(Operation *op) {
  auto padding = cast<PadOp>(op);
  if (padding.getValue().isZero() ||
      lookup(padding.getInput()).kind == Multiple::Unknown)
    return joinAll(op);
  complain(op, "joins a value that carries the loss scale to one that does "
               "not");
  return {Multiple::Unknown};
}

LossScaleAnalysis::Multiple LossScaleAnalysis::linearInFirst(Operation *op) {
  return isFloatValue(op->getResult(0)) ? linear(op, op->getOperand(0))
                                        : refuse(op);
}

LossScaleAnalysis::Multiple LossScaleAnalysis::linearInTable(Operation *op) {
  return linear(op, findTable(op)->get());
}

// Updates of a scatter replace, or are added to, the data that the scatter
// starts from.
LossScaleAnalysis::Multiple LossScaleAnalysis::scatter(Operation *op) {
  auto updates = cast<ScatterOpInterface>(op);
  if (updates.multiplies()) {
    complain(op, "multiplies by values that carry the loss scale");
    return {Multiple::Unknown};
  }
  Value values[] = {updates.getDataOperand().get(),
                    updates.getUpdatesOperand().get()};
  return join(op, values);
}

// Returns the multiple of a product plus C. C must carry the loss scale exactly
// if the product does.
LossScaleAnalysis::Multiple LossScaleAnalysis::contract(Operation *op) {
  Multiple result = multiply(op);
  if (op->getNumOperands() > 2 &&
      lookup(op->getOperand(2)).kind != result.kind) {
    complain(op, "joins a value that carries the loss scale to one that "
                 "does not");
    return {Multiple::Unknown};
  }
  return result;
}

// Returns the rule of an op whose region role does not determine the rule; null
// for all other ops.
LossScaleAnalysis::Rule LossScaleAnalysis::findOwnRule(StringRef name) {
  using Analysis = LossScaleAnalysis;
  static const auto rules = [] {
    llvm::StringMap<Rule> rules;
    auto add = [&](Rule rule, ArrayRef<StringRef> names) {
      for (StringRef name : names)
        rules[name] = rule;
    };
    add(&Analysis::joinAll, namesOf<AddOp, SubOp, MaximumOp, MinimumOp>());
    add(&Analysis::select, namesOf<SelectOp>());
    add(&Analysis::multiply, namesOf<MulOp>());
    add(&Analysis::divide, namesOf<DivOp>());
    add(&Analysis::pad, namesOf<PadOp>());
    // A product of n multiples is a multiple of the n-th power of the scale.
    add(&Analysis::refuse, namesOf<ReduceProdOp>());
    add(&Analysis::linearInFirst,
        namesOf<NegOp, AbsOp, ReluOp, DropoutOp, ExpandOp, mpc::CastOp,
                amp::CastOp, AveragePoolOp, GlobalAveragePoolOp,
                RotaryEmbeddingOp>());
    // Gradient ops are linear in their first operand, the incoming gradient.
    add(&Analysis::linearInFirst,
        namesOf<ReluGradOp, SigmoidGradOp, TanhGradOp, FormulaGradOp,
                ClipGradOp, SoftmaxGradOp, LogSoftmaxGradOp, MaxPoolGradOp,
                AveragePoolGradOp, GlobalAveragePoolGradOp, BatchNormGradOp,
                LayerNormGradOp, RMSNormGradOp, AttentionGradOp>());
    add(&Analysis::linearInFirst,
        namesOf<BCEGradOp, BCEWithLogitsGradOp, NLLLossGradOp,
                SoftmaxCrossEntropyLossGradOp, FakeQuantizeGradOp,
                FakeQuantizeScaleGradOp>());
    return rules;
  }();
  return rules.lookup(name);
}

LossScaleAnalysis::Rule LossScaleAnalysis::findRule(Operation *op) {
  if (Rule own = findOwnRule(op->getName().getStringRef()))
    return own;
  // Views, movements and lookups change no values; sums are linear.
  auto region = dyn_cast<RegionOpInterface>(op);
  RegionRole role = region ? region.getRegionRole() : RegionRole::Composite;
  if (role == RegionRole::View || role == RegionRole::Movement)
    return &LossScaleAnalysis::joinAll;
  if (findTable(op))
    return &LossScaleAnalysis::linearInTable;
  if (isa<ScatterOpInterface>(op))
    return &LossScaleAnalysis::scatter;
  if (role == RegionRole::Contraction)
    return &LossScaleAnalysis::contract;
  if (role == RegionRole::Reduction || role == RegionRole::Cumulative)
    return &LossScaleAnalysis::linearInFirst;
  return &LossScaleAnalysis::refuse;
}

// Returns the multiple of the loss scale that the results of `op` carry.
LossScaleAnalysis::Multiple LossScaleAnalysis::compute(Operation *op) {
  return (this->*findRule(op))(op);
}

// Suppresses reports of an op that is analysed again later, or breaks no rule.
static std::optional<InFlightDiagnostic> ignore(Operation *) {
  return std::nullopt;
}

// Returns the multiple of an op without scaled operands: zero if the operands
// make the result zero, free otherwise. Zeros may later be added to scaled
// values.
LossScaleAnalysis::Multiple LossScaleAnalysis::computeUnscaled(Operation *op) {
  Multiple result;
  {
    llvm::SaveAndRestore quiet(report, Report(ignore));
    result = compute(op);
  }
  if (result.kind == Multiple::Zero)
    return result;
  bool readsUnknown = llvm::any_of(op->getOperands(), [&](Value operand) {
    return lookup(operand).kind == Multiple::Unknown;
  });
  return {readsUnknown ? Multiple::Unknown : Multiple::Free};
}

// Reports an op that rounds the scale times constants to a low type. The
// product is the largest of all gradients: 2^16 overflows fp16. A cast is
// allowed if only contractions and movements read the result.
void LossScaleAnalysis::checkRounding(Operation *op, Multiple result) {
  if (result.kind != Multiple::Scaled || !result.ofSeed || isa<mpc::CastOp>(op))
    return;
  DecisionAttr decision = DecisionAttr::of(op);
  auto type =
      dyn_cast<FloatType>(getElementTypeOrSelf(op->getResult(0).getType()));
  // A seed in 16 bits in the model is the model's choice.
  bool ofModel = decision && decision.isLow() && !isLowered(decision);
  if (!type || type.getWidth() >= 32 || ofModel)
    return;
  bool onlyMultiplied =
      isa<amp::CastOp>(op) && llvm::all_of(op->getUses(), [](OpOperand &use) {
        auto reader = dyn_cast<PrecisionOpInterface>(use.getOwner());
        return reader &&
               (use.getOperandNumber() < reader.getNumContractedOperands() ||
                reader.movesElements());
      });
  if (!onlyMultiplied)
    complain(op, "rounds the loss scale itself to ", type);
}

//===----------------------------------------------------------------------===//
// Loops and branches
//===----------------------------------------------------------------------===//

void LossScaleAnalysis::visitBodies(BodyOpInterface op) {
  for (Region &body : op->getRegions())
    for (Operation &each : body.front().without_terminator())
      visit(&each);
}

// Gives carried arguments that started as zeros the multiple that an iteration
// yields. Returns true if any changed, so the body needs another visit.
bool LossScaleAnalysis::carryOver(BodyOpInterface op) {
  bool changed = false;
  Block &body = op->getRegion(0).front();
  for (unsigned i = 0; i < op.getNumCarried(); ++i) {
    Multiple found = lookup(body.getTerminator()->getOperand(i));
    Multiple &carried = multiples[body.getArgument(i)];
    if (carried.kind != Multiple::Zero || found.kind == Multiple::Zero)
      continue;
    carried = found;
    changed = true;
  }
  return changed;
}

// Returns the multiple of result `index`. All branches and iterations must
// agree, but zeros are multiples of any scale.
LossScaleAnalysis::Multiple LossScaleAnalysis::yieldOf(BodyOpInterface op,
                                                       unsigned index) {
  // Collect the value from before the loop and those yielded by the bodies.
  SmallVector<Value> values;
  if (index < op.getNumCarried())
    values.push_back(op->getRegion(0).front().getArgument(index));
  for (Region &body : op->getRegions())
    values.push_back(body.front().getTerminator()->getOperand(index));
  // The first non-zero value determines the scale.
  Multiple result{Multiple::Zero};
  for (Value value : values) {
    Multiple multiple = lookup(value);
    if (multiple.kind == Multiple::Unknown)
      return multiple;
    if (multiple.kind == Multiple::Zero)
      continue;
    if (result.kind != Multiple::Zero &&
        (multiple.kind != result.kind || multiple.scale != result.scale)) {
      complain(op, "gives a value that has the loss scale in some iterations "
                   "or branches and not in others");
      return {Multiple::Unknown};
    }
    result = multiple;
  }
  return result;
}

// Analyses a loop or branch. A carried value is one multiple in all iterations:
// initial zeros take the multiple added in the body.
void LossScaleAnalysis::visitList(BodyOpInterface op) {
  for (Region &body : op->getRegions())
    for (BlockArgument argument : body.getArguments())
      multiples[argument] = lookup(op.getTiedOperand(argument).get());
  {
    llvm::SaveAndRestore quiet(report, Report(ignore));
    do
      visitBodies(op);
    while (carryOver(op));
  }
  visitBodies(op);
  for (OpResult result : op->getResults())
    multiples[result] = yieldOf(op, result.getResultNumber());
}

void LossScaleAnalysis::visit(Operation *op) {
  if (auto list = dyn_cast<BodyOpInterface>(op))
    return visitList(list);
  DenseElementsAttr constant;
  Multiple result;
  bool reads = llvm::any_of(op->getOperands(), [&](Value operand) {
    return lookup(operand).kind != Multiple::Free;
  });
  bool readsScaled = llvm::any_of(op->getOperands(), [&](Value operand) {
    return lookup(operand).kind == Multiple::Scaled;
  });
  // Multiples originate from zeros, seeds and the scaled loss.
  if (matchPattern(op, m_Constant(&constant))) {
    if (isa<FloatType>(constant.getElementType()) && constant.isSplat() &&
        constant.getSplatValue<APFloat>().isZero())
      result = {Multiple::Zero};
  } else if (auto scaling = dyn_cast<ScaleLossOp>(op)) {
    result = scale(scaling);
  } else if (isa<GradientSeedOp>(op)) {
    result = {Multiple::Scaled, identifySeeds(op), /*ofSeed=*/true};
  } else if (auto unscaling = dyn_cast<UnscaleOp>(op)) {
    result = unscale(unscaling);
  } else if (updates && belongsToUpdate(op)) {
    if (readsScaled)
      complain(op, "reads a gradient that is still scaled");
  } else if (readsScaled && !isa<AllFiniteOp>(op)) {
    // All other ops turn multiples into multiples.
    result = compute(op);
    result.ofSeed = llvm::all_of(op->getOperands(), [&](Value operand) {
      return lookup(operand).ofSeed || operand.getDefiningOp<ConstantOp>();
    });
    checkRounding(op, result);
  } else if (reads) {
    result = computeUnscaled(op);
  }
  // A value without an entry in `multiples` is free.
  if (result.kind == Multiple::Free)
    return;
  for (Value value : op->getResults())
    if (isFloatValue(value))
      multiples[value] = result;
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

// Marks accumulators as multiples of the module's scale.
void LossScaleAnalysis::enter(FunctionOpInterface function) {
  const void *moduleScale = nullptr;
  (void)function->getParentOfType<ModuleOp>().walk([&](Operation *op) {
    if (auto scaling = dyn_cast<ScaleLossOp>(op))
      moduleScale = identify(scaling.getScale());
    else if (isa<GradientSeedOp>(op))
      moduleScale = identifySeeds(op);
    return moduleScale ? WalkResult::interrupt() : WalkResult::advance();
  });
  for (BlockArgument argument : function.getArguments()) {
    VariableOp variable =
        variables.lookupVariable(getArgumentPort(argument).getState());
    if (moduleScale && variable && variable.getRole() == Role::Accumulator)
      multiples[argument] = {Multiple::Scaled, moduleScale, false};
  }
}

// Reports scaled results other than accumulators, and unscaled accumulators.
void LossScaleAnalysis::leave(FunctionOpInterface function) {
  Operation *terminator = getReturn(function);
  for (OpOperand &result : terminator->getOpOperands()) {
    unsigned index = result.getOperandNumber();
    VariableOp variable = getUpdatedVariable(function, index, variables);
    bool accumulates = variable && variable.getRole() == Role::Accumulator;
    Multiple::Kind kind = lookup(result.get()).kind;
    if (kind == Multiple::Scaled && !accumulates)
      complain(terminator, "returns a scaled value as result ", index);
    if (kind == Multiple::Free && accumulates)
      complain(terminator, "returns a sum without the loss scale as result ",
               index);
  }
}

LossScaleAnalysis::LossScaleAnalysis(FunctionOpInterface function,
                                     const VariableTable &variables,
                                     Report report)
    : variables(variables), report(report),
      updates(updatesParameters(function)) {
  enter(function);
  // Visits ops in order, so operands come before users.
  for (Operation &op : function.getFunctionBody().front().without_terminator())
    visit(&op);
  leave(function);
  if (updates && unscaled.empty())
    complain(function, "updates parameters with gradients that were never "
                       "scaled and unscaled");
}
