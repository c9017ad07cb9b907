// What kernels iterate over: the shapes of their heroes as few axes as say
// everything that loops, strides and slices depend on.
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

/// The shape of a kernel's first result.
llvm::ArrayRef<int64_t> getResultShape(mlir::func::FuncOp kernel);

/// The shape that a pointwise kernel loops over: that of its first result, in
/// front of a transpose, a join or padding that only says where values are
/// stored.
llvm::ArrayRef<int64_t> getElementShape(mlir::func::FuncOp kernel);

/// The first axis of `space` from which on every operand of a pointwise kernel
/// is dense or one value; 0 where nothing is broadcast but scalars. The last
/// one where something is read or stored in another order.
size_t findUniformAxis(mlir::func::FuncOp kernel,
                       llvm::ArrayRef<int64_t> space);

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// A reduction over adjacent axes seen as (outer, reduced, inner): the result
/// has outer * inner elements.
struct ReductionSpace {
  int64_t outer = 1, reduced = 1, inner = 1;
};

/// The space of a reduction of `shape` over `axes`; nothing where the axes,
/// those of size 1 aside, are not adjacent.
std::optional<ReductionSpace> getReductionSpace(llvm::ArrayRef<int64_t> shape,
                                                llvm::ArrayRef<int64_t> axes);

/// The axes an op of role Reduction reduces, or nothing for any other op.
std::optional<llvm::SmallVector<int64_t>> getReducedAxes(mlir::Operation *op);

/// The space of reduction `op`: parts of an axis count as outer.
std::optional<ReductionSpace> getReductionSpace(mlir::Operation *op);

/// Whether reduction `op` leaves nothing behind what it reduces.
bool reducesRows(mlir::Operation *op);

/// The reduction in the body of a region or kernel whose space the others
/// share: the first of rows, or of columns where there is none of rows; null
/// where there is neither.
mlir::Operation *findReduction(mlir::Block &body);

/// The space of a kernel that reduces.
ReductionSpace getReductionSpace(mlir::func::FuncOp kernel);

//===----------------------------------------------------------------------===//
// Contractions
//===----------------------------------------------------------------------===//

/// Whether `contraction` reads or writes f64, and so is summed in it.
bool isF64(mlir::Operation *contraction);

/// A matrix product as libraries and Tensor Cores do it: `batch` times m x n, k
/// deep. Batches that share the right operand are rows of a single product,
/// where those of the left one are equally far apart.
struct ProductExtents {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool repeatsLhs = false, repeatsRhs = false;
};
ProductExtents getProductExtents(MatMulOp matmul);

//===----------------------------------------------------------------------===//
// Scatters
//===----------------------------------------------------------------------===//

/// The result of a scatter: `outer` times `size` parts of `inner` elements, of
/// which indices name one each. For every index of `outer` there are `updates`
/// of them, one after the other.
struct ScatterSpace {
  int64_t outer = 1, size = 1, inner = 1, updates = 1;
};
ScatterSpace getScatterSpace(ScatterOpInterface scatter);

/// The scatter of a kernel; null where it has none.
ScatterOpInterface findScatter(mlir::Block &body);
ScatterSpace getScatterSpace(mlir::func::FuncOp kernel);

//===----------------------------------------------------------------------===//
// Cumulative sums
//===----------------------------------------------------------------------===//

/// A tensor as `outer` times `inner` lines of `size` elements, which are
/// `inner` apart.
struct CumulativeSpace {
  int64_t outer = 1, size = 1, inner = 1;
};
CumulativeSpace getCumulativeSpace(CumSumOp sum);

/// The space of a kernel that is a cumulative sum.
CumulativeSpace getCumulativeSpace(mlir::func::FuncOp kernel);

//===----------------------------------------------------------------------===//
// Transposes
//===----------------------------------------------------------------------===//

/// An axis of a transpose's result: its size and the distance between
/// neighbours along it in the input.
struct MovedAxis {
  int64_t size = 1, stride = 1;
};

/// The rows and the columns of a transpose's result, its last axis. Adjacent
/// axes of the rows that lie alike in the input are one.
struct TransposeSpace {
  llvm::SmallVector<MovedAxis> rows;
  MovedAxis columns;

  /// Whether it turns columns into rows: reading along the last of the rows and
  /// writing along the columns are both contiguous.
  bool turnsMatrices() const {
    return columns.size > 1 && columns.stride > 1 && !rows.empty() &&
           rows.back().stride == 1;
  }
};
TransposeSpace getTransposeSpace(TransposeOp transpose);

/// Whether `op` only says where a kernel stores its result: a transpose that
/// keeps rows whole, which nothing reads but the terminator, or what places the
/// result in a larger tensor.
bool isArrangement(mlir::Operation *op);

/// Whether neighbours along the innermost axis of a part of `sizes` elements,
/// of a tensor of `whole`, lie side by side, as vectors want them. The real
/// parts of complex numbers do not: (8, 1) of (8, 2).
bool isContiguousPart(llvm::ArrayRef<int64_t> sizes,
                      llvm::ArrayRef<int64_t> whole);

/// Whether `op` only says which part of an argument a kernel loads: a
/// contiguous one of neighbours along every axis.
bool isLoadedPart(mlir::Operation *op);

/// Whether `op` only says where a kernel stores what it computed: values of one
/// shape as contiguous parts of one result, a concat that nothing reads but the
/// terminator.
bool isStoredJoin(mlir::Operation *op);

/// Whether `op` only says where a kernel stores what it computed: in a box of a
/// larger tensor, a plan.place that nothing reads but the terminator.
bool isStoredPlaced(mlir::Operation *op);

/// Whether the part that `slice` loads is one that its kernel stores, in a
/// result of the argument's type. The result may then be the argument's memory:
/// no other element reads what is overwritten.
bool isStoredWhereLoaded(SliceOp slice);

/// Whether `op` is a transpose that keeps rows whole: a kernel whose loops go
/// along rows can read and store through it.
bool keepsRows(mlir::Operation *op);

/// The same merging for the rows of any strided copy.
llvm::SmallVector<MovedAxis> mergeAxes(llvm::ArrayRef<MovedAxis> axes);

/// The tile of its result that a block of a GPU transposes.
struct TransposeTile {
  int64_t rows, columns;
};

/// A square of 32; where there are fewer rows or columns, all of them, and as
/// many of the others as make some elements for each thread: of images with
/// channels last, (50176, 3), 672 rows of 3.
TransposeTile getTransposeTile(const TransposeSpace &space);

} // namespace mpc

#endif // MPC_COMPILER_KERNELS_KERNELSPACE_H
