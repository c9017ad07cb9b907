// Joins reductions over ranks, so that few large messages replace many small
// ones. A bucket takes gradients in the order in which the backward pass makes
// them, and is sent as soon as the last of them exists: the rest of the
// backward pass then runs while the bucket travels.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Passes.h"

#include "compiler/Dialect/MPC/Target.h"
#include "compiler/Dialect/Plan/Plan.h"

#include "llvm/ADT/MapVector.h"

namespace mpc {
#define GEN_PASS_DEF_FORMBUCKETSPASS
#include "passes/Planning/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
/// Reductions that become one op, at the position of the last.
struct OpenBucket {
  SmallVector<AllReduceOp> members;
  int64_t bytes = 0;
};

struct FormBucketsPass
    : public mpc::impl::FormBucketsPassBase<FormBucketsPass> {
  using FormBucketsPassBase::FormBucketsPassBase;
  void runOnOperation() override;
};
} // namespace

static int64_t countBytes(AllReduceOp op) {
  int64_t bytes = 0;
  for (Value input : op.getInputs())
    bytes += typeOf(input).getNumElements() *
             plan::getElementBytes(elementOf(input));
  return bytes;
}

// Replaces the members of the bucket by one op, and empties the bucket.
static void closeBucket(OpenBucket &bucket) {
  if (bucket.members.size() > 1) {
    AllReduceOp last = bucket.members.back();
    SmallVector<Value> inputs;
    SmallVector<Location> locations;
    SmallVector<Attribute> owners;
    for (AllReduceOp member : bucket.members) {
      llvm::append_range(inputs, member.getInputs());
      if (member.getOwners())
        llvm::append_range(owners, *member.getOwners());
      locations.push_back(member.getLoc());
    }
    OpBuilder builder(last);
    auto joined = AllReduceOp::create(
        builder, builder.getFusedLoc(locations), TypeRange(ValueRange(inputs)),
        last.getKindAttr(), inputs,
        owners.empty() ? ArrayAttr() : builder.getArrayAttr(owners),
        /*rows=*/UnitAttr());
    copyPhase(last, joined);
    ResultRange results = joined.getOutputs();
    for (AllReduceOp member : bucket.members) {
      member.replaceAllUsesWith(results.take_front(member.getNumResults()));
      results = results.drop_front(member.getNumResults());
      member.erase();
    }
  }
  bucket = OpenBucket();
}

// True if `op`, or an op inside, reads a result of a member.
static bool readsBucket(Operation &op, const OpenBucket &bucket) {
  return op
      .walk([&](Operation *nested) {
        bool reads = llvm::any_of(nested->getOperands(), [&](Value operand) {
          auto member = operand.getDefiningOp<AllReduceOp>();
          return member && llvm::is_contained(bucket.members, member);
        });
        return reads ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

void FormBucketsPass::runOnOperation() {
  func::FuncOp function = getOperation();
  if (function.isExternal() || getKernelKind(function))
    return;
  // Members of a bucket have one kind and one element type, and all or none
  // have owners: {kind, number of owners of an operand}, element type.
  using Key = std::pair<std::pair<Reduce, unsigned>, Type>;
  llvm::MapVector<Key, OpenBucket> buckets;
  const bool isGPU = getTarget(function).isGPU();
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front())) {
    // The joined op stands at the last member, so all readers must follow.
    for (auto &[key, bucket] : buckets)
      if (readsBucket(op, bucket))
        closeBucket(bucket);
    // The backward pass reads a message of several operands at once, and would
    // wait for the other members of a bucket.
    auto reduction = dyn_cast<AllReduceOp>(op);
    if (!reduction || reduction.getNumResults() > 1)
      continue;
    // Rows take two messages, so a small table travels in a bucket. So does
    // every table on a GPU, where NCCL reduces whole buffers.
    if (reduction.getRows()) {
      if (!isGPU && countBytes(reduction) >= tableBytes)
        continue;
      reduction.setRows(false);
    }
    Type element = elementOf(reduction.getInputs().front());
    const unsigned owners = reduction.getOwners() ? 1 : 0;
    OpenBucket &bucket = buckets[{{reduction.getKind(), owners}, element}];
    bucket.members.push_back(reduction);
    bucket.bytes += countBytes(reduction);
    if (bucket.bytes >= bucketBytes)
      closeBucket(bucket);
  }
  for (auto &[key, bucket] : buckets)
    closeBucket(bucket);
}
