// SPDX-License-Identifier: Apache-2.0
#include "compiler/Analysis/RegionAnalysis.h"

#include "compiler/Analysis/KernelOrder.h"
#include "compiler/Analysis/KernelSpace.h"
#include "compiler/Dialect/MPC/MPC.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// What an op can be part of
//===----------------------------------------------------------------------===//

static bool isSingleElement(ArrayRef<int64_t> shape) {
  return llvm::all_of(shape, [](int64_t extent) { return extent == 1; });
}

static std::optional<RegionRole> roleOf(Operation *op) {
  auto candidate = dyn_cast<RegionOpInterface>(op);
  return candidate ? std::optional(candidate.getRegionRole()) : std::nullopt;
}

static bool resultsHaveShape(Operation *op, ArrayRef<int64_t> shape) {
  return llvm::all_of(op->getResults(),
                      [&](Value result) { return shapeOf(result) == shape; });
}

// The kernel an op makes up on its own; nothing where it needs none.
static std::optional<KernelRegion> seed(Operation *op) {
  std::optional<RegionRole> role = roleOf(op);
  if (!role || *role == RegionRole::View || *role == RegionRole::Constant)
    return std::nullopt;
  KernelRegion region;
  region.hero = op;
  region.ops = {op};
  region.space = SmallVector<int64_t>(shapeOf(op->getResult(0)));
  switch (*role) {
  case RegionRole::Elementwise:
    region.kind = KernelKind::Pointwise;
    break;
  case RegionRole::Reduction: {
    region.space = SmallVector<int64_t>(shapeOf(op->getOperand(0)));
    region.axes = *getReducedAxes(op);
    auto space = getReductionSpace(region.space, region.axes);
    region.kind = space && space->inner == 1 ? KernelKind::RowReduce
                                             : KernelKind::ColumnReduce;
    break;
  }
  case RegionRole::Contraction:
    region.kind = KernelKind::Contraction;
    break;
  case RegionRole::Window:
    region.kind = KernelKind::Window;
    break;
  case RegionRole::Movement:
    region.kind = KernelKind::Movement;
    break;
  default: // Composite
    break;
  }
  return region;
}

// The axis of a contraction's result that counts columns; nothing where the
// result is produced whole, so that nothing can follow in the same kernel.
static std::optional<size_t> columnAxis(Operation *hero) {
  return llvm::TypeSwitch<Operation *, std::optional<size_t>>(hero)
      .Case<ConvOp, ConvInputGradOp>([](auto conv) -> std::optional<size_t> {
        if (conv.getLayout() == "NHWC")
          return shapeOf(conv->getResult(0)).size() - 1;
        return 1;
      })
      .Case([](ConvWeightGradOp) { return std::nullopt; })
      .Default([](Operation *op) -> std::optional<size_t> {
        return shapeOf(op->getResult(0)).size() - 1;
      });
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

// Whether reductions alone use what `op` computes: their kernels do it again
// for less than storing it takes.
static bool isOnlyReduced(Operation *op) {
  return !op->use_empty() && llvm::all_of(op->getUsers(), [](Operation *user) {
    return getReducedAxes(user).has_value();
  });
}

// Whether elementwise `op` can follow the contraction of `region`.
static bool fitsTail(Operation *op, const KernelRegion &region) {
  std::optional<size_t> axis = columnAxis(region.hero);
  return axis && !isa<OneHotOp>(op) && !isOnlyReduced(op) &&
         resultsHaveShape(op, region.space) &&
         llvm::all_of(op->getOperands(), [&](Value operand) {
           return isTailOperand(shapeOf(operand), region.space, *axis);
         });
}

// The space of a reduction with the reduced axes of size 1.
static SmallVector<int64_t> reducedShape(const KernelRegion &region) {
  SmallVector<int64_t> shape = region.space;
  for (int64_t axis : region.axes)
    shape[axis] = 1;
  return shape;
}

//===----------------------------------------------------------------------===//
// Forming kernels
//===----------------------------------------------------------------------===//

namespace {
class RegionFormer {
public:
  explicit RegionFormer(Block &block);
  void run();

  SmallVector<KernelRegion> regions;
  DenseMap<Operation *, unsigned> regionOf;

private:
  static constexpr unsigned kNone = ~0u;

  unsigned find(Operation *op) const {
    auto it = op ? regionOf.find(op) : regionOf.end();
    return it == regionOf.end() ? kNone : it->second;
  }
  bool isAlonePointwise(Operation *op) const;
  SmallVector<Operation *> usersOf(unsigned region) const;
  SmallVector<Operation *> producersOf(unsigned region) const;
  bool feedsOneHot(unsigned producer, unsigned consumer) const;
  bool tryMerge(unsigned into, unsigned from);

  bool growTail(unsigned region);
  bool followsReduction(Operation *op, unsigned region) const;
  bool fitsReduction(Operation *op, unsigned region) const;
  bool growReduction(unsigned region);
  bool growSiblings(unsigned region);
  llvm::SmallPtrSet<Value, 16> fullTensorsOf(unsigned region) const;
  bool touchesAny(unsigned region,
                  const llvm::SmallPtrSetImpl<Value> &tensors) const;
  void mergeReductions();
  void growPointwise(unsigned region);
  void mergeSmall();

  DenseMap<Operation *, unsigned> position;
  KernelOrder order;
};
} // namespace

RegionFormer::RegionFormer(Block &block) : order(block) {
  for (Operation &op : block) {
    position[&op] = position.size();
    if (std::optional<KernelRegion> region = seed(&op)) {
      regionOf[&op] = regions.size();
      regions.push_back(std::move(*region));
    }
  }
}

// Whether `op` is elementwise and not yet part of a kernel with others.
bool RegionFormer::isAlonePointwise(Operation *op) const {
  unsigned region = find(op);
  return region != kNone && regions[region].kind == KernelKind::Pointwise &&
         regions[region].ops.size() == 1;
}

// Ops outside the kernel that use its values, in program order.
SmallVector<Operation *> RegionFormer::usersOf(unsigned region) const {
  SmallVector<Operation *> users;
  for (Operation *op : regions[region].ops)
    for (Operation *user : op->getUsers())
      if (find(user) != region)
        users.push_back(user);
  llvm::sort(users, [&](Operation *a, Operation *b) {
    return position.lookup(a) < position.lookup(b);
  });
  users.erase(llvm::unique(users), users.end());
  return users;
}

// Ops outside the kernel whose values it uses.
SmallVector<Operation *> RegionFormer::producersOf(unsigned region) const {
  SmallVector<Operation *> producers;
  for (Operation *op : regions[region].ops)
    for (Value operand : op->getOperands())
      if (Operation *producer = operand.getDefiningOp())
        if (find(producer) != region)
          producers.push_back(producer);
  return producers;
}

// one_hot reads its labels at fewer axes than the kernel iterates over, so they
// must come from memory.
bool RegionFormer::feedsOneHot(unsigned producer, unsigned consumer) const {
  return llvm::any_of(regions[consumer].ops, [&](Operation *op) {
    return isa<OneHotOp>(op) &&
           find(op->getOperand(0).getDefiningOp()) == producer;
  });
}

// Joins two kernels unless that closes a cycle; `into` keeps hero and kind.
bool RegionFormer::tryMerge(unsigned into, unsigned from) {
  KernelRegion &target = regions[into], &source = regions[from];
  if (into == from || feedsOneHot(into, from) || feedsOneHot(from, into) ||
      !order.tryJoin(order.getGroup(target.hero), order.getGroup(source.hero)))
    return false;
  for (Operation *op : source.ops)
    regionOf[op] = into;
  llvm::append_range(target.ops, source.ops);
  llvm::sort(target.ops, [&](Operation *a, Operation *b) {
    return position.lookup(a) < position.lookup(b);
  });
  source.ops.clear();
  return true;
}

//===----------------------------------------------------------------------===//
// Contractions
//===----------------------------------------------------------------------===//

// Takes one more op into the tail: a consumer, or a producer (a cast, say) of
// another operand of the tail that nothing else needs.
bool RegionFormer::growTail(unsigned region) {
  for (Operation *user : usersOf(region))
    if (isAlonePointwise(user) && fitsTail(user, regions[region]) &&
        tryMerge(region, find(user)))
      return true;
  for (Operation *op : regions[region].ops) {
    if (op == regions[region].hero)
      continue;
    for (Value operand : op->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      if (!producer || !isAlonePointwise(producer) ||
          !fitsTail(producer, regions[region]))
        continue;
      bool onlyHere = llvm::all_of(producer->getUsers(), [&](Operation *user) {
        return find(user) == region;
      });
      if (onlyHere && tryMerge(region, find(producer)))
        return true;
    }
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

// Whether `op` reads what a reduction of kernel `index` makes.
bool RegionFormer::followsReduction(Operation *op, unsigned index) const {
  return llvm::any_of(op->getOperands(), [&](Value operand) {
    Operation *producer = operand.getDefiningOp();
    return producer && find(producer) == index && getReducedAxes(producer);
  });
}

// Whether `op`, which is alone, can be part of a reduction kernel.
bool RegionFormer::fitsReduction(Operation *op, unsigned index) const {
  const KernelRegion &region = regions[index];
  unsigned own = find(op);
  if (own == kNone || regions[own].ops.size() != 1)
    return false;
  if (regions[own].kind == region.kind &&
      *regions[own].kind != KernelKind::Pointwise)
    return regions[own].space == region.space &&
           regions[own].axes == region.axes;
  if (regions[own].kind != KernelKind::Pointwise)
    return false;
  if (resultsHaveShape(op, region.space))
    return region.kind == KernelKind::RowReduce || !followsReduction(op, index);
  // Between reductions of rows: one value per row.
  return region.kind == KernelKind::RowReduce &&
         resultsHaveShape(op, reducedShape(region));
}

// Takes one more op into a reduction kernel: what it reads, and over rows also
// what reads it.
bool RegionFormer::growReduction(unsigned region) {
  for (Operation *producer : producersOf(region))
    if (fitsReduction(producer, region) && tryMerge(region, find(producer)))
      return true;
  for (Operation *user : usersOf(region)) {
    bool isReduction = getReducedAxes(user).has_value();
    if ((isReduction || regions[region].kind == KernelKind::RowReduce) &&
        fitsReduction(user, region) && tryMerge(region, find(user)))
      return true;
  }
  return false;
}

// Takes another reduction of the same space that reads one of the same full
// tensors.
bool RegionFormer::growSiblings(unsigned region) {
  for (Operation *op : regions[region].ops)
    for (Value operand : op->getOperands()) {
      if (shapeOf(operand) != ArrayRef<int64_t>(regions[region].space))
        continue;
      for (Operation *user : operand.getUsers())
        if (find(user) != region && getReducedAxes(user) &&
            fitsReduction(user, region) && tryMerge(region, find(user)))
          return true;
    }
  return false;
}

// The full tensors that a kernel reads or computes.
llvm::SmallPtrSet<Value, 16>
RegionFormer::fullTensorsOf(unsigned region) const {
  llvm::SmallPtrSet<Value, 16> tensors;
  auto insertFull = [&](ValueRange values) {
    for (Value value : values)
      if (shapeOf(value) == ArrayRef<int64_t>(regions[region].space))
        tensors.insert(value);
  };
  for (Operation *op : regions[region].ops) {
    insertFull(op->getOperands());
    insertFull(op->getResults());
  }
  return tensors;
}

// Whether a kernel reads or computes one of `tensors`.
bool RegionFormer::touchesAny(
    unsigned region, const llvm::SmallPtrSetImpl<Value> &tensors) const {
  auto isKnown = [&](Value value) { return tensors.contains(value); };
  return llvm::any_of(regions[region].ops, [&](Operation *op) {
    return llvm::any_of(op->getOperands(), isKnown) ||
           llvm::any_of(op->getResults(), isKnown);
  });
}

// Joins reduction kernels that pass over the same tensor in the same way.
void RegionFormer::mergeReductions() {
  SmallVector<unsigned> reductions;
  for (unsigned i = 0; i < regions.size(); ++i)
    if (!regions[i].ops.empty() && !regions[i].axes.empty())
      reductions.push_back(i);
  for (auto [position, own] : llvm::enumerate(reductions)) {
    unsigned i = own;
    if (regions[i].ops.empty())
      continue;
    llvm::SmallPtrSet<Value, 16> tensors = fullTensorsOf(i);
    for (unsigned j : ArrayRef<unsigned>(reductions).drop_front(position + 1)) {
      if (regions[j].ops.empty() || regions[i].kind != regions[j].kind ||
          regions[i].space != regions[j].space ||
          regions[i].axes != regions[j].axes || !touchesAny(j, tensors))
        continue;
      // A column kernel has no second pass for what needs its sums.
      bool needsSums = llvm::any_of(regions[j].ops, [&](Operation *op) {
        return followsReduction(op, i);
      });
      if ((regions[i].kind == KernelKind::RowReduce || !needsSums) &&
          tryMerge(i, j))
        tensors = fullTensorsOf(i);
    }
  }
}

//===----------------------------------------------------------------------===//
// Pointwise
//===----------------------------------------------------------------------===//

void RegionFormer::growPointwise(unsigned region) {
  bool changed = true;
  while (changed) {
    changed = false;
    for (Operation *user : usersOf(region)) {
      unsigned other = find(user);
      changed |= other != kNone && other != region &&
                 regions[other].kind == KernelKind::Pointwise &&
                 regions[other].space == regions[region].space &&
                 tryMerge(region, other);
    }
  }
}

// Small kernels cost a launch each and little else: join those of one space
// even where they share nothing. Only some of them are tried with each other,
// so that large models do not take quadratic time.
void RegionFormer::mergeSmall() {
  constexpr unsigned kTries = 32;
  constexpr int64_t kSmall = 4096;
  SmallVector<unsigned> small;
  for (unsigned i = 0; i < regions.size(); ++i)
    if (!regions[i].ops.empty() && regions[i].kind == KernelKind::Pointwise &&
        ShapedType::getNumElements(regions[i].space) <= kSmall)
      small.push_back(i);
  for (auto [position, region] : llvm::enumerate(small)) {
    unsigned tries = 0;
    for (unsigned other : ArrayRef<unsigned>(small).drop_front(position + 1)) {
      if (regions[region].ops.empty() || tries == kTries)
        break;
      if (regions[other].ops.empty() ||
          regions[region].space != regions[other].space)
        continue;
      ++tries;
      tryMerge(region, other);
    }
  }
}

void RegionFormer::run() {
  auto forEach = [&](auto matches, auto body) {
    for (unsigned i = 0; i < regions.size(); ++i)
      if (!regions[i].ops.empty() && regions[i].kind &&
          matches(*regions[i].kind))
        body(i);
  };
  forEach([](KernelKind kind) { return kind == KernelKind::Contraction; },
          [&](unsigned i) {
            while (growTail(i))
              ;
          });
  forEach(
      [](KernelKind kind) {
        return kind == KernelKind::RowReduce ||
               kind == KernelKind::ColumnReduce;
      },
      [&](unsigned i) {
        while (growReduction(i) || growSiblings(i))
          ;
      });
  mergeReductions();
  forEach([](KernelKind kind) { return kind == KernelKind::Pointwise; },
          [&](unsigned i) { growPointwise(i); });
  mergeSmall();
}

//===----------------------------------------------------------------------===//
// RegionAnalysis
//===----------------------------------------------------------------------===//

RegionAnalysis::RegionAnalysis(Block &block) {
  RegionFormer former(block);
  former.run();
  for (KernelRegion &region : former.regions) {
    if (region.ops.empty())
      continue;
    for (Operation *op : region.ops)
      regionOf[op] = regions.size();
    regions.push_back(std::move(region));
  }
}

const KernelRegion *RegionAnalysis::getRegion(Operation *op) const {
  auto it = regionOf.find(op);
  return it == regionOf.end() ? nullptr : &regions[it->second];
}

bool RegionAnalysis::isInternal(Value value) const {
  const KernelRegion *region =
      value.getDefiningOp() ? getRegion(value.getDefiningOp()) : nullptr;
  return region && llvm::all_of(value.getUsers(), [&](Operation *user) {
           return getRegion(user) == region;
         });
}
