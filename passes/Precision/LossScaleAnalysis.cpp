// SPDX-License-Identifier: Apache-2.0
#include "passes/Precision/LossScaleAnalysis.h"

#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "passes/Precision/GuardedState.h"
#include "passes/Precision/ScaledValues.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::amp;

/// Returns the names of ops, to register rules.
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

// Returns a pointer that identifies a scale: the variable or the constant that
// `scale` comes from, or else the value `scale`. Equal pointers mean equal
// scales.
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

// All gradient seeds are later replaced by one scale, so all get one identity:
// the name of the op.
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

// Analyses an op that adds, selects among or concatenates `values`. All values
// must be multiples of one scale, or free of scales.
LossScaleAnalysis::Multiple LossScaleAnalysis::join(Operation *op,
                                                    ValueRange values) {
  // Zeros are multiples of any scale. All other values must agree.
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
  // A rule is broken: a scaled value and an unscaled value.
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

// Analyses an op that is linear in `value`, or for which f(s * x) = s * f(x)
// with s > 0, as for a maximum. No other operand may be scaled.
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

// The condition (operand 0) chooses between the other operands, and does not
// scale.
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

// Padding with a number other than zero would join an unscaled value to a
// scaled one.
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

// A scatter starts from data, and adds updates or replaces elements by updates.
// So data and updates must be multiples of one scale.
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

// Analyses a contraction a * b + c. If the product is a multiple of the scale,
// c must be one too, and vice versa.
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

// Returns the rule registered for ops called `name`. Null for other ops, whose
// traits, interfaces and region role determine the rule.
LossScaleAnalysis::Rule LossScaleAnalysis::findOwnRule(StringRef name) {
  using Analysis = LossScaleAnalysis;
  static const auto rules = [] {
    llvm::StringMap<Rule> rules;
    auto add = [&](Rule rule, ArrayRef<StringRef> names) {
      for (StringRef name : names)
        rules[name] = rule;
    };
    add(&Analysis::joinAll,
        namesOf<AddOp, SubOp, MaximumOp, MinimumOp, AllReduceOp>());
    add(&Analysis::select, namesOf<SelectOp>());
    add(&Analysis::multiply, namesOf<MulOp>());
    add(&Analysis::divide, namesOf<DivOp>());
    add(&Analysis::pad, namesOf<PadOp>());
    return rules;
  }();
  return rules.lookup(name);
}

LossScaleAnalysis::Rule LossScaleAnalysis::findRule(Operation *op) {
  if (Rule own = findOwnRule(op->getName().getStringRef()))
    return own;
  if (op->hasTrait<LinearInFirstOperand>())
    return &LossScaleAnalysis::linearInFirst;
  // Views, movements and lookups only move elements.
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
  return &LossScaleAnalysis::refuse;
}

// Returns the multiple that the results of `op` are, by the rule of the op.
LossScaleAnalysis::Multiple LossScaleAnalysis::compute(Operation *op) {
  return (this->*findRule(op))(op);
}

// A report function that reports nothing, for ops that are visited again, or of
// which only the result matters.
static std::optional<InFlightDiagnostic> ignore(Operation *) {
  return std::nullopt;
}

// Analyses an op without scaled operands. The result may be zero, as a product
// with zero is; zeros may be added to scaled values. Otherwise the result is
// free, or unknown if an operand is.
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

// Reports an op that rounds the scale, or the scale times constants, to a low
// type: 2^16 overflows f16. A cast is allowed if only contractions and
// movements read the result.
void LossScaleAnalysis::checkRounding(Operation *op, Multiple result) {
  if (result.kind != Multiple::Scaled || !result.ofSeed || isa<mpc::CastOp>(op))
    return;
  DecisionAttr decision = DecisionAttr::of(op);
  auto type =
      dyn_cast<FloatType>(getElementTypeOrSelf(op->getResult(0).getType()));
  // If the model has a 16-bit seed, rounding is the model's choice.
  bool ofModel = decision && decision.isLow() && !decision.isLowered();
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

// For carried values of a loop that start as zeros: makes the body's argument
// the multiple that an iteration yields. Returns true if an argument changes;
// the body must then be visited again.
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

// Returns the multiple of result `index` of a loop or condition. Reports an
// error if branches or iterations differ. Zeros fit any multiple.
LossScaleAnalysis::Multiple LossScaleAnalysis::yieldOf(BodyOpInterface op,
                                                       unsigned index) {
  // Collect the initial value (for a carried value), and the values that the
  // bodies yield.
  SmallVector<Value> values;
  if (index < op.getNumCarried())
    values.push_back(op->getRegion(0).front().getArgument(index));
  for (Region &body : op->getRegions())
    values.push_back(body.front().getTerminator()->getOperand(index));
  // The first value that is not zero determines the scale; the others must
  // agree.
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

// Analyses a loop or condition. A carried value must be the same multiple in
// all iterations. A carried value that starts as zero becomes the multiple
// added in the body.
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
  // Zeros, seeds and amp.scale_loss are where multiples come from.
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
    // Any other op with a scaled operand follows the rule of its name or role.
    result = compute(op);
    result.ofSeed = llvm::all_of(op->getOperands(), [&](Value operand) {
      return lookup(operand).ofSeed || operand.getDefiningOp<ConstantOp>();
    });
    checkRounding(op, result);
  } else if (reads) {
    result = computeUnscaled(op);
  }
  // Store no entry for free values: `lookup` returns free by default.
  if (result.kind == Multiple::Free)
    return;
  for (Value value : op->getResults())
    if (isFloatValue(value))
      multiples[value] = result;
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

// Marks accumulators as scaled: they hold sums of scaled gradients from earlier
// micro-batches. The scale is that of any amp.scale_loss or seed in the module.
void LossScaleAnalysis::enter(FunctionOpInterface function) {
  SmallVector<Value> accumulators;
  for (BlockArgument argument : function.getArguments()) {
    VariableOp variable =
        variables.lookupVariable(getArgumentPort(argument).getState());
    if (variable && variable.getRole() == Role::Accumulator)
      accumulators.push_back(argument);
  }
  if (accumulators.empty())
    return;
  const void *moduleScale = nullptr;
  (void)function->getParentOfType<ModuleOp>().walk([&](Operation *op) {
    if (auto scaling = dyn_cast<ScaleLossOp>(op))
      moduleScale = identify(scaling.getScale());
    else if (isa<GradientSeedOp>(op))
      moduleScale = identifySeeds(op);
    return moduleScale ? WalkResult::interrupt() : WalkResult::advance();
  });
  if (moduleScale)
    for (Value accumulator : accumulators)
      multiples[accumulator] = {Multiple::Scaled, moduleScale, false};
}

// Reports a result that is scaled but updates no accumulator, and an update of
// an accumulator that is not scaled.
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
      updates(updatesParameters(function, variables)) {
  enter(function);
  // Visit ops in order, so operands are analysed before their users.
  for (Operation &op : function.getFunctionBody().front().without_terminator())
    visit(&op);
  leave(function);
  if (updates && unscaled.empty())
    complain(function, "updates parameters with gradients that were never "
                       "scaled and unscaled");
}
