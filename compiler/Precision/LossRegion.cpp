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

// True where a walk from the loss ends: contractions, attentions and
// normalisations are the model's, and what they hand the loss is wide.
static bool endsLossRegion(Operation *op) {
  if (op->hasTrait<NormalizationTrait>() ||
      op->hasTrait<NormalizationGradTrait>())
    return true;
  auto precise = dyn_cast<PrecisionOpInterface>(op);
  return !isa<RegionOpInterface>(op) ||
         (precise && precise.getNumContractedOperands() > 0);
}

// Adds the forward ops that a loss of `function` is computed with, back to the
// first contraction or normalisation on each way. An op in the phase of the
// loss is in the region already and ends a way: it is one whole loss, and what
// it reads is the model's.
static void collectLoss(FunctionOpInterface function,
                        llvm::DenseSet<Operation *> &region) {
  llvm::SetVector<Value> values;
  auto visit = [&](Value value) {
    if (isa<FloatType>(getElementTypeOrSelf(value.getType())))
      values.insert(value);
  };
  Operation *terminator = function.getFunctionBody().front().getTerminator();
  // Losses, and per sample the loss and its weight, which evaluation returns
  // instead.
  for (OpOperand &result : terminator->getOpOperands()) {
    std::optional<Role> role =
        getResultPort(function, result.getOperandNumber()).getRole();
    if (role && llvm::is_contained(
                    {Role::Loss, Role::SampleLoss, Role::SampleWeight}, *role))
      visit(result.get());
  }
  // Operands of what was found, until every way has ended.
  for (unsigned i = 0; i < values.size(); ++i) {
    Value value = values[i];
    llvm::for_each(listTiedSources(value), visit);
    Operation *op = value.getDefiningOp();
    if (op && !endsLossRegion(op) && !op->hasTrait<OpTrait::ConstantLike>() &&
        isForward(getPhase(op)) && region.insert(op).second)
      llvm::for_each(op->getOperands(), visit);
  }
}

// Adds the gradients that the model itself computes of its loss: from the seeds
// on to the first contraction or normalisation. Those that differentiation made
// are found by their names.
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
  // Ops in the phase of the loss, and forward ops that a loss consists of.
  module.walk([&](PrecisionOpInterface op) {
    if (getPhase(op) == Phase::Loss)
      region.insert(op);
  });
  for (auto function : module.getOps<FunctionOpInterface>())
    collectLoss(function, region);
  // Their gradients, by the names of their nodes: "loss#dx" of "loss".
  llvm::StringSet<> names;
  for (Operation *op : region)
    if (!getNodeName(op).empty())
      names.insert(getNodeName(op));
  module.walk([&](PrecisionOpInterface op) {
    if (getPhase(op) == Phase::Backward &&
        names.contains(getNodeName(op).split('#').first))
      region.insert(op);
  });
  // And what is between these and the model.
  for (auto function : module.getOps<FunctionOpInterface>())
    collectLossGradient(function, region);
  return region;
}

// True if `value` is computed from constants alone.
static bool isConstant(Value value) {
  Value origin = findOrigin(value);
  return origin && origin.getDefiningOp<ConstantOp>();
}

llvm::DenseSet<Operation *> mpc::findMultiplesOfSeed(ModuleOp module) {
  llvm::DenseSet<Operation *> multiples;
  // A carried value is a multiple if it begins as one: all iterations have
  // one type.
  auto isMultiple = [&](Value value) {
    SmallVector<Value, 2> sources;
    for (; !(sources = listTiedSources(value)).empty();)
      value = sources.front();
    Operation *op = value.getDefiningOp();
    return op && (isa<GradientSeedOp>(op) || multiples.contains(op));
  };
  // Operands come before their readers, and what a loop takes before its body.
  module.walk<WalkOrder::PreOrder>([&](PrecisionOpInterface op) {
    bool isAlone = llvm::all_of(op->getOperands(), [&](Value operand) {
      return isMultiple(operand) || isConstant(operand);
    });
    if (isAlone && llvm::any_of(op->getOperands(), isMultiple))
      multiples.insert(op);
  });
  return multiples;
}
