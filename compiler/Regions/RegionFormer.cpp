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
// Roles of an op
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
      hasRole(op, RegionRole::Constant) ||
      hasRole(op, RegionRole::Collective) || hasRole(op, RegionRole::Library))
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

// True if an epilogue over `space` can read a tensor of `shape`: a full tensor,
// one value, a value per row or a value per column.
static bool isEpilogueOperand(ArrayRef<int64_t> shape, ArrayRef<int64_t> space,
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

// True if only reductions read the result of `op`. Recomputing the result in
// the reductions' kernels costs less than a store: the kernel of mean(relu(x))
// reads x and stores no relu.
static bool isOnlyReduced(Operation *op) {
  return !op->use_empty() && llvm::all_of(op->getUsers(), [](Operation *user) {
    return isa<ReductionOpInterface>(user);
  });
}

bool mpc::fitsEpilogue(Operation *op, const KernelRegion &region) {
  assert(region.getGrowth() == Growth::Epilogue && "a contraction's kernel");
  std::optional<size_t> axis =
      cast<ContractionOpInterface>(region.hero).getColumnAxis();
  return axis && !readsMemory(op) && !isOnlyReduced(op) &&
         resultsHaveShape(op, region.space) &&
         llvm::all_of(op->getOperands(), [&](Value operand) {
           return isEpilogueOperand(shapeOf(operand), region.space, *axis);
         });
}

bool mpc::fitsReduction(Operation *op, const KernelRegion &region) {
  if (resultsHaveShape(op, region.space))
    return true;
  // Values between row reductions have one element per row.
  SmallVector<int64_t> reduced = region.space;
  for (int64_t axis : region.axes) {
    assert(axis >= 0 && size_t(axis) < reduced.size() &&
           "an axis of the space");
    reduced[axis] = 1;
  }
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

// True if `op` is elementwise and still a kernel of its own.
bool RegionFormer::isAlonePointwise(Operation *op) const {
  unsigned region = find(op);
  return region != kNone && regions[region].isElementwise() &&
         regions[region].ops.size() == 1;
}

// True if `consumer` reads a result of `producer` from memory: the labels of a
// one_hot, or the data of a gather. Such values must be complete before the
// kernel starts.
bool RegionFormer::feedsMemory(unsigned producer, unsigned consumer) const {
  assert(producer < regions.size() && consumer < memoryReaders.size() &&
         "numbers of kernels");
  return llvm::any_of(memoryReaders[consumer], [&](Operation *op) {
    return llvm::any_of(op->getOpOperands(), [&](OpOperand &operand) {
      return readsMemory(operand) &&
             find(operand.get().getDefiningOp()) == producer;
    });
  });
}

// Joins kernel `from` to kernel `into`, which keeps its hero and kind. Returns
// false if the join would close a cycle, or if a kernel reads results of the
// other from memory.
bool RegionFormer::tryMerge(unsigned into, unsigned from) {
  assert(into < regions.size() && from < regions.size() &&
         "numbers of kernels");
  KernelRegion &target = regions[into], &source = regions[from];
  assert(!target.ops.empty() && !source.ops.empty() &&
         "a kernel that was taken in joins no other");
  if (into == from || feedsMemory(into, from) || feedsMemory(from, into) ||
      !order.tryJoin(order.getGroup(target.hero), order.getGroup(source.hero)))
    return false;
  assert(order.getGroup(target.hero) == order.getGroup(source.hero) &&
         "joined kernels are one group");
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

// Fuses the ops that follow the contraction. Also fuses producers (such as
// a cast) of the epilogue's other operands if only the epilogue needs the
// producers. The contraction's operands stay in memory. An op that cannot join
// yet, because a path to it leads through a neighbour, is tried again when the
// neighbour has joined.
void RegionFormer::growEpilogue(unsigned region) {
  assert(!hasGrown.contains(region) &&
         "epilogues grow before pointwise kernels");
  Operation *hero = regions[region].hero;
  Operations users(hero->getUsers()), producers;
  // For each producer, its first user outside the epilogue. The epilogue only
  // grows, so the search for this user goes on where it stopped.
  DenseMap<Operation *, Operation::user_iterator> outside;
  auto isNeededOutside = [&](Operation *op) {
    auto &user = outside.try_emplace(op, op->user_begin()).first->second;
    while (user != op->user_end() && *user != hero && find(*user) == region)
      ++user;
    return user != op->user_end();
  };
  auto take = [&](Operation *op) {
    if (!isAlonePointwise(op) || !fitsEpilogue(op, regions[region]))
      return;
    if (!tryMerge(region, find(op)))
      return;
    llvm::append_range(users, op->getUsers());
    for (Value operand : op->getOperands())
      if (Operation *producer = operand.getDefiningOp())
        producers.push_back(producer);
  };
  // Readers come first: a producer joins when all its readers have joined.
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

// Fuses the elementwise ops that compute the updates of a scatter, if no
// other op needs them. A slice of the kernel then computes only the updates of
// its own part of the result. The scattered data stays outside even if updates
// are computed from it, since the kernel reads the data from memory. Ops that
// gather from the data stay outside too, since the result may be written over
// the data.
void RegionFormer::growScatter(unsigned region) {
  auto scatter = cast<ScatterOpInterface>(regions[region].hero);
  Operation *data = scatter.getDataOperand().get().getDefiningOp();
  Operations producers = {scatter.getUpdatesOperand().get().getDefiningOp()};
  while (!producers.empty()) {
    Operation *op = producers.pop_back_val();
    // A gather from the scattered tensor must see the elements from before the
    // scatter.
    bool looksUp =
        op && llvm::any_of(op->getOpOperands(), [&](OpOperand &read) {
          return readsMemory(read) &&
                 read.get() == scatter.getDataOperand().get();
        });
    // Ops with other readers, ops of another shape, and ops that are not
    // elementwise stay in kernels of their own.
    if (!op || op == data || looksUp || !isAlonePointwise(op) ||
        !resultsHaveShape(op, regions[region].space) ||
        llvm::any_of(op->getUsers(),
                     [&](Operation *user) { return find(user) != region; }) ||
        !tryMerge(region, find(op)))
      continue;
    // The producers of the fused op may have lost their last user outside
    // this kernel, so try the producers too.
    for (Value operand : op->getOperands())
      producers.push_back(operand.getDefiningOp());
  }
}

//===----------------------------------------------------------------------===//
// Pointwise
//===----------------------------------------------------------------------===//

// Fuses elementwise users of equal shape until none is left. The order makes
// no difference: a user that an op of another kind blocks stays blocked. A
// kernel that has grown already is fused as a whole. The users of such a
// kernel need no second try, since the same ops still block the users.
void RegionFormer::growPointwise(unsigned region) {
  assert(regions[region].isElementwise() && !hasGrown.contains(region) &&
         "a pointwise kernel that has not grown");
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

// Joins small kernels of equal space even without common values: each kernel
// costs a launch and little else. Limits the tries, so that large models do not
// take quadratic time.
void RegionFormer::mergeSmall() {
  constexpr unsigned kTries = 32;
  constexpr int64_t kSmall = 4096;
  /// The small kernels of one space. `turn` counts the kernels whose turn to
  /// fuse others has come.
  struct Bucket {
    SmallVector<unsigned> regions;
    size_t turn = 0;
  };
  std::map<SmallVector<int64_t>, Bucket> buckets;
  SmallVector<unsigned> small;
  // Only elementwise kernels count. Reductions and contractions are large
  // whatever the size of their results. Scatters and movements have their own
  // rules.
  for (unsigned i = 0; i < regions.size(); ++i)
    if (!regions[i].ops.empty() && regions[i].isElementwise() &&
        ShapedType::getNumElements(regions[i].space) <= kSmall) {
      small.push_back(i);
      buckets[regions[i].space].regions.push_back(i);
    }
  // Try to join each kernel with at most 32 later kernels of the same space.
  // Earlier kernels have already tried to join this kernel.
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
  assert(hasGrown.empty() && "the kernels form once");
  auto grow = [&](Growth growth, void (RegionFormer::*body)(unsigned)) {
    for (unsigned i = 0; i < regions.size(); ++i)
      if (!regions[i].ops.empty() && regions[i].getGrowth() == growth)
        (this->*body)(i);
  };
  // Contractions go first: a product's epilogue adds no memory traffic.
  grow(Growth::Epilogue, &RegionFormer::growEpilogue);
  grow(Growth::Reductions, &RegionFormer::growReduction);
  // Merge reductions over the same rows, including all fused ops.
  mergeReductions();
  if (isOnGPU)
    mergeSums();
  grow(Growth::Updates, &RegionFormer::growScatter);
  grow(Growth::Elementwise, &RegionFormer::growPointwise);
  // The small kernels that remain share launches with others.
  mergeSmall();
  assert(order.isTopological() && "kernels can run one after another");
  // Restore program order, since ops joined in another order.
  for (KernelRegion &region : regions)
    llvm::sort(region.ops, [&](Operation *a, Operation *b) {
      return position.lookup(a) < position.lookup(b);
    });
}
