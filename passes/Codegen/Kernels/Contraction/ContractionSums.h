// Emits the sums of a generated contraction. Matrix products, convolutions and
// weight gradients each have a subclass.
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

  /// Receives finished sums of one row, for columns [column, column + lanes).
  /// `row` counts from the first row of the block. `sum` is in the compute
  /// type: a scalar for one lane, otherwise a vector.
  using Sink = llvm::function_ref<void(int64_t row, mlir::Value column,
                                       mlir::Value sum)>;

  /// Emits the sums of all elements in the result's rows [row, row + count),
  /// and passes each to `sink` once, in any order. If the threads of a team
  /// share a row, emits only this thread's columns. `count` must be one of the
  /// sizes that getBlocks returns.
  virtual void emitRows(mlir::Value row, int64_t count, Sink sink) = 0;

  /// Rows are summed in blocks. `counts` lists the possible sizes of a block in
  /// descending order; the last is 1. The rows of a block share loads, and
  /// their additions do not wait for each other. No block crosses a multiple of
  /// `group` rows: with `group` = 6, rows 4 to 7 are never one block.
  struct RowBlocks {
    llvm::SmallVector<int64_t> counts = {1};
    int64_t group = 1;
  };
  virtual RowBlocks getBlocks() { return {}; }

protected:
  /// Loads `width` adjacent elements of an argument, converted to the compute
  /// type.
  mlir::Value load(mlir::Value argument, mlir::Value offset, int64_t width = 1);

  mlir::Value zeros(int64_t width);

  /// Returns the sum of a vector's lanes, added pairwise.
  mlir::Value sumLanes(mlir::Value vector);

  /// The rows of a block. Each row has getVectorsAtOnce vectors of sums. All
  /// sums of a block fit in registers, beside the operands.
  static constexpr int64_t kRowsAtOnce = 4;
  int64_t getVectorsAtOnce() const {
    return context.target.isGPU() || context.target.getVectorBits() == 512 ? 4
                                                                           : 2;
  }

  KernelContext &context;
  mlir::ImplicitLocOpBuilder &b;
  Lanes lanes;
};

/// Creates the emitter of the contraction `op`; null if no code can be
/// generated for `op`.
std::unique_ptr<ContractionSums> createContractionSums(KernelContext &context,
                                                       mlir::Operation *op);

/// Returns the offset, in the buffer of `operand`, of the matrix at the batch
/// `indices`.
mlir::Value matrixOffset(mlir::ImplicitLocOpBuilder &b,
                         llvm::ArrayRef<mlir::Value> indices,
                         const MatrixOperand &operand);

std::unique_ptr<ContractionSums> createMatMulHero(KernelContext &context,
                                                  mlir::Operation *op);
std::unique_ptr<ContractionSums> createConvolutionHero(KernelContext &context,
                                                       mlir::Operation *op);

/// Emits the matrix product `op` on Tensor Cores, and the elementwise ops after
/// the product (its epilogue).
mlir::LogicalResult emitTensorCoreContraction(KernelContext &context,
                                              mlir::Operation *op,
                                              const TensorCoreTiling &tiling);

/// Emits the large matrix product `matmul` on a CPU, and the elementwise ops
/// after the product (its epilogue). Operands are packed in `blocks`.
void emitProductBlocks(KernelContext &context, const KernelBody &body,
                       const ProductBlocks &blocks, MatMulOp matmul);

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_CONTRACTION_CONTRACTIONSUMS_H
