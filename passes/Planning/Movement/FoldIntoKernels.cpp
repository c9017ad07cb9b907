// Lets elementwise kernels and row reductions load and store through
// transposes. The loops of such a kernel run along the last axis element by
// element, and along all other axes with any strides. The kernel can therefore
// process rows in any order. For example, the kernel of a bias can store
// queries head by head, and a layer norm can read tokens stored before samples.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Movement/FoldIntoKernels.h"

#include "compiler/Interfaces/IndexedOpInterface.h"
#include "compiler/Kernels/KernelHero.h"
#include "passes/Planning/Movement/Movement.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mpc;

/// Shortest rows, in bytes, that kernels load or store in any order: one memory
/// transaction of a GPU. For shorter rows, a transpose by tiles is faster.
static constexpr int64_t kLeastRowBytes = 32;

bool mpc::movesRows(TransposeOp transpose) {
  ArrayRef<int64_t> shape = shapeOf(transpose.getOutput());
  if (shape.empty() ||
      transpose.getPerm().back() != static_cast<int64_t>(shape.size()) - 1)
    return false;
  int64_t bits = elementOf(transpose.getOutput()).getIntOrFloatBitWidth();
  return shape.back() * bits >= 8 * kLeastRowBytes;
}

bool mpc::takesAnyOrder(RegionOp region) {
  return KernelHero::get(region.getKind()).loadsInAnyOrder() &&
         getPhase(region) != Phase::Optimizer &&
         !isa<RegionOp>(region.getBody().front().front());
}

//===----------------------------------------------------------------------===//
// Axes in parts
//===----------------------------------------------------------------------===//

namespace {
/// Splits the axes of a shape into the axes of another shape: of (8, 128, 768)
/// and (8, 128, 12, 64), the last axis splits into (12, 64).
struct AxisParts {
  SmallVector<int64_t> whole;
  SmallVector<SmallVector<int64_t>> parts; ///< new axes, by axis of `whole`

  /// Returns nullopt if an axis of `to` spans several axes of `from`.
  static std::optional<AxisParts> get(ArrayRef<int64_t> from,
                                      ArrayRef<int64_t> to);
  /// Splits `shape`, which broadcasts to `whole`: (128, 1) becomes (128, 1, 1).
  /// Returns nullopt if `shape` does not broadcast to `whole`.
  std::optional<SmallVector<int64_t>> divide(ArrayRef<int64_t> shape) const;
};
} // namespace

std::optional<AxisParts> AxisParts::get(ArrayRef<int64_t> from,
                                        ArrayRef<int64_t> to) {
  AxisParts result{SmallVector<int64_t>(from), {}};
  if (llvm::is_contained(from, 0))
    return std::nullopt;
  for (int64_t extent : from) {
    SmallVector<int64_t> &own = result.parts.emplace_back();
    // Take axes of `to` until their product is `extent`. Axes of size 1 join
    // the axis before.
    for (int64_t product = 1; !to.empty(); to = to.drop_front()) {
      if (product == extent && to.front() != 1)
        break;
      product *= to.front();
      own.push_back(to.front());
      if (extent % product != 0)
        return std::nullopt;
    }
    if (ShapedType::getNumElements(own) != extent)
      return std::nullopt;
  }
  return to.empty() ? std::optional(result) : std::nullopt;
}

std::optional<SmallVector<int64_t>>
AxisParts::divide(ArrayRef<int64_t> shape) const {
  if (shape.size() > whole.size())
    return std::nullopt;
  size_t missing = whole.size() - shape.size();
  SmallVector<int64_t> divided;
  for (auto [axis, extent] : llvm::enumerate(shape)) {
    ArrayRef<int64_t> own = parts[missing + axis];
    if (extent == whole[missing + axis])
      llvm::append_range(divided, own);
    else if (extent == 1)
      divided.append(own.size(), 1);
    else
      return std::nullopt;
  }
  return divided;
}

/// True if `op` treats elements alike in any shape: an elementwise op that
/// reads operands at the index of the result (by NumPy's rules) and does not
/// depend on the index.
static bool ignoresShape(Operation *op) {
  if (isa<ConstantOp>(op))
    return true;
  if (!hasRole(op, RegionRole::Elementwise) || isa<IndexedOpInterface>(op))
    return false;
  return llvm::all_of(op->getOpOperands(), [&](OpOperand &operand) {
    int64_t rank = shapeOf(op->getResult(0)).size();
    int64_t first = rank - shapeOf(operand.get()).size();
    return first >= 0 && !readsMemory(operand) && !isTable(operand) &&
           llvm::equal(getOperandAxes(operand), llvm::seq(first, rank));
  });
}

static RankedTensorType withShape(Value value, ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, elementOf(value));
}

/// Splits the axes of the elementwise kernel `region`, so that results have the
/// shape `to`. Users read the results through views of the old shape. Returns
/// false, and changes nothing, if an op cannot be split.
static bool divideAxes(RegionOp region, ArrayRef<int64_t> to) {
  // Match the axes: [8, 64] to [8, 4, 16] splits the second axis.
  std::optional<AxisParts> parts =
      AxisParts::get(shapeOf(region.getResult(0)), to);
  Block &body = region.getBody().front();
  auto divides = [&](Value value) {
    return parts->divide(shapeOf(value)).has_value();
  };
  bool isPossible =
      parts && llvm::all_of(body.getArguments(), divides) &&
      llvm::all_of(region.getResults(),
                   [&](Value result) {
                     return shapeOf(result) == ArrayRef(parts->whole);
                   }) &&
      llvm::all_of(body.without_terminator(), [&](Operation &op) {
        return ignoresShape(&op) && llvm::all_of(op.getResults(), divides);
      });
  if (!isPossible)
    return false;
  auto divided = [&](Value value) {
    return withShape(value, *parts->divide(shapeOf(value)));
  };

  // The operands keep their shapes; the kernel reads them through reshapes.
  OpBuilder builder(region);
  for (auto [input, argument] :
       llvm::zip_equal(region->getOpOperands(), body.getArguments())) {
    RankedTensorType type = divided(argument);
    if (type != argument.getType())
      input.set(ReshapeOp::create(builder, region.getLoc(), type, input.get()));
    argument.setType(type);
  }
  for (Operation &op : body.without_terminator()) {
    for (Value result : op.getResults())
      result.setType(divided(result));
    if (auto constant = dyn_cast<ConstantOp>(op))
      constant.setValueAttr(
          cast<DenseElementsAttr>(constant.getValue())
              .resizeSplat(cast<ShapedType>(constant.getType())));
  }
  // Users outside the kernel read the results through reshapes to the old
  // shape.
  builder.setInsertionPointAfter(region);
  for (OpResult result : region->getResults()) {
    Type old = result.getType();
    result.setType(divided(result));
    if (result.use_empty())
      continue;
    auto view = ReshapeOp::create(builder, region.getLoc(), old, result);
    result.replaceAllUsesExcept(view.getOutput(), view);
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

void mpc::fuseTranspose(RegionOp region, OpResult result,
                        TransposeOp transpose) {
  auto movement = transpose->getParentOfType<RegionOp>();
  Operation *yield = region.getBody().front().getTerminator();
  OpOperand &yielded = yield->getOpOperand(result.getResultNumber());
  OpBuilder builder(yield);
  IRMapping mapping;
  mapping.map(transpose.getInput(), yielded.get());
  yielded.set(builder.clone(*transpose, mapping)->getResult(0));
  result.setType(cast<RankedTensorType>(yielded.get().getType()));
  movement.getResult(0).replaceAllUsesWith(result);
  movement.erase();
}

bool mpc::isStoredByElement(RegionOp region, unsigned number) {
  Block &body = region.getBody().front();
  Value yielded = body.getTerminator()->getOperand(number);
  Operation *maker = yielded.getDefiningOp();
  if (!maker || !hasRole(maker, RegionRole::Elementwise))
    return false;
  for (Operation &op : body)
    if (auto reduction = dyn_cast<ReductionOpInterface>(op))
      return reduction.getReductionParts() == 1 &&
             shapeOf(op.getOperand(0)) == shapeOf(yielded);
  return true;
}

/// Lets the kernel of `region` store `result` in the order of a transpose, if
/// the transpose is the only user of `result`, directly or through views that
/// split axes.
static void foldResult(RegionOp region, OpResult result) {
  Value moved = result;
  SmallVector<ReshapeOp> views;
  auto findOnlyUser = [](Value value) {
    return value.hasOneUse() ? *value.user_begin() : nullptr;
  };
  while (auto view = dyn_cast_or_null<ReshapeOp>(findOnlyUser(moved))) {
    views.push_back(view);
    moved = view.getOutput();
  }
  auto transpose =
      dyn_cast_or_null<TransposeOp>(findMovement(findOnlyUser(moved)));
  if (!transpose || !movesRows(transpose) ||
      !isStoredByElement(region, result.getResultNumber()))
    return;
  // A view between the kernel and the transpose changes the shape. The kernel
  // must compute in the shape that the transpose reads.
  if (!views.empty()) {
    if (!KernelHero::get(region.getKind()).isElementwise() ||
        !divideAxes(region, shapeOf(moved)))
      return;
    // divideAxes added a view back to the old shape; erase all views in
    // between.
    views.insert(views.begin(),
                 views.front().getInput().getDefiningOp<ReshapeOp>());
    moved.replaceAllUsesWith(result);
    for (ReshapeOp view : llvm::reverse(views))
      view.erase();
  }
  fuseTranspose(region, result, transpose);
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// True if the kernel that reads `operand` can take rows in any order, and
/// reads `operand` element by element.
static bool isReadInAnyOrder(OpOperand &operand) {
  auto region = dyn_cast<RegionOp>(operand.getOwner());
  return region && takesAnyOrder(region) && isReadByElement(operand);
}

/// Lets all users of `movement`, a transpose of rows, read the source in place.
/// Erases `movement` if all can.
static void foldOperand(RegionOp movement, TransposeOp transpose) {
  Value moved = movement.getResult(0);
  if (moved.use_empty() || !llvm::all_of(moved.getUses(), isReadInAnyOrder))
    return;
  for (OpOperand &use : llvm::make_early_inc_range(moved.getUses()))
    readThrough(use, transpose);
  movement.erase();
}

void mpc::foldTransposesIntoKernels(Block &block) {
  // First fold transposes into the kernels that produce the operand. These
  // kernels then store in transposed order, and all users read adjacent rows.
  SmallVector<RegionOp> makers;
  llvm::copy_if(block.getOps<RegionOp>(), std::back_inserter(makers),
                takesAnyOrder);
  for (RegionOp region : makers)
    for (OpResult result : region->getResults())
      foldResult(region, result);
  for (RegionOp region : llvm::make_early_inc_range(block.getOps<RegionOp>()))
    if (auto transpose = dyn_cast_or_null<TransposeOp>(findMovement(region));
        transpose && movesRows(transpose))
      foldOperand(region, transpose);
}
