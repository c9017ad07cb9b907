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
/// Orders the ops of a contraction's kernel: first the contraction, then the
/// epilogue. Each producer that does not depend on the contraction comes right
/// before its first user. So a cut seldom separates the two, and the epilogue
/// computes the producer itself.
class EpilogueOrder {
public:
  explicit EpilogueOrder(const KernelRegion &region) {
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
    assert(ordered.size() == region.ops.size() && "every op has one place");
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
/// Cuts a topologically sorted list of ops into kernels within the limits of
/// RegionSplit.h.
class Cutter {
public:
  explicit Cutter(ArrayRef<Operation *> ops);
  /// Returns, for each kernel, the index behind the kernel's last op.
  SmallVector<size_t> cut();

private:
  size_t findLimit(size_t begin) const;
  size_t findNarrowest(size_t from, size_t to) const;

  ArrayRef<Operation *> ops;
  /// lastUses[op][result] is the index of the last op of the region that reads
  /// the result; kNever if an op outside reads the result.
  SmallVector<SmallVector<size_t, 1>> lastUses;
  /// passing[i] is the number of elements that pass a cut before op i: computed
  /// before the cut and read after the cut.
  SmallVector<int64_t> passing;
  static constexpr size_t kNever = std::numeric_limits<size_t>::max();
};
} // namespace

Cutter::Cutter(ArrayRef<Operation *> ops)
    : ops(ops), passing(ops.size() + 1, 0) {
  DenseMap<Operation *, size_t> number;
  for (auto [i, op] : llvm::enumerate(ops))
    number[op] = i;
  assert(number.size() == ops.size() && "an op is listed once");
  for (auto [i, op] : llvm::enumerate(ops)) {
    SmallVector<size_t, 1> &last = lastUses.emplace_back();
    // First note the changes: elements start to pass behind their op, and stop
    // behind the last use. The sums follow below.
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
  for (size_t i = 1; i < passing.size(); ++i)
    passing[i] += passing[i - 1];
  assert(passing.back() == 0 && "no element passes the end");
}

// Returns the end of the longest kernel within the limits that begins at op
// `begin`.
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

// Returns the cut in (from, to] that the fewest elements pass; the last of
// several such cuts.
size_t Cutter::findNarrowest(size_t from, size_t to) const {
  assert(from < to && to < passing.size() && "a place between ops");
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
    assert(end > begin && "every kernel has an op");
    ends.push_back(end);
    begin = end;
  }
  return ends;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

// Makes a kernel of some ops of `whole`; `hero` is the first hero among them.
static KernelRegion makeKernel(const KernelRegion &whole, Ops ops,
                               Operation *hero) {
  KernelRegion region = whole;
  region.hero = hero;
  region.ops = std::move(ops);
  llvm::sort(region.ops,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return region;
}

// Makes pointwise kernels of ops without a hero: first a kernel for values per
// row (in a row kernel), then a kernel for values per element.
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
  assert(llvm::is_sorted(region.ops,
                         [](Operation *a, Operation *b) {
                           return a->isBeforeInBlock(b);
                         }) &&
         "ops in program order");
  bool hasEpilogue = region.getGrowth() == Growth::Epilogue;
  Ops ops = hasEpilogue && region.ops.size() > 1 ? EpilogueOrder(region).ordered
                                                 : region.ops;
  SmallVector<size_t> ends = Cutter(ops).cut();
  if (ends.size() == 1)
    return {std::move(region)};
  SmallVector<KernelRegion> kernels;
  size_t begin = 0;
  for (size_t end : ends) {
    Ops members = llvm::to_vector(ArrayRef(ops).slice(begin, end - begin));
    begin = end;
    auto hero = llvm::find_if(members, [&](Operation *op) {
      return op == region.hero || isa<ReductionOpInterface>(op);
    });
    bool hasHero = hero != members.end() && !region.isElementwise();
    if (hasHero)
      kernels.push_back(makeKernel(region, members, *hero));
    else
      addPointwise(region, members, kernels);
  }
  return kernels;
}
