// Lets products read what transposes and slices move where it was before, and
// write what a transpose moves where it will be; and lets everything read a
// slice whose elements lie side by side where it is.
//
// Such a kernel reads and writes every element once and computes nothing. A
// library on a CPU takes the distance between rows and between matrices as it
// is, so there is nothing to move: the heads of an attention, for example, are
// columns of one large matrix. Rows 16 to 31 of the weights of an LSTM, those
// of one gate, are a matrix like any other.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Movement.h"
#include "passes/Planning/Passes.h"

#include "compiler/Dialect/MPC/Target.h"
#include "compiler/Kernels/KernelSpace.h"

#include "mlir/IR/IRMapping.h"

namespace mpc {
#define GEN_PASS_DEF_FOLDMOVEMENTPASS
#include "passes/Planning/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Where elements lie
//===----------------------------------------------------------------------===//

namespace {
/// The elements of a value in the memory of another.
struct Access {
  int64_t offset = 0;
  SmallVector<int64_t> shape, strides;

  explicit Access(ArrayRef<int64_t> dense);
  void transpose(ArrayRef<int64_t> perm);
  void slice(ArrayRef<int64_t> offsets, ArrayRef<int64_t> sizes);
  void expand(ArrayRef<int64_t> to);
  /// False where an axis of the new shape would have no one stride.
  bool reshape(ArrayRef<int64_t> to);
};
} // namespace

Access::Access(ArrayRef<int64_t> dense)
    : shape(dense), strides(plan::getDenseStrides(dense)) {}

void Access::transpose(ArrayRef<int64_t> perm) {
  SmallVector<int64_t> oldShape = shape, oldStrides = strides;
  for (auto [axis, from] : llvm::enumerate(perm)) {
    shape[axis] = oldShape[from];
    strides[axis] = oldStrides[from];
  }
}

void Access::slice(ArrayRef<int64_t> offsets, ArrayRef<int64_t> sizes) {
  for (auto [start, stride] : llvm::zip_equal(offsets, strides))
    offset += start * stride;
  shape = SmallVector<int64_t>(sizes);
}

// Where an axis is repeated, the next element is the same one.
void Access::expand(ArrayRef<int64_t> to) {
  SmallVector<int64_t> result(to.size(), 0);
  size_t missing = to.size() - shape.size();
  for (auto [axis, extent] : llvm::enumerate(shape))
    result[missing + axis] = extent == 1 ? 0 : strides[axis];
  shape = SmallVector<int64_t>(to);
  strides = result;
}

// Axes that lie in each other, like the rows and columns of a dense matrix, are
// one run of elements; each new axis is a part of a run. (6, 4) with strides
// (8, 1) is two runs: it can become (2, 3, 4), with strides (24, 8, 1), not 24.
bool Access::reshape(ArrayRef<int64_t> to) {
  struct Run {
    int64_t extent, stride;
  };
  // Merge neighbouring axes into runs; axes of size 1 belong to none.
  SmallVector<Run> runs;
  for (auto [extent, stride] : llvm::zip_equal(shape, strides)) {
    if (extent == 1)
      continue;
    if (!runs.empty() && runs.back().stride == stride * extent)
      runs.back() = {runs.back().extent * extent, stride};
    else
      runs.push_back({extent, stride});
  }
  // Split the runs into the new axes, the innermost first.
  SmallVector<int64_t> result(to.size(), 1);
  for (size_t axis = to.size(); axis-- > 0;) {
    if (to[axis] == 1)
      continue;
    if (runs.empty() || runs.back().extent % to[axis] != 0)
      return false;
    result[axis] = runs.back().stride;
    runs.back().extent /= to[axis];
    runs.back().stride *= to[axis];
    if (runs.back().extent == 1)
      runs.pop_back();
  }
  shape = SmallVector<int64_t>(to);
  strides = result;
  return true;
}

//===----------------------------------------------------------------------===//
// What moves
//===----------------------------------------------------------------------===//

/// Whether `op` is a kernel that moves, or a view.
static bool moves(Operation *op) {
  return op && (isa<ReshapeOp>(op) || findMovement(op));
}

/// Makes `access`, which reads the operand of `op`, read its result. False
/// where no strides do that.
static bool follow(Operation *op, Access &access) {
  if (isa<ReshapeOp>(op))
    return access.reshape(shapeOf(op->getResult(0)));
  Operation *movement = findMovement(op);
  if (auto transpose = dyn_cast<TransposeOp>(movement))
    access.transpose(transpose.getPerm());
  else if (auto slice = dyn_cast<SliceOp>(movement))
    access.slice(slice.getOffsets(), slice.getSizes());
  else
    access.expand(shapeOf(movement->getResult(0)));
  return true;
}

/// Whether a library can read matrices there: rows of adjacent elements, none
/// of which begins within another.
static bool isMatrices(const Access &access) {
  size_t rank = access.shape.size();
  int64_t columns = access.shape[rank - 1], rows = access.shape[rank - 2];
  return (columns == 1 || access.strides[rank - 1] == 1) &&
         (rows == 1 || access.strides[rank - 2] >= columns);
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// The access of `value` from the farthest source that a library can read it
/// in; null where that is `value` itself.
static Value findSource(Value value, std::optional<Access> &found) {
  // The ops that lead to the value, the last one first.
  SmallVector<Operation *> path;
  Value source;
  for (Value next = value; moves(next.getDefiningOp());) {
    path.push_back(next.getDefiningOp());
    next = path.back()->getOperand(0);
    Access access(shapeOf(next));
    bool reaches = llvm::all_of(
        llvm::reverse(path), [&](Operation *op) { return follow(op, access); });
    if (reaches && findMovement(path.back()) && isMatrices(access)) {
      source = next;
      found = access;
    }
  }
  return source;
}

/// A product that the library does; null for any other region.
static MatMulOp findProduct(RegionOp region) {
  if (region.getKind() != KernelKind::Contraction ||
      region.getProvider() != ContractionProvider::Library)
    return nullptr;
  return dyn_cast<MatMulOp>(region.getContraction());
}

static void foldOperands(RegionOp region, MatMulOp product) {
  for (OpOperand &input : region->getOpOperands()) {
    BlockArgument argument =
        region.getBody().getArgument(input.getOperandNumber());
    bool isOperand = !argument.use_empty() &&
                     llvm::all_of(argument.getUsers(), [&](Operation *user) {
                       return user == product;
                     });
    std::optional<Access> access;
    Value source = isOperand ? findSource(input.get(), access) : Value();
    if (!source)
      continue;
    OpBuilder builder(region);
    input.set(plan::AccessOp::create(builder, region.getLoc(),
                                     input.get().getType(), source,
                                     access->offset, access->strides));
  }
}

//===----------------------------------------------------------------------===//
// Slices side by side
//===----------------------------------------------------------------------===//

/// The first element of a slice whose elements lie side by side; nothing for
/// others. Of (8, 4, 16), one index of the first axis and a range of the second
/// are such a slice, a range of the third is none.
static std::optional<int64_t> findSection(SliceOp slice) {
  ArrayRef<int64_t> whole = shapeOf(slice.getInput()), sizes = slice.getSizes();
  // Behind the first axis with several elements, all axes are whole.
  const int64_t *several =
      llvm::find_if(sizes, [](int64_t size) { return size != 1; });
  size_t axis = several - sizes.begin();
  if (axis < sizes.size() &&
      sizes.drop_front(axis + 1) != whole.drop_front(axis + 1))
    return std::nullopt;
  int64_t offset = 0;
  for (auto [start, stride] :
       llvm::zip_equal(slice.getOffsets(), plan::getDenseStrides(whole)))
    offset += start * stride;
  return offset;
}

/// Whether the function gives `value`, or a view of it, to its caller, who
/// decides where it lies.
static bool isReturned(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    return user->hasTrait<OpTrait::IsTerminator>() ||
           (isa<ReshapeOp>(user) && isReturned(user->getResult(0)));
  });
}

/// Makes a view of a kernel that only copies elements which lie side by side.
static void foldSection(RegionOp region, const TargetInfo &target) {
  auto slice = dyn_cast_or_null<SliceOp>(findMovement(region));
  std::optional<int64_t> offset = slice ? findSection(slice) : std::nullopt;
  if (!offset)
    return;
  Value source = region->getOperand(0), result = region.getResult(0);
  if (typeOf(result).getNumElements() == 0 || isReturned(result) ||
      !isWorthKeeping(source, result))
    return;
  // Kernels on a GPU load vectors.
  int64_t bytes = *offset * plan::getElementBytes(elementOf(source));
  if (target.isGPU() && bytes % TargetInfo::kGPUAlignment != 0)
    return;
  OpBuilder builder(region);
  result.replaceAllUsesWith(
      plan::AccessOp::create(builder, region.getLoc(), result.getType(), source,
                             *offset, plan::getDenseStrides(shapeOf(result))));
  region.erase();
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

/// The transpose that alone reads `result`, in a kernel of its own, and keeps
/// rows whole; null where there is none.
static TransposeOp findArrangement(Value result) {
  if (!result.hasOneUse())
    return nullptr;
  auto transpose =
      dyn_cast_or_null<TransposeOp>(findMovement(*result.user_begin()));
  return transpose && isArrangement(transpose) ? transpose : TransposeOp();
}

/// Whether the library computes all that the region yields: it writes the
/// product where `plan.arrange` says, and calls no kernel.
static bool isBareLibraryProduct(RegionOp region) {
  Operation *yield = region.getBody().front().getTerminator();
  return region.getProvider() == ContractionProvider::Library &&
         yield->getNumOperands() == 1 &&
         yield->getOperand(0) == region.getContraction()->getResult(0);
}

/// Lets the library write a product as `transpose` would.
static void arrange(RegionOp region, TransposeOp transpose) {
  auto movement = transpose->getParentOfType<RegionOp>();
  OpBuilder builder(region.getContext());
  builder.setInsertionPointAfter(region);
  auto arrange = plan::ArrangeOp::create(
      builder, movement.getLoc(), movement.getResult(0).getType(),
      region.getResult(0), transpose.getPerm());
  movement.getResult(0).replaceAllUsesWith(arrange.getOutput());
  movement.erase();
}

/// Lets the kernel of `region` store a result as `transpose` would.
static void absorb(RegionOp region, OpResult result, TransposeOp transpose) {
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

/// Lets a contraction, or the kernel that follows it, write what a transpose of
/// a result, its only reader, gives.
static void foldResults(RegionOp region) {
  for (OpResult result : region->getResults()) {
    TransposeOp transpose = findArrangement(result);
    if (!transpose)
      continue;
    if (isBareLibraryProduct(region))
      arrange(region, transpose);
    else
      absorb(region, result, transpose);
  }
}

namespace {
struct FoldMovementPass
    : public mpc::impl::FoldMovementPassBase<FoldMovementPass> {
  using FoldMovementPassBase::FoldMovementPassBase;
  void runOnOperation() override;
};
} // namespace

// Products of libraries on a CPU, their operands first.
static void foldProducts(Block &block) {
  SmallVector<RegionOp> products;
  for (auto region : block.getOps<RegionOp>())
    if (region.getKind() == KernelKind::Contraction &&
        isa<MatMulOp>(region.getContraction()))
      products.push_back(region);
  for (RegionOp region : products)
    if (MatMulOp product = findProduct(region))
      foldOperands(region, product);
  // Kernels whose results nobody reads any more.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
  for (RegionOp region : products)
    foldResults(region);
}

void FoldMovementPass::runOnOperation() {
  func::FuncOp function = getOperation();
  if (function.isExternal() || getKernelKind(function))
    return;
  TargetInfo target = getTarget(function);
  Block &block = function.getBody().front();
  // A GPU's library takes one stride for all of a batch.
  if (!target.isGPU())
    foldProducts(block);
  for (auto region : llvm::make_early_inc_range(block.getOps<RegionOp>()))
    foldSection(region, target);
}
