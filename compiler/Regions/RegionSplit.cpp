// SPDX-License-Identifier: Apache-2.0
#include "compiler/Regions/RegionSplit.h"

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Kernels/KernelSpace.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

#include <limits>

using namespace mlir;
using namespace mpc;

using Ops = SmallVector<Operation *>;

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

namespace {
/// Puts the ops of a contraction's kernel behind it: each right before the
/// first that needs it, so that what a tail reads is in the tail.
class TailOrder {
public:
  explicit TailOrder(const KernelRegion &region) {
    for (auto [number, op] : llvm::enumerate(region.ops))
      position[op] = number;
    append(region.hero);
    llvm::SmallPtrSet<Operation *, 16> following = {region.hero};
    for (Operation *op : region.ops)
      if (llvm::any_of(op->getOperands(), [&](Value operand) {
            return following.contains(operand.getDefiningOp());
          })) {
        following.insert(op);
        appendWithProducers(op);
      }
    llvm::for_each(region.ops, [&](Operation *op) { append(op); });
  }

  Ops ordered;

private:
  void append(Operation *op) {
    if (placed.insert(op).second)
      ordered.push_back(op);
  }
  void appendWithProducers(Operation *op) {
    llvm::SetVector<Operation *> needed;
    needed.insert(op);
    for (size_t i = 0; i < needed.size(); ++i)
      for (Value operand : needed[i]->getOperands())
        if (Operation *producer = operand.getDefiningOp();
            position.contains(producer) && !placed.contains(producer))
          needed.insert(producer);
    Ops sorted(needed.begin(), needed.end());
    llvm::sort(sorted, [&](Operation *a, Operation *b) {
      return position.lookup(a) < position.lookup(b);
    });
    llvm::for_each(sorted, [&](Operation *each) { append(each); });
  }

  DenseMap<Operation *, unsigned> position;
  llvm::DenseSet<Operation *> placed;
};
} // namespace

//===----------------------------------------------------------------------===//
// Cuts
//===----------------------------------------------------------------------===//

namespace {
/// Finds where to cut a list of ops in which producers are before users.
class Cutter {
public:
  explicit Cutter(ArrayRef<Operation *> ops);
  /// The ends of the pieces.
  SmallVector<size_t> cut();

private:
  size_t findLimit(size_t begin) const;
  size_t findNarrowest(size_t from, size_t to) const;

  ArrayRef<Operation *> ops;
  /// lastUses[op][result] is the last op of the region that reads the result;
  /// kNever if an op outside reads it.
  SmallVector<SmallVector<size_t, 1>> lastUses;
  /// For each place between ops: how many elements pass it, made before and
  /// read behind.
  SmallVector<int64_t> passing;
  static constexpr size_t kNever = std::numeric_limits<size_t>::max();
};
} // namespace

Cutter::Cutter(ArrayRef<Operation *> ops)
    : ops(ops), passing(ops.size() + 1, 0) {
  // Uses inside are places in the list; any use outside is never over.
  DenseMap<Operation *, size_t> number;
  for (auto [i, op] : llvm::enumerate(ops))
    number[op] = i;
  for (auto [i, op] : llvm::enumerate(ops)) {
    SmallVector<size_t, 1> &last = lastUses.emplace_back();
    // How many elements are handed over at each place: added where they are
    // made, taken away behind the last use.
    for (Value result : op->getResults()) {
      size_t lastInside = i;
      bool isUsedElsewhere = false;
      for (Operation *user : result.getUsers()) {
        auto found = number.find(user);
        isUsedElsewhere |= found == number.end();
        if (found != number.end())
          lastInside = std::max(lastInside, found->second);
      }
      last.push_back(isUsedElsewhere ? kNever : lastInside);
      int64_t elements = ShapedType::getNumElements(shapeOf(result));
      passing[i + 1] += elements;
      passing[lastInside + 1] -= elements;
    }
  }
  // Sums of the changes.
  for (size_t i = 1; i < passing.size(); ++i)
    passing[i] += passing[i - 1];
}

// How far a kernel that begins there can go.
size_t Cutter::findLimit(size_t begin) const {
  llvm::SmallDenseSet<Value> inputs;
  llvm::SmallPtrSet<Operation *, 16> inside;
  SmallVector<size_t> ends;
  size_t end = begin;
  for (; end < ops.size() && end - begin < kMaxRegionOps; ++end) {
    for (Value operand : ops[end]->getOperands())
      if (!inside.contains(operand.getDefiningOp()) &&
          !isSplatConstant(operand))
        inputs.insert(operand);
    inside.insert(ops[end]);
    llvm::append_range(ends, lastUses[end]);
    size_t results =
        llvm::count_if(ends, [&](size_t last) { return last > end; });
    if (end > begin && inputs.size() + results > kMaxRegionBuffers)
      break;
  }
  return end;
}

// The last cut in (from, to] across which the fewest elements pass.
size_t Cutter::findNarrowest(size_t from, size_t to) const {
  size_t narrowest = to;
  for (size_t cut = to; cut > from; --cut)
    if (passing[cut] < passing[narrowest])
      narrowest = cut;
  return narrowest;
}

SmallVector<size_t> Cutter::cut() {
  SmallVector<size_t> ends;
  for (size_t begin = 0; begin < ops.size();) {
    size_t limit = findLimit(begin);
    size_t end = limit == ops.size()
                     ? limit
                     : findNarrowest(begin + (limit - begin) / 2, limit);
    ends.push_back(end);
    begin = end;
  }
  return ends;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

// The kernel of some ops of `whole`, whose hero is the first of its kind.
static KernelRegion makeKernel(const KernelRegion &whole, Ops ops,
                               Operation *hero) {
  KernelRegion region = whole;
  region.hero = hero;
  region.ops = std::move(ops);
  llvm::sort(region.ops,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return region;
}

// What has no hero is pointwise: a kernel for the elements, and one before it
// for what a kernel of rows computes once a row.
static void addPointwise(const KernelRegion &whole, ArrayRef<Operation *> ops,
                         SmallVectorImpl<KernelRegion> &kernels) {
  Ops ofRows, ofElements;
  for (Operation *op : ops)
    (shapeOf(op->getResult(0)) == ArrayRef<int64_t>(whole.space) ? ofElements
                                                                 : ofRows)
        .push_back(op);
  for (Ops *group : {&ofRows, &ofElements}) {
    if (group->empty())
      continue;
    KernelRegion region = makeKernel(whole, *group, group->front());
    region.kind = KernelKind::Pointwise;
    region.space = SmallVector<int64_t>(shapeOf(group->front()->getResult(0)));
    region.axes.clear();
    region.parts = 1;
    kernels.push_back(std::move(region));
  }
}

SmallVector<KernelRegion> mpc::splitRegion(KernelRegion region) {
  bool isTail = region.getGrowth() == Growth::Tail;
  // Cut where little is handed over; each piece is a kernel.
  Ops ops =
      isTail && region.ops.size() > 1 ? TailOrder(region).ordered : region.ops;
  SmallVector<size_t> ends = Cutter(ops).cut();
  if (ends.size() == 1)
    return {std::move(region)};
  SmallVector<KernelRegion> kernels;
  size_t begin = 0;
  for (size_t end : ends) {
    Ops piece = llvm::to_vector(ArrayRef(ops).slice(begin, end - begin));
    begin = end;
    // A piece without a hero becomes pointwise kernels.
    auto hero = llvm::find_if(piece, [&](Operation *op) {
      return op == region.hero || isa<ReductionOpInterface>(op);
    });
    bool hasHero = hero != piece.end() && !region.isElementwise();
    if (hasHero)
      kernels.push_back(makeKernel(region, piece, *hero));
    else
      addPointwise(region, piece, kernels);
  }
  return kernels;
}
