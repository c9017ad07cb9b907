// Runs the ops around a large product in parts, so that the whole product is
// never in memory.
//
// Example: the scores of an attention. Each head has a matrix of tokens x
// tokens, made of two matrices with 64 columns, and read by a softmax and
// another product. In parts, memory holds only the scores of a few samples, or
// of some tokens of one sample, and these fit a cache. The backward pass
// recomputes the scores from queries and keys: 64 multiplications per element,
// cheaper than a store and a load.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Fusion/Passes.h"
#include "passes/Fusion/TiledProduct.h"

#include "compiler/Dialect/MPC/Target.h"
#include "compiler/Regions/Parts.h"

#include "mlir/Analysis/TopologicalSortUtils.h"

namespace mpc {
#define GEN_PASS_DEF_TILEPRODUCTSPASS
#include "passes/Fusion/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

namespace {
/// A value, and the axis along which the value is divided into parts.
using PartedValue = std::pair<Value, int64_t>;

/// Builds the loop that replaces the ops of a tiled product.
class LoopBuilder {
public:
  explicit LoopBuilder(const TiledProduct &tiled)
      : tiled(tiled), ops(tiled.getOps()), count(tiled.getCount()),
        location(tiled.getProduct().getLoc()), builder(ops.back()) {}
  ScanOp build();

private:
  void findValues();
  void addWhole(Value value);
  Value split(PartedValue value);
  Value join(Value stack, PartedValue value);
  RankedTensorType getStack(PartedValue value);
  Value createZeros(Value sum);
  Value createStarts(int64_t step);
  void addBody(ScanOp scan);
  void replace(Value value, Value made);

  const TiledProduct &tiled;
  SmallVector<Operation *> ops;
  int64_t count;
  Location location;
  OpBuilder builder;
  /// Values from outside the tiled product. The loop reads `parted` part by
  /// part, and `whole` completely in every iteration. `constants` and `masks`
  /// are made again inside the loop.
  llvm::SetVector<PartedValue> parted;
  llvm::SetVector<Value> whole, constants, masks;
  /// Results that ops outside the tiled product read: `sums` over all parts,
  /// and values `made` part by part.
  SmallVector<Value> sums;
  SmallVector<PartedValue> made;
  /// For dropouts in the loop: the random groups (of four elements) between the
  /// starts of consecutive parts.
  llvm::SetVector<int64_t> groupSteps;
};

struct TileProductsPass
    : public mpc::impl::TileProductsPassBase<TileProductsPass> {
  using TileProductsPassBase::TileProductsPassBase;
  void runOnOperation() override;

private:
  bool tileBlock(Block &block);
};
} // namespace

// Lists a value that every iteration reads as a whole: as a constant to copy, a
// mask to recompute, or an operand of the loop.
void LoopBuilder::addWhole(Value value) {
  Operation *maker = value.getDefiningOp();
  if (maker && maker->hasTrait<OpTrait::ConstantLike>()) {
    constants.insert(value);
  } else if (maker && makesLargeMask(maker)) {
    for (Value operand : maker->getOperands())
      addWhole(operand);
    masks.insert(value);
  } else {
    whole.insert(value);
  }
}

// Fills the lists of operands (parted, whole, constants, masks) and of results
// (sums, made) of the loop.
void LoopBuilder::findValues() {
  for (Operation *op : ops) {
    // Operands from outside the tiled product are divided into parts, or read
    // as a whole.
    for (OpOperand &operand : op->getOpOperands()) {
      int64_t axis = tiled.getAxis(operand);
      if (tiled.isMadeInside(operand))
        continue;
      if (axis != kWhole)
        parted.insert({operand.get(), axis});
      else
        addWhole(operand.get());
    }
    // Ops outside the tiled product read a sum over all parts, or a value whose
    // parts are stacked.
    Value result = op->getResult(0);
    if (tiled.isCopy(op) || llvm::all_of(op->getUsers(), [&](Operation *user) {
          return tiled.contains(user);
        }))
      continue;
    if (tiled.getAxis(op) == TiledProduct::kSum)
      sums.push_back(result);
    else
      made.push_back({result, tiled.getAxis(op)});
  }
  // Dropout computes random numbers in groups. An iteration must know the
  // number of its first group.
  for (Operation *op : ops)
    if (auto step = getGroupsPerPart(op, tiled.getAxis(op), count))
      groupSteps.insert(*step);
}

// Returns the shape [..., n, part, ...], whose axis n later moves to the front:
// [8, 64, 16] in 4 parts along axis 1 is [8, 4, 16, 16], and becomes the stack
// [4, 8, 16, 16].
static SmallVector<int64_t> splitShape(PartedValue value, int64_t count) {
  assert(value.second >= 0 && shapeOf(value.first)[value.second] % count == 0 &&
         "parts are equal");
  SmallVector<int64_t> shape(shapeOf(value.first));
  shape[value.second] /= count;
  shape.insert(shape.begin() + value.second, count);
  return shape;
}

RankedTensorType LoopBuilder::getStack(PartedValue value) {
  return ScanOp::getStackType(
      getPart(value.first.getType(), value.second, count), count);
}

// True if each part of the value is contiguous in memory: all axes before the
// parted axis have size 1.
static bool liesInParts(PartedValue value) {
  return ShapedType::getNumElements(
             shapeOf(value.first).take_front(value.second)) == 1;
}

// Returns the permutation that moves axis `from` to place `to`, and keeps the
// order of the others.
static SmallVector<int64_t> moveAxis(int64_t rank, int64_t from, int64_t to) {
  assert(from >= 0 && from < rank && to >= 0 && to < rank &&
         "axes of the value");
  SmallVector<int64_t> order;
  for (int64_t i = 0; i < rank; ++i)
    if (i != from)
      order.push_back(i);
  order.insert(order.begin() + to, from);
  return order;
}

// Returns the parts of a value as a stack, with the number of the part as axis
// 0.
Value LoopBuilder::split(PartedValue value) {
  RankedTensorType stack = getStack(value);
  if (liesInParts(value))
    return ReshapeOp::create(builder, location, stack, value.first);
  Value apart = ReshapeOp::create(
      builder, location, stack.clone(splitShape(value, count)), value.first);
  return TransposeOp::create(builder, location, stack, apart,
                             moveAxis(stack.getRank(), value.second, 0));
}

// Returns the whole value from a stack of its parts.
Value LoopBuilder::join(Value stack, PartedValue value) {
  RankedTensorType type = typeOf(value.first);
  if (!liesInParts(value)) {
    SmallVector<int64_t> shape = splitShape(value, count);
    stack = TransposeOp::create(builder, location, type.clone(shape), stack,
                                moveAxis(shape.size(), 0, value.second));
  }
  return ReshapeOp::create(builder, location, type, stack);
}

// Returns the type in which the loop adds up `sum`: f32, or wider if `sum` is.
static RankedTensorType getSumType(Value sum) {
  RankedTensorType type = typeOf(sum);
  bool isNarrow = type.getElementTypeBitWidth() < 32;
  return isNarrow ? type.clone(Float32Type::get(sum.getContext())) : type;
}

Value LoopBuilder::createZeros(Value sum) {
  RankedTensorType type = getSumType(sum);
  return ConstantOp::create(
      builder, location, type,
      DenseElementsAttr::get(type, builder.getZeroAttr(type.getElementType())));
}

// Returns the number of the first random group of each part: 0, step, 2 * step,
// ...
Value LoopBuilder::createStarts(int64_t step) {
  SmallVector<int64_t> starts;
  for (int64_t part = 0; part < count; ++part)
    starts.push_back(part * step);
  auto value = builder.getI64TensorAttr(starts);
  return ConstantOp::create(builder, location, value.getType(), value);
}

// Fills the body of the loop with copies of the ops that work on parts.
void LoopBuilder::addBody(ScanOp scan) {
  // Map the operands of the loop to the arguments of the body.
  llvm::DenseMap<PartedValue, Value> values;
  OpBuilder body = OpBuilder::atBlockEnd(&scan.getBody().front());
  for (auto [value, argument] : llvm::zip(parted, scan.getScannedArguments()))
    values[value] = argument;
  for (auto [value, argument] : llvm::zip(whole, scan.getInvariantArguments()))
    values[{value, kWhole}] = argument;
  // Make constants and masks in the body: as operands of the loop, they would
  // have to be in memory.
  for (Value value : constants)
    values[{value, kWhole}] = body.clone(*value.getDefiningOp())->getResult(0);
  for (Value value : masks) {
    Operation *mask = body.clone(*value.getDefiningOp());
    for (OpOperand &operand : mask->getOpOperands())
      operand.set(values.lookup({operand.get(), kWhole}));
    values[{value, kWhole}] = mask->getResult(0);
  }
  // The scanned arguments are the parts, then the numbers of first groups.
  ArrayRef<BlockArgument> starts =
      scan.getScannedArguments().drop_front(parted.size());
  // Copy each op for one part. A product that sums over parts becomes a
  // summand.
  for (Operation *op : ops) {
    SmallVector<Value> operands;
    for (OpOperand &operand : op->getOpOperands())
      operands.push_back(
          values.lookup({operand.get(), tiled.getAxis(operand)}));
    int64_t axis = tiled.getAxis(op);
    Value result = op->getResult(0);
    if (axis != TiledProduct::kSum) {
      Value group;
      if (auto step = getGroupsPerPart(op, axis, count))
        group = starts[llvm::find(groupSteps, *step) - groupSteps.begin()];
      values[{result, axis}] =
          createPart(body, op, operands, axis, count, group)->getResult(0);
      continue;
    }
    // Keep the summand in the type of the sum, so that rounding happens once,
    // at the end.
    Operation *summand = body.clone(*op);
    summand->setOperands(operands);
    summand->getResult(0).setType(getSumType(result));
    values[{result, axis}] = summand->getResult(0);
  }
  // The loop carries sums, and stacks the parts of other results.
  SmallVector<Value> yielded;
  for (auto [sum, old] : llvm::zip(sums, scan.getCarriedArguments())) {
    Value summand = values.lookup({sum, TiledProduct::kSum});
    auto added =
        AddOp::create(body, sum.getLoc(), summand.getType(), old, summand);
    if (tiled.getPhase())
      added->setAttr(kPhaseAttr, tiled.getPhase());
    yielded.push_back(added);
  }
  for (PartedValue value : made)
    yielded.push_back(values.lookup(value));
  YieldOp::create(body, location, yielded);
}

// Makes the ops outside the loop read `made` instead of `value`.
void LoopBuilder::replace(Value value, Value made) {
  value.replaceUsesWithIf(
      made, [&](OpOperand &use) { return !tiled.contains(use.getOwner()); });
}

ScanOp LoopBuilder::build() {
  // Create the operands of the loop: zeros for sums, stacks of parts, and for
  // dropouts the number of each part's first random group.
  findValues();
  assert(!ops.empty() && (!sums.empty() || !made.empty()) &&
         "a loop has ops, and results that are read outside");
  Operation *before = ops.back()->getPrevNode();
  SmallVector<Value> zeros =
      llvm::map_to_vector(sums, [&](Value sum) { return createZeros(sum); });
  SmallVector<Value> scanned = llvm::map_to_vector(
      parted, [&](PartedValue value) { return split(value); });
  for (int64_t step : groupSteps)
    scanned.push_back(createStarts(step));
  SmallVector<Type> stacks = llvm::map_to_vector(
      made, [&](PartedValue value) -> Type { return getStack(value); });
  auto scan = ScanOp::create(builder, location, count, zeros, scanned,
                             whole.getArrayRef(), stacks,
                             SmallVector<bool>(scanned.size(), false),
                             SmallVector<bool>(stacks.size(), false));
  // Replace the original values: convert sums to the original type, and join
  // stacks.
  addBody(scan);
  for (auto [sum, last] : llvm::zip(sums, scan.getLast())) {
    Value narrow = last;
    if (last.getType() != sum.getType())
      narrow = amp::CastOp::create(builder, sum.getLoc(), sum.getType(), last);
    replace(sum, narrow);
  }
  for (auto [index, stack] : llvm::enumerate(scan.getStacked()))
    replace(made[index].first, join(stack, made[index]));
  // Give the new ops the phase of the tiled product.
  Operation *op =
      before ? before->getNextNode() : &ops.back()->getBlock()->front();
  for (; tiled.getPhase() && op != ops.back(); op = op->getNextNode())
    if (!isa<ConstantOp, amp::CastOp>(op))
      op->setAttr(kPhaseAttr, tiled.getPhase());
  return scan;
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

// Turns the products of a block into loops, then the products in the bodies of
// the loops. Returns false if two loops would depend on each other.
bool TileProductsPass::tileBlock(Block &block) {
  SmallVector<TiledProduct> tiledProducts;
  llvm::DenseSet<Operation *> isTiled;
  // Visit products in program order: `recomputeEscaping` adds copies of forward
  // products later in the block, which are visited too.
  for (Operation &op : block) {
    auto product = dyn_cast<MatMulOp>(op);
    if (!product)
      continue;
    // Prefer parts of whole samples or heads (axis 0); otherwise take some rows
    // of every sample.
    std::optional<TiledProduct> tiled;
    int64_t rank = product.getType().getRank();
    for (int64_t axis : {int64_t(0), rank - 2})
      if (!tiled)
        tiled = TiledProduct::find(product, axis, elements, isTiled);
    if (!tiled)
      continue;
    tiled->recomputeEscaping();
    for (Operation *op : tiled->getOps())
      isTiled.insert(op);
    tiledProducts.push_back(std::move(*tiled));
  }
  // Replace each tiled product by its loop, then erase the tiled product's ops
  // that have no readers, from last to first.
  SmallVector<ScanOp> loops;
  for (TiledProduct &tiled : tiledProducts) {
    tiled.fuse();
    loops.push_back(LoopBuilder(tiled).build());
    SmallVector<Operation *> replaced = tiled.getOps();
    for (Operation *op : llvm::reverse(replaced))
      if (op->use_empty())
        op->erase();
  }
  // Erase the masks that now only loops compute.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (makesLargeMask(&op) && op.use_empty())
      op.erase();
  return (tiledProducts.empty() || sortTopologically(&block)) &&
         llvm::all_of(loops, [&](ScanOp loop) {
           return tileBlock(loop.getBody().front());
         });
}

void TileProductsPass::runOnOperation() {
  TargetInfo target = getTarget(getOperation());
  if (target.isGPU() || tileBlock(getOperation().getBody().front()))
    return;
  getOperation().emitError("expected loops over tiles of products that do not "
                           "depend on each other's results in a cycle");
  signalPassFailure();
}
