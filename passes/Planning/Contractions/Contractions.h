// Turns contractions into steps of a plan: computes the geometry, and tile
// sizes if the target needs them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PLANNING_CONTRACTIONS_CONTRACTIONS_H
#define MPC_PASSES_PLANNING_CONTRACTIONS_CONTRACTIONS_H

#include "compiler/Dialect/Plan/Plan.h"
#include "compiler/Target/TargetInfo.h"

namespace mpc {

/// The destination of a contraction's result: a buffer, or an epilogue.
struct ContractionResult {
  mlir::Value buffer;
  mlir::FlatSymbolRefAttr epilogue;
  llvm::SmallVector<mlir::Value> inputs, outputs;
};

/// The buffers of a product and of a fused epilogue. Null if unused.
struct ProductBuffers {
  mlir::Value lhs, rhs, output, bias, aux, biasGrad;
};

/// Adds the steps of contractions.
class ContractionEmitter {
public:
  ContractionEmitter(mlir::OpBuilder &builder, const TargetInfo &target)
      : builder(builder), target(target) {}

  /// Adds the step for `op`, a matrix product or a convolution in NHWC, with
  /// the buffers of the two operands. Fails with an error for other ops and
  /// layouts.
  mlir::LogicalResult emit(mlir::Operation *op, mlir::Value first,
                           mlir::Value second, const ContractionResult &result);

  /// Adds the step for a product with an epilogue fused by the library.
  /// `result` holds the epilogue kernel, if any.
  plan::MatMulOp emit(plan::ProductOp op, const ProductBuffers &buffers,
                      const ContractionResult &result);

private:
  struct ConvParts;
  /// Adds the step of a contraction, with the buffers of the two operands.
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
};

} // namespace mpc

#endif // MPC_PASSES_PLANNING_CONTRACTIONS_CONTRACTIONS_H
