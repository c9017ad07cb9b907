// The sums of a generated contraction, one implementation per op.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_CONTRACTION_CONTRACTIONHERO_H
#define MPC_PASSES_CODEGEN_KERNELS_CONTRACTION_CONTRACTIONHERO_H

#include "compiler/Kernels/MatrixOperand.h"
#include "compiler/Kernels/ProductBlocks.h"
#include "compiler/Kernels/TensorCoreTiling.h"
#include "passes/Codegen/Kernels/Loops/KernelBody.h"
#include "passes/Codegen/Kernels/Loops/KernelContext.h"
#include "passes/Codegen/Kernels/Loops/Lanes.h"
#include "passes/Codegen/Kernels/Loops/Loops.h"

#include <memory>

namespace mpc::codegen {

class ContractionHero {
public:
  ContractionHero(KernelContext &context, mlir::Operation *op)
      : context(context), b(context.b),
        lanes(b, KernelContext::getComputeType(op)) {}
  virtual ~ContractionHero() = default;

  /// Takes the sums of columns [column, column + lanes) of a row of the block,
  /// in the compute type: a scalar or a vector.
  using Sink = llvm::function_ref<void(int64_t row, mlir::Value column,
                                       mlir::Value sum)>;

  /// Sums all columns of the rows [row, row + count) of the result, each once,
  /// in any order; those of this thread where a team shares the row. `count` is
  /// one of `getBlocks`.
  virtual void emitRows(mlir::Value row, int64_t count, Sink sink) = 0;

  /// How many rows are summed at once, largest first, the last 1: what is read
  /// for one serves the others, and their sums do not wait for each other. A
  /// block lies within one of the groups of `group` rows each.
  struct RowBlocks {
    llvm::SmallVector<int64_t> counts = {1};
    int64_t group = 1;
  };
  virtual RowBlocks getBlocks() { return {}; }

protected:
  /// Elements of an argument in the compute type.
  mlir::Value load(mlir::Value argument, mlir::Value offset, int64_t width = 1);

  mlir::Value zeros(int64_t width);

  /// The lanes of a vector, added pairwise.
  mlir::Value sumLanes(mlir::Value vector);

  /// Vectors of sums that are in registers beside what is read, for blocks of
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

/// The implementation for `op`, or null where there is none.
std::unique_ptr<ContractionHero> createContractionHero(KernelContext &context,
                                                       mlir::Operation *op);

/// The first element of the matrix of `operand` that belongs to the batch
/// `indices`.
mlir::Value matrixOffset(mlir::ImplicitLocOpBuilder &b,
                         llvm::ArrayRef<mlir::Value> indices,
                         const MatrixOperand &operand);

std::unique_ptr<ContractionHero> createMatMulHero(KernelContext &context,
                                                  mlir::Operation *op);
std::unique_ptr<ContractionHero> createConvolutionHero(KernelContext &context,
                                                       mlir::Operation *op);

/// The product of matrices `op` and what follows it, on Tensor Cores.
mlir::LogicalResult emitTensorCoreContraction(KernelContext &context,
                                              mlir::Operation *op,
                                              const TensorCoreTiling &tiling);

/// The product of matrices `matmul` and what follows it, on a CPU by blocks.
void emitProductBlocks(KernelContext &context, const KernelBody &body,
                       const ProductBlocks &blocks, MatMulOp matmul);

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_CONTRACTION_CONTRACTIONHERO_H
