// Joins what the optimizer does to every parameter into few launches.
//
// A model has as many update kernels as parameters, and as many sums over
// gradients where these are clipped or tested for infinities. Most are small:
// biases, scales, filters. On a target where a launch costs more than such a
// kernel does, they become segments of one kernel, which does the work of each
// on its own elements. Kernels are only joined where no path leads from one to
// the other.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Passes.h"

#include "compiler/Analysis/KernelOrder.h"
#include "compiler/Analysis/KernelSegments.h"
#include "compiler/Target/TargetInfo.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/IR/IRMapping.h"
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

// Whether `region` updates parameters.
static bool isUpdate(RegionOp region) {
  return canBeSegment(region) &&
         llvm::any_of(region.getBody().front(), [](Operation &op) {
           return isa<OptimizerOpInterface>(op);
         });
}

// Whether `region` reduces a gradient.
static bool isSumOfGradient(RegionOp region) {
  auto phase = region->getAttrOfType<StringAttr>(kPhaseAttr);
  return phase && phase.getValue() == "optimizer" &&
         symbolizeKernelKind(region.getKind()) == KernelKind::RowReduce;
}

// What no two segments may share: an operand that a result of any of them may
// be written over, which another would then read too late.
static bool sharesTensor(RegionOp a, RegionOp b) {
  auto mayBeOverwritten = [&](Value operand) {
    return llvm::is_contained(a.getResultTypes(), operand.getType()) ||
           llvm::is_contained(b.getResultTypes(), operand.getType());
  };
  return llvm::any_of(a.getInputs(), [&](Value operand) {
    return llvm::is_contained(b.getInputs(), operand) &&
           mayBeOverwritten(operand);
  });
}

static bool canStandTogether(RegionOp a, RegionOp b) {
  return a.getKind() == b.getKind() && !sharesTensor(a, b) &&
         !llvm::is_contained(a->getUsers(), b.getOperation());
}

namespace {
using Group = SmallVector<RegionOp>;
} // namespace

// Kernels of `block` that become segments of one, in the order of their first.
static SmallVector<Group> findGroups(Block &block) {
  KernelOrder order(block);
  SmallVector<Group> groups;
  for (auto region : block.getOps<RegionOp>()) {
    if (!isUpdate(region) && !isSumOfGradient(region))
      continue;
    Group *joined = llvm::find_if(groups, [&](Group &group) {
      return llvm::all_of(group,
                          [&](RegionOp member) {
                            return canStandTogether(member, region);
                          }) &&
             order.tryJoin(order.getGroup(group.front()),
                           order.getGroup(region));
    });
    if (joined == groups.end())
      groups.push_back({region});
    else
      joined->push_back(region);
  }
  return groups;
}

// Those that one piece of code can do stand side by side.
static Group sortAlike(const Group &group) {
  Group sorted;
  for (RegionOp region : group) {
    auto alike = llvm::find_if(llvm::reverse(sorted), [&](RegionOp other) {
      return computeAlike(region, other);
    });
    sorted.insert(alike == sorted.rend() ? sorted.end() : alike.base(), region);
  }
  return sorted;
}

// Makes the regions of `group` segments of one in the place of the first; what
// the others need may come later for now.
static void merge(const Group &group) {
  RegionOp first = group.front();
  llvm::SetVector<Value> inputs;
  SmallVector<Type> types;
  SmallVector<Location> locations;
  Group sorted = sortAlike(group);
  for (RegionOp region : sorted) {
    inputs.insert(region.getInputs().begin(), region.getInputs().end());
    llvm::append_range(types, region.getResultTypes());
    locations.push_back(region.getLoc());
  }
  OpBuilder builder(first);
  Location location = builder.getFusedLoc(locations);
  auto merged = RegionOp::create(builder, location, types, first.getKindAttr(),
                                 inputs.getArrayRef());
  for (StringRef name : {StringRef("kernel"), StringRef(kPhaseAttr)})
    if (Attribute attribute = first->getAttr(name))
      merged->setAttr(name, attribute);
  Block *body = builder.createBlock(&merged.getBody());
  IRMapping mapping;
  for (Value input : inputs)
    mapping.map(input, body->addArgument(input.getType(), location));
  SmallVector<Value> yielded;
  unsigned number = 0;
  for (RegionOp region : sorted) {
    Operation *segment = builder.clone(*region, mapping);
    segment->removeAttr("kernel");
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
  FailureOr<TargetInfo> info = TargetInfo::get(target, function);
  if (failed(info))
    return signalPassFailure();
  if (!info->hasCostlyLaunches())
    return;
  Block &block = function.getBody().front();
  for (const Group &group : findGroups(block))
    if (group.size() > 1)
      merge(group);
  sortTopologically(&block);
}
