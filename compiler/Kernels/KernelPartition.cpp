// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/KernelPartition.h"

#include "compiler/Kernels/GPUPartition.h"
#include "compiler/Kernels/KernelSegments.h"
#include "compiler/Kernels/KernelSpace.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Partition
//===----------------------------------------------------------------------===//

/// A slice has about this many elements: microseconds of work, so that handing
/// it out costs little and a few threads still share a mid-sized tensor.
static constexpr int64_t kSliceElements = 16384;
/// More slices than this help no load balance on one socket.
static constexpr int64_t kMaxSlices = 64;
/// Columns of a column reduction that one slice owns: whole cache lines.
static constexpr int64_t kColumnBlock = 64;
/// Multiply-adds of a slice of a generated contraction.
static constexpr int64_t kSliceProducts = 1 << 20;
/// Rows of a generated contraction that are summed at once, and those of the
/// gradient of a convolution's weights, which lie in the lanes of a vector.
static constexpr int64_t kRowBlock = 4, kWeightRowBlock = 8;

// Slices of whole multiples of `unit` indices, each about `work` elements where
// one index is `inner` elements.
static KernelPartition partition(int64_t extent, int64_t inner,
                                 int64_t unit = 1,
                                 int64_t work = kSliceElements) {
  int64_t grain = std::max<int64_t>(1, work / std::max<int64_t>(1, inner));
  grain = std::max(grain, llvm::divideCeilSigned(extent, kMaxSlices));
  grain = llvm::divideCeilSigned(grain, unit) * unit;
  return {extent, grain, inner};
}

static KernelPartition partitionPointwise(func::FuncOp kernel) {
  if (isSegmented(kernel))
    return {getSegmentedExtent(kernel, kSliceElements), kSliceElements, 1};
  ArrayRef<int64_t> space = getResultShape(kernel);
  size_t axis = findUniformAxis(kernel, space);
  // Nothing is broadcast but scalars: one index is one element.
  if (axis == 0)
    return partition(ShapedType::getNumElements(space), 1, kColumnBlock);
  return partition(ShapedType::getNumElements(space.take_front(axis)),
                   ShapedType::getNumElements(space.drop_front(axis)));
}

static KernelPartition partitionColumns(const ReductionSpace &space) {
  // A slice owns whole blocks of columns, or whole groups of columns where
  // these are few.
  int64_t unit = std::min(space.inner, kColumnBlock);
  return partition(space.outer * space.inner, 1, unit,
                   kSliceElements / std::max<int64_t>(1, space.reduced));
}

static KernelPartition partitionContraction(func::FuncOp kernel) {
  Operation *contraction = findContraction(kernel.getBody().front());
  ContractionSpace space = getContractionSpace(contraction);
  int64_t block =
      isa<ConvWeightGradOp>(contraction) ? kWeightRowBlock : kRowBlock;
  KernelPartition result =
      partition(space.rows, space.columns * space.depth, block, kSliceProducts);
  result.inner = space.columns;
  return result;
}

static KernelPartition partitionRows(func::FuncOp kernel) {
  ArrayRef<int64_t> space = getResultShape(kernel);
  if (space.empty())
    return {1, 1, 1};
  return partition(ShapedType::getNumElements(space.drop_back()), space.back());
}

KernelPartition mpc::getKernelPartition(func::FuncOp kernel) {
  switch (*getKernelKind(kernel)) {
  case KernelKind::Pointwise:
    return partitionPointwise(kernel);
  case KernelKind::RowReduce: {
    if (isSegmented(kernel))
      return {getSegmentedExtent(kernel, 1), 1, 1};
    ReductionSpace space = getReductionSpace(kernel);
    return partition(space.outer, space.reduced);
  }
  case KernelKind::ColumnReduce:
    return partitionColumns(getReductionSpace(kernel));
  case KernelKind::Contraction:
    return partitionContraction(kernel);
  case KernelKind::Window:
  case KernelKind::Movement:
    return partitionRows(kernel);
  case KernelKind::Epilogue:
    break;
  }
  llvm_unreachable("an epilogue is called per tile");
}

KernelPartition mpc::getKernelPartition(func::FuncOp kernel,
                                        const TargetInfo &target) {
  return target.isGPU() ? getGPUPartition(kernel, target)
                        : getKernelPartition(kernel);
}
