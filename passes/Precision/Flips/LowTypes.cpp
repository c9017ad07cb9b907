// SPDX-License-Identifier: Apache-2.0
#include "passes/Precision/Flips/LowTypes.h"

#include "compiler/Kernels/ContractionTable.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::amp;

// Returns the maximum that the result of `op` is, directly or through views;
// null if the result is no maximum. `known` has the maxima of the views so far.
static ReduceMaxOp
findMaximum(Operation *op, llvm::DenseMap<Operation *, ReduceMaxOp> &known) {
  SmallVector<Operation *> views;
  ReduceMaxOp maximum;
  while (auto view = dyn_cast_or_null<RegionOpInterface>(op)) {
    if (view.getRegionRole() != RegionRole::View)
      break;
    if (auto found = known.find(op); found != known.end()) {
      maximum = found->second;
      op = nullptr;
      break;
    }
    views.push_back(op);
    op = op->getOperand(0).getDefiningOp();
  }
  if (op)
    maximum = dyn_cast<ReduceMaxOp>(op);
  for (Operation *view : views)
    known[view] = maximum;
  return maximum;
}

LowTypesFinder::LowTypesFinder(const PrecisionGraph &graph,
                               const TargetInfo &target)
    : graph(graph), target(target) {
  llvm::DenseMap<Operation *, ReduceMaxOp> known;
  for (auto [index, node] : llvm::enumerate(graph.getNodes())) {
    ReduceMaxOp maximum = findMaximum(node.ops.front(), known);
    if (!maximum)
      continue;
    Operation *computing = maximum.getInput().getDefiningOp();
    std::optional<unsigned> source =
        computing ? graph.lookup(computing) : std::nullopt;
    sourceOfMaximum[index] = source.value_or(kNoNode);
    if (source)
      maximaOf[*source].push_back(index);
  }
}

// True if the results of node `index` are stored in the low type. A contraction
// or reduction sums in fp32 anyway, so its result is rounded only if a low op
// reads the result; otherwise rounding would speed up nothing.
bool LowTypesFinder::storesLow(unsigned index, Placed placed) const {
  PrecisionOpInterface op = graph.getNodes()[index].ops.front();
  if (!placed.isLow || llvm::none_of(op->getResults(), [&](OpResult result) {
        return isa<FloatType>(getElementTypeOrSelf(result.getType())) &&
               !policyKeepsResultFP32(op.getPolicyKey(),
                                      result.getResultNumber());
      }))
    return false;
  if (graph.getProblem().nodes[index].keepsResult && !placed.isForcedLow)
    return false;
  RegionRole role = cast<RegionOpInterface>(op.getOperation()).getRegionRole();
  bool sums = role == RegionRole::Contraction || role == RegionRole::Reduction;
  return !sums || placed.isForcedLow || placed.hasLowConsumer;
}

template <typename GetFn>
LowTypes LowTypesFinder::findBy(unsigned index, GetFn getPlaced) const {
  PrecisionOpInterface op = graph.getNodes()[index].ops.front();
  const Placed placed = getPlaced(index);
  LowTypes types;
  types.computesLow = placed.isLow && op.getNumContractedOperands() > 0;
  // If the library cannot store the weight gradient in fp32, the convolution
  // sums in fp32 and rounds the result, and a cast widens the gradient again.
  types.isRounded = placed.isLow && isa<ConvWeightGradOp>(op) &&
                    !hasWideWeightGradient(op, target);
  types.storesLow = types.isRounded || storesLow(index, placed);
  // The gradient finds the position of a maximum by comparing all elements with
  // the maximum. If the elements are fp32, the maximum must not be rounded,
  // whatever a flag says.
  if (auto source = sourceOfMaximum.find(index);
      types.storesLow && !types.isRounded && source != sourceOfMaximum.end())
    types.storesLow = source->second != kNoNode &&
                      storesLow(source->second, getPlaced(source->second));
  return types;
}

LowTypes LowTypesFinder::find(unsigned index,
                              ArrayRef<Placement> placements) const {
  return findBy(index, [&](unsigned node) {
    const Placement &placement = placements[node];
    const bool isForcedLow =
        placement.low && placement.reason == Reason::ForceLow;
    const bool hasLowConsumer =
        placement.low && llvm::any_of(graph.getProblem().nodes[node].consumers,
                                      [&](unsigned consumer) {
                                        return placements[consumer].low;
                                      });
    return Placed{placement.low, isForcedLow, hasLowConsumer};
  });
}

LowTypes LowTypesFinder::find(unsigned index,
                              const PlacementChanges &changes) const {
  return findBy(index, [&](unsigned node) {
    return Placed{changes.isLow(node), changes.isForcedLow(node),
                  changes.hasLowConsumer(node)};
  });
}

SmallVector<unsigned>
LowTypesFinder::listDependents(ArrayRef<unsigned> changed) const {
  SmallVector<unsigned> dependents(changed);
  for (unsigned node : changed)
    llvm::append_range(dependents, graph.getProblem().nodes[node].producers);
  for (unsigned i = 0, count = dependents.size(); i < count; ++i)
    if (auto maxima = maximaOf.find(dependents[i]); maxima != maximaOf.end())
      llvm::append_range(dependents, maxima->second);
  llvm::sort(dependents);
  dependents.erase(llvm::unique(dependents), dependents.end());
  return dependents;
}
