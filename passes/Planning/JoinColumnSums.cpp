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
// element by element.
static bool addsColumns(RegionOp region) {
  if (region.getKind() != KernelKind::ColumnReduce)
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

// What `rows` has in registers of `result`, one of its own, at every element of
// its space; null where it stores it in another order.
static Value findMade(RegionOp rows, Value result) {
  auto made = dyn_cast<OpResult>(result);
  if (!made || made.getOwner() != rows)
    return Value();
  Value yielded = rows.getBody().front().getTerminator()->getOperand(
      made.getResultNumber());
  Operation *maker = yielded.getDefiningOp();
  bool isElement = maker && hasRole(maker, RegionRole::Elementwise) &&
                   shapeOf(yielded) == getSpaceShape(rows);
  return isElement ? yielded : Value();
}

// The elements of the space of `sums` that `rows` reads or makes too; 0 where
// it cannot give what it makes.
static int64_t countShared(RegionOp rows, RegionOp sums) {
  int64_t shared = 0;
  for (Value input : sums.getInputs()) {
    bool isMade = input.getDefiningOp() == rows;
    if (isMade && !findMade(rows, input))
      return 0;
    if (shapeOf(input) == getSpaceShape(sums) &&
        (isMade || llvm::is_contained(rows.getInputs(), input)))
      shared += ShapedType::getNumElements(shapeOf(input));
  }
  return shared;
}

// Kernels over the rows that `sums` adds up, those that share the most with it
// first.
static SmallVector<RegionOp> findHosts(RegionOp sums) {
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
  SmallVector<std::pair<int64_t, RegionOp>> hosts;
  ReductionSpace space = getSpace(sums);
  for (Operation *op : touching) {
    auto rows = dyn_cast<RegionOp>(op);
    if (!rows || !reducesWholeRows(rows) || getPhase(rows) != getPhase(sums) ||
        getSpaceShape(rows) != getSpaceShape(sums) ||
        getSpace(rows).reduced != space.inner)
      continue;
    if (int64_t shared = countShared(rows, sums))
      hosts.push_back({shared, rows});
  }
  llvm::sort(hosts, [](const auto &a, const auto &b) {
    return a.first != b.first ? a.first > b.first
                              : a.second->isBeforeInBlock(b.second);
  });
  return llvm::map_to_vector(hosts, [](auto &host) { return host.second; });
}

//===----------------------------------------------------------------------===//
// In how many parts
//===----------------------------------------------------------------------===//

namespace {
/// A kernel over rows and what joins it.
class RowsAndSums {
public:
  explicit RowsAndSums(RegionOp rows) : rows(rows) {}

  /// Whether `sums` can join, as far as sums and slices are concerned.
  bool canTake(RegionOp sums) const;
  void add(RegionOp sums) { joined.push_back(sums); }
  bool isEmpty() const { return joined.empty(); }

  /// Divides the parts of the rows further, where those that read the sums can
  /// add up more of them, and makes one kernel of all.
  /// Kernels in `taken` stay as they are.
  void merge(const DenseSet<Operation *> &taken);

private:
  int64_t countSums() const;
  int64_t chooseParts(const DenseSet<Operation *> &taken) const;
  RegionOp create(int64_t factor);

  RegionOp rows;
  SmallVector<RegionOp> joined;
};
} // namespace

// The region that adds up the parts of `sum`, a result: it reads nothing else
// and does nothing else. Null where there is no such region.
static RegionOp findSecondStep(Value sum) {
  auto reader =
      sum.hasOneUse() ? dyn_cast<RegionOp>(*sum.user_begin()) : RegionOp();
  if (!reader || reader.getKind() != KernelKind::ColumnReduce)
    return RegionOp();
  Block &body = reader.getBody().front();
  auto second = dyn_cast<ReductionOpInterface>(body.front());
  bool isAlone = second && second->getNextNode() == body.getTerminator() &&
                 second.getReductionParts() == 1 &&
                 second->getOperand(0) == body.getArgument(0);
  return isAlone && reader.getInputs().size() == 1 ? reader : RegionOp();
}

// The axes of the sums in parts that their reader reduces, if it is to add up
// parts of `axis` too; nothing where that is no reduction of neighbours.
static std::optional<SmallVector<int64_t>>
addAxis(RegionOp reader, ArrayRef<int64_t> shape, int64_t axis) {
  SmallVector<int64_t> axes = getReductions(reader).front().getReducedAxes();
  if (!llvm::is_contained(axes, axis))
    axes.insert(llvm::upper_bound(axes, axis), axis);
  std::optional<ReductionSpace> space = getReductionSpace(shape, axes);
  if (!space || space->inner == 1)
    return std::nullopt;
  return axes;
}

// The type of `sum`, a result of a reduction in `parts` parts, in `factor`
// times as many.
static RankedTensorType divideType(Value sum, int64_t axis, int64_t parts) {
  SmallVector<int64_t> shape(shapeOf(sum));
  shape[axis] = parts;
  return RankedTensorType::get(shape, elementOf(sum));
}

static int64_t getPartedAxis(ReductionOpInterface op) {
  return op.getReducedAxes().front();
}

int64_t RowsAndSums::countSums() const {
  int64_t count = 0;
  for (RegionOp sums : joined)
    count += static_cast<int64_t>(getReductions(sums).size());
  return count;
}

bool RowsAndSums::canTake(RegionOp sums) const {
  ReductionSpace space = getSpace(sums);
  auto added = static_cast<int64_t>(getReductions(sums).size());
  if (!fitColumnSums(space.inner, countSums() + added) ||
      !hasEnoughParts(space))
    return false;
  if (joined.empty())
    return true;
  // All in the same parts.
  ReductionOpInterface own = getReductions(joined.front()).front();
  ReductionOpInterface other = getReductions(sums).front();
  return own.getReducedAxes() == other.getReducedAxes() &&
         own.getReductionParts() == other.getReductionParts();
}

// By how much to divide the parts: more slices, if all readers allow it.
int64_t RowsAndSums::chooseParts(const DenseSet<Operation *> &taken) const {
  ReductionOpInterface first = getReductions(joined.front()).front();
  int64_t axis = getPartedAxis(first), parts = first.getReductionParts();
  int64_t factor = divideParts(getSpace(joined.front()),
                               shapeOf(first->getOperand(0))[axis] / parts);
  for (RegionOp sums : joined)
    for (OpOperand &yielded :
         sums.getBody().front().getTerminator()->getOpOperands()) {
      auto op = yielded.get().getDefiningOp<ReductionOpInterface>();
      if (!op)
        continue;
      Value result = sums.getResult(yielded.getOperandNumber());
      RegionOp reader = findSecondStep(result);
      if (!reader || taken.contains(reader) ||
          !addAxis(reader, divideType(result, axis, parts * factor).getShape(),
                   axis))
        return 1;
    }
  return factor;
}

//===----------------------------------------------------------------------===//
// Making it one
//===----------------------------------------------------------------------===//

// `reader`, which adds up the parts of `sum`, reading more of them.
static void addUpParts(RegionOp reader, int64_t axis) {
  OpBuilder builder(reader);
  Value input = reader.getInputs().front();
  ReductionOpInterface old = getReductions(reader).front();
  SmallVector<int64_t> axes = *addAxis(reader, shapeOf(input), axis);
  auto changed =
      RegionOp::create(builder, reader.getLoc(), reader.getResultTypes(),
                       reader.getKind(), reader.getInputs());
  changed.setKernelAttr(reader.getKernelAttr());
  changed->setDiscardableAttrs(reader->getDiscardableAttrDictionary());
  Block *body = builder.createBlock(&changed.getBody());
  Value argument = body->addArgument(input.getType(), reader.getLoc());
  Value sum = old.reduceLike(
      builder, cast<RankedTensorType>(old->getResult(0).getType()), argument,
      axes, IntegerAttr());
  sum.getDefiningOp()->setDiscardableAttrs(old->getDiscardableAttrDictionary());
  YieldOp::create(builder, reader.getLoc(), sum);
  reader.replaceAllUsesWith(changed.getResults());
  reader.erase();
}

// `op`, a reduction, in `factor` times as many parts; just a clone for 1.
static void cloneDivided(OpBuilder &builder, ReductionOpInterface op,
                         IRMapping &mapping, int64_t factor) {
  if (factor == 1) {
    builder.clone(*op, mapping);
    return;
  }
  int64_t parts = op.getReductionParts() * factor;
  Value result = op->getResult(0);
  Value divided =
      op.reduceLike(builder, divideType(result, getPartedAxis(op), parts),
                    mapping.lookup(op->getOperand(0)), op.getReducedAxes(),
                    builder.getI64IntegerAttr(parts));
  divided.getDefiningOp()->setDiscardableAttrs(
      op->getDiscardableAttrDictionary());
  mapping.map(result, divided);
}

// One region of all, with new sums in place of the old ones.
RegionOp RowsAndSums::create(int64_t factor) {
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
    for (Operation &op : region.getBody().front().without_terminator()) {
      auto sum = dyn_cast<ReductionOpInterface>(op);
      if (sum && region != rows)
        cloneDivided(builder, sum, mapping, factor);
      else
        builder.clone(op, mapping);
    }
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

void RowsAndSums::merge(const DenseSet<Operation *> &taken) {
  int64_t factor = chooseParts(taken);
  int64_t axis = getPartedAxis(getReductions(joined.front()).front());
  RegionOp merged = create(factor);
  for (RegionOp sums : joined)
    sums.erase();
  rows.erase();
  // What several computed is computed once.
  IRRewriter rewriter(merged.getContext());
  DominanceInfo dominance(merged);
  eliminateCommonSubExpressions(rewriter, dominance, merged);
  if (factor == 1)
    return;
  Operation *terminator = merged.getBody().front().getTerminator();
  for (auto [result, value] :
       llvm::zip_equal(merged.getResults(), terminator->getOperands()))
    if (auto sum = value.getDefiningOp<ReductionOpInterface>();
        sum && !reducesRows(sum))
      addUpParts(cast<RegionOp>(*result.user_begin()), axis);
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
  DenseSet<Operation *> taken;
  for (auto sums : block.getOps<RegionOp>()) {
    if (!addsColumns(sums))
      continue;
    for (RegionOp rows : findHosts(sums)) {
      RowsAndSums &group = groups.try_emplace(rows, rows).first->second;
      if (group.canTake(sums) &&
          order.tryJoin(order.getGroup(rows), order.getGroup(sums))) {
        group.add(sums);
        taken.insert(sums);
        break;
      }
    }
  }
  // and then they do.
  for (auto &[rows, group] : groups)
    if (!group.isEmpty())
      group.merge(taken);
  if (!taken.empty())
    sortTopologically(&block);
}
