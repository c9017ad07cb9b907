// The iteration spaces of kernels: the shape of each hero, reduced to the few
// axes that loops, strides and slices depend on.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_KERNELS_KERNELSPACE_H
#define MPC_COMPILER_KERNELS_KERNELSPACE_H

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace mpc {

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

/// Returns the shape of a kernel's first result.
llvm::ArrayRef<int64_t> getResultShape(mlir::func::FuncOp kernel);

/// Returns the iteration shape of a pointwise kernel: the shape of the first
/// computed result. A final transpose, concat or plan.place only decides where
/// values are stored, so the function looks through these ops.
llvm::ArrayRef<int64_t> getElementShape(mlir::func::FuncOp kernel);

/// Returns the first axis of `space` such that each operand of a pointwise
/// kernel, over all axes from there on, is either dense or one repeated value.
/// Returns 0 if all broadcast operands are scalars. If a transpose permutes the
/// rows, returns the last axis or the rank.
size_t findUniformAxis(mlir::func::FuncOp kernel,
                       llvm::ArrayRef<int64_t> space);

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// A reduction over adjacent axes, seen as (outer, reduced, inner). The result
/// has outer * inner elements. Reducing axis 1 of [2, 3, 4] gives (2, 3, 4).
struct ReductionSpace {
  int64_t outer = 1, reduced = 1, inner = 1;
};

/// Returns the space of a reduction of `shape` over `axes`; nullopt if the axes
/// are not adjacent. Axes of size 1 do not count.
std::optional<ReductionSpace> getReductionSpace(llvm::ArrayRef<int64_t> shape,
                                                llvm::ArrayRef<int64_t> axes);

/// Returns the axes that a reduction reduces; nullopt for any other op.
std::optional<llvm::SmallVector<int64_t>> getReducedAxes(mlir::Operation *op);

/// Returns the space of reduction `op`. If the reduction sums its axis in equal
/// parts (getReductionParts), one result per part, the parts count as outer.
std::optional<ReductionSpace> getReductionSpace(mlir::Operation *op);

/// True if reduction `op` reduces the trailing axes.
bool reducesRows(mlir::Operation *op);

/// Finds the reduction that determines the space of a region or kernel: the
/// first reduction of rows, or else the first of columns. Null if `body` has no
/// reduction.
mlir::Operation *findReduction(mlir::Block &body);

/// Returns the space of a kernel that reduces.
ReductionSpace getReductionSpace(mlir::func::FuncOp kernel);

//===----------------------------------------------------------------------===//
// Contractions
//===----------------------------------------------------------------------===//

/// True if `contraction` reads or writes f64; its sums are then f64.
bool isF64(mlir::Operation *contraction);

/// A matrix product in the form of libraries and Tensor Cores: `batch` products
/// of m x k by k x n. A batch that shares the right operand becomes rows of a
/// single product if all rows of the left operand are equally far apart.
struct ProductExtents {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool repeatsLhs = false, repeatsRhs = false;
};
ProductExtents getProductExtents(MatMulOp matmul);

//===----------------------------------------------------------------------===//
// Scatters
//===----------------------------------------------------------------------===//

/// The result of a scatter, seen as `outer` x `size` rows of `inner` elements.
/// Each index names one of `size` rows. For each of the `outer` indices there
/// are `updates` consecutive rows of updates.
struct ScatterSpace {
  int64_t outer = 1, size = 1, inner = 1, updates = 1;
};
ScatterSpace getScatterSpace(ScatterOpInterface scatter);

/// Finds the scatter of a kernel; null if the kernel has no scatter.
ScatterOpInterface findScatter(mlir::Block &body);
ScatterSpace getScatterSpace(mlir::func::FuncOp kernel);

//===----------------------------------------------------------------------===//
// Cumulative sums
//===----------------------------------------------------------------------===//

/// A tensor seen as `outer` x `inner` lines of `size` elements. Neighbours in a
/// line are `inner` elements apart.
struct CumulativeSpace {
  int64_t outer = 1, size = 1, inner = 1;
};
CumulativeSpace getCumulativeSpace(CumSumOp sum);

/// Returns the space of a kernel that is a cumulative sum.
CumulativeSpace getCumulativeSpace(mlir::func::FuncOp kernel);

//===----------------------------------------------------------------------===//
// Transposes
//===----------------------------------------------------------------------===//

/// An axis of a transpose's result: its size and the distance between
/// neighbours along it in the input.
struct MovedAxis {
  int64_t size = 1, stride = 1;
};

/// A transpose's result as rows and columns; the columns are the last axis.
/// Adjacent row axes merge if one stride describes both in the input.
struct TransposeSpace {
  llvm::SmallVector<MovedAxis> rows;
  MovedAxis columns;

  /// True if the transpose exchanges rows and columns, so that reads are
  /// contiguous along the last row axis and writes along the columns. GPU
  /// kernels then go through tiles.
  bool turnsMatrices() const {
    return columns.size > 1 && columns.stride > 1 && !rows.empty() &&
           rows.back().stride == 1;
  }
};
TransposeSpace getTransposeSpace(TransposeOp transpose);

/// True if `op` only decides where a kernel stores its result: a transpose that
/// keeps rows whole and is read by nothing but the terminator, or by the
/// plan.place that stores the result in a larger tensor.
bool isArrangement(mlir::Operation *op);

/// True if a part of `sizes` elements of a tensor of shape `whole` is
/// contiguous along its innermost axis of more than one element, as vectors
/// require. False for the real parts of complex numbers: (8, 1) of (8, 2).
bool isContiguousPart(llvm::ArrayRef<int64_t> sizes,
                      llvm::ArrayRef<int64_t> whole);

/// True if `op` only selects the part of an argument that a kernel loads: a
/// slice without steps that is contiguous along the innermost axis.
bool isLoadedPart(mlir::Operation *op);

/// True if `op` only decides where a kernel stores computed values: a concat of
/// equal shapes, read by the terminator alone, whose inputs become contiguous
/// parts of the result.
bool isStoredJoin(mlir::Operation *op);

/// True if `op` only decides where a kernel stores a computed value: a
/// plan.place into a box of a larger tensor, read by the terminator alone.
bool isStoredPlaced(mlir::Operation *op);

/// True if the kernel computes new values for exactly the box that `slice`
/// loads, and stores the box back to the same place in a result of the
/// argument's type. The result may then use the argument's memory: nothing else
/// reads the overwritten elements.
bool isStoredWhereLoaded(SliceOp slice);

/// True if `op` is a transpose that keeps rows whole. Kernels that loop along
/// rows can read and store through such a transpose.
bool keepsRows(mlir::Operation *op);

/// Merges adjacent axes of a strided copy if one stride describes both.
llvm::SmallVector<MovedAxis> mergeAxes(llvm::ArrayRef<MovedAxis> axes);

/// The tile of a transpose's result that a GPU block writes.
struct TransposeTile {
  int64_t rows, columns;
};

/// Chooses a tile of 32 x 32. If the result has fewer than 32 rows, the tile
/// has all rows and many columns, up to 2048 elements; likewise for fewer than
/// 32 columns. The tile of a result of (50176, 3), an image with channels last,
/// has 672 rows of 3.
TransposeTile getTransposeTile(const TransposeSpace &space);

} // namespace mpc

#endif // MPC_COMPILER_KERNELS_KERNELSPACE_H
