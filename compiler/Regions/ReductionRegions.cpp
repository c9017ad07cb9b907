// Grows kernels around reductions.
//
// A kernel fuses one op at a time, and each choice limits later choices.
// Candidates are therefore tried in a fixed order: producers of the kernel's
// operands, users of the kernel's results, then other reductions of the
// kernel's operands. An op between a candidate and the kernel may block the
// candidate: in x -> relu -> kernel, x must wait for relu. A blocked candidate
// is tried again when the blocking op joins, because the neighbours of each
// joining op become candidates.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Regions/RegionFormer.h"

#include "compiler/Kernels/KernelSpace.h"

#include <map>
#include <set>
#include <tuple>

using namespace mlir;
using namespace mpc;

// True if `op` reads the result of a reduction in kernel `region`.
bool RegionFormer::followsReduction(Operation *op, unsigned region) const {
  return llvm::any_of(op->getOperands(), [&](Value operand) {
    Operation *producer = operand.getDefiningOp();
    return producer && find(producer) == region &&
           isa<ReductionOpInterface>(producer);
  });
}

ArrayRef<Operation *> RegionFormer::getReductionsOf(Value tensor) {
  auto [entry, isNew] = reductionsOf.try_emplace(tensor.getAsOpaquePointer());
  if (isNew)
    for (Operation *user : tensor.getUsers())
      if (isa<ReductionOpInterface>(user))
        entry->second.push_back(user);
  return entry->second;
}

//===----------------------------------------------------------------------===//
// Growing one
//===----------------------------------------------------------------------===//

namespace mpc {
class ReductionGrowth {
public:
  ReductionGrowth(RegionFormer &former, unsigned region)
      : former(former), region(region) {
    include(former.regions[region].hero);
  }
  void run();

private:
  /// The reductions that may join because they read the same tensor as the
  /// kernel.
  struct Readers {
    /// The first op of the kernel that reads the tensor, and the operand's
    /// number.
    std::pair<unsigned, unsigned> place;
    ArrayRef<Operation *> open; ///< reductions not tried yet
  };
  const KernelRegion &kernel() const { return former.regions[region]; }
  void include(Operation *op);
  void addReaders(Value tensor, std::pair<unsigned, unsigned> place);
  Operation *next();
  bool fits(Operation *op) const;

  RegionFormer &former;
  unsigned region;
  /// Candidates to join, in the order of trial. The key is 0 for the producer
  /// of an operand or 1 for the reader of a result, then the position in the
  /// block, then the operand's number.
  std::map<std::tuple<unsigned, unsigned, unsigned>, Operation *> neighbours;
  DenseMap<Value, Readers> readersOf;
  /// Tensors with reductions that have not been tried, by Readers::place.
  std::map<std::pair<unsigned, unsigned>, Value> tensors;
};
} // namespace mpc

// True if `op` is still a kernel of its own and can join this kernel.
bool ReductionGrowth::fits(Operation *op) const {
  unsigned own = former.find(op);
  if (own == RegionFormer::kNone || own == region ||
      former.regions[own].ops.size() != 1)
    return false;
  const KernelRegion &other = former.regions[own];
  if (other.kind == kernel().kind)
    return other.reducesLike(kernel());
  // A column kernel does not pass over the elements again for ops that need the
  // sums.
  return other.isElementwise() && fitsReduction(op, kernel()) &&
         (kernel().passesAgain() || !former.followsReduction(op, region));
}

// Records the reductions that read `tensor`, which this kernel reads at
// `place`. If the kernel reads the tensor several times, the first place
// counts.
void ReductionGrowth::addReaders(Value tensor,
                                 std::pair<unsigned, unsigned> place) {
  auto [entry, isNew] = readersOf.try_emplace(tensor);
  Readers &readers = entry->second;
  if (isNew) {
    readers.open = former.getReductionsOf(tensor);
  } else if (place >= readers.place) {
    return;
  } else {
    tensors.erase(readers.place);
  }
  readers.place = place;
  if (!readers.open.empty())
    tensors[place] = tensor;
}

// Adds the producers and users of `op`, which has just joined, to the
// candidates.
void ReductionGrowth::include(Operation *op) {
  unsigned position = former.position.lookup(op);
  for (OpOperand &operand : op->getOpOperands()) {
    unsigned number = operand.getOperandNumber();
    if (Operation *producer = operand.get().getDefiningOp())
      neighbours[{0, position, number}] = producer;
    if (shapeOf(operand.get()) == ArrayRef<int64_t>(kernel().space))
      addReaders(operand.get(), {position, number});
  }
  for (Operation *user : op->getUsers())
    if (isa<ReductionOpInterface>(user) || kernel().passesAgain())
      neighbours[{1, former.position.lookup(user), 0}] = user;
}

// Returns the next candidate; null if none is left.
Operation *ReductionGrowth::next() {
  if (!neighbours.empty()) {
    Operation *op = neighbours.begin()->second;
    neighbours.erase(neighbours.begin());
    return op;
  }
  if (tensors.empty())
    return nullptr;
  Readers &readers = readersOf[tensors.begin()->second];
  Operation *op = readers.open.front();
  readers.open = readers.open.drop_front();
  if (readers.open.empty())
    tensors.erase(tensors.begin());
  return op;
}

void ReductionGrowth::run() {
  while (Operation *op = next())
    if (fits(op) && former.tryMerge(region, former.find(op)))
      include(op);
}

void RegionFormer::growReduction(unsigned region) {
  ReductionGrowth(*this, region).run();
}

//===----------------------------------------------------------------------===//
// Merging several
//===----------------------------------------------------------------------===//

/// Maps each value to the reduction kernels that read or compute it, as indices
/// into the list of reduction kernels.
using Touching = DenseMap<Value, SmallVector<unsigned>>;

static Touching findTouching(ArrayRef<KernelRegion> regions,
                             ArrayRef<unsigned> reductions) {
  Touching touching;
  for (auto [place, region] : llvm::enumerate(reductions)) {
    auto add = [&, place = place](ValueRange values) {
      for (Value value : values)
        if (auto &list = touching[value]; list.empty() || list.back() != place)
          list.push_back(place);
    };
    for (Operation *op : regions[region].ops) {
      add(op->getOperands());
      add(op->getResults());
    }
  }
  return touching;
}

// Adds to `places` the reduction kernels (indices as in Touching) that come
// after `after` and read or compute a tensor of `shape` that `ops` read or
// compute too.
static void addTouching(ArrayRef<Operation *> ops, ArrayRef<int64_t> shape,
                        unsigned after, Touching &touching,
                        std::set<unsigned> &places) {
  auto add = [&](ValueRange values) {
    for (Value value : values)
      if (shapeOf(value) == shape) {
        auto &all = touching[value];
        places.insert(llvm::upper_bound(all, after), all.end());
      }
  };
  for (Operation *op : ops) {
    add(op->getOperands());
    add(op->getResults());
  }
}

// Joins reduction kernels that reduce a common tensor along the same axes. All
// ops that the kernels have fused join too.
void RegionFormer::mergeReductions() {
  SmallVector<unsigned> reductions;
  for (unsigned i = 0; i < regions.size(); ++i)
    if (!regions[i].ops.empty() && !regions[i].axes.empty())
      reductions.push_back(i);
  Touching touching = findTouching(regions, reductions);
  for (auto [place, i] : llvm::enumerate(reductions)) {
    const KernelRegion &region = regions[i];
    std::set<unsigned> candidates;
    addTouching(region.ops, region.space, place, touching, candidates);
    while (!candidates.empty()) {
      unsigned next = *candidates.begin(), j = reductions[next];
      candidates.erase(candidates.begin());
      if (regions[j].ops.empty() || region.kind != regions[j].kind ||
          !region.reducesLike(regions[j]))
        continue;
      Operations others = regions[j].ops;
      // A column kernel does not pass over the elements again for ops that need
      // the sums.
      bool needsSums = false;
      for (Operation *op : others)
        needsSums |= followsReduction(op, i);
      if ((region.passesAgain() || !needsSums) && tryMerge(i, j))
        addTouching(others, region.space, next, touching, candidates);
    }
  }
}

// True if `region` only does the second step of sums in parts: it reduces
// columns of other kernels' sums.
bool RegionFormer::addsSums(unsigned region) const {
  return regions[region].getGrowth() == Growth::Reductions &&
         !regions[region].passesAgain() &&
         llvm::all_of(regions[region].ops, [](Operation *op) {
           Operation *input = op->getOperand(0).getDefiningOp();
           return isa<ReductionOpInterface>(op) && input &&
                  isa<ReductionOpInterface>(input);
         });
}

// Merges kernels that do the second step of sums in parts. Each kernel alone
// would cost a launch and little else. Kernels of equal shape merge, up to four
// sums each, even without a common input.
void RegionFormer::mergeSums() {
  constexpr size_t kMostSums = 4, kTries = 8;
  // For each space and reduced axes: the kernels that others may join, the
  // newest last.
  std::map<std::pair<SmallVector<int64_t>, SmallVector<int64_t>>,
           SmallVector<unsigned>>
      open;
  for (unsigned i = 0; i < regions.size(); ++i) {
    if (regions[i].ops.empty() || !addsSums(i))
      continue;
    SmallVector<unsigned> &others = open[{regions[i].space, regions[i].axes}];
    // Joins kernel i to `other`, unless a sum of one reads a sum of the other.
    auto takes = [&](unsigned other) {
      size_t sums = regions[other].ops.size() + regions[i].ops.size();
      return sums <= kMostSums && regions[other].reducesLike(regions[i]) &&
             regions[other].hero->getAttr(kPhaseAttr) ==
                 regions[i].hero->getAttr(kPhaseAttr) &&
             llvm::none_of(
                 regions[i].ops,
                 [&](Operation *op) { return followsReduction(op, other); }) &&
             llvm::none_of(
                 regions[other].ops,
                 [&](Operation *op) { return followsReduction(op, i); }) &&
             tryMerge(other, i);
    };
    auto newest = llvm::reverse(
        ArrayRef<unsigned>(others).take_back(std::min(kTries, others.size())));
    if (llvm::none_of(newest, takes))
      others.push_back(i);
  }
}
