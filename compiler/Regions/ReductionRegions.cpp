// Kernels around reductions.
//
// A kernel grows by one op at a time, and which op joins first decides which
// can join later. So candidates are tried in a fixed order: producers of what
// the kernel reads, users of what it writes, other reductions of what it reads.
// A candidate may be blocked by an op between it and the kernel: x -> relu ->
// kernel keeps x out until relu is in. It is tried again when that op has
// joined, since each op that joins brings its own neighbours.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Regions/RegionFormer.h"

#include "compiler/Kernels/KernelSpace.h"

#include <map>
#include <set>
#include <tuple>

using namespace mlir;
using namespace mpc;

// Whether `op` reads what a reduction of kernel `region` makes.
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
  /// Reductions that read a full tensor which the kernel reads too.
  struct Readers {
    /// The first op of the kernel that reads the tensor, and as which operand.
    std::pair<unsigned, unsigned> place;
    ArrayRef<Operation *> open;
  };
  const KernelRegion &kernel() const { return former.regions[region]; }
  void include(Operation *op);
  void addReaders(Value tensor, std::pair<unsigned, unsigned> place);
  Operation *next();
  bool fits(Operation *op) const;

  RegionFormer &former;
  unsigned region;
  /// Candidates to join, in the order in which they are tried: producers of
  /// what the kernel reads (0), then readers of its results (1), each by
  /// position of the reader and number of its operand.
  std::map<std::tuple<unsigned, unsigned, unsigned>, Operation *> neighbours;
  DenseMap<Value, Readers> readersOf;
  /// Tensors that have open readers.
  std::map<std::pair<unsigned, unsigned>, Value> tensors;
};
} // namespace mpc

// Whether `op`, which is alone, can be part of the kernel.
bool ReductionGrowth::fits(Operation *op) const {
  unsigned own = former.find(op);
  if (own == RegionFormer::kNone || own == region ||
      former.regions[own].ops.size() != 1)
    return false;
  const KernelRegion &other = former.regions[own];
  if (other.kind == kernel().kind)
    return other.reducesLike(kernel());
  // Columns have no second pass for what needs their sums.
  return other.isElementwise() && fitsReduction(op, kernel()) &&
         (kernel().passesAgain() || !former.followsReduction(op, region));
}

// Puts the readers of a tensor where the kernel reads it first.
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

// Adds what `op`, which has joined, brings along.
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

// The candidate to try next; null where there is none.
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

/// Which reduction kernels read or compute a value, by their place among them.
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

// Adds to `places` the kernels behind `after` that touch a tensor of this shape
// which `ops` touch.
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

// Joins reduction kernels that pass over the same tensor in the same way.
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
      // A column kernel has no second pass for what needs its sums.
      bool needsSums = false;
      for (Operation *op : others)
        needsSums |= followsReduction(op, i);
      if ((region.passesAgain() || !needsSums) && tryMerge(i, j))
        addTouching(others, region.space, next, touching, candidates);
    }
  }
}

// Whether all that a kernel does is to reduce columns of what reductions of
// other kernels gave: the second step of sums in parts.
bool RegionFormer::addsSums(unsigned region) const {
  return regions[region].getGrowth() == Growth::Reductions &&
         !regions[region].passesAgain() &&
         llvm::all_of(regions[region].ops, [](Operation *op) {
           Operation *input = op->getOperand(0).getDefiningOp();
           return isa<ReductionOpInterface>(op) && input &&
                  isa<ReductionOpInterface>(input);
         });
}

// Second steps cost a launch each and little else: those of one shape share
// kernels, up to four sums in each, though they share no input.
void RegionFormer::mergeSums() {
  constexpr size_t kMostSums = 4, kTries = 8;
  // The kernels of each shape that have room, the newest last.
  std::map<std::pair<SmallVector<int64_t>, SmallVector<int64_t>>,
           SmallVector<unsigned>>
      open;
  for (unsigned i = 0; i < regions.size(); ++i) {
    if (regions[i].ops.empty() || !addsSums(i))
      continue;
    SmallVector<unsigned> &others = open[{regions[i].space, regions[i].axes}];
    // Sums that need this kernel's, by whichever way, are left alone.
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
