// Expands functions of the math dialect to arithmetic, for targets without
// libm.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_MATH_SOFTWAREMATH_H
#define MPC_PASSES_CODEGEN_KERNELS_MATH_SOFTWAREMATH_H

#include "mlir/IR/PatternMatch.h"

namespace mpc::codegen {

/// Expands exp, log, log1p, tanh, erf and pow of f64 to a few units in the last
/// place. A pow that may be approximate has an error of 2^-42 near the ends of
/// the range. Expands pow of f32 by way of f64, and sin, cos, tan, sinh, cosh
/// and their inverses for both types.
void populateSoftwareMathPatterns(mlir::RewritePatternSet &patterns);

/// Expands exp and tanh of f32 by the approximate instructions of a GPU:
/// ex2.approx and rcp.approx, each to two units in the last place. The results
/// are accurate to four units in the last place over the whole range.
void populateGPUMathPatterns(mlir::RewritePatternSet &patterns);

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_MATH_SOFTWAREMATH_H
