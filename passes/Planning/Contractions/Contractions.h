// Contractions as steps of a plan: geometry, and tile sizes where the target
// has the plan choose them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PLANNING_CONTRACTIONS_CONTRACTIONS_H
#define MPC_PASSES_PLANNING_CONTRACTIONS_CONTRACTIONS_H

#include "compiler/Dialect/Plan/Plan.h"
#include "compiler/Target/TargetInfo.h"

namespace mpc {

/// Where a contraction's result goes: to a buffer, or through an epilogue.
struct ContractionResult {
  mlir::Value buffer;
  mlir::FlatSymbolRefAttr epilogue;
  llvm::SmallVector<mlir::Value> inputs, outputs;
};

/// The buffers of what a library does with a product besides.
struct ProductBuffers {
  mlir::Value lhs, rhs, output, bias, aux, biasGrad;
};

/// Adds steps for contractions.
class ContractionEmitter {
public:
  /// On a GPU, f32 contractions may round their operands to tf32 where
  /// `allowTF32` says so.
  ContractionEmitter(mlir::OpBuilder &builder, const TargetInfo &target,
                     bool allowTF32)
      : builder(builder), target(target), allowTF32(allowTF32) {}

  /// The step for `op`, a matrix product or a convolution in NHWC, on the
  /// buffers of its two operands.
  mlir::LogicalResult emit(mlir::Operation *op, mlir::Value first,
                           mlir::Value second, const ContractionResult &result);

  /// The step for a product with a tail that the library does; `result` has the
  /// epilogue, if there is one.
  plan::MatMulOp emit(plan::ProductOp op, const ProductBuffers &buffers,
                      const ContractionResult &result);

private:
  struct ConvParts;
  /// Adds the step of a contraction on the buffers of its two operands.
  using EmitStep = mlir::LogicalResult (*)(ContractionEmitter &,
                                           mlir::Operation *, mlir::Value first,
                                           mlir::Value second,
                                           const ContractionResult &);
  using StepEntry = std::pair<llvm::StringRef, EmitStep>;
  template <typename OpTy>
  static StepEntry entryOf();
  mlir::LogicalResult emitStep(MatMulOp op, mlir::Value first,
                               mlir::Value second,
                               const ContractionResult &result);
  mlir::LogicalResult emitStep(ConvOp op, mlir::Value first, mlir::Value second,
                               const ContractionResult &result);
  mlir::LogicalResult emitStep(ConvInputGradOp op, mlir::Value first,
                               mlir::Value second,
                               const ContractionResult &result);
  mlir::LogicalResult emitStep(ConvWeightGradOp op, mlir::Value first,
                               mlir::Value second,
                               const ContractionResult &result);
  plan::MatMulOp emitMatMul(mlir::Operation *op, const ProductBuffers &buffers,
                            const ContractionResult &result, bool transA,
                            bool transB, llvm::APFloat alpha,
                            plan::FusedKindAttr fused);
  template <typename OpTy>
  mlir::LogicalResult emitConv(OpTy op, const ConvParts &parts,
                               const ContractionResult &result);
  plan::ComputeAttr getCompute(mlir::Operation *op, mlir::Value operand) const;

  mlir::OpBuilder &builder;
  const TargetInfo &target;
  bool allowTF32;
};

} // namespace mpc

#endif // MPC_PASSES_PLANNING_CONTRACTIONS_CONTRACTIONS_H
