// Pads rows of matrices that a GPU's library reads or writes, if rows are not
// multiples of 16 bytes: rows of 50257 classes, for example. The library has
// fast kernels only for rows of whole 16-byte vectors.
//
// A value can be padded if the op that makes the value, and all its users,
// accept a distance between rows that exceeds the length of a row. The pass
// pads the operands and results of products for which padding pays. A product
// is faster only if all its matrices are aligned.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Passes.h"

#include "compiler/Dialect/AMP/TF32.h"
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
// Row lengths
//===----------------------------------------------------------------------===//

/// Bytes of a memory line. Rows that start at multiples are read fastest.
static constexpr int64_t kLineBytes = 128;
/// Elements of a kernel's longest vector: 16 bytes of 16-bit elements. Rows of
/// whole such vectors also consist of whole vectors of f32.
static constexpr int64_t kVectorElements = 8;
/// padRow tries to align rows to more than a vector, up to a memory line, if
/// the padding adds at most 1/64 of a row.
static constexpr int64_t kFewParts = 64;

/// Returns the padded length of a row of `row` elements of `type`, in elements.
static int64_t padRow(int64_t row, Type type) {
  for (int64_t unit = kLineBytes / plan::getElementBytes(type);
       unit > kVectorElements; unit /= 2)
    if (int64_t padded = llvm::alignTo(row, unit);
        (padded - row) * kFewParts <= row)
      return padded;
  return llvm::alignTo(row, kVectorElements);
}

/// Returns `type` with rows of `row` elements.
static RankedTensorType withRow(RankedTensorType type, int64_t row) {
  SmallVector<int64_t> shape(type.getShape());
  shape.back() = row;
  return RankedTensorType::get(shape, type.getElementType());
}

//===----------------------------------------------------------------------===//
// Values that can be padded
//===----------------------------------------------------------------------===//

/// True if `op` is a product of a library.
static bool isProduct(Operation *op) {
  return isa_and_nonnull<MatMulOp, plan::ProductOp>(op);
}

/// True if `use` is a matrix operand of a product.
static bool isFactor(OpOperand &use) {
  return isProduct(use.getOwner()) && use.getOperandNumber() < 2;
}

/// True if `view` keeps rows whole and only changes outer axes.
static bool keepsRowsWhole(ReshapeOp view) {
  ArrayRef<int64_t> from = shapeOf(view.getInput()),
                    to = shapeOf(view.getOutput());
  return from.size() >= 2 && to.size() >= 2 && from.back() == to.back();
}

/// True if the kernel that reads `use` accepts any distance between rows.
static bool readsAnyRows(OpOperand &use) {
  auto region = dyn_cast<RegionOp>(use.getOwner());
  if (!region || isa<RegionOp>(region.getBody().front().front()))
    return false;
  return KernelHero::get(region.getKind()).loadsByElement() &&
         isReadByElement(use);
}

/// True if all users of `value`, also through views, accept any distance
/// between rows.
static bool isReadInAnyRows(Value value) {
  return llvm::all_of(value.getUses(), [](OpOperand &use) {
    if (auto view = dyn_cast<ReshapeOp>(use.getOwner()))
      return keepsRowsWhole(view) && isReadInAnyRows(view.getOutput());
    return isFactor(use) || readsAnyRows(use);
  });
}

/// True if the kernel of `region` can store `result` with padded rows.
static bool storesAnyRows(RegionOp region, OpResult result) {
  return takesAnyOrder(region) &&
         isStoredByElement(region, result.getResultNumber());
}

/// True if the fallback kernels of `product`, which compute the epilogue if the
/// library cannot, are able to read the product and store the result with
/// padded rows.
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

/// True if the op that computes `value` can write padded rows.
static bool isMadeInAnyRows(Value value) {
  Operation *maker = value.getDefiningOp();
  if (auto product = dyn_cast_or_null<plan::ProductOp>(maker))
    return value == product.getOutput() && isUnfusedInAnyRows(product);
  if (auto region = dyn_cast_or_null<RegionOp>(maker))
    return storesAnyRows(region, cast<OpResult>(value));
  return isProduct(maker);
}

/// True if the rows of `value` are not whole vectors and can be padded.
static bool canPad(Value value) {
  RankedTensorType type = typeOf(value);
  // Padded rows are read through a slice. A kernel cannot load a slice of one
  // column, so rows must have several elements.
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
// Savings
//===----------------------------------------------------------------------===//

namespace {
/// The values of a function that can be padded, and the time saved by padding.
class Candidates {
public:
  Candidates(Block &block, const TargetInfo &target);

  /// Keeps only values whose products save more time than the padding costs.
  void choose();

  ArrayRef<Value> get() const { return values.getArrayRef(); }

private:
  bool usesTensorCores(Operation *product) const;
  double getSaving(Operation *product) const;
  double getCost(Value value) const;

  const TargetInfo &target;
  llvm::SetVector<Value> values;
  SmallVector<Operation *> products;
};
} // namespace

Candidates::Candidates(Block &block, const TargetInfo &target)
    : target(target) {
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
  return element.isF32() ? amp::roundsToTF32(product) ||
                               product->hasAttr(plan::kComputeAttr)
                         : element.getIntOrFloatBitWidth() == 16;
}

/// Returns the nanoseconds that `product` saves if all its candidate matrices
/// are padded. Returns 0 if the matrices are aligned without padding, or still
/// unaligned with padding.
double Candidates::getSaving(Operation *product) const {
  // Compare the layout of the product without padding and with padding.
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
  // The slower of memory and Tensor Cores determines the time of a product.
  int64_t bytes = 0;
  for (Value matrix : {lhs, rhs, result})
    bytes += typeOf(matrix).getNumElements() *
             plan::getElementBytes(elementOf(matrix));
  double operations = 2.0 *
                      static_cast<double>(typeOf(result).getNumElements()) *
                      static_cast<double>(before.k);
  // Tensor Cores multiply 32-bit operands (tf32) at half the rate.
  operations *= plan::getElementBytes(elementOf(lhs)) / 2.0;
  auto getTime = [&](bool aligned) {
    return std::max(target.getMemoryTime(bytes),
                    target.getTensorCoreTime(operations, aligned));
  };
  return getTime(false) - getTime(true);
}

/// Returns the nanoseconds of memory traffic for the padding of `value`,
/// written once and read by each user. Memory moves whole lines, so padding is
/// moved too.
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
  // A product whose matrix is no longer padded may become unaligned and save
  // nothing, so repeat until no candidate is removed.
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

/// Makes the kernel that reads `use` read `padded` through a slice.
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

/// Makes all `uses` of a value of `type` read `padded`, which has longer rows.
static void readPadded(ArrayRef<OpOperand *> uses, RankedTensorType type,
                       Value padded) {
  int64_t row = shapeOf(padded).back();
  for (OpOperand *use : uses) {
    Operation *reader = use->getOwner();
    OpBuilder builder(reader);
    // A view of a padded value must have padded rows too.
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

/// Makes the kernel of `region` store `result` with rows of `row` elements. The
/// caller must change the users of `result`.
static void storePadded(RegionOp region, OpResult result, int64_t row) {
  Operation *yield = region.getBody().front().getTerminator();
  OpOperand &yielded = yield->getOpOperand(result.getResultNumber());
  RankedTensorType type = withRow(typeOf(result), row);
  OpBuilder builder(yield);
  yielded.set(
      plan::PlaceOp::create(builder, region.getLoc(), type, yielded.get()));
  result.setType(type);
}

/// Makes the fallback kernels of `product`, which compute the epilogue if the
/// library cannot, read and store rows of `row` elements.
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

/// Pads `value` in the op that computes `value` and in all users.
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
  Candidates candidates(function.getBody().front(), target);
  candidates.choose();
  llvm::for_each(candidates.get(), pad);
}
