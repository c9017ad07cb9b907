// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/LossRegion.h"

#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Dialect/MPC/NodeNames.h"
#include "compiler/Interfaces/TiedValues.h"

#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mpc;

// True if a walk from the loss ends at `op`. Contractions, attentions and
// normalisations belong to the model, and hand the loss wide values.
static bool endsLossRegion(Operation *op) {
  if (op->hasTrait<NormalizationTrait>() ||
      op->hasTrait<NormalizationGradTrait>())
    return true;
  auto precise = dyn_cast<PrecisionOpInterface>(op);
  return !isa<RegionOpInterface>(op) ||
         (precise && precise.getNumContractedOperands() > 0);
}

// Adds the forward ops that compute a loss of `function`, back to the first
// contraction or normalisation on each path. A path also ends at an op of the
// loss phase: the op is a whole loss already in the region, and the operands
// belong to the model.
static void collectLoss(FunctionOpInterface function,
                        llvm::DenseSet<Operation *> &region) {
  llvm::SetVector<Value> values;
  auto visit = [&](Value value) {
    if (isa<FloatType>(getElementTypeOrSelf(value.getType())))
      values.insert(value);
  };
  Operation *terminator = function.getFunctionBody().front().getTerminator();
  // Start from the losses. Evaluation returns the loss and the weight of each
  // sample instead.
  for (OpOperand &result : terminator->getOpOperands()) {
    std::optional<Role> role =
        getResultPort(function, result.getOperandNumber()).getRole();
    if (role && llvm::is_contained(
                    {Role::Loss, Role::SampleLoss, Role::SampleWeight}, *role))
      visit(result.get());
  }
  for (unsigned i = 0; i < values.size(); ++i) {
    Value value = values[i];
    llvm::for_each(listTiedSources(value), visit);
    Operation *op = value.getDefiningOp();
    if (op && !endsLossRegion(op) && !op->hasTrait<OpTrait::ConstantLike>() &&
        isForward(getPhase(op)) && region.insert(op).second)
      llvm::for_each(op->getOperands(), visit);
  }
}

// Adds loss gradients that the model computes in its own ops: from the seeds to
// the first contraction or normalisation. Gradients made by differentiation
// have a # in their names and are found by name.
static void collectLossGradient(FunctionOpInterface function,
                                llvm::DenseSet<Operation *> &region) {
  SmallVector<Operation *> worklist;
  function->walk([&](GradientSeedOp seed) { worklist.push_back(seed); });
  auto visit = [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (getPhase(user) == Phase::Backward && !endsLossRegion(user) &&
        !getNodeName(user).contains('#') && region.insert(user).second)
      worklist.push_back(user);
  };
  while (!worklist.empty())
    for (Value result : worklist.pop_back_val()->getResults())
      forEachTiedUse(result, visit);
}

llvm::DenseSet<Operation *> mpc::findLossRegion(ModuleOp module) {
  llvm::DenseSet<Operation *> region;
  // Start with ops of the loss phase and the forward ops of losses.
  module.walk([&](PrecisionOpInterface op) {
    if (getPhase(op) == Phase::Loss)
      region.insert(op);
  });
  for (auto function : module.getOps<FunctionOpInterface>())
    collectLoss(function, region);
  // Add gradients by node name: "loss#dx" belongs to "loss".
  llvm::StringSet<> names;
  for (Operation *op : region)
    if (!getNodeName(op).empty())
      names.insert(getNodeName(op));
  module.walk([&](PrecisionOpInterface op) {
    if (getPhase(op) == Phase::Backward &&
        names.contains(getNodeName(op).split('#').first))
      region.insert(op);
  });
  // Add the ops between these gradients and the model.
  for (auto function : module.getOps<FunctionOpInterface>())
    collectLossGradient(function, region);
  return region;
}

// True if `value` originates in a constant.
static bool isConstant(Value value) {
  Value origin = findOrigin(value);
  return origin && origin.getDefiningOp<ConstantOp>();
}

llvm::DenseSet<Operation *> mpc::findMultiplesOfSeed(ModuleOp module) {
  llvm::DenseSet<Operation *> multiples;
  // The initial value decides for a carried value, because all iterations share
  // a type.
  auto isMultiple = [&](Value value) {
    SmallVector<Value, 2> sources;
    for (; !(sources = listTiedSources(value)).empty();)
      value = sources.front();
    Operation *op = value.getDefiningOp();
    return op && (isa<GradientSeedOp>(op) || multiples.contains(op));
  };
  // Pre-order visits operands before users, and a loop before its body.
  module.walk<WalkOrder::PreOrder>([&](PrecisionOpInterface op) {
    bool isAlone = llvm::all_of(op->getOperands(), [&](Value operand) {
      return isMultiple(operand) || isConstant(operand);
    });
    if (isAlone && llvm::any_of(op->getOperands(), isMultiple))
      multiples.insert(op);
  });
  return multiples;
}
