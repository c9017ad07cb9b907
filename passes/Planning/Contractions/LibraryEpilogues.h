// Recognises the ops around a matrix product that a GPU's library can fuse.
//
// The rules are those of cuBLASLt, which computes D = op(A) op(B) for
// column-major matrices. Row-major products are passed transposed: the rows of
// D are the columns of our result. So a bias, with an element per row of D, has
// an element per column of the result. Bias and bias gradient have the type of
// D, and D is rounded once, after everything. Only epilogues with exactly these
// semantics are fused: an f32 bias on a bf16 result is not.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PLANNING_CONTRACTIONS_LIBRARYEPILOGUES_H
#define MPC_PASSES_PLANNING_CONTRACTIONS_LIBRARYEPILOGUES_H

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Kernels/ContractionTable.h"

namespace mpc {

/// An epilogue of a contraction's region, classified by what libraries can
/// fuse.
struct LibraryEpilogue {
  enum class Kind {
    None,
    Bias,     ///< add of one value per column
    ReluBias, ///< a bias, then relu of the sum
    ReluGrad, ///< relu_grad with a saved tensor
    Other,
  };
  Kind kind = Kind::Other;
  /// The bias or the saved tensor, as an input of the region.
  mlir::Value operand;
};

/// Returns the epilogue of `region` that a library could fuse.
LibraryEpilogue getLibraryEpilogue(RegionOp region);

/// Returns the column sums of `matrix` (the sum over all rows), if a kernel
/// computes nothing but this sum; null otherwise. `matrix` is seen as rows of
/// `columns` elements.
mlir::Value findSumOfRows(mlir::Value matrix, int64_t columns);

} // namespace mpc

#endif // MPC_PASSES_PLANNING_CONTRACTIONS_LIBRARYEPILOGUES_H
