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

/// The names of ops, for a table that has a line an op.
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

// What tells one scale from another: the variable or the constant it is, or
// else the value itself.
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

// Seeds that are not replaced yet will all have the same scale.
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

// A sum, a choice or a concatenation of multiples is one only where all are
// multiples of the same.
LossScaleAnalysis::Multiple LossScaleAnalysis::join(Operation *op,
                                                    ValueRange values) {
  // Zeros are multiples of anything; all others must agree.
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
  // Scaled and unscaled values meet: this is the violation.
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

// Of an op that is linear in `value`, or positively homogeneous as the choice
// of a maximum is, and whose other operands must carry no scale.
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

// Its condition chooses, and is no value.
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

// Padding other than zero is a value without the scale.
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

// Of updates that replace or are added to what a scatter starts from.
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

// A contraction is a product and a sum; C must be the same multiple.
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

// The rule of an op that has another than its role says, a line each; null for
// all others.
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
    // The product of n multiples is one of the scale's n-th power.
    add(&Analysis::refuse, namesOf<ReduceProdOp>());
    add(&Analysis::linearInFirst,
        namesOf<NegOp, AbsOp, ReluOp, DropoutOp, ExpandOp, mpc::CastOp,
                amp::CastOp, AveragePoolOp, GlobalAveragePoolOp,
                RotaryEmbeddingOp>());
    // Gradients are linear in what flows back, their first operand.
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
  // Views, moves and lookups change no values; sums are linear.
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

// The multiple that the results of `op` are.
LossScaleAnalysis::Multiple LossScaleAnalysis::compute(Operation *op) {
  return (this->*findRule(op))(op);
}

// A report that nobody wants: what is looked at again later, or breaks no rule.
static std::optional<InFlightDiagnostic> ignore(Operation *) {
  return std::nullopt;
}

// The multiple of the loss scale that the result of an op without scaled
// operands is: zeros, where its operands are zeros, may be added to scaled
// values; anything else is unscaled.
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

// What is the scale times constants is the largest of all gradients: 2^16
// overflows fp16. Only a product may read it rounded, or what moves it there.
void LossScaleAnalysis::checkRounding(Operation *op, Multiple result) {
  if (result.kind != Multiple::Scaled || !result.ofSeed || isa<mpc::CastOp>(op))
    return;
  DecisionAttr decision = DecisionAttr::of(op);
  auto type =
      dyn_cast<FloatType>(getElementTypeOrSelf(op->getResult(0).getType()));
  // A seed that the model has in 16 bits is the model's.
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

// Carried arguments that were zeros when a loop began get the multiple that an
// iteration gave them. True if any changed, so that the body is looked at
// again.
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

// What result `index` is: the same whichever branch or iteration it is from,
// where zeros are multiples of anything.
LossScaleAnalysis::Multiple LossScaleAnalysis::yieldOf(BodyOpInterface op,
                                                       unsigned index) {
  // The values that it may have: from before the loop, and from each body.
  SmallVector<Value> values;
  if (index < op.getNumCarried())
    values.push_back(op->getRegion(0).front().getArgument(index));
  for (Region &body : op->getRegions())
    values.push_back(body.front().getTerminator()->getOperand(index));
  // Zeros have any scale; the first other value says which it is.
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

// What a loop carries is the same multiple in all iterations: zeros become what
// is added to them.
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
  // Loops and branches are followed into their bodies.
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
  // Where multiples come from: zeros, the scaled loss, its quotient.
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
    // The update must not read scaled gradients.
    if (readsScaled)
      complain(op, "reads a gradient that is still scaled");
  } else if (readsScaled && !isa<AllFiniteOp>(op)) {
    // In between, each op makes multiples of multiples.
    result = compute(op);
    result.ofSeed = llvm::all_of(op->getOperands(), [&](Value operand) {
      return lookup(operand).ofSeed || operand.getDefiningOp<ConstantOp>();
    });
    checkRounding(op, result);
  } else if (reads) {
    result = computeUnscaled(op);
  }
  // Free is what is no multiple; it is not recorded.
  if (result.kind == Multiple::Free)
    return;
  for (Value value : op->getResults())
    if (isFloatValue(value))
      multiples[value] = result;
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

// Accumulators hold multiples of the scale that the module scales by.
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

// Only accumulators may leave with the scale, and must.
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
  // Operands come before their readers.
  for (Operation &op : function.getFunctionBody().front().without_terminator())
    visit(&op);
  leave(function);
  if (updates && unscaled.empty())
    complain(function, "updates parameters with gradients that were never "
                       "scaled and unscaled");
}
