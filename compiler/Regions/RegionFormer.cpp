// SPDX-License-Identifier: Apache-2.0
#include "compiler/Regions/RegionFormer.h"

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Dialect/MPC/Target.h"
#include "compiler/Kernels/KernelSpace.h"

#include "llvm/ADT/STLExtras.h"

#include <map>

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// What an op can be part of
//===----------------------------------------------------------------------===//

static bool isSingleElement(ArrayRef<int64_t> shape) {
  return llvm::all_of(shape, [](int64_t extent) { return extent == 1; });
}

static bool resultsHaveShape(Operation *op, ArrayRef<int64_t> shape) {
  return llvm::all_of(op->getResults(),
                      [&](Value result) { return shapeOf(result) == shape; });
}

std::optional<KernelRegion> mpc::seedRegion(Operation *op) {
  if (!isa<RegionOpInterface>(op) || hasRole(op, RegionRole::View) ||
      hasRole(op, RegionRole::Constant))
    return std::nullopt;
  KernelRegion region;
  region.kind = KernelHero::findKind(op);
  region.hero = op;
  region.ops = {op};
  region.space = SmallVector<int64_t>(shapeOf(op->getResult(0)));
  if (auto reduction = dyn_cast<ReductionOpInterface>(op)) {
    region.space = SmallVector<int64_t>(shapeOf(op->getOperand(0)));
    region.axes = reduction.getReducedAxes();
    region.parts = reduction.getReductionParts();
  }
  if (auto scatter = dyn_cast<ScatterOpInterface>(op))
    region.space =
        SmallVector<int64_t>(shapeOf(scatter.getUpdatesOperand().get()));
  return region;
}

// Whether a tail over `space` can read a tensor of `shape`: it is full, one
// value, one value per row or one per column.
static bool isTailOperand(ArrayRef<int64_t> shape, ArrayRef<int64_t> space,
                          size_t columnAxis) {
  if (shape == space || isSingleElement(shape))
    return true;
  if (shape.size() > space.size())
    return false;
  size_t missing = space.size() - shape.size();
  bool perRow = true, perColumn = true;
  for (size_t axis = 0; axis < space.size(); ++axis) {
    int64_t extent = axis < missing ? 1 : shape[axis - missing];
    bool isColumn = axis == columnAxis;
    perRow &= extent == (isColumn ? 1 : space[axis]);
    perColumn &= extent == (isColumn ? space[axis] : 1);
  }
  return perRow || perColumn;
}

// True if only reductions read the result of `op`. Their kernels recompute it,
// which costs less than storing it: mean(relu(x)) reads x.
static bool isOnlyReduced(Operation *op) {
  return !op->use_empty() && llvm::all_of(op->getUsers(), [](Operation *user) {
    return isa<ReductionOpInterface>(user);
  });
}

bool mpc::fitsTail(Operation *op, const KernelRegion &region) {
  std::optional<size_t> axis =
      cast<ContractionOpInterface>(region.hero).getColumnAxis();
  return axis && !readsMemory(op) && !isOnlyReduced(op) &&
         resultsHaveShape(op, region.space) &&
         llvm::all_of(op->getOperands(), [&](Value operand) {
           return isTailOperand(shapeOf(operand), region.space, *axis);
         });
}

bool mpc::fitsReduction(Operation *op, const KernelRegion &region) {
  if (resultsHaveShape(op, region.space))
    return true;
  // Between reductions of rows.
  SmallVector<int64_t> reduced = region.space;
  for (int64_t axis : region.axes)
    reduced[axis] = 1;
  return region.passesAgain() && region.parts == 1 &&
         resultsHaveShape(op, reduced);
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

RegionFormer::RegionFormer(Block &block)
    : order(block),
      isOnGPU(block.getParentOp() && getTarget(block.getParentOp()).isGPU()) {
  regionOfGroup.assign(block.getOperations().size(), kNone);
  for (Operation &op : block) {
    position[&op] = position.size();
    std::optional<KernelRegion> region = seedRegion(&op);
    if (!region)
      continue;
    regionOfGroup[order.getGroup(&op)] = regions.size();
    memoryReaders.emplace_back();
    if (readsMemory(&op))
      memoryReaders.back().push_back(&op);
    regions.push_back(std::move(*region));
  }
}

// Whether `op` is elementwise and not yet part of a kernel with others.
bool RegionFormer::isAlonePointwise(Operation *op) const {
  unsigned region = find(op);
  return region != kNone && regions[region].isElementwise() &&
         regions[region].ops.size() == 1;
}

// What an op reads from memory, the labels of a one_hot or the data of a
// gather, must be there before its kernel starts.
bool RegionFormer::feedsMemory(unsigned producer, unsigned consumer) const {
  return llvm::any_of(memoryReaders[consumer], [&](Operation *op) {
    return llvm::any_of(op->getOpOperands(), [&](OpOperand &operand) {
      return readsMemory(operand) &&
             find(operand.get().getDefiningOp()) == producer;
    });
  });
}

// Joins two kernels unless that closes a cycle; `into` keeps hero and kind.
bool RegionFormer::tryMerge(unsigned into, unsigned from) {
  KernelRegion &target = regions[into], &source = regions[from];
  assert(!target.ops.empty() && !source.ops.empty() &&
         "a kernel that was taken in joins no other");
  if (into == from || feedsMemory(into, from) || feedsMemory(from, into) ||
      !order.tryJoin(order.getGroup(target.hero), order.getGroup(source.hero)))
    return false;
  regionOfGroup[order.getGroup(target.hero)] = into;
  if (target.ops.size() < source.ops.size())
    std::swap(target.ops, source.ops);
  llvm::append_range(target.ops, source.ops);
  llvm::append_range(memoryReaders[into], memoryReaders[from]);
  source.ops.clear();
  return true;
}

//===----------------------------------------------------------------------===//
// Contractions
//===----------------------------------------------------------------------===//

// Takes into the tail what follows the contraction, and producers (a cast, say)
// of other operands of the tail that nothing else needs, nor the contraction:
// it reads memory. What keeps an op out is a neighbour of it in the end, which
// leads there again once it has joined.
void RegionFormer::growTail(unsigned region) {
  Operation *hero = regions[region].hero;
  Operations users(hero->getUsers()), producers;
  // The first user of a producer that is not in the tail.
  DenseMap<Operation *, Operation::user_iterator> outside;
  auto isNeededOutside = [&](Operation *op) {
    auto &user = outside.try_emplace(op, op->user_begin()).first->second;
    while (user != op->user_end() && *user != hero && find(*user) == region)
      ++user;
    return user != op->user_end();
  };
  auto take = [&](Operation *op) {
    if (!isAlonePointwise(op) || !fitsTail(op, regions[region]))
      return;
    if (!tryMerge(region, find(op)))
      return;
    llvm::append_range(users, op->getUsers());
    for (Value operand : op->getOperands())
      if (Operation *producer = operand.getDefiningOp())
        producers.push_back(producer);
  };
  // Readers before producers: a producer is taken when all its readers are in.
  while (!users.empty() || !producers.empty()) {
    if (!users.empty())
      take(users.pop_back_val());
    else if (Operation *op = producers.pop_back_val(); !isNeededOutside(op))
      take(op);
  }
}

//===----------------------------------------------------------------------===//
// Scatters
//===----------------------------------------------------------------------===//

// Takes in producers of updates that nothing else needs: a slice computes only
// those that meet its own part of the result. What the result starts from stays
// outside, also where updates are computed from it: it is read from memory. So
// does what looks elements of it up, for the result may be written over it.
void RegionFormer::growScatter(unsigned region) {
  auto scatter = cast<ScatterOpInterface>(regions[region].hero);
  Operation *data = scatter.getDataOperand().get().getDefiningOp();
  // Upwards from the updates, op by op.
  Operations producers = {scatter.getUpdatesOperand().get().getDefiningOp()};
  while (!producers.empty()) {
    Operation *op = producers.pop_back_val();
    // Gathers from the scattered tensor must see its old elements.
    bool looksUp =
        op && llvm::any_of(op->getOpOperands(), [&](OpOperand &read) {
          return readsMemory(read) &&
                 read.get() == scatter.getDataOperand().get();
        });
    // What others read, what has another shape, and what is no elementwise op
    // is a kernel's of its own.
    if (!op || op == data || looksUp || !isAlonePointwise(op) ||
        !resultsHaveShape(op, regions[region].space) ||
        llvm::any_of(op->getUsers(),
                     [&](Operation *user) { return find(user) != region; }) ||
        !tryMerge(region, find(op)))
      continue;
    // What it reads in turn may now be needed by this region alone.
    for (Value operand : op->getOperands())
      producers.push_back(operand.getDefiningOp());
  }
}

//===----------------------------------------------------------------------===//
// Pointwise
//===----------------------------------------------------------------------===//

// Takes in elementwise users, as long as there are any. Their order makes no
// difference: a user that is blocked, by an op of another kind between it and
// the kernel, stays blocked. A kernel that was grown before brings no new
// candidates when this one absorbs it: what blocked its users there blocks them
// here.
void RegionFormer::growPointwise(unsigned region) {
  Operations candidates(regions[region].hero->getUsers());
  while (!candidates.empty()) {
    unsigned other = find(candidates.pop_back_val());
    if (other == kNone || other == region || !regions[other].isElementwise() ||
        regions[other].space != regions[region].space ||
        !tryMerge(region, other) || hasGrown.contains(other))
      continue;
    llvm::append_range(candidates, regions[other].hero->getUsers());
  }
  hasGrown.insert(region);
}

// Small kernels cost a launch each and little else: join kernels of one space
// even where they share nothing. Only some of them are tried with each other,
// so that large models do not take quadratic time.
void RegionFormer::mergeSmall() {
  constexpr unsigned kTries = 32;
  constexpr int64_t kSmall = 4096;
  /// The small regions of one space, and how many of them were tried.
  struct Bucket {
    SmallVector<unsigned> regions;
    size_t turn = 0;
  };
  std::map<SmallVector<int64_t>, Bucket> buckets;
  SmallVector<unsigned> small;
  // Reductions and contractions are large whatever their result is, and
  // scatters and movements have rules of their own.
  for (unsigned i = 0; i < regions.size(); ++i)
    if (!regions[i].ops.empty() && regions[i].isElementwise() &&
        ShapedType::getNumElements(regions[i].space) <= kSmall) {
      small.push_back(i);
      buckets[regions[i].space].regions.push_back(i);
    }
  // Each is tried with those behind it, 32 at most: those before it have tried
  // it.
  for (unsigned region : small) {
    Bucket &bucket = buckets[regions[region].space];
    auto others = ArrayRef<unsigned>(bucket.regions).drop_front(++bucket.turn);
    unsigned tries = 0;
    for (unsigned other : others) {
      if (regions[region].ops.empty() || tries == kTries)
        break;
      if (regions[other].ops.empty())
        continue;
      ++tries;
      tryMerge(region, other);
    }
  }
}

void RegionFormer::run() {
  auto grow = [&](Growth growth, void (RegionFormer::*body)(unsigned)) {
    for (unsigned i = 0; i < regions.size(); ++i)
      if (!regions[i].ops.empty() && regions[i].getGrowth() == growth)
        (this->*body)(i);
  };
  // Contractions first: what a product's tail takes costs no memory traffic.
  grow(Growth::Tail, &RegionFormer::growTail);
  grow(Growth::Reductions, &RegionFormer::growReduction);
  // Reductions of the same rows share a kernel, whatever each has taken.
  mergeReductions();
  if (isOnGPU)
    mergeSums();
  grow(Growth::Updates, &RegionFormer::growScatter);
  grow(Growth::Elementwise, &RegionFormer::growPointwise);
  // What is left over and small shares launches.
  mergeSmall();
  assert(order.isTopological() && "kernels can run one after another");
  // Ops in the order of the block, since they join in another.
  for (KernelRegion &region : regions)
    llvm::sort(region.ops, [&](Operation *a, Operation *b) {
      return position.lookup(a) < position.lookup(b);
    });
}
