// Puts the rows of what a GPU's library multiplies and makes further apart,
// where they are no whole vectors of 16 bytes: of 50257 classes, for example.
// The library has fast kernels only for matrices whose rows are.
//
// A value is padded if all that makes and reads it takes rows at any distance.
// Which of the values that can be are, products decide: one is faster only if
// none of its matrices is left unaligned.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Passes.h"

#include "compiler/Dialect/MPC/Target.h"
#include "compiler/Kernels/KernelHero.h"
#include "passes/Planning/Contractions/ProductLayout.h"
#include "passes/Planning/Movement/FoldIntoKernels.h"
#include "passes/Planning/Movement/Movement.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

namespace mpc {
#define GEN_PASS_DEF_PADROWSPASS
#include "passes/Planning/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// How long rows become
//===----------------------------------------------------------------------===//

/// Bytes that memory gives at once: rows that begin at multiples are read best.
static constexpr int64_t kLineBytes = 128;
/// Elements of the longest vector of a kernel, 16 bytes of 16 bits each: rows
/// of whole ones are whole vectors of f32 too.
static constexpr int64_t kVectorElements = 8;
/// Rows may be longer by one of so many parts of themselves.
static constexpr int64_t kFewParts = 64;

/// The elements from one row of `row` elements of `type` to the next.
static int64_t padRow(int64_t row, Type type) {
  for (int64_t unit = kLineBytes / plan::getElementBytes(type);
       unit > kVectorElements; unit /= 2)
    if (int64_t padded = llvm::alignTo(row, unit);
        (padded - row) * kFewParts <= row)
      return padded;
  return llvm::alignTo(row, kVectorElements);
}

/// `type` with rows of `row` elements.
static RankedTensorType withRow(RankedTensorType type, int64_t row) {
  SmallVector<int64_t> shape(type.getShape());
  shape.back() = row;
  return RankedTensorType::get(shape, type.getElementType());
}

//===----------------------------------------------------------------------===//
// What can be padded
//===----------------------------------------------------------------------===//

/// Whether `op` is a product that a library does.
static bool isProduct(Operation *op) {
  return isa_and_nonnull<MatMulOp, plan::ProductOp>(op);
}

/// Whether `value` is a matrix that the product `use` belongs to multiplies.
static bool isFactor(OpOperand &use) {
  return isProduct(use.getOwner()) && use.getOperandNumber() < 2;
}

/// Whether `view` has the rows of what it views, in other outer axes.
static bool keepsRowsWhole(ReshapeOp view) {
  ArrayRef<int64_t> from = shapeOf(view.getInput()),
                    to = shapeOf(view.getOutput());
  return from.size() >= 2 && to.size() >= 2 && from.back() == to.back();
}

/// Whether the kernel that reads `use` takes rows at any distance.
static bool readsAnyRows(OpOperand &use) {
  auto region = dyn_cast<RegionOp>(use.getOwner());
  if (!region || isa<RegionOp>(region.getBody().front().front()))
    return false;
  return KernelHero::get(region.getKind()).loadsByElement() &&
         isReadByElement(use);
}

/// Whether all that reads `value`, through views too, takes rows at any
/// distance.
static bool isReadInAnyRows(Value value) {
  return llvm::all_of(value.getUses(), [](OpOperand &use) {
    if (auto view = dyn_cast<ReshapeOp>(use.getOwner()))
      return keepsRowsWhole(view) && isReadInAnyRows(view.getOutput());
    return isFactor(use) || readsAnyRows(use);
  });
}

/// Whether the kernel of `region` can store `result` with rows apart.
static bool storesAnyRows(RegionOp region, OpResult result) {
  return takesAnyOrder(region) &&
         isStoredByElement(region, result.getResultNumber());
}

/// Whether the kernels that stand in for what a library does after `product`
/// read the product, and store the result, with rows apart.
static bool isUnfusedInAnyRows(plan::ProductOp product) {
  if (product.getUnfused().empty())
    return true;
  Block &body = product.getUnfused().front();
  if (!isReadInAnyRows(body.getArgument(0)))
    return false;
  if (product.getBiasGrad())
    return true;
  Value yielded = body.getTerminator()->getOperand(0);
  auto region = yielded.getDefiningOp<RegionOp>();
  return region && yielded.hasOneUse() &&
         storesAnyRows(region, cast<OpResult>(yielded));
}

/// Whether what makes `value` can write it with rows apart.
static bool isMadeInAnyRows(Value value) {
  Operation *maker = value.getDefiningOp();
  if (auto product = dyn_cast_or_null<plan::ProductOp>(maker))
    return value == product.getOutput() && isUnfusedInAnyRows(product);
  if (auto region = dyn_cast_or_null<RegionOp>(maker))
    return storesAnyRows(region, cast<OpResult>(value));
  return isProduct(maker);
}

/// Whether the rows of `value` are no whole vectors, and nothing keeps them
/// from being some.
static bool canPad(Value value) {
  RankedTensorType type = typeOf(value);
  // Rows of one element are columns, which kernels cannot load a part of.
  if (type.getRank() < 2 || type.getNumElements() == 0 ||
      type.getShape().back() < kVectorElements ||
      !isa<FloatType>(type.getElementType()) || type.getElementType().isF64() ||
      type.getShape().back() * plan::getElementBytes(type.getElementType()) %
              TargetInfo::kGPUAlignment ==
          0)
    return false;
  return isMadeInAnyRows(value) && isReadInAnyRows(value);
}

//===----------------------------------------------------------------------===//
// What is worth it
//===----------------------------------------------------------------------===//

namespace {
/// The values of a function that can be padded, and what that saves.
class Candidates {
public:
  Candidates(Block &block, const TargetInfo &target, bool allowTF32);

  /// Leaves those whose products save more than the padding costs.
  void choose();

  ArrayRef<Value> get() const { return values.getArrayRef(); }

private:
  bool usesTensorCores(Operation *product) const;
  double getSaving(Operation *product) const;
  double getCost(Value value) const;

  const TargetInfo &target;
  bool allowTF32;
  llvm::SetVector<Value> values;
  SmallVector<Operation *> products;
};
} // namespace

Candidates::Candidates(Block &block, const TargetInfo &target, bool allowTF32)
    : target(target), allowTF32(allowTF32) {
  for (Operation &op : block) {
    if (isProduct(&op) && usesTensorCores(&op))
      products.push_back(&op);
    if (isProduct(&op) || isa<RegionOp>(op))
      for (Value result : op.getResults())
        if (canPad(result))
          values.insert(result);
  }
}

bool Candidates::usesTensorCores(Operation *product) const {
  Type element = elementOf(product->getOperand(0));
  return element.isF32() ? allowTF32 || product->hasAttr(plan::kComputeAttr)
                         : element.getIntOrFloatBitWidth() == 16;
}

/// The nanoseconds that `product` saves with all its candidates padded; 0 where
/// it is aligned already, or not even then.
double Candidates::getSaving(Operation *product) const {
  // The matrices as they lie, and as they would.
  ProductPlaces places = getProductPlaces(product);
  auto matmul = dyn_cast<MatMulOp>(product);
  bool transA =
      matmul ? matmul.getTransA() : cast<plan::ProductOp>(product).getTransA();
  ProductLayout before = layOutProduct(product, transA, target, places);
  auto pad = [&](Value value, ProductPlace &place) {
    if (values.contains(skipReshapes(value)))
      place = ProductPlace::getPadded(
          shapeOf(value), padRow(shapeOf(value).back(), elementOf(value)));
  };
  Value lhs = product->getOperand(0), rhs = product->getOperand(1);
  Value result = product->getResult(0);
  pad(lhs, places.a);
  pad(rhs, places.b);
  pad(result, places.c);
  ProductLayout after = layOutProduct(product, transA, target, places);
  if (isAligned(before, product) || !isAligned(after, product))
    return 0;
  // What takes longer, memory or Tensor Cores, is the time of a product.
  int64_t bytes = 0;
  for (Value matrix : {lhs, rhs, result})
    bytes += typeOf(matrix).getNumElements() *
             plan::getElementBytes(elementOf(matrix));
  double operations = 2.0 *
                      static_cast<double>(typeOf(result).getNumElements()) *
                      static_cast<double>(before.k);
  // Operands of 32 bits are multiplied at half the rate.
  operations *= plan::getElementBytes(elementOf(lhs)) / 2.0;
  auto getTime = [&](bool aligned) {
    return std::max(target.getMemoryTime(bytes),
                    target.getTensorCoreTime(operations, aligned));
  };
  return getTime(false) - getTime(true);
}

/// The nanoseconds that memory takes for what is behind the rows of `value`,
/// written once and read by each reader: whole lines are moved.
double Candidates::getCost(Value value) const {
  RankedTensorType type = typeOf(value);
  int64_t row = type.getShape().back();
  int64_t added = padRow(row, type.getElementType()) - row;
  int64_t bytes = type.getNumElements() / row * added *
                  plan::getElementBytes(type.getElementType());
  auto moves = static_cast<int64_t>(1 + value.getNumUses());
  return target.getMemoryTime(bytes * moves);
}

void Candidates::choose() {
  // What is left out may leave a product unaligned after all, and so on.
  for (bool changed = true; changed;) {
    changed = false;
    llvm::DenseMap<Value, double> savings;
    for (Operation *product : products) {
      double saving = getSaving(product);
      SmallVector<Value> matrices(product->getOperands().take_front(2));
      matrices.push_back(product->getResult(0));
      for (Value matrix : matrices)
        savings[skipReshapes(matrix)] += saving;
    }
    SmallVector<Value> all(values.getArrayRef());
    for (Value value : all)
      if (savings.lookup(value) <= getCost(value)) {
        values.remove(value);
        changed = true;
      }
  }
}

//===----------------------------------------------------------------------===//
// Padding
//===----------------------------------------------------------------------===//

/// Makes the kernel that reads `use` read `padded`, through a slice.
static void readPadded(OpOperand &use, Value padded) {
  auto region = cast<RegionOp>(use.getOwner());
  Block &body = region.getBody().front();
  BlockArgument argument = body.getArgument(use.getOperandNumber());
  RankedTensorType type = typeOf(argument);
  use.set(padded);
  argument.setType(cast<RankedTensorType>(padded.getType()));
  auto builder = OpBuilder::atBlockBegin(&body);
  SmallVector<int64_t> offsets(type.getRank(), 0);
  auto slice = SliceOp::create(builder, region.getLoc(), type, argument,
                               builder.getDenseI64ArrayAttr(offsets),
                               builder.getDenseI64ArrayAttr(type.getShape()),
                               DenseI64ArrayAttr());
  argument.replaceAllUsesExcept(slice.getOutput(), slice);
}

static SmallVector<OpOperand *> usesOf(Value value) {
  return llvm::map_to_vector(value.getUses(),
                             [](OpOperand &use) { return &use; });
}

/// Makes all `uses`, of a value of `type`, read `padded`, whose rows are
/// longer.
static void readPadded(ArrayRef<OpOperand *> uses, RankedTensorType type,
                       Value padded) {
  int64_t row = shapeOf(padded).back();
  for (OpOperand *use : uses) {
    Operation *reader = use->getOwner();
    OpBuilder builder(reader);
    // Views have the longer rows too.
    if (auto view = dyn_cast<ReshapeOp>(reader)) {
      RankedTensorType old = view.getType();
      auto longer =
          ReshapeOp::create(builder, view.getLoc(), withRow(old, row), padded);
      readPadded(usesOf(view.getOutput()), old, longer);
      view.erase();
    } else if (isFactor(*use)) {
      ProductPlace place = ProductPlace::getPadded(type.getShape(), row);
      use->set(plan::AccessOp::create(builder, reader->getLoc(), type, padded,
                                      place.offset, place.strides));
    } else {
      readPadded(*use, padded);
    }
  }
}

/// Makes the kernel of `region` store `result` with rows of `row` elements; the
/// readers of the result are the caller's affair.
static void storePadded(RegionOp region, OpResult result, int64_t row) {
  Operation *yield = region.getBody().front().getTerminator();
  OpOperand &yielded = yield->getOpOperand(result.getResultNumber());
  RankedTensorType type = withRow(typeOf(result), row);
  OpBuilder builder(yield);
  yielded.set(
      plan::PlaceOp::create(builder, region.getLoc(), type, yielded.get()));
  result.setType(type);
}

/// Makes the kernels that stand in for what a library does after `product` read
/// and store rows of `row` elements.
static void padUnfused(plan::ProductOp product, int64_t row) {
  if (product.getUnfused().empty())
    return;
  Block &body = product.getUnfused().front();
  BlockArgument argument = body.getArgument(0);
  RankedTensorType type = typeOf(argument);
  SmallVector<OpOperand *> uses = usesOf(argument);
  argument.setType(withRow(type, row));
  readPadded(uses, type, argument);
  if (product.getBiasGrad())
    return;
  auto yielded = cast<OpResult>(body.getTerminator()->getOperand(0));
  storePadded(cast<RegionOp>(yielded.getOwner()), yielded, row);
}

/// Pads `value` where it is made, and in all that reads it.
static void pad(Value value) {
  RankedTensorType type = typeOf(value);
  int64_t row = padRow(type.getShape().back(), type.getElementType());
  SmallVector<OpOperand *> uses = usesOf(value);
  Operation *maker = value.getDefiningOp();
  if (auto region = dyn_cast<RegionOp>(maker)) {
    storePadded(region, cast<OpResult>(value), row);
    readPadded(uses, type, value);
    return;
  }
  OpBuilder builder(maker->getContext());
  builder.setInsertionPointAfter(maker);
  auto padded = plan::PlaceOp::create(builder, maker->getLoc(),
                                      withRow(type, row), value);
  if (auto product = dyn_cast<plan::ProductOp>(maker))
    padUnfused(product, row);
  readPadded(uses, type, padded.getOutput());
}

namespace {
struct PadRowsPass : public mpc::impl::PadRowsPassBase<PadRowsPass> {
  using PadRowsPassBase::PadRowsPassBase;
  void runOnOperation() override;
};
} // namespace

void PadRowsPass::runOnOperation() {
  func::FuncOp function = getOperation();
  if (function.isExternal() || getKernelKind(function))
    return;
  TargetInfo target = getTarget(function);
  if (!target.isGPU())
    return;
  Candidates candidates(function.getBody().front(), target, tf32);
  candidates.choose();
  llvm::for_each(candidates.get(), pad);
}
