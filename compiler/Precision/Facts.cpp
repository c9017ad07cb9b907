// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/Facts.h"

#include "compiler/Dialect/AMP/NodeIds.h"
#include "compiler/Dialect/MPC/Facts/LowUpdates.h"
#include "compiler/Dialect/MPC/Facts/VariableTable.h"
#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "compiler/Dialect/MPC/NodeNames.h"
#include "compiler/Interfaces/TiedValues.h"
#include "compiler/Precision/LossRegion.h"
#include "compiler/Precision/Policy/RecordedPolicy.h"

#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mpc;
using amp::Reason;

//===----------------------------------------------------------------------===//
// State
//===----------------------------------------------------------------------===//

// True if a variable of `role` sums small changes over many steps. In a low
// type, the sum would lose the changes.
static bool sumsChanges(Role role) {
  return llvm::is_contained({Role::Parameter, Role::OptimizerState,
                             Role::Average, Role::Accumulator, Role::Statistic},
                            role);
}

// Returns the ops whose results become the new values of such variables. Looks
// through loops, casts, and ops that hand values on, such as guards.
static llvm::DenseSet<Operation *> findStateOps(ModuleOp module) {
  VariableTable variables(module);
  llvm::SetVector<Value> values;
  auto visit = [&](Value value) {
    if (isa<FloatType>(getElementTypeOrSelf(value.getType())))
      values.insert(value);
  };
  for (auto function : module.getOps<FunctionOpInterface>())
    for (unsigned i = 0; i < function.getNumResults(); ++i) {
      VariableOp variable =
          variables.lookupVariable(getResultPort(function, i).getUpdated());
      if (variable && sumsChanges(variable.getRole()))
        visit(getReturn(function)->getOperand(i));
    }
  llvm::DenseSet<Operation *> ops;
  for (unsigned i = 0; i < values.size(); ++i)
    for (Value origin : listUncastOrigins(values[i])) {
      auto op = dyn_cast_or_null<PrecisionOpInterface>(origin.getDefiningOp());
      if (!op || op->hasTrait<OpTrait::ConstantLike>() ||
          policyKeepsResultFP32(op.getPolicyKey(),
                                cast<OpResult>(origin).getResultNumber()))
        continue;
      ops.insert(op);
      llvm::for_each(listHandedOn(op), visit);
    }
  return ops;
}

PrecisionFacts::PrecisionFacts(ModuleOp module, PrecisionPolicy &policy,
                               const amp::Request &request)
    : policy(policy), request(request), types(module), ranges(module),
      cancellations(module, ranges, types, policy.getLowType()),
      givenValues(module, policy.getLowType()), loss(findLossRegion(module)),
      multiplesOfSeed(findMultiplesOfSeed(module)), state(findStateOps(module)),
      keepFP32(makeNamePatterns(listExpressions(request.keepFP32))),
      forceLow(makeNamePatterns(listExpressions(request.forceLow))) {}

//===----------------------------------------------------------------------===//
// Policy
//===----------------------------------------------------------------------===//

// Returns the key of the policy row that applies to `op`. A reduction in a
// backward pass is the gradient of a broadcast, and takes the row of
// mpc.sum_to_size. The row of a forward sum would deny the gradients around it,
// or mark them as unbounded.
StringRef mpc::getPolicyRow(PrecisionOpInterface op) {
  auto region = cast<RegionOpInterface>(op.getOperation());
  if (getPhase(op) == Phase::Backward &&
      region.getRegionRole() == RegionRole::Reduction)
    return SumToSizeOp::getOperationName().split('.').second;
  return op.getPolicyKey();
}

std::optional<PolicyEntry>
PrecisionFacts::lookupPolicy(PrecisionOpInterface op) const {
  return policy.lookup(getPolicyRow(op), getNodeNames(op));
}

bool PrecisionFacts::isOpen(PrecisionOpInterface op,
                            PrecisionClass precisionClass) const {
  if (precisionClass == PrecisionClass::Fixed)
    return false;
  return op.getNumContractedOperands() > 0 ||
         llvm::any_of(op->getResults(), [&](OpResult result) {
           return types.isF32(result) &&
                  !policyKeepsResultFP32(op.getPolicyKey(),
                                         result.getResultNumber());
         });
}

//===----------------------------------------------------------------------===//
// Ranges
//===----------------------------------------------------------------------===//

// True if `bound`, a limit of a clip, overflows in `low`, or becomes denormal
// or zero.
static bool leavesRangeOf(FloatType low, std::optional<APFloat> bound) {
  if (!bound || bound->isZero())
    return false;
  bool losesInfo;
  bound->convert(low.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                 &losesInfo);
  return bound->isInfinity() || bound->isZero() || bound->isDenormal();
}

// True if `value` is an argument or a constant, directly or through loops. Such
// a value stays fp32, and each low user rounds it.
static bool isGiven(Value value) {
  return llvm::all_of(listUncastOrigins(value), [](Value origin) {
    return isa<BlockArgument>(origin) || origin.getDefiningOp<ConstantOp>();
  });
}

std::optional<RangeFinding>
PrecisionFacts::findOutOfRange(PrecisionOpInterface op) const {
  StringRef key = op.getPolicyKey();
  FloatType low = policy.getLowType();
  // Small values do not matter in the backward pass, where the loss scale makes
  // them larger.
  bool isScaled = getPhase(op) == Phase::Backward;
  auto leaves = [&](Value value) {
    return ranges.overflows(value, low) ||
           (!isScaled && ranges.vanishes(value, low));
  };
  // A bound that rounds to infinity or zero would no longer clip.
  if (auto clip = dyn_cast<ClipOp>(op.getOperation()))
    for (std::optional<APFloat> bound : {clip.getMin(), clip.getMax()})
      if (leavesRangeOf(low, bound))
        return RangeFinding{bound->convertToDouble(), clip.getOutput(),
                            /*isProved=*/true};
  std::optional<RangeFinding> finding;
  auto note = [&](Value value) {
    if (!leaves(value))
      return;
    const ConstantRanges::Range *range = ranges.find(value);
    if (!finding || (range->isProved && !finding->isProved))
      finding = {range->getLargest(), range->source, range->isProved};
  };
  // Check the operands that a low op would round: contracted operands, and
  // arguments and constants.
  for (OpOperand &operand : op->getOpOperands()) {
    unsigned index = operand.getOperandNumber();
    bool rounded =
        index < op.getNumContractedOperands() || isGiven(operand.get());
    if (rounded && types.isF32(operand.get()) &&
        !policyKeepsOperandFP32(key, index))
      note(operand.get());
  }
  for (OpResult result : op->getResults())
    if (types.isF32(result) &&
        !policyKeepsResultFP32(key, result.getResultNumber()))
      note(result);
  return finding;
}

std::optional<RangeFinding>
PrecisionFacts::findRange(PrecisionOpInterface op) const {
  if (std::optional<RangeFinding> finding = findOutOfRange(op))
    return finding;
  return cancellations.lookup(op);
}

//===----------------------------------------------------------------------===//
// Constraints and flags
//===----------------------------------------------------------------------===//

// Returns the reason for which an op of class Fixed is fixed.
static Reason getFixedReason(Operation *op) {
  if (op->hasTrait<OpTrait::ConstantLike>())
    return Reason::Constant;
  return isa<mpc::CastOp>(op) ? Reason::ModelCast : Reason::Update;
}

std::optional<Reason>
PrecisionFacts::findConstraint(PrecisionOpInterface op,
                               PrecisionClass precisionClass) const {
  if (precisionClass == PrecisionClass::Fixed)
    return getFixedReason(op);
  if (types.isSettled(op))
    return Reason::ModelType;
  const bool staysWide =
      getPhase(op) == Phase::Optimizer && !op->hasAttr(kLowUpdateAttr);
  if (staysWide || isGuard(op) || writesState(op))
    return Reason::Update;
  // Multiples of the loss scale may exceed the range of a low type.
  if (isInLoss(op) || multiplesOfSeed.contains(op))
    return Reason::LossRegion;
  // Values close to a constant lose all digits in the low type. A contraction
  // may still compute low, but keeps its result in fp32.
  if (findOutOfRange(op) || (cancels(op) && op.getNumContractedOperands() == 0))
    return Reason::ConstantRange;
  return std::nullopt;
}

bool mpc::isGuard(Operation *op) {
  // Nodes of models may have any name, so ask for the ops of guards, too.
  return isa<SelectOp, IsInfOp, IsNaNOp, OrOp>(op) &&
         getNodeName(op).ends_with(kGuardSuffix);
}

bool mpc::isKeeping(Reason reason) {
  return isHard(reason) || reason == Reason::ModelCast ||
         reason == Reason::Constant || reason == Reason::ConstantRange ||
         reason == Reason::KeepFP32 || reason == Reason::DenyList ||
         reason == Reason::UnknownOp;
}

bool mpc::isHard(Reason reason) {
  return reason == Reason::ModelType || reason == Reason::Update ||
         reason == Reason::LossRegion;
}

bool mpc::matchesNode(Operation *op, const NamePattern &pattern) {
  const SmallVector<StringRef> names = getNodeNames(op);
  return names.empty() ? pattern.match("")
                       : llvm::any_of(names, [&](StringRef name) {
                           return pattern.match(name);
                         });
}

PrecisionFacts::Judgement PrecisionFacts::judge(PrecisionOpInterface op) const {
  // Decided ops have ids. Only an expression with a ~ may match an id.
  auto id = op->getAttrOfType<StringAttr>(amp::kIdAttr);
  Judgement judgement;
  // Returns true if an expression names the op. The last one is the rule.
  auto isNamedBy = [&](ArrayRef<NamePattern> patterns,
                       ArrayRef<std::string> expressions, StringRef flag) {
    for (size_t i = patterns.size(); i-- > 0;) {
      StringRef expression = getExpression(expressions[i]);
      if (matchesNode(op, patterns[i]) || (id && expression.contains('~') &&
                                           patterns[i].match(id.getValue()))) {
        judgement.rule = (flag + "=" + expression).str();
        return true;
      }
    }
    return false;
  };
  std::optional<PolicyEntry> entry = lookupPolicy(op);
  if (entry)
    judgement.precisionClass = entry->precisionClass;
  judgement.rule = entry ? entry->rule : ("default:" + getPolicyRow(op)).str();
  judgement.keep = findConstraint(op, judgement.precisionClass);
  // If both flags match an op, fp32 wins as the safer choice.
  if (isOpen(op, judgement.precisionClass) &&
      !(judgement.keep && isHard(*judgement.keep))) {
    if (isNamedBy(keepFP32, request.keepFP32, "--keep-fp32")) {
      judgement.keep = Reason::KeepFP32;
      return judgement;
    }
    if (isNamedBy(forceLow, request.forceLow, "--force-low")) {
      judgement.keep.reset();
      judgement.isForcedLow = true;
      return judgement;
    }
  }
  judgement.meetsWide = judgement.precisionClass == PrecisionClass::Infer &&
                        givenValues.lookup(op) == GivenValues::Meeting::Wide;
  if (!judgement.keep && judgement.precisionClass == PrecisionClass::Deny)
    judgement.keep = entry ? Reason::DenyList : Reason::UnknownOp;
  return judgement;
}
