// Computes the places of values in the iteration space of a kernel. A place
// tells along which axes of the space a value varies: in a space of 32 x 64, a
// bias of 64 elements has the place [1].
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_LOOPS_PLACES_H
#define MPC_PASSES_CODEGEN_KERNELS_LOOPS_PLACES_H

#include "compiler/Dialect/MPC/MPC.h"

namespace mpc::codegen {

/// The axis of the iteration space for each axis of a value; kUnit for axes of
/// size 1.
using Place = llvm::SmallVector<int64_t, 4>;
inline constexpr int64_t kUnit = -1;

/// Elements between neighbours along each loop dimension.
using Strides = llvm::SmallVector<int64_t, 4>;

/// Returns the place of an operand of `shape`, if the op's result is at
/// `place`. Axis i of the operand corresponds to axis axes[i] of the result.
Place alongAxes(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> axes,
                llvm::ArrayRef<int64_t> place);

/// Returns the place at which an op reads an operand if its results are at
/// `place` of `space`. Emits an error if the shape does not fit.
mlir::FailureOr<Place> operandPlace(mlir::OpOperand &operand,
                                    llvm::ArrayRef<int64_t> place,
                                    llvm::ArrayRef<int64_t> space);

/// Returns the place of a returned value. Its axes are the axes of the space,
/// permuted if a transpose returns the value, and without the axes that
/// reductions dropped.
mlir::FailureOr<Place> outputPlace(mlir::OpOperand &returned,
                                   llvm::ArrayRef<int64_t> space);

/// Returns the strides of a row-major buffer of `shape` at `place`, along each
/// axis of a space of `rank` axes. A stride is 0 if the value does not vary
/// along the axis.
Strides stridesAlongAxes(llvm::ArrayRef<int64_t> shape,
                         llvm::ArrayRef<int64_t> place, size_t rank);

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_LOOPS_PLACES_H
