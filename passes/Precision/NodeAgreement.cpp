// SPDX-License-Identifier: Apache-2.0
#include "passes/Precision/NodeAgreement.h"

#include "compiler/Dialect/AMP/NodeIds.h"
#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "compiler/Dialect/MPC/NodeNames.h"
#include "compiler/Dialect/MPC/Target.h"
#include "compiler/Kernels/ContractionTable.h"
#include "passes/Precision/FloatTypes.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::amp;

static FunctionOpInterface getFunction(Operation *op) {
  return op->getParentOfType<FunctionOpInterface>();
}

void NodeAgreement::add(PrecisionOpInterface op,
                        const PrecisionFacts::Judgement &judgement) {
  auto id = op->getAttrOfType<StringAttr>(kIdAttr);
  StringRef name = id ? id.getValue() : getNodeName(op);
  if (!name.empty())
    nodes[{op.getPolicyKey(), name}].push_back(
        {op, judgement.keep, judgement.isForcedLow});
}

// True if `op` sums in fp32, so that rounding the result makes `op` no faster.
static bool sums(PrecisionOpInterface op) {
  const RegionRole role =
      cast<RegionOpInterface>(op.getOperation()).getRegionRole();
  return role == RegionRole::Contraction || role == RegionRole::Reduction;
}

// True if the stage has rounded a result of `op`.
static bool roundsResult(Operation *op) {
  return DecisionAttr::of(op).isLowered() &&
         llvm::any_of(op->getResults(), [](Value result) {
           FloatType type = getFloatType(result);
           return type && type.getWidth() < 32;
         });
}

// True if a low op reads a result of `op`. A low op may have wide types, if
// policy keeps the result.
static bool hasLowReader(Operation *op) {
  static constexpr Reason kLow[] = {
      Reason::AllowList,  Reason::AllowListUnbounded,
      Reason::BetweenLow, Reason::FollowsNeighbours,
      Reason::ForceLow,   Reason::KnownOperand};
  return llvm::any_of(op->getUsers(), [](Operation *user) {
    DecisionAttr decision = DecisionAttr::of(user);
    return decision &&
           (decision.isLow() || llvm::is_contained(kLow, decision.getReason()));
  });
}

// Lists the state that the operands of `op` hold, directly or through casts;
// null for other operands and for counters, which only training reads. A low
// copy counts as the parameter.
static SmallVector<Operation *> listState(Operation *op,
                                          const SymbolTable &symbols) {
  SmallVector<Operation *> states;
  for (Value operand : op->getOperands()) {
    auto argument = dyn_cast_or_null<BlockArgument>(findUncastOrigin(operand));
    FlatSymbolRefAttr state =
        argument ? getArgumentPort(argument).getState() : FlatSymbolRefAttr();
    VariableOp variable =
        state ? lookupMaster(symbols, state.getRootReference()) : VariableOp();
    states.push_back(variable && variable.getRole() != Role::Counter
                         ? variable.getOperation()
                         : nullptr);
  }
  return states;
}

// True if two ops read different state as the same operand. An operand may be
// state in one op alone: evaluation reads a weight that training drops out.
static bool readDifferentState(ArrayRef<Operation *> first,
                               ArrayRef<Operation *> second) {
  return llvm::any_of(llvm::zip(first, second), [](auto pair) {
    auto [one, other] = pair;
    return one && other && one != other;
  });
}

void NodeAgreement::verify(
    ModuleOp module,
    llvm::function_ref<InFlightDiagnostic(Operation *)> report) const {
  const SymbolTable symbols(module);
  const TargetInfo target = getTarget(module);
  auto getTypes = [](DecisionAttr decision) {
    return std::tuple(decision.getCompute(), decision.getAccumulate(),
                      decision.getStorage(), decision.getReason());
  };
  for (const auto &[name, members] : nodes) {
    PrecisionOpInterface first = members.front().op;
    DecisionAttr decision = DecisionAttr::of(first);
    llvm::SmallPtrSet<Operation *, 4> functions;
    // Several ops of one name and without ids cannot be told apart.
    if (!llvm::all_of(members, [&](const Member &member) {
          return functions.insert(getFunction(member.op)).second;
        }))
      continue;
    const SmallVector<Operation *> states = listState(first, symbols);
    for (Member member : ArrayRef(members).drop_front()) {
      if (!member.op.movesElements() &&
          getTypes(DecisionAttr::of(member.op)) != getTypes(decision))
        report(member.op) << "is decided otherwise than in @"
                          << getFunction(first).getName();
      if (readDifferentState(listState(member.op, symbols), states))
        report(member.op) << "reads other state than in @"
                          << getFunction(first).getName();
    }
    const bool isInvented = isKeeping(decision.getReason()) &&
                            !isGuard(first) &&
                            llvm::none_of(members, [&](const Member &member) {
                              return member.keep == decision.getReason();
                            });
    if (isInvented)
      report(first) << "recorded for the reason "
                    << stringifyReason(decision.getReason())
                    << ", which does not hold";
    // A library's weight gradient may have no wide type.
    const bool mayRound =
        isa<ConvWeightGradOp>(first) && !hasWideWeightGradient(first, target);
    const bool isPointless = llvm::all_of(members, [](const Member &member) {
      return !member.isForcedLow && !hasLowReader(member.op);
    });
    if (sums(first) && roundsResult(first) && isPointless && !mayRound)
      report(first) << "rounds a sum to " << decision.getStorage()
                    << " that no low op reads";
  }
}
