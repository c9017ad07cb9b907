// Tests the incremental formation of kernels, which visits every edge once,
// against a simple version that rescans everything after each step.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Regions/RegionFormer.h"

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Kernels/KernelSpace.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// The plain way
//===----------------------------------------------------------------------===//

namespace {
class PlainFormer {
public:
  explicit PlainFormer(Block &block) : order(block) {
    for (Operation &op : block)
      if (std::optional<KernelRegion> region = seedRegion(&op)) {
        regionOf[&op] = regions.size();
        regions.push_back(std::move(*region));
      }
  }
  void run();

  std::vector<KernelRegion> regions;
  /// Number of joins that had been refused before.
  unsigned numLateJoins = 0;

private:
  static constexpr unsigned kNone = ~0u;

  unsigned find(Operation *op) const {
    auto found = regionOf.find(op);
    return found == regionOf.end() ? kNone : found->second;
  }
  bool isAlone(Operation *op) const {
    return find(op) != kNone && regions[find(op)].ops.size() == 1;
  }
  bool isAlonePointwise(Operation *op) const {
    return isAlone(op) && regions[find(op)].kind == KernelKind::Pointwise;
  }
  static void sort(std::vector<Operation *> &list) {
    llvm::sort(
        list, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  }
  std::vector<Operation *> usersOf(unsigned region) const {
    std::vector<Operation *> users;
    for (Operation *op : regions[region].ops)
      for (Operation *user : op->getUsers())
        if (find(user) != region)
          users.push_back(user);
    sort(users);
    return users;
  }
  bool feedsOneHot(unsigned producer, unsigned consumer) const {
    return llvm::any_of(regions[consumer].ops, [&](Operation *op) {
      return isa<OneHotOp>(op) &&
             find(op->getOperand(0).getDefiningOp()) == producer;
    });
  }
  bool follows(Operation *op, unsigned region) const {
    return llvm::any_of(op->getOperands(), [&](Value operand) {
      Operation *producer = operand.getDefiningOp();
      return producer && find(producer) == region && getReducedAxes(producer);
    });
  }
  bool fits(Operation *op, unsigned region) const;
  bool tryMerge(unsigned into, unsigned from);
  bool growEpilogue(unsigned region);
  bool growReduction(unsigned region);
  bool growSiblings(unsigned region);
  bool growPointwise(unsigned region);
  void mergeReductions();
  void mergeSmall();

  std::map<Operation *, unsigned> regionOf;
  std::set<std::pair<unsigned, unsigned>> refused;
  KernelOrder order;
};
} // namespace

bool PlainFormer::tryMerge(unsigned into, unsigned from) {
  KernelRegion &target = regions[into], &source = regions[from];
  if (into == from || feedsOneHot(into, from) || feedsOneHot(from, into))
    return false;
  if (!order.tryJoin(order.getGroup(target.hero),
                     order.getGroup(source.hero))) {
    refused.insert({into, from});
    return false;
  }
  numLateJoins += refused.count({into, from});
  for (Operation *op : source.ops)
    regionOf[op] = into;
  llvm::append_range(target.ops, source.ops);
  std::vector<Operation *> sorted(target.ops.begin(), target.ops.end());
  sort(sorted);
  target.ops.assign(sorted.begin(), sorted.end());
  source.ops.clear();
  return true;
}

bool PlainFormer::growEpilogue(unsigned region) {
  for (Operation *user : usersOf(region))
    if (isAlonePointwise(user) && fitsEpilogue(user, regions[region]) &&
        tryMerge(region, find(user)))
      return true;
  for (Operation *op : regions[region].ops)
    for (Value operand : op->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      if (op == regions[region].hero || !producer ||
          !isAlonePointwise(producer) ||
          !fitsEpilogue(producer, regions[region]))
        continue;
      bool onlyHere = llvm::all_of(producer->getUsers(), [&](Operation *user) {
        return user != regions[region].hero && find(user) == region;
      });
      if (onlyHere && tryMerge(region, find(producer)))
        return true;
    }
  return false;
}

bool PlainFormer::fits(Operation *op, unsigned index) const {
  if (!isAlone(op))
    return false;
  const KernelRegion &own = regions[find(op)], &region = regions[index];
  if (own.kind == region.kind)
    return own.space == region.space && own.axes == region.axes;
  return own.kind == KernelKind::Pointwise && fitsReduction(op, region) &&
         (region.kind == KernelKind::RowReduce || !follows(op, index));
}

bool PlainFormer::growReduction(unsigned region) {
  for (Operation *op : regions[region].ops)
    for (Value operand : op->getOperands())
      if (Operation *producer = operand.getDefiningOp())
        if (find(producer) != region && fits(producer, region) &&
            tryMerge(region, find(producer)))
          return true;
  for (Operation *user : usersOf(region))
    if ((getReducedAxes(user) ||
         regions[region].kind == KernelKind::RowReduce) &&
        fits(user, region) && tryMerge(region, find(user)))
      return true;
  return false;
}

bool PlainFormer::growSiblings(unsigned region) {
  for (Operation *op : regions[region].ops)
    for (Value operand : op->getOperands())
      for (Operation *user : operand.getUsers())
        if (shapeOf(operand) == ArrayRef<int64_t>(regions[region].space) &&
            find(user) != region && getReducedAxes(user) &&
            fits(user, region) && tryMerge(region, find(user)))
          return true;
  return false;
}

bool PlainFormer::growPointwise(unsigned region) {
  for (Operation *user : usersOf(region)) {
    unsigned other = find(user);
    if (other != kNone && regions[other].kind == KernelKind::Pointwise &&
        regions[other].space == regions[region].space &&
        tryMerge(region, other))
      return true;
  }
  return false;
}

void PlainFormer::mergeReductions() {
  auto isReduction = [&](unsigned i) {
    return !regions[i].ops.empty() && !regions[i].axes.empty();
  };
  auto valuesOf = [&](unsigned i) {
    SmallVector<Value> values;
    for (Operation *op : regions[i].ops) {
      llvm::append_range(values, op->getOperands());
      llvm::append_range(values, op->getResults());
    }
    return values;
  };
  for (unsigned i = 0; i < regions.size(); ++i)
    for (unsigned j = i + 1; j < regions.size(); ++j) {
      if (!isReduction(i) || !isReduction(j) ||
          regions[i].kind != regions[j].kind ||
          regions[i].space != regions[j].space ||
          regions[i].axes != regions[j].axes)
        continue;
      SmallVector<Value> own = valuesOf(i);
      bool shares = llvm::any_of(valuesOf(j), [&](Value value) {
        return shapeOf(value) == ArrayRef<int64_t>(regions[i].space) &&
               llvm::is_contained(own, value);
      });
      bool needsSums = llvm::any_of(
          regions[j].ops, [&](Operation *op) { return follows(op, i); });
      if (shares && (regions[i].kind == KernelKind::RowReduce || !needsSums))
        tryMerge(i, j);
    }
}

void PlainFormer::mergeSmall() {
  for (unsigned i = 0; i < regions.size(); ++i)
    for (unsigned j = i + 1, tries = 0; j < regions.size() && tries < 32; ++j)
      if (!regions[i].ops.empty() && !regions[j].ops.empty() &&
          regions[i].kind == KernelKind::Pointwise &&
          regions[j].kind == KernelKind::Pointwise &&
          regions[i].space == regions[j].space &&
          ShapedType::getNumElements(regions[i].space) <= 4096) {
        tryMerge(i, j);
        ++tries;
      }
}

void PlainFormer::run() {
  auto forEach = [&](std::initializer_list<KernelKind> kinds, auto grow) {
    for (unsigned i = 0; i < regions.size(); ++i)
      if (!regions[i].ops.empty() && regions[i].kind &&
          llvm::is_contained(kinds, *regions[i].kind))
        while (grow(i))
          ;
  };
  forEach({KernelKind::Contraction},
          [&](unsigned i) { return growEpilogue(i); });
  forEach({KernelKind::RowReduce, KernelKind::ColumnReduce},
          [&](unsigned i) { return growReduction(i) || growSiblings(i); });
  mergeReductions();
  forEach({KernelKind::Pointwise},
          [&](unsigned i) { return growPointwise(i); });
  mergeSmall();
}

//===----------------------------------------------------------------------===//
// Random graphs
//===----------------------------------------------------------------------===//

namespace {
class RandomGraph {
public:
  RandomGraph(unsigned seed, int64_t size) : random(seed), builder(&context) {
    context.loadDialect<MPCDialect, func::FuncDialect>();
    full = type({size, size});
    row = type({size, 1});
    column = type({1, size});
    labels = RankedTensorType::get({size}, builder.getI64Type());
    module = ModuleOp::create(builder.getUnknownLoc());
    builder.setInsertionPointToStart(module->getBody());
    auto function = func::FuncOp::create(
        builder, builder.getUnknownLoc(), "f",
        builder.getFunctionType({full, full, row, column, labels}, {}));
    block = function.addEntryBlock();
    builder.setInsertionPointToStart(block);
    for (Value argument : block->getArguments())
      values[argument.getType()].push_back(argument);
  }

  void add();
  // Adds an op, usually elementwise, that reads arguments as often as other
  // values.
  void addPointwise();

  MLIRContext context;
  Block *block;

private:
  RankedTensorType type(ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, builder.getF32Type());
  }
  // One of the last few values of a type.
  Value pick(Type of) {
    auto &list = values[of];
    return list[list.size() - 1 - random() % std::min<size_t>(list.size(), 6)];
  }
  Type pickType() {
    unsigned number = random() % 8;
    return number == 0 ? row : number == 1 ? column : full;
  }
  Value reduce(RankedTensorType to, int64_t axis) {
    return ReduceSumOp::create(builder, builder.getUnknownLoc(), to, pick(full),
                               ArrayRef<int64_t>(axis), /*keepdims=*/true);
  }

  std::mt19937 random;
  OpBuilder builder;
  RankedTensorType full, row, column, labels;
  OwningOpRef<ModuleOp> module;
  llvm::DenseMap<Type, std::vector<Value>> values;
};
} // namespace

void RandomGraph::add() {
  Location location = builder.getUnknownLoc();
  Type type = pickType();
  Value made;
  switch (random() % 12) {
  case 0:
    made = MatMulOp::create(builder, location, full, pick(full), pick(full),
                            false, false, APFloat(1.0));
    break;
  case 1:
    made = reduce(row, 1);
    break;
  case 2:
    made = reduce(column, 0);
    break;
  case 3:
    made = OneHotOp::create(builder, location, full, pick(labels), uint64_t(1),
                            static_cast<uint64_t>(full.getDimSize(0)));
    break;
  case 4:
    made = TransposeOp::create(builder, location, full, pick(full),
                               ArrayRef<int64_t>({1, 0}));
    break;
  case 5:
    made = AddOp::create(builder, location, labels, pick(labels), pick(labels));
    break;
  case 6:
  case 7:
    made = MulOp::create(builder, location, full, pick(full), pick(pickType()));
    break;
  case 8:
    made = ReluOp::create(builder, location, type, pick(type));
    break;
  default:
    made = AddOp::create(builder, location, type, pick(type), pick(type));
  }
  values[made.getType()].push_back(made);
}

void RandomGraph::addPointwise() {
  Location location = builder.getUnknownLoc();
  auto any = [&]() -> Value {
    return random() % 2 ? pick(full) : values[full][random() % 2];
  };
  Value made =
      random() % 6
          ? AddOp::create(builder, location, full, any(), any()).getResult()
          : TransposeOp::create(builder, location, full, any(),
                                ArrayRef<int64_t>({1, 0}))
                .getResult();
  values[full].push_back(made);
}

// A description of every kernel in numbers and words.
template <typename Regions>
static std::vector<std::string> describe(const Regions &regions, Block &block) {
  std::map<Operation *, unsigned> numberOf;
  for (Operation &op : block)
    numberOf[&op] = numberOf.size();
  std::vector<std::string> kernels;
  for (const KernelRegion &region : regions) {
    if (region.ops.empty())
      continue;
    std::string text = std::string(stringify(*region.kind)) + " around " +
                       std::to_string(numberOf[region.hero]) + ":";
    for (Operation *op : region.ops)
      text += " " + std::to_string(numberOf[op]);
    kernels.push_back(text);
  }
  return kernels;
}

namespace {
/// Counts over the random graphs.
struct Counts {
  std::map<KernelKind, unsigned> joined;
  unsigned numLateJoins = 0;
};
} // namespace

// Forms the kernels of a graph in both ways.
static void compare(RandomGraph &graph, Counts &counts) {
  RegionFormer former(*graph.block);
  former.run();
  PlainFormer plain(*graph.block);
  plain.run();
  ASSERT_EQ(describe(former.regions, *graph.block),
            describe(plain.regions, *graph.block));
  for (const KernelRegion &region : plain.regions)
    counts.joined[*region.kind] += region.ops.size() > 1;
  counts.numLateJoins += plain.numLateJoins;
}

// Some tensors are small enough for unrelated ops to be joined.
TEST(RegionFormer, FormsTheKernelsThatLookingAgainForms) {
  Counts counts;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    RandomGraph graph(seed, seed % 2 ? 8 : 128);
    for (unsigned i = 0; i < 40; ++i)
      graph.add();
    ASSERT_NO_FATAL_FAILURE(compare(graph, counts)) << "seed " << seed;
  }
  EXPECT_GT(counts.joined[KernelKind::Contraction], 100u);
  EXPECT_GT(counts.joined[KernelKind::RowReduce], 100u);
  EXPECT_GT(counts.joined[KernelKind::ColumnReduce], 100u);
  EXPECT_GT(counts.joined[KernelKind::Pointwise], 100u);
  EXPECT_GT(counts.numLateJoins, 50u);
}

// Other kernels fuse kernels that have grown.
TEST(RegionFormer, TakesInWhatHasGrown) {
  Counts counts;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    RandomGraph graph(seed, 128);
    for (unsigned i = 0; i < 60; ++i)
      graph.addPointwise();
    ASSERT_NO_FATAL_FAILURE(compare(graph, counts)) << "seed " << seed;
  }
  EXPECT_GT(counts.joined[KernelKind::Pointwise], 1000u);
  EXPECT_GT(counts.numLateJoins, 50u);
}
