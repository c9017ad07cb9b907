// Lets kernels over rows add up columns of what they have at hand.
//
// Sums over rows, such as gradients of biases and of a norm's scale and shift,
// read once more what a kernel over the same rows reads or has just made. On a
// CPU that kernel adds them up as it goes (compiler/Kernels/ColumnSums.h).
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Passes.h"

#include "compiler/Dialect/MPC/Target.h"
#include "compiler/Kernels/ColumnSums.h"
#include "compiler/Regions/KernelOrder.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/CSE.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace mpc {
#define GEN_PASS_DEF_JOINCOLUMNSUMSPASS
#include "passes/Planning/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
struct JoinColumnSumsPass
    : public mpc::impl::JoinColumnSumsPassBase<JoinColumnSumsPass> {
  void runOnOperation() override;
};
} // namespace

/// Kernels over rows that are tried for a kernel of sums.
static constexpr size_t kTries = 8;

//===----------------------------------------------------------------------===//
// Which join
//===----------------------------------------------------------------------===//

static ArrayRef<int64_t> getSpaceShape(RegionOp region) {
  return shapeOf(findReduction(region.getBody().front())->getOperand(0));
}

static ReductionSpace getSpace(RegionOp region) {
  return *getReductionSpace(findReduction(region.getBody().front()));
}

static SmallVector<ReductionOpInterface> getReductions(RegionOp region) {
  return llvm::to_vector(
      region.getBody().front().getOps<ReductionOpInterface>());
}

// Whether all that a kernel does is to add up columns of what it computes
// element by element, in parts that slices of a kernel over rows add up in the
// same order.
static bool addsColumns(RegionOp region) {
  if (region.getKind() != KernelKind::ColumnReduce ||
      !canAddBesideRows(getReductions(region)))
    return false;
  Block &body = region.getBody().front();
  return llvm::all_of(body.without_terminator(), [&](Operation &op) {
    if (isa<ReductionOpInterface>(op))
      return llvm::all_of(op.getUsers(), [](Operation *user) {
        return user->hasTrait<OpTrait::IsTerminator>();
      });
    return (hasRole(&op, RegionRole::Elementwise) ||
            hasRole(&op, RegionRole::Constant)) &&
           !readsMemory(&op);
  });
}

// Whether a kernel reduces whole rows, and nothing else yet.
static bool reducesWholeRows(RegionOp region) {
  if (region.getKind() != KernelKind::RowReduce ||
      isa<RegionOp>(region.getBody().front().front()))
    return false;
  SmallVector<ReductionOpInterface> reductions = getReductions(region);
  return llvm::all_of(reductions, [&](ReductionOpInterface op) {
    return reducesRows(op) && op.getReductionParts() == 1 &&
           shapeOf(op->getOperand(0)) == getSpaceShape(region);
  });
}

// Whether `rows` has `result`, one of its own, in registers at every element of
// its space, or one value for some of them; not where it stores it in another
// order.
static bool hasAtHand(RegionOp rows, OpResult result) {
  Value yielded = rows.getBody().front().getTerminator()->getOperand(
      result.getResultNumber());
  Operation *maker = yielded.getDefiningOp();
  ArrayRef<int64_t> space = getSpaceShape(rows), shape = shapeOf(yielded);
  return maker &&
         (hasRole(maker, RegionRole::Elementwise) ||
          isa<ReductionOpInterface>(maker)) &&
         shape.size() == space.size() &&
         llvm::all_of(llvm::zip_equal(shape, space), [](auto extents) {
           auto [extent, whole] = extents;
           return extent == whole || extent == 1;
         });
}

// The elements of the space of `sums` that `rows` reads or makes too; 0 where
// it cannot give what it makes.
static int64_t countShared(RegionOp rows, RegionOp sums) {
  int64_t shared = 0;
  for (Value input : sums.getInputs()) {
    bool isMade = input.getDefiningOp() == rows;
    if (isMade && !hasAtHand(rows, cast<OpResult>(input)))
      return 0;
    if (shapeOf(input) == getSpaceShape(sums) &&
        (isMade || llvm::is_contained(rows.getInputs(), input)))
      shared += ShapedType::getNumElements(shapeOf(input));
  }
  return shared;
}

static bool readsFrom(RegionOp reader, RegionOp maker) {
  return llvm::any_of(reader.getInputs(), [&](Value input) {
    return input.getDefiningOp() == maker;
  });
}

// Kernels over the rows that `sums` adds up, those that share the most with it
// first. None that reads the sums, which are whole when the rows are through.
static SmallVector<RegionOp> findHosts(RegionOp sums) {
  // Kernels that make or read what is added up, and has the whole space.
  llvm::SetVector<Operation *> touching;
  for (Value input : sums.getInputs()) {
    if (shapeOf(input) != getSpaceShape(sums))
      continue;
    if (Operation *maker = input.getDefiningOp())
      touching.insert(maker);
    for (Operation *user : input.getUsers())
      if (touching.size() < kTries)
        touching.insert(user);
  }
  // Of these, those over whole rows that could do it, with what both read.
  SmallVector<std::pair<int64_t, RegionOp>> hosts;
  ReductionSpace space = getSpace(sums);
  for (Operation *op : touching) {
    auto rows = dyn_cast<RegionOp>(op);
    if (!rows || !reducesWholeRows(rows) || readsFrom(rows, sums) ||
        getPhase(rows) != getPhase(sums) ||
        getSpaceShape(rows) != getSpaceShape(sums) ||
        getSpace(rows).reduced != space.inner)
      continue;
    if (int64_t shared = countShared(rows, sums))
      hosts.push_back({shared, rows});
  }
  // Those that share most first; the earlier one of equals.
  llvm::sort(hosts, [](const auto &a, const auto &b) {
    return a.first != b.first ? a.first > b.first
                              : a.second->isBeforeInBlock(b.second);
  });
  return llvm::map_to_vector(hosts, [](auto &host) { return host.second; });
}

//===----------------------------------------------------------------------===//
// What a kernel takes
//===----------------------------------------------------------------------===//

namespace {
/// A kernel over rows and what joins it.
class RowsAndSums {
public:
  explicit RowsAndSums(RegionOp rows) : rows(rows) {}

  /// Whether `sums`, which stands behind all that joined, can too, as far as
  /// sums and slices are concerned.
  bool canTake(RegionOp sums) const;
  void add(RegionOp sums) { joined.push_back(sums); }
  bool isEmpty() const { return joined.empty(); }

  /// Makes one kernel of all.
  void merge();

private:
  int64_t countSums() const;
  RegionOp create();

  RegionOp rows;
  SmallVector<RegionOp> joined;
};
} // namespace

int64_t RowsAndSums::countSums() const {
  int64_t count = 0;
  for (RegionOp sums : joined)
    count += static_cast<int64_t>(getReductions(sums).size());
  return count;
}

bool RowsAndSums::canTake(RegionOp sums) const {
  ReductionSpace space = getSpace(sums);
  auto added = static_cast<int64_t>(getReductions(sums).size());
  if (!fitColumnSums(space.inner, countSums() + added))
    return false;
  if (joined.empty())
    return true;
  // None that reads a sum of the same kernel.
  if (llvm::any_of(joined,
                   [&](RegionOp other) { return readsFrom(sums, other); }))
    return false;
  // All in the same parts.
  ReductionOpInterface own = getReductions(joined.front()).front();
  ReductionOpInterface other = getReductions(sums).front();
  return own.getReducedAxes() == other.getReducedAxes() &&
         own.getReductionParts() == other.getReductionParts();
}

//===----------------------------------------------------------------------===//
// Making it one
//===----------------------------------------------------------------------===//

// One region of all.
RegionOp RowsAndSums::create() {
  // What all read but do not make, each once.
  llvm::SetVector<Value> inputs(rows.getInputs().begin(),
                                rows.getInputs().end());
  SmallVector<Location> locations = {rows.getLoc()};
  for (RegionOp sums : joined) {
    locations.push_back(sums.getLoc());
    for (Value input : sums.getInputs())
      if (input.getDefiningOp() != rows)
        inputs.insert(input);
  }
  // The rows' ops, then those of each sum: an input that the rows make is a
  // value at hand.
  OpBuilder builder(rows);
  Location location = builder.getFusedLoc(locations);
  auto block = std::make_unique<Block>();
  IRMapping known;
  for (Value input : inputs)
    known.map(input, block->addArgument(input.getType(), location));
  builder.setInsertionPointToEnd(block.get());
  SmallVector<Value> yielded, replaced;
  auto isJoined = [&](Operation *user) {
    return llvm::is_contained(joined, user);
  };
  auto append = [&](RegionOp region) {
    IRMapping mapping;
    for (auto [argument, input] :
         llvm::zip(region.getBody().getArguments(), region.getInputs()))
      mapping.map(argument, known.lookup(input));
    for (Operation &op : region.getBody().front().without_terminator())
      builder.clone(op, mapping);
    Operation *terminator = region.getBody().front().getTerminator();
    for (auto [result, value] :
         llvm::zip(region.getResults(), terminator->getOperands())) {
      known.map(result, mapping.lookup(value));
      // What only the sums read of the rows is needed nowhere else.
      if (llvm::all_of(result.getUsers(), isJoined))
        continue;
      yielded.push_back(mapping.lookup(value));
      replaced.push_back(result);
    }
  };
  append(rows);
  llvm::for_each(joined, append);
  YieldOp::create(builder, location, yielded);
  // The region itself.
  builder.setInsertionPoint(rows);
  auto merged =
      RegionOp::create(builder, location, ValueRange(yielded).getTypes(),
                       KernelKind::RowReduce, inputs.getArrayRef());
  merged.setKernelAttr(rows.getKernelAttr());
  merged->setDiscardableAttrs(rows->getDiscardableAttrDictionary());
  merged.getBody().push_back(block.release());
  for (auto [old, result] : llvm::zip_equal(replaced, merged.getResults()))
    old.replaceAllUsesWith(result);
  return merged;
}

void RowsAndSums::merge() {
  RegionOp merged = create();
  for (RegionOp sums : joined)
    sums.erase();
  rows.erase();
  // What several computed is computed once.
  IRRewriter rewriter(merged.getContext());
  DominanceInfo dominance(merged);
  eliminateCommonSubExpressions(rewriter, dominance, merged);
}

void JoinColumnSumsPass::runOnOperation() {
  func::FuncOp function = getOperation();
  if (function.isExternal() || getKernelKind(function) ||
      !getTarget(function).addsColumnsBesideRows())
    return;
  Block &block = function.getBody().front();
  // Which kernels of sums join which kernel over rows,
  KernelOrder order(block);
  llvm::MapVector<Operation *, RowsAndSums> groups;
  bool hasJoined = false;
  for (auto sums : block.getOps<RegionOp>()) {
    if (!addsColumns(sums))
      continue;
    for (RegionOp rows : findHosts(sums)) {
      RowsAndSums &group = groups.try_emplace(rows, rows).first->second;
      if (group.canTake(sums) &&
          order.tryJoin(order.getGroup(rows), order.getGroup(sums))) {
        group.add(sums);
        hasJoined = true;
        break;
      }
    }
  }
  // and then they do.
  for (auto &[rows, group] : groups)
    if (!group.isEmpty())
      group.merge();
  if (hasJoined)
    sortTopologically(&block);
}
