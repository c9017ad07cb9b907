// Moves sums of columns into row kernels on a CPU, where the row kernel has the
// summed values in registers.
//
// Gradients of biases, and of a norm's scale and shift, are sums over rows. A
// separate kernel would read again the values that a row kernel over the rows
// reads or has just made. Instead, the row kernel adds up the columns while
// processing row by row (compiler/Kernels/ColumnSums.h).
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

/// Limits the users that findHosts examines for each kernel of sums.
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

// True if a kernel computes nothing but column sums of elementwise results, and
// a row kernel can compute the sums in equal order.
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

// True if every reduction of a row kernel reduces whole rows of one shape.
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

// True if `rows` computes the result `result` for each element of the rows, or
// as a value that broadcasts to the rows. Other ops of `rows` can then use the
// result without loading. False if a transpose stores the result in another
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

// Counts the elements that `sums` reads and that `rows` also reads or computes.
// Returns 0 if `sums` needs a result of `rows` that `rows` cannot provide
// without memory.
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

// Returns the row kernels that could compute `sums`, most shared elements
// first. Leaves out kernels that read the sums: a sum is complete only after
// all rows.
static SmallVector<RegionOp> findHosts(RegionOp sums) {
  // Collect the kernels that make or read an operand of the summed shape.
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
  // Keep row kernels of the same phase over the same rows.
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

  /// True if the row kernel has memory for `sums` beside the sums that joined
  /// already, and if all sums divide the rows alike. Must be called for kernels
  /// in block order.
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
  // A kernel that reads a joined sum cannot join: all sums become complete
  // together, after all rows.
  if (llvm::any_of(joined,
                   [&](RegionOp other) { return readsFrom(sums, other); }))
    return false;
  // All sums must reduce the same axes, in the same number of parts.
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
  // The ops of `rows` come first, then the ops of each kernel of sums, which
  // use the values of `rows` instead of loading results of `rows`.
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
      // A result that only the sums of this kernel read is not stored.
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
  // A kernel of sums may have recomputed values that `rows` computes too;
  // eliminate the duplicates.
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
