// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/Heroes/Partitions.h"

#include "compiler/Dialect/Plan/Plan.h"
#include "compiler/Kernels/KernelSpace.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// CPU
//===----------------------------------------------------------------------===//

/// More slices than this do not improve the balance on one socket.
static constexpr int64_t kMaxSlices = 64;

KernelPartition heroes::slice(int64_t extent, int64_t inner, int64_t unit,
                              int64_t work) {
  // Callers may compute `unit` from the shape, and pass 0 for a tensor without
  // elements.
  unit = std::max<int64_t>(1, unit);
  int64_t grain = std::max<int64_t>(1, work / std::max<int64_t>(1, inner));
  grain = std::max(grain, llvm::divideCeilSigned(extent, kMaxSlices));
  grain = llvm::divideCeilSigned(grain, unit) * unit;
  return {extent, grain, inner};
}

KernelPartition heroes::sliceRows(func::FuncOp kernel) {
  ArrayRef<int64_t> space = getResultShape(kernel);
  if (space.empty())
    return {1, 1, 1};
  return slice(ShapedType::getNumElements(space.drop_back()), space.back());
}

//===----------------------------------------------------------------------===//
// GPU
//===----------------------------------------------------------------------===//

int64_t heroes::countRounds(int64_t extent, int64_t work,
                            int64_t enoughBlocks) {
  return std::max<int64_t>(
      1, llvm::divideCeilSigned(llvm::divideCeilSigned(extent, work),
                                enoughBlocks));
}

int64_t heroes::vectorOf(func::FuncOp kernel, int64_t run,
                         const TargetInfo &target) {
  unsigned bits = 64;
  auto visit = [&](Type type) {
    auto tensor = cast<RankedTensorType>(type);
    if (isa<FloatType>(tensor.getElementType()) && tensor.getNumElements() > 1)
      bits = std::min(bits, tensor.getElementTypeBitWidth());
  };
  llvm::for_each(kernel.getArgumentTypes(), visit);
  llvm::for_each(kernel.getResultTypes(), visit);
  int64_t vector = target.getVectorBits() / bits;
  while (vector > 1 && run % vector != 0)
    vector /= 2;
  return vector;
}

// Returns a common divisor of all element offsets at which a row of a loaded or
// stored float tensor begins; 0 if no tensor has several rows of several
// elements.
static int64_t findRowUnit(func::FuncOp kernel) {
  int64_t unit = 0;
  auto visit = [&](Type type) {
    auto tensor = cast<RankedTensorType>(type);
    ArrayRef<int64_t> shape = tensor.getShape();
    if (isa<FloatType>(tensor.getElementType()) && !shape.empty() &&
        shape.back() > 1 && tensor.getNumElements() > shape.back())
      unit = std::gcd(unit, shape.back());
  };
  llvm::for_each(kernel.getArgumentTypes(), visit);
  llvm::for_each(kernel.getResultTypes(), visit);
  // If a kernel loads or stores only a box of a tensor, its rows may begin in
  // the middle of the tensor's rows.
  for (Operation &op : kernel.getBody().front()) {
    if (isLoadedPart(&op))
      unit = std::gcd(unit, cast<SliceOp>(op).getOffsets().back());
    if (isStoredJoin(&op))
      unit = std::gcd(unit, shapeOf(op.getOperand(0)).back());
    if (isStoredPlaced(&op))
      unit = std::gcd(unit, cast<plan::PlaceOp>(op).getFirstElement());
  }
  return unit;
}

int64_t heroes::vectorOfRows(func::FuncOp kernel, int64_t run,
                             const TargetInfo &target) {
  int64_t vector = vectorOf(kernel, run, target), unit = findRowUnit(kernel);
  return unit == 0 ? vector : std::max(vector, vectorOf(kernel, unit, target));
}

KernelPartition heroes::shareRows(int64_t rows, int64_t columns,
                                  int64_t vector) {
  int64_t lanes = std::min<int64_t>(
      llvm::PowerOf2Ceil(std::max<int64_t>(1, columns / vector)),
      kBlockThreads);
  int64_t teams = kBlockThreads / lanes;
  return {rows,    teams * countRounds(rows, teams),
          columns, kBlockThreads,
          lanes,   vector};
}

KernelPartition heroes::shareRows(func::FuncOp kernel,
                                  const TargetInfo &target) {
  ArrayRef<int64_t> shape = getResultShape(kernel);
  if (shape.empty())
    return {1, 1, 1, kWarp, kWarp, 1};
  return shareRows(ShapedType::getNumElements(shape.drop_back()), shape.back(),
                   vectorOf(kernel, shape.back(), target));
}
