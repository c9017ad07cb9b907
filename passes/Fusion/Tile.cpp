// SPDX-License-Identifier: Apache-2.0
#include "passes/Fusion/Tile.h"

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Regions/Parts.h"
#include "passes/Fusion/Scaling.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace mpc;

/// The longest rows and columns of products that are computed twice.
static constexpr int64_t kMaxRecomputedDepth = 256;

/// How many elements of the wide value a worker has in its core's cache, with
/// what is made of them: 1 MiB of scores in f32, and as much of their gradient.
static constexpr int64_t kMostOfWorker = int64_t(1) << 18;

/// How many times as many parts as are wanted there may be.
static constexpr int64_t kMaxExcess = 4;

/// How many elements a mask has at least that is made again, and how many times
/// as many as what it is made of. A smaller one is in a cache.
static constexpr int64_t kLeastMask = int64_t(1) << 20;
static constexpr int64_t kLeastGrowth = 16;

static int64_t countElements(Value value) {
  return typeOf(value).getNumElements();
}

// Whether `op` computes truth values, element by element, and does not only
// repeat those that there are.
static bool computesTruth(Operation *op) {
  return hasRole(op, RegionRole::Elementwise) && !dependsOnPlace(op) &&
         !isa<ExpandOp>(op) && op->getNumResults() == 1 &&
         elementOf(op->getResult(0)).isInteger(1);
}

bool mpc::makesLargeMask(Operation *op) {
  if (!computesTruth(op))
    return false;
  const int64_t elements = countElements(op->getResult(0));
  return elements >= kLeastMask &&
         llvm::all_of(op->getOperands(), [&](Value operand) {
           return elementOf(operand).isInteger(1) ||
                  countElements(operand) * kLeastGrowth <= elements;
         });
}

// The phase of an op; of a change of type, which has none, the phase of what it
// changes.
static Attribute getPhaseOf(Operation *op) {
  while (auto cast = dyn_cast_or_null<amp::CastOp>(op))
    op = cast.getInput().getDefiningOp();
  return op ? op->getAttr(kPhaseAttr) : Attribute();
}

Tile::Tile(MatMulOp product)
    : product(product), phase(getPhaseOf(product)),
      wide(countElements(product.getOutput())) {}

bool Tile::isWide(Value value) const { return countElements(value) == wide; }

bool Tile::isInPhase(Operation *op) const { return getPhaseOf(op) == phase; }

int64_t Tile::getAxis(OpOperand &operand) const {
  Operation *op = operand.getOwner();
  int64_t axis = getAxis(op);
  return axis == kSum ? getSummedAxes(op)[operand.getOperandNumber()]
                      : (*findPartedAxes(op, axis))[operand.getOperandNumber()];
}

bool Tile::isMadeInside(OpOperand &operand) const {
  Operation *maker = operand.get().getDefiningOp();
  return contains(maker) && getAxis(maker) == getAxis(operand);
}

SmallVector<Operation *> Tile::getOps() const {
  SmallVector<Operation *> sorted =
      llvm::to_vector(llvm::make_first_range(axes));
  llvm::sort(sorted,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return sorted;
}

//===----------------------------------------------------------------------===//
// Finding tiles
//===----------------------------------------------------------------------===//

// Takes in an op whose result is made in parts along `axis`, if it can be.
bool Tile::add(Operation *op, std::optional<int64_t> axis) {
  if (!axis || op->getBlock() != product->getBlock() ||
      (*axis != kSum && !findPartedAxes(op, *axis)))
    return false;
  return axes.insert({op, *axis}).first->second == *axis;
}

// Takes in what reads a wide value that is made in parts along `axis`.
bool Tile::addReader(OpOperand &use, int64_t axis) {
  if (isSummed(use, axis))
    return add(use.getOwner(), kSum);
  return add(use.getOwner(), findResultAxis(use, axis));
}

// Takes in what reads the wide result of `op`. What the backward pass reads of
// the forward pass is computed again there.
bool Tile::addReaders(Operation *op) {
  Value result = op->getResult(0);
  if (!isWide(result))
    return true;
  return llvm::all_of(result.getUses(), [&](OpOperand &use) {
    bool isLater = !phase && !isInPhase(use.getOwner());
    if (isLater)
      escaping.insert(result);
    return isLater || addReader(use, getAxis(op));
  });
}

// Takes in the ops that make the wide values that `op` reads: in the backward
// pass, the product of the gradient and V.
bool Tile::addMakers(Operation *op) {
  return llvm::all_of(op->getOpOperands(), [&](OpOperand &operand) {
    Operation *maker = operand.get().getDefiningOp();
    if (!maker || !isWide(operand.get()) || !isInPhase(maker) ||
        maker->hasTrait<OpTrait::ConstantLike>())
      return true;
    int64_t axis = getAxis(operand);
    return axis != kWhole && add(maker, axis);
  });
}

// Takes in what lies between ops of the tile: a row's sum is narrow, its
// reciprocal is no part of the tile yet, and a product with that is wide.
bool Tile::addBetween() {
  SmallVector<Operation *> sorted = getOps();
  // The ops up to the last that depend on the tile.
  llvm::SetVector<Operation *> behind;
  for (Operation *op = sorted.front(); op != sorted.back();
       op = op->getNextNode())
    if (contains(op) || llvm::any_of(op->getOperands(), [&](Value operand) {
          return operand.getDefiningOp() &&
                 behind.contains(operand.getDefiningOp());
        }))
      behind.insert(op);
  // The ops behind that the tile depends on, and the axis along which each is
  // read in parts.
  llvm::DenseMap<Operation *, int64_t> needed;
  auto need = [&](Operation *op) {
    for (OpOperand &operand : op->getOpOperands())
      if (Operation *maker = operand.get().getDefiningOp();
          maker && behind.contains(maker))
        needed.try_emplace(maker, getAxis(operand));
  };
  llvm::for_each(sorted, need);
  for (Operation *op : llvm::reverse(behind)) {
    if (contains(op) || !needed.contains(op))
      continue;
    if (!isInPhase(op) || needed.lookup(op) == kWhole ||
        !add(op, needed.lookup(op)))
      return false;
    need(op);
  }
  return true;
}

// True if every op of the tile that reads another one's result reads the part
// that the same iteration makes.
bool Tile::isConsistent() const {
  return llvm::all_of(llvm::make_first_range(axes), [&](Operation *op) {
    return llvm::all_of(op->getOpOperands(), [&](OpOperand &operand) {
      return !contains(operand.get().getDefiningOp()) || isMadeInside(operand);
    });
  });
}

// Chooses the smallest number of parts of `elements` elements at most, or the
// largest number that there can be. Parts that nothing is summed over run at
// the same time, each by one worker: those are smaller, where they can be.
bool Tile::chooseCount(int64_t elements) {
  int64_t possible = 0;
  for (auto [op, axis] : axes) {
    if (axis != kSum)
      possible = std::gcd(possible, shapeOf(op->getResult(0))[axis]);
    for (OpOperand &operand : op->getOpOperands())
      if (int64_t own = getAxis(operand); own != kWhole)
        possible = std::gcd(possible, shapeOf(operand.get())[own]);
  }
  bool isParallel =
      llvm::none_of(axes, [](auto pair) { return pair.second == kSum; });
  bool fitsWorker = isParallel && possible > 0 &&
                    wide / possible <= kMostOfWorker &&
                    kMostOfWorker < elements;
  return (fitsWorker && setCount(possible, kMostOfWorker)) ||
         setCount(possible, elements);
}

// False where there is no number of parts, of `possible` at most, whose size is
// about that.
bool Tile::setCount(int64_t possible, int64_t elements) {
  count = std::min<int64_t>(possible, llvm::divideCeil(wide, elements));
  int64_t wanted = count;
  while (possible > 0 && possible % count != 0)
    ++count;
  // One row at a time, where their number is a prime, would take too long.
  return count > 1 && count <= kMaxExcess * wanted &&
         llvm::all_of(axes, [&](auto pair) {
           return pair.second == kSum ||
                  canSplit(pair.first, pair.second, count);
         });
}

// Whether computing the tile's products again is cheaper than to keep them.
bool Tile::canRecompute() const {
  return llvm::all_of(llvm::make_first_range(axes), [&](Operation *op) {
    auto matmul = dyn_cast<MatMulOp>(op);
    if (!matmul || !isWide(matmul.getOutput()))
      return true;
    return shapeOf(matmul.getLhs())[getSummedAxes(matmul)[0]] <=
           kMaxRecomputedDepth;
  });
}

std::optional<Tile> Tile::find(MatMulOp product, int64_t axis, int64_t elements,
                               const llvm::DenseSet<Operation *> &isTiled) {
  Tile tile(product);
  int64_t largest = std::max(countElements(product.getLhs()),
                             countElements(product.getRhs()));
  // One of a batch by weights is but a few times wider than the batch.
  bool isOfBatches = typeOf(product.getLhs()).getRank() > 2 &&
                     typeOf(product.getRhs()).getRank() > 2;
  if (!isOfBatches || tile.wide <= elements || tile.wide < 2 * largest ||
      !tile.add(product, axis))
    return std::nullopt;
  // What follows the product and what it is made of, op by op, for as long as
  // parts of one are made of parts of the other.
  for (unsigned i = 0; i < tile.axes.size(); ++i) {
    Operation *op = tile.axes.begin()[i].first;
    if (!tile.addReaders(op) || !tile.addMakers(op))
      return std::nullopt;
  }
  // Ops that lie between two of the tile belong to it; each has one axis; parts
  // must divide the extent.
  if (!tile.addBetween() || !tile.isConsistent() || !tile.chooseCount(elements))
    return std::nullopt;
  // A product alone would gain nothing, and no op is in two loops.
  if (tile.axes.size() < 2 ||
      llvm::any_of(llvm::make_first_range(tile.axes),
                   [&](Operation *op) { return isTiled.contains(op); }))
    return std::nullopt;
  // Values that later phases read are made again there, if their ops allow it.
  if (!tile.escaping.empty() && !tile.canRecompute())
    return std::nullopt;
  return tile;
}

//===----------------------------------------------------------------------===//
// What the backward pass reads
//===----------------------------------------------------------------------===//

// Makes the backward pass recompute maxima too. It finds the place of a maximum
// by comparing all elements with it; recomputed elements may differ from the
// forward pass's in the last bit (a product in other blocks), and then equal no
// maximum but one of themselves.
void Tile::addEscapingMaxima() {
  for (Operation *op : getOps()) {
    auto reduction = dyn_cast<ReductionOpInterface>(op);
    bool isOfWide =
        reduction && reduction.choosesElement() && isWide(op->getOperand(0));
    bool isReadLater = llvm::any_of(
        op->getUsers(), [&](Operation *user) { return !isInPhase(user); });
    if (isOfWide && isReadLater)
      escaping.insert(op->getResult(0));
  }
}

void Tile::recomputeEscaping() {
  if (!escaping.empty())
    addEscapingMaxima();
  // The ops that make escaping values, and the first reader outside the phase.
  llvm::DenseSet<Operation *> needed;
  SmallVector<OpOperand *> readers;
  Operation *first = nullptr;
  for (Value value : escaping) {
    needed.insert(value.getDefiningOp());
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (isInPhase(user))
        continue;
      readers.push_back(&use);
      first = !first || user->isBeforeInBlock(first) ? user : first;
    }
  }
  // Backwards from what is needed, to all that it is computed from.
  if (readers.empty())
    return;
  SmallVector<Operation *> sorted = getOps();
  for (Operation *op : llvm::reverse(sorted))
    if (needed.contains(op))
      for (Value operand : op->getOperands())
        if (contains(operand.getDefiningOp()))
          needed.insert(operand.getDefiningOp());
  // The copies stand in front of their first reader, in its phase.
  OpBuilder builder(first);
  IRMapping again;
  for (Operation *op : sorted)
    if (needed.contains(op))
      builder.clone(*op, again)->setAttr(kPhaseAttr, getPhaseOf(first));
  for (OpOperand *use : readers)
    use->set(again.lookup(use->get()));
  escaping.clear();
}

//===----------------------------------------------------------------------===//
// What is around
//===----------------------------------------------------------------------===//

/// Whether `op` gives elements of its one operand and no others, as a pad does.
static bool moves(Operation *op) {
  auto moved = dyn_cast<PrecisionOpInterface>(op);
  return moved && moved.movesElements() && op->getNumOperands() == 1 &&
         countElements(op->getResult(0)) <= countElements(op->getOperand(0));
}

/// Whether `op` scales one tensor, by constants alone.
static bool scalesByConstants(Operation *op) {
  OpOperand *scaled = findScaledOperand(op);
  return scaled && llvm::all_of(op->getOpOperands(), [&](OpOperand &operand) {
           return &operand == scaled ||
                  operand.get().getDefiningOp<ConstantOp>();
         });
}

/// Whether a product takes `op` in front of it: a move by its strides, a factor
/// as its alpha. A change of type stays where it is: what is in front of it may
/// store its result for less.
static bool isFreeInFront(Operation *op) {
  bool scales =
      isa<MulOp, DivOp>(op) && scalesByConstants(op) &&
      elementOf(findScaledOperand(op)->get()) == elementOf(op->getResult(0));
  return moves(op) || scales;
}

/// Whether what computes its operand takes `op` behind it.
static bool isFreeBehind(Operation *op) {
  return moves(op) || scalesByConstants(op);
}

// Takes in the op in front of the tile that makes `operand`, if it can be part
// of it.
bool Tile::absorbMaker(OpOperand &operand) {
  Operation *maker = operand.get().getDefiningOp();
  int64_t axis = getAxis(operand);
  if (!maker || contains(maker) || axis == kWhole ||
      !(isFreeInFront(maker) || makesLargeMask(maker)) ||
      !findPartedAxes(maker, axis) || !canSplit(maker, axis, count) ||
      !add(maker, axis))
    return false;
  copies.insert(maker);
  return true;
}

// Takes in the one op behind the tile that reads the result of `op`, if it can
// be part of it.
bool Tile::absorbReader(Operation *op) {
  OpOperand *reader = nullptr;
  for (OpOperand &use : op->getUses()) {
    if (contains(use.getOwner()))
      continue;
    if (reader)
      return false;
    reader = &use;
  }
  if (!reader || getAxis(op) == kSum || copies.contains(op) ||
      !isInPhase(reader->getOwner()))
    return false;
  Operation *next = reader->getOwner();
  std::optional<int64_t> axis = findResultAxis(*reader, getAxis(op));
  if (!axis || !canSplit(next, *axis, count))
    return false;
  // Q, K and V of one product have a gradient of three parts.
  SmallVector<int64_t> parted = *findPartedAxes(next, *axis);
  bool joins =
      isa<ConcatOp>(next) &&
      llvm::all_of(llvm::zip(next->getOperands(), parted), [&](auto p) {
        auto [operand, own] = p;
        Operation *maker = operand.getDefiningOp();
        return contains(maker) && getAxis(maker) == own && operand.hasOneUse();
      });
  return (joins || isFreeBehind(next)) && add(next, axis);
}

void Tile::absorb() {
  // What is taken in has operands and results of its own.
  for (unsigned i = 0; i < axes.size(); ++i)
    for (OpOperand &operand : axes.begin()[i].first->getOpOperands())
      absorbMaker(operand);
  for (unsigned i = 0; i < axes.size(); ++i)
    if (absorbReader(axes.begin()[i].first))
      i = 0;
}
