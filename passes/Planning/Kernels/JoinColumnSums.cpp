// Lets row kernels on a CPU sum columns of the values at hand.
//
// Gradients of biases, and of a norm's scale and shift, are sums over rows. A
// separate kernel would read again the values that a row kernel over these rows
// reads or has just made. On a CPU the row kernel adds the columns up as it
// goes (compiler/Kernels/ColumnSums.h).
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

/// Most row kernels considered for a kernel of sums.
static constexpr size_t kTries = 8;

//===----------------------------------------------------------------------===//
// Candidates
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

// True if a kernel only sums columns of elementwise results, in the parts and
// the order of a row kernel's slices.
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

// True if a kernel only reduces whole rows.
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

// True if `rows` has its `result` in registers at every element of the space,
// or as a value that broadcasts to the space. False if `rows` stores the result
// in another order.
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

// Returns the number of elements that `sums` needs and `rows` reads or makes
// too. Returns 0 if `rows` makes a value but cannot provide the value.
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

// Returns kernels over the rows that `sums` adds up, most shared elements
// first. Leaves out kernels that read the sums, which are complete only after
// all rows.
static SmallVector<RegionOp> findHosts(RegionOp sums) {
  // Find kernels that make or read a summed operand with the whole space.
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
  // Keep the row kernels that could compute the sums.
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
  // Most shared elements come first; among equals, the earlier kernel.
  llvm::sort(hosts, [](const auto &a, const auto &b) {
    return a.first != b.first ? a.first > b.first
                              : a.second->isBeforeInBlock(b.second);
  });
  return llvm::map_to_vector(hosts, [](auto &host) { return host.second; });
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

namespace {
/// Merges a row kernel with kernels of column sums.
class RowsAndSums {
public:
  explicit RowsAndSums(RegionOp rows) : rows(rows) {}

  /// True if `sums` can join the group, as far as sums and slices matter.
  /// `sums` must come after all kernels that joined.
  bool canTake(RegionOp sums) const;
  void add(RegionOp sums) { joined.push_back(sums); }
  bool isEmpty() const { return joined.empty(); }

  /// Merges all kernels of the group into one.
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
  // A kernel that reads a joined sum cannot join.
  if (llvm::any_of(joined,
                   [&](RegionOp other) { return readsFrom(sums, other); }))
    return false;
  // All sums must use the same axes and parts.
  ReductionOpInterface own = getReductions(joined.front()).front();
  ReductionOpInterface other = getReductions(sums).front();
  return own.getReducedAxes() == other.getReducedAxes() &&
         own.getReductionParts() == other.getReductionParts();
}

//===----------------------------------------------------------------------===//
// Merging
//===----------------------------------------------------------------------===//

// Creates the region of the merged kernel.
RegionOp RowsAndSums::create() {
  // Collect, without duplicates, all inputs that the group does not make.
  llvm::SetVector<Value> inputs(rows.getInputs().begin(),
                                rows.getInputs().end());
  SmallVector<Location> locations = {rows.getLoc()};
  for (RegionOp sums : joined) {
    locations.push_back(sums.getLoc());
    for (Value input : sums.getInputs())
      if (input.getDefiningOp() != rows)
        inputs.insert(input);
  }
  // The ops of `rows` come first, then those of each sum. Values that `rows`
  // makes replace inputs of the sums.
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
      // Results that only the joined sums read need no memory.
      if (llvm::all_of(result.getUsers(), isJoined))
        continue;
      yielded.push_back(mapping.lookup(value));
      replaced.push_back(result);
    }
  };
  append(rows);
  llvm::for_each(joined, append);
  YieldOp::create(builder, location, yielded);
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
  // The sums may repeat computations of the rows.
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
  // First find groups, because merging changes the block.
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
  for (auto &[rows, group] : groups)
    if (!group.isEmpty())
      group.merge();
  if (hasJoined)
    sortTopologically(&block);
}
