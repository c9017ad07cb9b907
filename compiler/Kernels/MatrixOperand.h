// Describes how a generated kernel reads the operands of a product by strides.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_KERNELS_MATRIXOPERAND_H
#define MPC_COMPILER_KERNELS_MATRIXOPERAND_H

#include "compiler/Kernels/KernelSpace.h"

namespace mpc {

/// An operand of a matrix product, in the memory of a kernel argument. Ops
/// between the argument and the product may move elements; no code is generated
/// for such ops:
///
///   %heads = mpc.transpose %queries perm [0, 2, 1, 3]
///       : tensor<8x128x12x64xbf16> -> tensor<8x12x128x64xbf16>
///   %scores = mpc.matmul %heads, %keys
///
/// multiplies rows of %queries that begin 768 elements apart. The matrices of
/// neighbouring samples are 98304 elements apart, those of neighbouring heads
/// 64.
struct MatrixOperand {
  mlir::Value source;
  int64_t offset = 0;
  /// Elements between matrices along each batch axis of the result; 0 if the
  /// same matrix is multiplied along the axis.
  llvm::SmallVector<int64_t> batchStrides;
  /// Elements between rows and between columns of a matrix.
  int64_t rowStride = 1, columnStride = 1;
};

/// The operands of a product.
struct MatrixOperands {
  MatrixOperand lhs, rhs;
};

/// Returns the access to `operand` of a product whose result has `batchRank`
/// axes before rows and columns; nullopt if no strides describe the operand.
std::optional<MatrixOperand> getMatrixOperand(mlir::Value operand,
                                              size_t batchRank);

/// Returns the operands of `matmul`. `extents` must be
/// getProductExtents(matmul). If those extents turned the batch into rows of a
/// single product, the left operand is one matrix of all rows, without batch
/// strides.
std::optional<MatrixOperands> getMatrixOperands(MatMulOp matmul,
                                                const ProductExtents &extents);

/// True if all rows of `operand`, across all matrices, are equally far apart.
bool hasJoinedRows(mlir::Value operand);

/// True if `op` only moves elements, and all uses lead to matrix products.
bool movesOperand(mlir::Operation *op);

} // namespace mpc

#endif // MPC_COMPILER_KERNELS_MATRIXOPERAND_H
