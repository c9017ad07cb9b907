// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/SliceCopies.h"

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Dialect/Plan/Plan.h"

using namespace mlir;
using namespace mpc;

/// Shorter rows take a copy longer to begin with than to copy.
static constexpr int64_t kMinRowBytes = 256;
/// So little that it takes no time either way; compiling a loop for it does.
static constexpr int64_t kFewBytes = 1 << 16;

// The axis along which `slice` takes some of its tensor, if it is one.
static std::optional<size_t> findAxis(SliceOp slice) {
  std::optional<size_t> found;
  for (auto [axis, extent] : llvm::enumerate(shapeOf(slice.getInput()))) {
    if (slice.getSizes()[axis] == extent)
      continue;
    if (found)
      return std::nullopt;
    found = axis;
  }
  return found;
}

std::optional<SliceCopy> mpc::findSliceCopy(func::FuncOp kernel) {
  if (kernel.isExternal() || getKernelKind(kernel) != KernelKind::Movement)
    return std::nullopt;
  Block &body = kernel.getBody().front();
  auto slice = dyn_cast<SliceOp>(body.front());
  std::optional<size_t> axis = slice ? findAxis(slice) : std::nullopt;
  if (!axis)
    return std::nullopt;
  ArrayRef<int64_t> shape = shapeOf(slice.getInput());
  int64_t inner = ShapedType::getNumElements(shape.drop_front(*axis + 1)) *
                  plan::getElementBytes(elementOf(slice.getInput()));
  SliceCopy copy;
  copy.rows = ShapedType::getNumElements(shape.take_front(*axis));
  copy.offset = slice.getOffsets()[*axis] * inner;
  copy.stride = shape[*axis] * inner;
  int64_t rowBytes = slice.getSizes()[*axis] * inner;
  if (rowBytes == 0 ||
      (rowBytes < kMinRowBytes && rowBytes * copy.rows > kFewBytes))
    return std::nullopt;
  return copy;
}
