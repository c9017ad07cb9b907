// Computes cheap elementwise values again in every kernel that uses them,
// instead of storing them in one and loading them in the others.
//
// That is free where the kernel loads one full tensor either way: centred
// activations of a BatchNormalization (from the activations), labels one-hot,
// an expanded gradient. The values no longer live from forward to backward
// either. Results are the same bits: the same ops on the same operands.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Fusion/Passes.h"

#include "compiler/Regions/RegionAnalysis.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

namespace mpc {
#define GEN_PASS_DEF_RECOMPUTEELEMENTWISEPASS
#include "passes/Fusion/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
/// The ops of one kernel that a value is computed by.
struct Slice {
  llvm::SetVector<Operation *> ops;
  unsigned fullInputs = 0;
};

struct RecomputeElementwisePass
    : public mpc::impl::RecomputeElementwisePassBase<RecomputeElementwisePass> {
  void runOnOperation() override;
};
} // namespace

/// More arithmetic than this is not sure to be cheaper than a load.
static constexpr size_t kMaxOps = 6;
/// Smaller tensors stay in cache, so that storing them costs nothing.
static constexpr int64_t kMinElements = 4096;

static int64_t elementsOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getNumElements();
}

static bool isCheap(Operation *op) {
  return isa<AddOp, SubOp, MulOp, NegOp, AbsOp, MaximumOp, MinimumOp, ReluOp,
             ReluGradOp, ClipOp, ClipGradOp, SelectOp, OneHotOp, ExpandOp,
             mpc::CastOp, amp::CastOp>(op);
}

// What computes `value` in its kernel; nothing where that takes something
// costly, or more than one full tensor, to begin with.
static std::optional<Slice> sliceOf(Value value,
                                    const RegionAnalysis &analysis) {
  const KernelRegion *region = analysis.getRegion(value.getDefiningOp());
  Slice slice;
  llvm::SetVector<Value> inputs;
  slice.ops.insert(value.getDefiningOp());
  for (size_t i = 0; i < slice.ops.size(); ++i) {
    if (!isCheap(slice.ops[i]) || slice.ops.size() > kMaxOps)
      return std::nullopt;
    for (Value operand : slice.ops[i]->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      if (producer && analysis.getRegion(producer) == region)
        slice.ops.insert(producer);
      else if (inputs.insert(operand))
        slice.fullInputs += elementsOf(operand) == elementsOf(value);
    }
  }
  if (slice.fullInputs > 1)
    return std::nullopt;
  return slice;
}

// Whether `user` can compute an operand itself: its kernel takes elementwise
// ops before it.
static bool canCompute(Operation *user, const RegionAnalysis &analysis) {
  const KernelRegion *region = analysis.getRegion(user);
  return region && region->kind &&
         (*region->kind == KernelKind::Pointwise ||
          *region->kind == KernelKind::RowReduce ||
          *region->kind == KernelKind::ColumnReduce);
}

// Clones `slice` in front of `user`, to be used for `value` there.
static void recompute(Value value, const Slice &slice, Operation *user) {
  SmallVector<Operation *> ops(slice.ops.begin(), slice.ops.end());
  llvm::sort(ops,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  OpBuilder builder(user);
  IRMapping mapping;
  for (Operation *op : ops)
    builder.clone(*op, mapping);
  user->replaceUsesOfWith(value, mapping.lookup(value));
}

// Recomputes `value` in the kernels that use it, unless one needs it in memory.
static void recomputeEverywhere(Value value, const RegionAnalysis &analysis) {
  llvm::SetVector<Operation *> users;
  for (Operation *user : value.getUsers())
    if (user->getNumResults() == 0 || !user->use_empty())
      users.insert(user);
  if (elementsOf(value) < kMinElements || analysis.isInternal(value) ||
      !llvm::all_of(
          users, [&](Operation *user) { return canCompute(user, analysis); }))
    return;
  std::optional<Slice> slice = sliceOf(value, analysis);
  if (!slice)
    return;
  const KernelRegion *own = analysis.getRegion(value.getDefiningOp());
  for (Operation *user : users)
    if (analysis.getRegion(user) != own)
      recompute(value, *slice, user);
}

void RecomputeElementwisePass::runOnOperation() {
  Block &block = getOperation().getBody().front();
  RegionAnalysis analysis(block);
  SmallVector<Operation *> ops;
  for (const KernelRegion &region : analysis.getRegions())
    llvm::append_range(ops, region.ops);
  // Users first: a value computed from another takes that one along.
  llvm::sort(ops,
             [](Operation *a, Operation *b) { return b->isBeforeInBlock(a); });
  for (Operation *op : ops)
    if (op->getNumResults() == 1)
      recomputeEverywhere(op->getResult(0), analysis);
  // Not before: the analysis knows ops by their addresses.
  for (Operation *op : ops)
    if (op->use_empty())
      op->erase();
}
