// SPDX-License-Identifier: Apache-2.0
#include "passes/Fusion/TiledProduct.h"

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Regions/Parts.h"
#include "passes/Fusion/Scaling.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace mpc;

/// The longest sum per element for which recomputing a product pays.
static constexpr int64_t kMaxRecomputedDepth = 256;

/// The most elements of a part that fit a core's cache: 1 MiB of f32 scores,
/// and a gradient of equal size.
static constexpr int64_t kMostOfWorker = int64_t(1) << 18;

/// The number of parts must divide the axes, and may then be at most this many
/// times the wanted number.
static constexpr int64_t kMaxExcess = 4;

/// A mask is recomputed in the loop if it has at least kLeastMask elements, and
/// kLeastGrowth times as many as each operand that is no mask. Smaller masks
/// stay in cache.
static constexpr int64_t kLeastMask = int64_t(1) << 20;
static constexpr int64_t kLeastGrowth = 16;

static int64_t countElements(Value value) {
  return typeOf(value).getNumElements();
}

// True if `op` computes booleans elementwise. An expand only repeats booleans,
// and does not count.
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

// Returns the phase of `op`. A cast has no phase of its own, so returns the
// phase of the op that computes the cast's input.
static Attribute getPhaseOf(Operation *op) {
  while (auto cast = dyn_cast_or_null<amp::CastOp>(op))
    op = cast.getInput().getDefiningOp();
  return op ? op->getAttr(kPhaseAttr) : Attribute();
}

TiledProduct::TiledProduct(MatMulOp product)
    : product(product), phase(getPhaseOf(product)),
      wide(countElements(product.getOutput())) {}

bool TiledProduct::isWide(Value value) const {
  return countElements(value) == wide;
}

bool TiledProduct::isInPhase(Operation *op) const {
  return getPhaseOf(op) == phase;
}

int64_t TiledProduct::getAxis(OpOperand &operand) const {
  Operation *op = operand.getOwner();
  int64_t axis = getAxis(op);
  assert((axis == kSum || findPartedAxes(op, axis)) &&
         "add takes ops with parts along the axis alone");
  return axis == kSum ? getSummedAxes(op)[operand.getOperandNumber()]
                      : (*findPartedAxes(op, axis))[operand.getOperandNumber()];
}

bool TiledProduct::isMadeInside(OpOperand &operand) const {
  Operation *maker = operand.get().getDefiningOp();
  return contains(maker) && getAxis(maker) == getAxis(operand);
}

SmallVector<Operation *> TiledProduct::getOps() const {
  SmallVector<Operation *> sorted =
      llvm::to_vector(llvm::make_first_range(axes));
  llvm::sort(sorted,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return sorted;
}

//===----------------------------------------------------------------------===//
// Finding tiled products
//===----------------------------------------------------------------------===//

// Adds `op` to the tiled product; the loop makes its result in parts along
// `axis`. Returns false if `op` cannot run in parts along `axis`, or is in the
// tiled product with another axis.
bool TiledProduct::add(Operation *op, std::optional<int64_t> axis) {
  if (!axis || op->getBlock() != product->getBlock() ||
      (*axis != kSum && !findPartedAxes(op, *axis)))
    return false;
  return axes.insert({op, *axis}).first->second == *axis;
}

// Adds the op that uses a wide value, if the value comes in parts along `axis`.
// Returns false if the op cannot read parts.
bool TiledProduct::addReader(OpOperand &use, int64_t axis) {
  if (isSummed(use, axis))
    return add(use.getOwner(), kSum);
  return add(use.getOwner(), findResultAxis(use, axis));
}

// Adds all ops that read the wide result of `op`. In the forward pass, ops of
// the backward pass are not added: they will recompute the value.
bool TiledProduct::addReaders(Operation *op) {
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

// Adds all ops of the phase that make wide operands of `op`. For example,
// softmax's gradient reads the product of dy and V^T, another wide value.
bool TiledProduct::addMakers(Operation *op) {
  return llvm::all_of(op->getOpOperands(), [&](OpOperand &operand) {
    Operation *maker = operand.get().getDefiningOp();
    if (!maker || !isWide(operand.get()) || !isInPhase(maker) ||
        maker->hasTrait<OpTrait::ConstantLike>())
      return true;
    int64_t axis = getAxis(operand);
    return axis != kWhole && add(maker, axis);
  });
}

// Adds the ops that lie between ops of the tiled product. For example, the sum
// of a softmax row is narrow; its reciprocal is narrow too, but ops of the
// tiled product read the reciprocal.
bool TiledProduct::addBetween() {
  assert(!axes.empty() && "the product comes first");
  SmallVector<Operation *> sorted = getOps();
  // Collect all ops that depend on the tiled product, up to the last op of the
  // tiled product.
  llvm::SetVector<Operation *> behind;
  for (Operation *op = sorted.front(); op != sorted.back();
       op = op->getNextNode())
    if (contains(op) || llvm::any_of(op->getOperands(), [&](Value operand) {
          return operand.getDefiningOp() &&
                 behind.contains(operand.getDefiningOp());
        }))
      behind.insert(op);
  // Walk back: of these ops, find those whose results the tiled product reads,
  // and the axis along which the tiled product reads each in parts.
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

// True if the ops of the tiled product agree on parts: each op reads a result
// of another op of the tiled product along the axis along which the other op
// makes the result.
bool TiledProduct::isConsistent() const {
  return llvm::all_of(llvm::make_first_range(axes), [&](Operation *op) {
    return llvm::all_of(op->getOpOperands(), [&](OpOperand &operand) {
      return !contains(operand.get().getDefiningOp()) || isMadeInside(operand);
    });
  });
}

// Chooses the number of parts: the smallest for which a part has at most
// `elements` elements, or the largest possible. If the loop adds up no sums,
// iterations run in parallel, one per core, and parts may be small enough for a
// core's cache.
bool TiledProduct::chooseCount(int64_t elements) {
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

// Sets the number of parts so that a part has at most `elements` elements. The
// number divides `possible`. Returns false if no suitable number exists.
bool TiledProduct::setCount(int64_t possible, int64_t elements) {
  assert(elements > 0 && "a part has elements");
  count = std::min<int64_t>(possible, llvm::divideCeil(wide, elements));
  int64_t wanted = count;
  while (possible > 0 && possible % count != 0)
    ++count;
  // A prime number of rows divides only into single rows, and a loop over
  // single rows is slow. So limit the number of parts.
  return count > 1 && count <= kMaxExcess * wanted &&
         llvm::all_of(axes, [&](auto pair) {
           return pair.second == kSum ||
                  canSplit(pair.first, pair.second, count);
         });
}

// True if each product of the tiled product has short sums, so that recomputing
// the result is cheaper than storing it.
bool TiledProduct::canRecompute() const {
  return llvm::all_of(llvm::make_first_range(axes), [&](Operation *op) {
    auto matmul = dyn_cast<MatMulOp>(op);
    if (!matmul || !isWide(matmul.getOutput()))
      return true;
    return shapeOf(matmul.getLhs())[getSummedAxes(matmul)[0]] <=
           kMaxRecomputedDepth;
  });
}

std::optional<TiledProduct>
TiledProduct::find(MatMulOp product, int64_t axis, int64_t elements,
                   const llvm::DenseSet<Operation *> &isTiled) {
  TiledProduct tiled(product);
  int64_t largest = std::max(countElements(product.getLhs()),
                             countElements(product.getRhs()));
  // Only products of two batches qualify. A batch times a weight is just a few
  // times larger than the batch.
  bool isOfBatches = typeOf(product.getLhs()).getRank() > 2 &&
                     typeOf(product.getRhs()).getRank() > 2;
  if (!isOfBatches || tiled.wide <= elements || tiled.wide < 2 * largest ||
      !tiled.add(product, axis))
    return std::nullopt;
  // Add ops that read or make wide values, and then their readers and makers.
  // The list grows during the loop.
  for (unsigned i = 0; i < tiled.axes.size(); ++i) {
    Operation *op = tiled.axes.begin()[i].first;
    if (!tiled.addReaders(op) || !tiled.addMakers(op))
      return std::nullopt;
  }
  // All ops must run in parts along one axis each, and the number of parts must
  // divide all these axes.
  if (!tiled.addBetween() || !tiled.isConsistent() ||
      !tiled.chooseCount(elements))
    return std::nullopt;
  // A loop of a product alone gains nothing, and an op can be in one loop only.
  if (tiled.axes.size() < 2 ||
      llvm::any_of(llvm::make_first_range(tiled.axes),
                   [&](Operation *op) { return isTiled.contains(op); }))
    return std::nullopt;
  // If later phases read wide values, they must be able to recompute them.
  if (!tiled.escaping.empty() && !tiled.canRecompute())
    return std::nullopt;
  return tiled;
}

//===----------------------------------------------------------------------===//
// Recomputing values in the backward pass
//===----------------------------------------------------------------------===//

// Makes the backward pass recompute the maxima of wide values too. The gradient
// of a maximum finds its position by comparing all elements with the maximum.
// Recomputed elements may differ from the forward pass in the last bit, and
// then would not equal the maximum of the forward pass.
void TiledProduct::addEscapingMaxima() {
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

void TiledProduct::recomputeEscaping() {
  if (!escaping.empty())
    addEscapingMaxima();
  // Find the ops that compute escaping values, and the first op of another
  // phase that reads one.
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
  // Walk back to all ops of the tiled product that the escaping values depend
  // on.
  if (readers.empty())
    return;
  SmallVector<Operation *> sorted = getOps();
  for (Operation *op : llvm::reverse(sorted))
    if (needed.contains(op))
      for (Value operand : op->getOperands())
        if (contains(operand.getDefiningOp()))
          needed.insert(operand.getDefiningOp());
  // Insert the copies before the first reader, with the phase of the reader.
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

/// True if `op` only moves elements of one operand, and repeats none.
static bool moves(Operation *op) {
  auto moved = dyn_cast<PrecisionOpInterface>(op);
  return moved && moved.movesElements() && op->getNumOperands() == 1 &&
         countElements(op->getResult(0)) <= countElements(op->getOperand(0));
}

/// True if `op` scales one tensor by constants, as in x * 0.5.
static bool scalesByConstants(Operation *op) {
  OpOperand *scaled = findScaledOperand(op);
  return scaled && llvm::all_of(op->getOpOperands(), [&](OpOperand &operand) {
           return &operand == scaled ||
                  operand.get().getDefiningOp<ConstantOp>();
         });
}

/// True if a product can fuse `op`, which makes an operand of the product: a
/// move becomes strides, a factor becomes alpha. Casts do not qualify, since a
/// cast may make a stored value narrower.
static bool isFreeInFront(Operation *op) {
  bool scales =
      isa<MulOp, DivOp>(op) && scalesByConstants(op) &&
      elementOf(findScaledOperand(op)->get()) == elementOf(op->getResult(0));
  return moves(op) || scales;
}

/// True if a product can fuse `op`, which reads the result of the product.
static bool isFreeBehind(Operation *op) {
  return moves(op) || scalesByConstants(op);
}

// Adds the op outside the tiled product that makes `operand`, if fusing the op
// costs nothing. Returns true if added.
bool TiledProduct::fuseMaker(OpOperand &operand) {
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

// Adds the op outside the tiled product that reads the result of `op`, if it is
// the only one and costs nothing. Returns true if added.
bool TiledProduct::fuseReader(Operation *op) {
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
  // A concat of three results of the tiled product also joins: if one product
  // makes Q, K and V, its backward pass concatenates their gradients.
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

void TiledProduct::fuse() {
  // The lists grow in the loops, because fused ops have operands and readers
  // of their own.
  for (unsigned i = 0; i < axes.size(); ++i)
    for (OpOperand &operand : axes.begin()[i].first->getOpOperands())
      fuseMaker(operand);
  for (unsigned i = 0; i < axes.size(); ++i)
    if (fuseReader(axes.begin()[i].first))
      i = 0;
}
