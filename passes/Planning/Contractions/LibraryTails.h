// What a GPU's library takes over of the ops around a matrix product.
//
// The rules are those of cuBLASLt. It computes D = op(A) op(B) for matrices
// stored by columns, so a product stored by rows is handed over transposed: D's
// rows are our columns, and a bias, which has an element for each of D's rows,
// is one for each of our columns. Bias and its gradient have D's type, and D is
// rounded once, after everything. Hence a tail is taken over only where that is
// what the IR says: a bias of f32 on a result of bf16 is not.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PLANNING_CONTRACTIONS_LIBRARYTAILS_H
#define MPC_PASSES_PLANNING_CONTRACTIONS_LIBRARYTAILS_H

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Kernels/ContractionTable.h"

namespace mpc {

/// The tail of a contraction's region, as far as libraries know such tails.
struct LibraryTail {
  enum class Kind {
    None,
    Bias,     ///< add of one value a column
    ReluBias, ///< and relu of the sum
    ReluGrad, ///< relu_grad by a saved tensor
    Other,
  };
  Kind kind = Kind::Other;
  /// The bias or the saved tensor, as an input of the region.
  mlir::Value operand;
};

/// The tail of `region` that a library could do with its contraction.
LibraryTail getLibraryTail(RegionOp region);

/// The sum of all rows of `matrix`, which has `columns` columns, where kernels
/// of their own compute nothing but that; null where none do.
mlir::Value findSumOfRows(mlir::Value matrix, int64_t columns);

} // namespace mpc

#endif // MPC_PASSES_PLANNING_CONTRACTIONS_LIBRARYTAILS_H
