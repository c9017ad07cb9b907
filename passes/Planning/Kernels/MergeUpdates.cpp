// Merges the optimizer's work on all parameters into few launches.
//
// A model has one update kernel per parameter. Clipping gradients, or testing
// for infinities, takes one sum per gradient. Most of these kernels are small:
// biases, scales, filters. If launches on the target are costly, small kernels
// become segments of one kernel (compiler/Kernels/KernelSegments.h). Kernels
// are merged only if none depends on another.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Passes.h"

#include "compiler/Dialect/MPC/Target.h"
#include "compiler/Kernels/KernelHero.h"
#include "compiler/Kernels/KernelSegments.h"
#include "compiler/Regions/KernelOrder.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace mpc {
#define GEN_PASS_DEF_MERGEUPDATESPASS
#include "passes/Planning/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
struct MergeUpdatesPass
    : public mpc::impl::MergeUpdatesPassBase<MergeUpdatesPass> {
  using MergeUpdatesPassBase::MergeUpdatesPassBase;
  void runOnOperation() override;
};
} // namespace

// True if `region` updates parameters.
static bool isUpdate(RegionOp region) {
  return canBeSegment(region) &&
         llvm::any_of(region.getBody().front(), [](Operation &op) {
           return isa<OptimizerOpInterface>(op);
         });
}

// True if `region` reduces a gradient.
static bool isSumOfGradient(RegionOp region) {
  return getPhase(region) == Phase::Optimizer &&
         KernelHero::get(region.getKind()).hasSegments() &&
         !region.getBody().front().getOps<ReductionOpInterface>().empty();
}

static bool mayBeOverwritten(Value operand, RegionOp by) {
  return llvm::is_contained(by.getResultTypes(), operand.getType());
}

//===----------------------------------------------------------------------===//
// Updates that share a region
//===----------------------------------------------------------------------===//

static bool isConstant(Value value) {
  return isa_and_nonnull<ConstantOp>(value.getDefiningOp());
}

// True if all ops that read `value` must stay in one region. False for
// constants, and for numbers that all updates read, such as the learning rate,
// unless an update may overwrite the number.
static bool holdsTogether(Value value, RegionOp region) {
  if (isa<BlockArgument>(value))
    return typeOf(value).getNumElements() > 1 ||
           mayBeOverwritten(value, region);
  return !isConstant(value);
}

using Ops = SmallVector<Operation *>;

// Divides the ops of `region` into independent groups: ops of different groups
// share no value that holdsTogether. Each group keeps the order of the region.
// Constants belong to no group.
static SmallVector<Ops> findParts(RegionOp region) {
  // An op joins the groups of all its operands.
  llvm::EquivalenceClasses<void *> related;
  auto ops = llvm::make_filter_range(
      region.getBody().front().without_terminator(),
      [](Operation &op) { return !isa<ConstantOp>(op); });
  for (Operation &op : ops) {
    related.insert(&op);
    for (Value operand : op.getOperands())
      if (holdsTogether(operand, region)) {
        Operation *producer = operand.getDefiningOp();
        related.unionSets(&op, producer ? static_cast<void *>(producer)
                                        : operand.getAsOpaquePointer());
      }
  }
  llvm::MapVector<void *, Ops> parts;
  for (Operation &op : ops)
    parts[related.getLeaderValue(&op)].push_back(&op);
  return llvm::map_to_vector(parts.takeVector(),
                             [](auto &part) { return std::move(part.second); });
}

// Moves `ops`, one of the groups from findParts, to a new region before
// `region`, and replaces the results of `region` that the group computes.
static void detach(RegionOp region, ArrayRef<Operation *> ops) {
  // List inputs in the order of the ops, so that regions with equal
  // computations look alike.
  llvm::SetVector<Value> arguments, constants;
  SmallVector<Location> locations;
  for (Operation *op : ops) {
    for (Value operand : op->getOperands())
      if (isa<BlockArgument>(operand))
        arguments.insert(operand);
      else if (isConstant(operand))
        constants.insert(operand);
    locations.push_back(op->getLoc());
  }
  Operation *yield = region.getBody().front().getTerminator();
  SmallVector<Value> yielded, results;
  for (auto [value, result] :
       llvm::zip(yield->getOperands(), region.getResults()))
    if (llvm::is_contained(ops, value.getDefiningOp())) {
      yielded.push_back(value);
      results.push_back(result);
    }
  OpBuilder builder(region);
  Location location = builder.getFusedLoc(locations);
  auto inputs = llvm::map_to_vector(
      arguments, [&](Value argument) { return region.getTiedInput(argument); });
  auto part = RegionOp::create(builder, location, TypeRange(yielded),
                               region.getKind(), inputs);
  part.setKernelAttr(region.getKernelAttr());
  copyPhase(region, part);
  Block *body = builder.createBlock(&part.getBody());
  IRMapping mapping;
  for (Value argument : arguments)
    mapping.map(argument, body->addArgument(argument.getType(), location));
  for (Value constant : constants)
    builder.clone(*constant.getDefiningOp(), mapping);
  for (Operation *op : ops)
    builder.clone(*op, mapping);
  auto values = llvm::map_to_vector(
      yielded, [&](Value value) { return mapping.lookup(value); });
  YieldOp::create(builder, location, values);
  for (auto [old, result] : llvm::zip(results, part.getResults()))
    old.replaceAllUsesWith(result);
}

// Splits a region of updates that share only scalars.
static void takeApart(RegionOp region) {
  SmallVector<Ops> parts = findParts(region);
  // If the region yields an argument or a constant, the result belongs to no
  // group, so leave the region whole.
  Operation *yield = region.getBody().front().getTerminator();
  if (parts.size() == 1 || llvm::any_of(yield->getOperands(), [](Value value) {
        return isa<BlockArgument>(value) || isConstant(value);
      }))
    return;
  for (ArrayRef<Operation *> part : parts)
    detach(region, part);
  region.erase();
}

//===----------------------------------------------------------------------===//
// Merging regions
//===----------------------------------------------------------------------===//

namespace {
/// Kernels that become segments of one kernel.
class Group {
public:
  Group(RegionOp first, unsigned maxBuffers) : maxBuffers(maxBuffers) {
    add(first);
  }

  /// True if `region` may join the group: the kernel would not have too many
  /// buffers, and no result would overwrite an operand of another segment.
  bool canTake(RegionOp region) const;
  void add(RegionOp region);

  SmallVector<RegionOp> regions;

private:
  unsigned maxBuffers;
  /// The group's inputs, the inputs that a result may overwrite, and the
  /// group's results.
  DenseSet<Value> inputs, overwritable, results;
};
} // namespace

void Group::add(RegionOp region) {
  regions.push_back(region);
  for (Value operand : region.getInputs()) {
    inputs.insert(operand);
    if (mayBeOverwritten(operand, region))
      overwritable.insert(operand);
  }
  results.insert(region.getResults().begin(), region.getResults().end());
}

// Segments may not share an operand if a segment's result may overwrite the
// operand, because another segment would read the operand too late.
bool Group::canTake(RegionOp region) const {
  RegionOp first = regions.front(); // a handle without const accessors
  size_t buffers = inputs.size() + results.size() + region.getInputs().size() +
                   region.getNumResults();
  return first.getKind() == region.getKind() && buffers <= maxBuffers &&
         llvm::none_of(region.getInputs(), [&](Value operand) {
           return results.contains(operand) || overwritable.contains(operand) ||
                  (inputs.contains(operand) &&
                   mayBeOverwritten(operand, region));
         });
}

// Returns the groups of kernels to merge, in the order of their first kernels.
static SmallVector<Group> findGroups(Block &block, unsigned maxBuffers) {
  KernelOrder order(block);
  SmallVector<Group> groups;
  for (auto region : block.getOps<RegionOp>()) {
    if (!isUpdate(region) && !isSumOfGradient(region))
      continue;
    Group *joined = llvm::find_if(groups, [&](Group &group) {
      return group.canTake(region) &&
             order.tryJoin(order.getGroup(group.regions.front()),
                           order.getGroup(region));
    });
    if (joined == groups.end())
      groups.emplace_back(region, maxBuffers);
    else
      joined->add(region);
  }
  return groups;
}

// Sorts regions: equal code becomes adjacent.
static SmallVector<RegionOp> sortAlike(ArrayRef<RegionOp> regions) {
  SmallVector<SmallVector<RegionOp>> kinds;
  for (RegionOp region : regions) {
    auto *alike = llvm::find_if(kinds, [&](ArrayRef<RegionOp> kind) {
      return computeAlike(region, kind.front());
    });
    if (alike == kinds.end())
      kinds.emplace_back(1, region);
    else
      alike->push_back(region);
  }
  SmallVector<RegionOp> sorted;
  for (ArrayRef<RegionOp> kind : kinds)
    llvm::append_range(sorted, kind);
  return sorted;
}

// Merges the regions of `group` into one region at the position of the first.
// Some operands may then be defined after the merged region, so the caller must
// sort the block.
static void merge(ArrayRef<RegionOp> group) {
  RegionOp first = group.front();
  llvm::SetVector<Value> inputs;
  SmallVector<Type> types;
  SmallVector<Location> locations;
  // Codegen emits one loop for adjacent segments with equal code.
  SmallVector<RegionOp> sorted = sortAlike(group);
  for (RegionOp region : sorted) {
    inputs.insert(region.getInputs().begin(), region.getInputs().end());
    llvm::append_range(types, region.getResultTypes());
    locations.push_back(region.getLoc());
  }
  OpBuilder builder(first);
  Location location = builder.getFusedLoc(locations);
  auto merged = RegionOp::create(builder, location, types, first.getKind(),
                                 inputs.getArrayRef());
  merged.setKernelAttr(first.getKernelAttr());
  copyPhase(first, merged);
  Block *body = builder.createBlock(&merged.getBody());
  IRMapping mapping;
  for (Value input : inputs)
    mapping.map(input, body->addArgument(input.getType(), location));
  SmallVector<Value> yielded;
  unsigned number = 0;
  for (RegionOp region : sorted) {
    Operation *segment = builder.clone(*region, mapping);
    cast<RegionOp>(segment).removeKernelAttr();
    llvm::append_range(yielded, segment->getResults());
    for (Value result : region.getResults())
      result.replaceAllUsesWith(merged.getResult(number++));
  }
  YieldOp::create(builder, location, yielded);
  for (RegionOp region : sorted)
    region.erase();
}

void MergeUpdatesPass::runOnOperation() {
  func::FuncOp function = getOperation();
  if (function.isExternal() || getKernelKind(function))
    return;
  TargetInfo target = getTarget(function);
  Block &block = function.getBody().front();
  // Each rank updates some parameters, so every parameter needs its own update.
  auto reductions = block.getOps<AllReduceOp>();
  const bool isSharded = llvm::any_of(reductions, [](AllReduceOp reduction) {
    return reduction.getOwners().has_value();
  });
  if (!target.hasCostlyLaunches() && !isSharded)
    return;
  for (RegionOp region : llvm::to_vector(block.getOps<RegionOp>()))
    if (isUpdate(region))
      takeApart(region);
  if (isSharded)
    return;
  for (const Group &group : findGroups(block, target.getMaxKernelBuffers()))
    if (group.regions.size() > 1)
      merge(group.regions);
  sortTopologically(&block);
}
