// Computes the sums of a generated contraction, with one implementation per op.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_CONTRACTION_CONTRACTIONSUMS_H
#define MPC_PASSES_CODEGEN_KERNELS_CONTRACTION_CONTRACTIONSUMS_H

#include "compiler/Kernels/MatrixOperand.h"
#include "compiler/Kernels/ProductBlocks.h"
#include "compiler/Kernels/TensorCoreTiling.h"
#include "passes/Codegen/Kernels/Loops/KernelBody.h"
#include "passes/Codegen/Kernels/Loops/KernelContext.h"
#include "passes/Codegen/Kernels/Loops/Lanes.h"
#include "passes/Codegen/Kernels/Loops/Loops.h"

#include <memory>

namespace mpc::codegen {

class ContractionSums {
public:
  ContractionSums(KernelContext &context, mlir::Operation *op)
      : context(context), b(context.b),
        lanes(b, KernelContext::getComputeType(op)) {}
  virtual ~ContractionSums() = default;

  /// Takes the sums of columns [column, column + lanes) of a row of the block,
  /// in the compute type: a scalar or a vector.
  using Sink = llvm::function_ref<void(int64_t row, mlir::Value column,
                                       mlir::Value sum)>;

  /// Sums all columns of the result's rows [row, row + count), once each and in
  /// any order. If a team shares a row, emits this thread's columns. `count`
  /// must be one of `getBlocks`.
  virtual void emitRows(mlir::Value row, int64_t count, Sink sink) = 0;

  /// The numbers of rows that can be summed at once, in descending order; the
  /// last is 1. Rows of a block share loads, and their sums do not wait for
  /// each other. A block never crosses a group of `group` rows.
  struct RowBlocks {
    llvm::SmallVector<int64_t> counts = {1};
    int64_t group = 1;
  };
  virtual RowBlocks getBlocks() { return {}; }

protected:
  /// Loads elements of an argument in the compute type.
  mlir::Value load(mlir::Value argument, mlir::Value offset, int64_t width = 1);

  mlir::Value zeros(int64_t width);

  /// Adds the lanes of a vector pairwise.
  mlir::Value sumLanes(mlir::Value vector);

  /// Vectors of sums in registers, besides the operands, for blocks of
  /// kRowsAtOnce rows.
  static constexpr int64_t kRowsAtOnce = 4;
  int64_t getVectorsAtOnce() const {
    return context.target.isGPU() || context.target.getVectorBits() == 512 ? 4
                                                                           : 2;
  }

  KernelContext &context;
  mlir::ImplicitLocOpBuilder &b;
  Lanes lanes;
};

/// Creates the implementation for `op`; null if there is none.
std::unique_ptr<ContractionSums> createContractionSums(KernelContext &context,
                                                       mlir::Operation *op);

/// Returns the offset of the first element of `operand`'s matrix at the batch
/// `indices`.
mlir::Value matrixOffset(mlir::ImplicitLocOpBuilder &b,
                         llvm::ArrayRef<mlir::Value> indices,
                         const MatrixOperand &operand);

std::unique_ptr<ContractionSums> createMatMulHero(KernelContext &context,
                                                  mlir::Operation *op);
std::unique_ptr<ContractionSums> createConvolutionHero(KernelContext &context,
                                                       mlir::Operation *op);

/// Emits the matrix product `op` and its tail on Tensor Cores.
mlir::LogicalResult emitTensorCoreContraction(KernelContext &context,
                                              mlir::Operation *op,
                                              const TensorCoreTiling &tiling);

/// Emits the matrix product `matmul` and its tail on a CPU, in blocks.
void emitProductBlocks(KernelContext &context, const KernelBody &body,
                       const ProductBlocks &blocks, MatMulOp matmul);

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_CONTRACTION_CONTRACTIONSUMS_H
