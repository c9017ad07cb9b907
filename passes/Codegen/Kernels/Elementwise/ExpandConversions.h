// Conversions of the 16-bit floats, and fused multiply-adds, for targets
// without instructions for them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_ELEMENTWISE_EXPANDCONVERSIONS_H
#define MPC_PASSES_CODEGEN_KERNELS_ELEMENTWISE_EXPANDCONVERSIONS_H

#include "compiler/Target/TargetInfo.h"

#include "mlir/IR/PatternMatch.h"

namespace mpc::codegen {

/// Adds patterns for what `info` lacks. What they leave behind are a few
/// operations on lanes of i32 and f32, where LLVM would call a function per
/// lane. The bits are those of the instructions, and so of any target: MLIR's
/// expansion of bf16 would drop the sign and payload of a NaN.
void populateExpandConversionPatterns(mlir::RewritePatternSet &patterns,
                                      const TargetInfo &info);

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_ELEMENTWISE_EXPANDCONVERSIONS_H
