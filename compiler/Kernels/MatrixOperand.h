// Where a kernel of our own reads what it multiplies.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_KERNELS_MATRIXOPERAND_H
#define MPC_COMPILER_KERNELS_MATRIXOPERAND_H

#include "compiler/Kernels/KernelSpace.h"

namespace mpc {

/// An operand of a product of matrices in the memory of an argument of the
/// kernel. Ops that only move elements may lead from the argument to the
/// product; no code is made for them:
///
///   %heads = mpc.transpose %queries perm [0, 2, 1, 3]
///       : tensor<8x128x12x64xbf16> -> tensor<8x12x128x64xbf16>
///   %scores = mpc.matmul %heads, %keys
///
/// multiplies rows of %queries that begin 768 elements apart; its matrices are
/// 98304 elements apart from sample to sample, and 64 from head to head.
struct MatrixOperand {
  mlir::Value source;
  int64_t offset = 0;
  /// Elements between matrices along each axis of the result's batch; 0 where
  /// one matrix is multiplied again and again.
  llvm::SmallVector<int64_t> batchStrides;
  /// Elements from row to row and from column to column of a matrix.
  int64_t rowStride = 1, columnStride = 1;
};

/// The operands of a product.
struct MatrixOperands {
  MatrixOperand lhs, rhs;
};

/// `operand` of a product whose result has `batchRank` axes in front of rows
/// and columns. Nothing where no strides say where its elements are.
std::optional<MatrixOperand> getMatrixOperand(mlir::Value operand,
                                              size_t batchRank);

/// The operands of `matmul` as `extents`, its own, have them: where batches are
/// rows of a single product, all rows of the left operand are one matrix, and
/// there are no strides of a batch.
std::optional<MatrixOperands> getMatrixOperands(MatMulOp matmul,
                                                const ProductExtents &extents);

/// Whether all rows of `operand`, matrix after matrix, are equally far apart.
bool hasJoinedRows(mlir::Value operand);

/// Whether `op` moves elements to a product of matrices and nowhere else.
bool movesOperand(mlir::Operation *op);

} // namespace mpc

#endif // MPC_COMPILER_KERNELS_MATRIXOPERAND_H
