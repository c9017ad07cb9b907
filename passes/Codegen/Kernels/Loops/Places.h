// Where values lie in the iteration space of a kernel.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_LOOPS_PLACES_H
#define MPC_PASSES_CODEGEN_KERNELS_LOOPS_PLACES_H

#include "compiler/Dialect/MPC/MPC.h"

namespace mpc::codegen {

/// Along which axis of the iteration space each axis of a value runs; kUnit for
/// axes of size 1.
using Place = llvm::SmallVector<int64_t, 4>;
inline constexpr int64_t kUnit = -1;

/// Elements between neighbours along each loop dimension.
using Strides = llvm::SmallVector<int64_t, 4>;

/// `place` of an op's result as that of an operand whose axes run along `axes`
/// of the result.
Place alongAxes(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> axes,
                llvm::ArrayRef<int64_t> place);

/// Where an operand of an op is read when the op's results are at `place` of
/// `space`. Emits an error where its shape does not fit.
mlir::FailureOr<Place> operandPlace(mlir::OpOperand &operand,
                                    llvm::ArrayRef<int64_t> place,
                                    llvm::ArrayRef<int64_t> space);

/// The place of a returned value. Its axes are those of the space, permuted
/// where a transpose returns it, and fewer where reductions dropped their axes.
mlir::FailureOr<Place> outputPlace(mlir::OpOperand &returned,
                                   llvm::ArrayRef<int64_t> space);

/// Strides along the axes of a space of `rank` axes, of a row-major buffer of
/// `shape`.
Strides stridesAlongAxes(llvm::ArrayRef<int64_t> shape,
                         llvm::ArrayRef<int64_t> place, size_t rank);

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_LOOPS_PLACES_H
