// Runs what is around a large product in parts, so that the product never lies
// in memory as a whole.
//
// The scores of an attention are the example: for every head, as many rows and
// columns as there are tokens, made of two matrices with 64 columns, and read
// by a softmax and another product. In parts, all that lies in memory is the
// scores of a few samples at a time, which a cache holds. What the backward
// pass reads of them is computed again there, from queries and keys: that takes
// 64 multiplications for an element, less than to write it and to read it back.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Fusion/Passes.h"
#include "passes/Fusion/Scaling.h"

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Regions/Parts.h"
#include "compiler/Target/TargetInfo.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

namespace mpc {
#define GEN_PASS_DEF_TILEPRODUCTSPASS
#include "passes/Fusion/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

/// The longest rows and columns of products that are computed twice.
static constexpr int64_t kMaxRecomputedDepth = 256;

static int64_t countElements(Value value) {
  return typeOf(value).getNumElements();
}

// The phase of an op; of a change of type, which has none, the phase of what it
// changes. Null stands for the forward phase.
static Attribute getPhaseOf(Operation *op) {
  while (auto cast = dyn_cast_or_null<amp::CastOp>(op))
    op = cast.getInput().getDefiningOp();
  return op ? op->getAttr(kPhaseAttr) : Attribute();
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

namespace {
/// A product whose result is wide, that is larger than both of its operands,
/// with the ops of its phase that read or make values as large: S = Q K^T,
/// softmax(S), and the product of that with V. They become the body of a loop.
class Tile {
public:
  /// The tile around `product`; nothing where its ops cannot run in parts of
  /// `elements` elements, or are part of another tile.
  static std::optional<Tile> find(MatMulOp product, int64_t elements,
                                  const llvm::DenseSet<Operation *> &isTiled);

  ArrayRef<Operation *> getOps() const { return ops.getArrayRef(); }
  /// Wide values that ops of another phase read.
  ArrayRef<Value> getEscaping() const { return escaping.getArrayRef(); }

  /// Makes the ops of another phase read what they compute again.
  void recomputeEscaping();
  /// Takes in the ops around that cost nothing in the loop.
  void absorb();
  /// Replaces the ops by a loop over parts.
  void rewrite();

private:
  Tile(MatMulOp product)
      : product(product), phase(getPhaseOf(product)),
        wide(countElements(product.getOutput())) {}

  bool isWide(Value value) const { return countElements(value) == wide; }
  bool contains(Operation *op) const { return op && ops.contains(op); }
  bool isInPhase(Operation *op) const { return getPhaseOf(op) == phase; }
  bool add(Operation *op);
  bool addReaders(Operation *op);
  bool addMakers(Operation *op);
  bool addBetween();
  bool chooseCount(int64_t elements);
  bool canRecompute() const;
  bool splits(Operation *op) const;
  Operation *findAbsorbedMaker(Value operand) const;
  Operation *findAbsorbedReader(Operation *op) const;
  SmallVector<Operation *> inOrder() const;

  MatMulOp product;
  Attribute phase;
  int64_t wide;
  /// How many parts there are.
  int64_t count = 0;
  llvm::SetVector<Operation *> ops;
  /// Those of them that others read too, outside of the loop.
  llvm::DenseSet<Operation *> copied;
  llvm::SetVector<Value> escaping;
};

struct TileProductsPass
    : public mpc::impl::TileProductsPassBase<TileProductsPass> {
  using TileProductsPassBase::TileProductsPassBase;
  void runOnOperation() override;
};
} // namespace

// Takes in an op, if its results can be made in parts.
bool Tile::add(Operation *op) {
  if (contains(op))
    return true;
  if (op->getBlock() != product->getBlock() || !findPartedOperands(op))
    return false;
  ops.insert(op);
  return true;
}

// Takes in what reads the wide result of `op`.
bool Tile::addReaders(Operation *op) {
  Value result = op->getResult(0);
  if (!isWide(result))
    return true;
  for (Operation *user : result.getUsers()) {
    // What the backward pass reads of the forward pass is computed again there.
    bool isLater = !phase && !isInPhase(user);
    if (isLater)
      escaping.insert(result);
    else if (!add(user))
      return false;
  }
  return true;
}

// Takes in the ops that make the wide values that `op` reads: in the backward
// pass, the product of the gradient and V.
bool Tile::addMakers(Operation *op) {
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    Operation *maker = operand.getDefiningOp();
    return !maker || !isWide(operand) || !isInPhase(maker) ||
           maker->hasTrait<OpTrait::ConstantLike>() || add(maker);
  });
}

// Takes in what lies between ops of the tile: a row's sum is narrow, its
// reciprocal is no part of the tile yet, and a product with that is wide.
bool Tile::addBetween() {
  Operation *first = product, *last = product;
  for (Operation *op : ops) {
    first = op->isBeforeInBlock(first) ? op : first;
    last = last->isBeforeInBlock(op) ? op : last;
  }
  // The ops up to the last that depend on the tile.
  llvm::SetVector<Operation *> behind;
  for (Operation *op = first; op != last; op = op->getNextNode())
    if (contains(op) || llvm::any_of(op->getOperands(), [&](Value operand) {
          return operand.getDefiningOp() &&
                 behind.contains(operand.getDefiningOp());
        }))
      behind.insert(op);
  // Those of them that the tile depends on.
  llvm::DenseSet<Operation *> needed(ops.begin(), ops.end());
  for (Operation *op : llvm::reverse(behind)) {
    if (contains(op) || llvm::none_of(op->getUsers(), [&](Operation *user) {
          return needed.contains(user);
        }))
      continue;
    if (!isInPhase(op) || !add(op))
      return false;
    needed.insert(op);
  }
  return true;
}

// Chooses the smallest number of parts of `elements` elements at most, or the
// largest number that there can be.
bool Tile::chooseCount(int64_t elements) {
  int64_t possible = 0;
  for (Operation *op : ops) {
    possible = std::gcd(possible, shapeOf(op->getResult(0)).front());
    for (auto [operand, isParted] :
         llvm::zip(op->getOperands(), *findPartedOperands(op)))
      if (isParted)
        possible = std::gcd(possible, shapeOf(operand).front());
  }
  count = std::min<int64_t>(possible, llvm::divideCeil(wide, elements));
  while (possible > 0 && possible % count != 0)
    ++count;
  return count > 1;
}

// Whether computing the tile's products again is cheaper than to keep them.
bool Tile::canRecompute() const {
  return llvm::all_of(ops, [](Operation *op) {
    auto matmul = dyn_cast<MatMulOp>(op);
    if (!matmul)
      return true;
    ArrayRef<int64_t> shape = shapeOf(matmul.getLhs());
    int64_t depth =
        matmul.getTransA() ? shape.drop_back().back() : shape.back();
    return depth <= kMaxRecomputedDepth ||
           countElements(matmul.getOutput()) < countElements(matmul.getLhs());
  });
}

std::optional<Tile> Tile::find(MatMulOp product, int64_t elements,
                               const llvm::DenseSet<Operation *> &isTiled) {
  Tile tile(product);
  int64_t largest = std::max(countElements(product.getLhs()),
                             countElements(product.getRhs()));
  if (tile.wide <= elements || tile.wide < 2 * largest || !tile.add(product))
    return std::nullopt;
  for (unsigned i = 0; i < tile.ops.size(); ++i)
    if (!tile.addReaders(tile.ops[i]) || !tile.addMakers(tile.ops[i]))
      return std::nullopt;
  if (!tile.addBetween() || !tile.chooseCount(elements))
    return std::nullopt;
  if (tile.ops.size() < 2 || llvm::any_of(tile.ops, [&](Operation *op) {
        return isTiled.contains(op);
      }))
    return std::nullopt;
  if (!tile.escaping.empty() && !tile.canRecompute())
    return std::nullopt;
  return tile;
}

SmallVector<Operation *> Tile::inOrder() const {
  SmallVector<Operation *> sorted(ops.begin(), ops.end());
  llvm::sort(sorted,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return sorted;
}

//===----------------------------------------------------------------------===//
// What the backward pass reads
//===----------------------------------------------------------------------===//

void Tile::recomputeEscaping() {
  // The ops that it takes, and the first that reads what they make.
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
  if (readers.empty())
    return;
  OpBuilder builder(first);
  IRMapping copies;
  SmallVector<Operation *> sorted = inOrder();
  for (Operation *op : llvm::reverse(sorted))
    if (needed.contains(op))
      for (Value operand : op->getOperands())
        if (contains(operand.getDefiningOp()))
          needed.insert(operand.getDefiningOp());
  for (Operation *op : sorted)
    if (needed.contains(op))
      builder.clone(*op, copies)->setAttr(kPhaseAttr, getPhaseOf(first));
  for (OpOperand *use : readers)
    use->set(copies.lookup(use->get()));
  escaping.clear();
}

//===----------------------------------------------------------------------===//
// What is around
//===----------------------------------------------------------------------===//

/// Whether `op` gives the elements of its one operand in another order, shape
/// or type, or scaled: part of a product or of the kernel around it.
static bool costsNothing(Operation *op) {
  if (isa<ReshapeOp, TransposeOp, SliceOp>(op))
    return true;
  OpOperand *scaled = findScaledOperand(op);
  return scaled && llvm::all_of(op->getOpOperands(), [&](OpOperand &operand) {
           return &operand == scaled ||
                  operand.get().getDefiningOp<ConstantOp>();
         });
}

// Whether all that `op` reads and makes in parts has that many.
bool Tile::splits(Operation *op) const {
  auto parted = findPartedOperands(op);
  if (!parted || shapeOf(op->getResult(0)).front() % count != 0)
    return false;
  return llvm::all_of(llvm::zip(op->getOperands(), *parted), [&](auto pair) {
    auto [operand, isParted] = pair;
    return !isParted || shapeOf(operand).front() % count == 0;
  });
}

// The op in front of the tile that makes `operand`, if it can be part of it.
Operation *Tile::findAbsorbedMaker(Value operand) const {
  Operation *maker = operand.getDefiningOp();
  return maker && !contains(maker) &&
                 maker->getBlock() == product->getBlock() &&
                 costsNothing(maker) && splits(maker)
             ? maker
             : nullptr;
}

// The one op behind the tile that reads the result of `op`, if it can be part
// of it.
Operation *Tile::findAbsorbedReader(Operation *op) const {
  Operation *reader = nullptr;
  for (Operation *user : op->getUsers()) {
    if (contains(user))
      continue;
    if (reader && reader != user)
      return nullptr;
    reader = user;
  }
  if (!reader || !isInPhase(reader) || !splits(reader))
    return nullptr;
  // Q, K and V of one product have a gradient of three parts.
  bool joins = isa<ConcatOp>(reader) &&
               llvm::all_of(reader->getOperands(), [&](Value operand) {
                 return contains(operand.getDefiningOp());
               });
  return joins || costsNothing(reader) ? reader : nullptr;
}

void Tile::absorb() {
  // What is taken in has operands and results of its own.
  for (unsigned i = 0; i < ops.size(); ++i)
    for (auto [operand, isParted] :
         llvm::zip(ops[i]->getOperands(), *findPartedOperands(ops[i])))
      if (isParted)
        if (Operation *maker = findAbsorbedMaker(operand)) {
          ops.insert(maker);
          copied.insert(maker);
        }
  for (unsigned i = 0; i < ops.size(); ++i)
    if (Operation *reader = findAbsorbedReader(ops[i]))
      if (ops.insert(reader))
        i = 0;
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

/// `whole` with an axis of parts in front.
static RankedTensorType getPartsType(Type whole, int64_t count) {
  return ScanOp::getStackType(getPart(whole, count), count);
}

namespace {
/// The loop of a tile: its operands, and the body that is being built.
class LoopBuilder {
public:
  LoopBuilder(ArrayRef<Operation *> ops,
              const llvm::DenseSet<Operation *> &copied, int64_t count,
              Location location)
      : ops(ops), copied(copied), count(count), location(location),
        builder(ops.back()) {}
  void build(Attribute phase);

private:
  void addOperands();
  void addBody(ScanOp scan);
  Value reshape(Value value, RankedTensorType type) {
    return ReshapeOp::create(builder, location, type, value);
  }

  ArrayRef<Operation *> ops;
  const llvm::DenseSet<Operation *> &copied;
  int64_t count;
  Location location;
  OpBuilder builder;
  llvm::SetVector<Value> parted, whole, constants, made;
};
} // namespace

// Finds what the ops read of others, and what others read of theirs.
void LoopBuilder::addOperands() {
  llvm::DenseSet<Operation *> inside(ops.begin(), ops.end());
  for (Operation *op : ops) {
    for (auto [operand, isParted] :
         llvm::zip(op->getOperands(), *findPartedOperands(op))) {
      Operation *maker = operand.getDefiningOp();
      if (maker && inside.contains(maker))
        continue;
      if (isParted)
        parted.insert(operand);
      else if (maker && maker->hasTrait<OpTrait::ConstantLike>())
        constants.insert(operand);
      else
        whole.insert(operand);
    }
    if (!copied.contains(op) &&
        llvm::any_of(op->getUsers(),
                     [&](Operation *user) { return !inside.contains(user); }))
      made.insert(op->getResult(0));
  }
}

// Fills in the body: the ops on parts.
void LoopBuilder::addBody(ScanOp scan) {
  IRMapping parts, wholes;
  OpBuilder body = OpBuilder::atBlockEnd(&scan.getBody().front());
  for (auto [value, argument] : llvm::zip(parted, scan.getScannedArguments()))
    parts.map(value, argument);
  // Where no op reads it, this is a part of another operand, and unused.
  Value number = scan.getScannedArguments().back();
  for (auto [value, argument] : llvm::zip(whole, scan.getInvariantArguments()))
    wholes.map(value, argument);
  for (Value value : constants)
    wholes.map(value, body.clone(*value.getDefiningOp())->getResult(0));
  for (Operation *op : ops) {
    SmallVector<Value> operands;
    for (auto [operand, isParted] :
         llvm::zip(op->getOperands(), *findPartedOperands(op)))
      operands.push_back((isParted ? parts : wholes).lookup(operand));
    parts.map(op->getResult(0),
              createPart(body, op, operands, count, number)->getResult(0));
  }
  SmallVector<Value> yielded;
  for (Value value : made)
    yielded.push_back(parts.lookup(value));
  YieldOp::create(body, location, yielded);
}

void LoopBuilder::build(Attribute phase) {
  addOperands();
  SmallVector<Value> scanned;
  for (Value value : parted)
    scanned.push_back(reshape(value, getPartsType(value.getType(), count)));
  if (llvm::any_of(ops, readsPartNumber)) {
    auto numbers =
        builder.getI64TensorAttr(llvm::to_vector(llvm::seq<int64_t>(0, count)));
    scanned.push_back(
        ConstantOp::create(builder, location, numbers.getType(), numbers));
  }
  SmallVector<Type> stacked;
  for (Value value : made)
    stacked.push_back(getPartsType(value.getType(), count));
  auto scan = ScanOp::create(builder, location, count, ValueRange(), scanned,
                             whole.getArrayRef(), stacked,
                             SmallVector<bool>(scanned.size(), false),
                             SmallVector<bool>(stacked.size(), false));
  addBody(scan);
  llvm::DenseSet<Operation *> inside(ops.begin(), ops.end());
  for (auto [index, stack] : llvm::enumerate(scan.getStacked())) {
    Value value = made[index], joined = reshape(stack, typeOf(value));
    value.replaceUsesWithIf(joined, [&](OpOperand &use) {
      return !inside.contains(use.getOwner()) &&
             use.getOwner() != joined.getDefiningOp();
    });
    if (phase)
      joined.getDefiningOp()->setAttr(kPhaseAttr, phase);
  }
  if (phase)
    scan->setAttr(kPhaseAttr, phase);
}

void Tile::rewrite() {
  SmallVector<Operation *> sorted = inOrder();
  LoopBuilder(sorted, copied, count, product.getLoc()).build(phase);
  for (Operation *op : llvm::reverse(sorted))
    if (op->use_empty())
      op->erase();
}

void TileProductsPass::runOnOperation() {
  FailureOr<TargetInfo> info = TargetInfo::get(target, getOperation());
  if (failed(info))
    return signalPassFailure();
  if (info->isGPU())
    return;
  Block &block = getOperation().getBody().front();
  SmallVector<Tile> tiles;
  llvm::DenseSet<Operation *> isTiled;
  // Those that are computed again come behind those that they are copies of.
  for (Operation &op : block) {
    auto product = dyn_cast<MatMulOp>(op);
    if (!product)
      continue;
    std::optional<Tile> tile = Tile::find(product, elements, isTiled);
    if (!tile)
      continue;
    tile->recomputeEscaping();
    isTiled.insert(tile->getOps().begin(), tile->getOps().end());
    tiles.push_back(std::move(*tile));
  }
  for (Tile &tile : tiles) {
    tile.absorb();
    tile.rewrite();
  }
  if (!tiles.empty() && !sortTopologically(&block)) {
    getOperation().emitError("expected loops over parts without a cycle");
    signalPassFailure();
  }
}
