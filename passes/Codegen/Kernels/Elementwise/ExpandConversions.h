// Expands conversions of 16-bit floats, and fused multiply-adds, for targets
// without such instructions.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_ELEMENTWISE_EXPANDCONVERSIONS_H
#define MPC_PASSES_CODEGEN_KERNELS_ELEMENTWISE_EXPANDCONVERSIONS_H

#include "compiler/Target/TargetInfo.h"

#include "mlir/IR/PatternMatch.h"

namespace mpc::codegen {

/// Adds patterns for the instructions that `info` lacks. The patterns give a
/// few operations on lanes of i32 and f32, where LLVM would call a function per
/// lane. The resulting bits equal those of the instructions, on any target.
/// MLIR's expansion of bf16 would drop the sign and payload of a NaN.
void populateExpandConversionPatterns(mlir::RewritePatternSet &patterns,
                                      const TargetInfo &info);

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_ELEMENTWISE_EXPANDCONVERSIONS_H
