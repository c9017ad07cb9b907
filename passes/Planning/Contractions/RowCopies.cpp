// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Contractions/RowCopies.h"

#include "compiler/Dialect/Plan/Plan.h"
#include "compiler/Kernels/KernelHero.h"

using namespace mlir;
using namespace mpc;

/// For shorter rows, starting a copy takes longer than the copy itself.
static constexpr int64_t kMinRowBytes = 256;
/// Up to this many bytes in total, copies are used even for short rows: a copy
/// is fast enough, and a kernel would have to be compiled.
static constexpr int64_t kFewBytes = 1 << 16;

/// A concat of at least this many tensors uses copies. A kernel for so many
/// tensors takes long to compile, and longer to start than the copies.
static constexpr size_t kManyInputs = 32;

// Returns the bytes that one index along `axis` spans.
static int64_t bytesBehind(Value tensor, size_t axis) {
  return ShapedType::getNumElements(shapeOf(tensor).drop_front(axis + 1)) *
         plan::getElementBytes(elementOf(tensor));
}

// True for many rows of a few bytes, such as 10,000 rows of 4 bytes: a kernel
// is faster than a memcpy per row.
static bool areTooShort(const RowCopy &copy) {
  return copy.rowBytes < kMinRowBytes && copy.rowBytes * copy.rows > kFewBytes;
}

static SmallVector<RowCopy> findSlice(SliceOp slice) {
  std::optional<int64_t> axis = findSlicedAxis(slice);
  if (!axis || !isDense(slice.getStrides()) ||
      elementOf(slice.getInput()) != elementOf(slice.getOutput()))
    return {};
  ArrayRef<int64_t> shape = shapeOf(slice.getInput());
  int64_t inner = bytesBehind(slice.getInput(), *axis);
  RowCopy copy;
  copy.rows = ShapedType::getNumElements(shape.take_front(*axis));
  copy.rowBytes = slice.getSizes()[*axis] * inner;
  copy.from = {slice.getOffsets()[*axis] * inner, shape[*axis] * inner};
  if (copy.rows == 0 || copy.rowBytes == 0 || areTooShort(copy))
    return {};
  return {copy};
}

static SmallVector<RowCopy> findJoin(ConcatOp join) {
  if (join.getInputs().size() < kManyInputs)
    return {};
  // In each row of the result, the rows of the inputs are adjacent.
  int64_t axis = join.getAxis();
  ArrayRef<int64_t> shape = shapeOf(join.getOutput());
  int64_t inner = bytesBehind(join.getOutput(), axis);
  SmallVector<RowCopy> copies;
  int64_t start = 0;
  for (Value input : join.getInputs()) {
    auto argument = dyn_cast<BlockArgument>(input);
    // A copy cannot compute or convert, so each input must be an argument of
    // the kernel with the result's element type.
    if (!argument || elementOf(input) != elementOf(join.getOutput()))
      return {};
    // Row r of the input goes to row r of the result, after previous inputs.
    RowCopy copy;
    copy.argument = argument.getArgNumber();
    copy.rows = ShapedType::getNumElements(shape.take_front(axis));
    copy.rowBytes = shapeOf(input)[axis] * inner;
    copy.from = {0, copy.rowBytes};
    copy.to = Rows{start, shape[axis] * inner};
    if (areTooShort(copy))
      return {};
    start += copy.rowBytes;
    if (copy.rows > 0 && copy.rowBytes > 0)
      copies.push_back(copy);
  }
  return copies;
}

SmallVector<RowCopy> mpc::findRowCopies(func::FuncOp kernel,
                                        const TargetInfo &target) {
  // Kernels of other kinds may load a slice or store a concat too, but they
  // also compute. Take only kinds that hold a single op.
  if (target.isGPU() || kernel.isExternal() ||
      KernelHero::get(*getKernelKind(kernel)).getCompany() != Company::None)
    return {};
  Operation &moved = kernel.getBody().front().front();
  if (auto slice = dyn_cast<SliceOp>(moved))
    return findSlice(slice);
  if (auto join = dyn_cast<ConcatOp>(moved))
    return findJoin(join);
  return {};
}
