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

/// Products with longer sums are not worth recomputing.
static constexpr int64_t kMaxRecomputedDepth = 256;

/// Elements of the wide value that fit a core's cache, along with derived
/// values: 1 MiB of f32 scores and an equally large gradient.
static constexpr int64_t kMostOfWorker = int64_t(1) << 18;

/// Limits the parts to this multiple of the wanted parts.
static constexpr int64_t kMaxExcess = 4;

/// A recomputed mask has at least kLeastMask elements, and at least
/// kLeastGrowth times the elements of its operands. Smaller masks stay in
/// cache.
static constexpr int64_t kLeastMask = int64_t(1) << 20;
static constexpr int64_t kLeastGrowth = 16;

static int64_t countElements(Value value) {
  return typeOf(value).getNumElements();
}

// True if `op` computes truth values elementwise, instead of only repeating
// existing ones.
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

// Returns the phase of an op. A cast has no phase; returns the phase of its
// input.
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
  assert((axis == kSum || findPartedAxes(op, axis)) &&
         "add takes ops with parts along the axis alone");
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

// Adds an op whose result is made in parts along `axis`. Returns false if that
// is impossible.
bool Tile::add(Operation *op, std::optional<int64_t> axis) {
  if (!axis || op->getBlock() != product->getBlock() ||
      (*axis != kSum && !findPartedAxes(op, *axis)))
    return false;
  return axes.insert({op, *axis}).first->second == *axis;
}

// Adds the reader of a wide value that is made in parts along `axis`.
bool Tile::addReader(OpOperand &use, int64_t axis) {
  if (isSummed(use, axis))
    return add(use.getOwner(), kSum);
  return add(use.getOwner(), findResultAxis(use, axis));
}

// Adds the readers of the wide result of `op`. The backward pass will recompute
// its wide operands from the forward pass.
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

// Adds the ops that make the wide operands of `op`. In the backward pass, such
// an op is the product of the gradient and V.
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

// Adds the ops between ops of the tile. For example, a row's sum is narrow, so
// its reciprocal is not part of the tile yet, but a product with the reciprocal
// is wide.
bool Tile::addBetween() {
  assert(!axes.empty() && "the product comes first");
  SmallVector<Operation *> sorted = getOps();
  // Collect the dependents of the tile, up to the tile's last op.
  llvm::SetVector<Operation *> behind;
  for (Operation *op = sorted.front(); op != sorted.back();
       op = op->getNextNode())
    if (contains(op) || llvm::any_of(op->getOperands(), [&](Value operand) {
          return operand.getDefiningOp() &&
                 behind.contains(operand.getDefiningOp());
        }))
      behind.insert(op);
  // Among the dependents, find the ops that the tile needs, and the axis along
  // which each is read in parts.
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

// True if ops that read results of the tile read the parts made by the same
// iteration.
bool Tile::isConsistent() const {
  return llvm::all_of(llvm::make_first_range(axes), [&](Operation *op) {
    return llvm::all_of(op->getOpOperands(), [&](OpOperand &operand) {
      return !contains(operand.get().getDefiningOp()) || isMadeInside(operand);
    });
  });
}

// Chooses the smallest number of parts with at most `elements` elements, or the
// largest possible number. Without sums over parts, parts run in parallel, each
// on one worker, and may be smaller.
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

// Sets the smallest possible number of parts of at most `elements` elements.
// Returns false if there is no suitable number.
bool Tile::setCount(int64_t possible, int64_t elements) {
  assert(elements > 0 && "a part has elements");
  count = std::min<int64_t>(possible, llvm::divideCeil(wide, elements));
  int64_t wanted = count;
  while (possible > 0 && possible % count != 0)
    ++count;
  // If the number of rows is prime, single rows would take too long.
  return count > 1 && count <= kMaxExcess * wanted &&
         llvm::all_of(axes, [&](auto pair) {
           return pair.second == kSum ||
                  canSplit(pair.first, pair.second, count);
         });
}

// True if recomputing the tile's products is cheaper than keeping their
// results.
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
  // The product of a batch and a weight is only a few times wider than the
  // batch.
  bool isOfBatches = typeOf(product.getLhs()).getRank() > 2 &&
                     typeOf(product.getRhs()).getRank() > 2;
  if (!isOfBatches || tile.wide <= elements || tile.wide < 2 * largest ||
      !tile.add(product, axis))
    return std::nullopt;
  // Follow readers and producers, op by op, as long as they work in
  // corresponding parts.
  for (unsigned i = 0; i < tile.axes.size(); ++i) {
    Operation *op = tile.axes.begin()[i].first;
    if (!tile.addReaders(op) || !tile.addMakers(op))
      return std::nullopt;
  }
  // Add the ops between ops of the tile. Each op must run in parts along a
  // single axis, and the number of parts must divide the extent of each axis.
  if (!tile.addBetween() || !tile.isConsistent() || !tile.chooseCount(elements))
    return std::nullopt;
  // A product alone gains nothing, and no op may be in two loops.
  if (tile.axes.size() < 2 ||
      llvm::any_of(llvm::make_first_range(tile.axes),
                   [&](Operation *op) { return isTiled.contains(op); }))
    return std::nullopt;
  // Later phases must be able to recompute their operands.
  if (!tile.escaping.empty() && !tile.canRecompute())
    return std::nullopt;
  return tile;
}

//===----------------------------------------------------------------------===//
// Values for the backward pass
//===----------------------------------------------------------------------===//

// Makes the backward pass recompute maxima too. It finds the position of a
// maximum by comparing all elements with the maximum. Recomputed elements may
// differ from the forward pass in the last bit, and would then equal no forward
// maximum.
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
  // Find the ops that make escaping values, and the first reader in another
  // phase.
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
  // Walk back to everything that the escaping values are computed from.
  if (readers.empty())
    return;
  SmallVector<Operation *> sorted = getOps();
  for (Operation *op : llvm::reverse(sorted))
    if (needed.contains(op))
      for (Value operand : op->getOperands())
        if (contains(operand.getDefiningOp()))
          needed.insert(operand.getDefiningOp());
  // The copies go before their first reader, and into its phase.
  OpBuilder builder(first);
  IRMapping again;
  for (Operation *op : sorted)
    if (needed.contains(op))
      builder.clone(*op, again)->setAttr(kPhaseAttr, getPhaseOf(first));
  for (OpOperand *use : readers) {
    assert(again.contains(use->get()) && "escaping values are computed again");
    use->set(again.lookup(use->get()));
  }
  escaping.clear();
}

//===----------------------------------------------------------------------===//
// Surrounding ops
//===----------------------------------------------------------------------===//

/// True if `op` only moves elements of a single operand, without repeating any.
static bool moves(Operation *op) {
  auto moved = dyn_cast<PrecisionOpInterface>(op);
  return moved && moved.movesElements() && op->getNumOperands() == 1 &&
         countElements(op->getResult(0)) <= countElements(op->getOperand(0));
}

/// True if `op` scales one tensor, by constants alone.
static bool scalesByConstants(Operation *op) {
  OpOperand *scaled = findScaledOperand(op);
  return scaled && llvm::all_of(op->getOpOperands(), [&](OpOperand &operand) {
           return &operand == scaled ||
                  operand.get().getDefiningOp<ConstantOp>();
         });
}

/// True if a product can absorb `op` before it: a move by strides, or a factor
/// by alpha. Casts stay in place, since the op before the cast may store a
/// narrower result.
static bool isFreeInFront(Operation *op) {
  bool scales =
      isa<MulOp, DivOp>(op) && scalesByConstants(op) &&
      elementOf(findScaledOperand(op)->get()) == elementOf(op->getResult(0));
  return moves(op) || scales;
}

/// True if the producer of the operand can absorb `op`.
static bool isFreeBehind(Operation *op) {
  return moves(op) || scalesByConstants(op);
}

// Adds the op before the tile that makes `operand`, if it can join the tile.
bool Tile::absorbMaker(OpOperand &operand) {
  assert(count > 1 && "find has chosen the number of parts");
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

// Adds the only op after the tile that reads the result of `op`, if it can join
// the tile.
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
  // If a single product makes Q, K and V, the three gradients are concatenated.
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
  // Absorbed ops bring operands and results of their own.
  for (unsigned i = 0; i < axes.size(); ++i)
    for (OpOperand &operand : axes.begin()[i].first->getOpOperands())
      absorbMaker(operand);
  for (unsigned i = 0; i < axes.size(); ++i)
    if (absorbReader(axes.begin()[i].first))
      i = 0;
}
