// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/LossRegion.h"

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/AMP/ConstantAttrs.h"
#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Dialect/MPC/NodeNames.h"
#include "compiler/Interfaces/TiedValues.h"
#include "compiler/Precision/ModelTypes.h"

#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mpc;

// True if `op` starts a backward pass. The stage replaces each seed by a scaled
// loss or by a constant.
static bool isSeed(Operation *op) {
  return isa<GradientSeedOp, amp::ScaleLossOp>(op) ||
         op->hasAttr(amp::kSeedAttr);
}

// True if a walk from the loss ends before `op`. Contractions, attentions and
// normalisations belong to the model. The loss reads their results as fp32.
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
// loss phase, which computes a whole loss: its operands belong to the model.
static void collectLoss(FunctionOpInterface function,
                        llvm::DenseSet<Operation *> &region) {
  llvm::SetVector<Value> values;
  auto visit = [&](Value value) {
    if (isa<FloatType>(getElementTypeOrSelf(value.getType())))
      values.insert(value);
  };
  Operation *terminator = function.getFunctionBody().front().getTerminator();
  // Start from the loss that a training function returns, or from the loss and
  // weight of each sample that evaluation returns.
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
    // A cast of the stage has the name of a reader, which may be outside of the
    // loss, so the region has no casts.
    if (auto cast = dyn_cast_or_null<amp::CastOp>(op)) {
      visit(cast.getInput());
      continue;
    }
    if (op && !endsLossRegion(op) && !op->hasTrait<OpTrait::ConstantLike>() &&
        isForward(getPhase(op)) && region.insert(op).second)
      llvm::for_each(op->getOperands(), visit);
  }
}

// Adds the backward ops of a loss in a model that brings its own gradients:
// from the gradient seed to the first contraction or normalisation on each
// path. Gradients that mpc derives have a # in their names, and findLossRegion
// finds them by name.
static void collectLossGradient(FunctionOpInterface function,
                                llvm::DenseSet<Operation *> &region) {
  SmallVector<Operation *> worklist;
  function->walk([&](Operation *op) {
    if (isSeed(op))
      worklist.push_back(op);
  });
  llvm::DenseSet<Operation *> casts;
  auto visit = [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (isa<amp::CastOp>(user) && casts.insert(user).second)
      worklist.push_back(user);
    else if (isa<PrecisionOpInterface>(user) &&
             getPhase(user) == Phase::Backward && !endsLossRegion(user) &&
             !getNodeName(user).contains('#') && region.insert(user).second)
      worklist.push_back(user);
  };
  while (!worklist.empty())
    for (Value result : worklist.pop_back_val()->getResults())
      forEachTiedUse(result, visit);
}

llvm::DenseSet<Operation *> mpc::findLossRegion(ModuleOp module) {
  llvm::DenseSet<Operation *> region;
  // Start with ops of the loss phase, then add losses that the model writes as
  // forward ops.
  module.walk([&](PrecisionOpInterface op) {
    if (getPhase(op) == Phase::Loss)
      region.insert(op);
  });
  for (auto function : module.getOps<FunctionOpInterface>())
    collectLoss(function, region);
  // Add the derived gradients of these ops by name: "loss#dx" belongs to
  // "loss".
  llvm::StringSet<> names;
  for (Operation *op : region)
    if (!getNodeName(op).empty())
      names.insert(getNodeName(op));
  module.walk([&](PrecisionOpInterface op) {
    if (getPhase(op) == Phase::Backward &&
        names.contains(getNodeName(op).split('#').first))
      region.insert(op);
  });
  // Add loss gradients that the model itself computes. Their names say nothing.
  for (auto function : module.getOps<FunctionOpInterface>())
    collectLossGradient(function, region);
  return region;
}

// True if `value` is a constant, possibly from outside a loop.
static bool isConstant(Value value) {
  Value origin = findUncastOrigin(value);
  return origin && origin.getDefiningOp<ConstantOp>();
}

llvm::DenseSet<Operation *> mpc::findMultiplesOfSeed(ModuleOp module) {
  llvm::DenseSet<Operation *> multiples;
  // A value that a loop carries counts as its initial value, because all
  // iterations share a type.
  auto isMultiple = [&](Value value) {
    SmallVector<Value, 2> sources;
    auto getSources = [](Value value) -> SmallVector<Value, 2> {
      if (auto cast = value.getDefiningOp<amp::CastOp>())
        return {cast.getInput()};
      return listTiedSources(value);
    };
    for (; !(sources = getSources(value)).empty();)
      value = sources.front();
    Operation *op = value.getDefiningOp();
    return op && (isSeed(op) || multiples.contains(op));
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
