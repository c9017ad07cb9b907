// The operands of a matrix product on Tensor Cores, on their way from global
// through shared memory to the registers of the mma instruction.
//
// Addresses in shared memory are 32-bit integers while they are computed.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_TENSORCORE_TENSORCOREOPERANDS_H
#define MPC_PASSES_CODEGEN_TENSORCORE_TENSORCOREOPERANDS_H

#include "compiler/Kernels/TensorCoreTiling.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mpc::codegen {

/// Arithmetic on i32 indices, with constants folded where that is trivial.
class Index32 {
public:
  explicit Index32(mlir::ImplicitLocOpBuilder &builder) : b(builder) {}
  mlir::Value constant(int64_t value);
  mlir::Value add(mlir::Value x, mlir::Value y);
  mlir::Value add(mlir::Value x, int64_t y);
  mlir::Value mul(mlir::Value x, int64_t y);
  mlir::Value div(mlir::Value x, int64_t y);
  mlir::Value rem(mlir::Value x, int64_t y);
  mlir::Value bitXor(mlir::Value x, mlir::Value y);
  mlir::Value isLess(mlir::Value x, int64_t y);
  /// An index as i32.
  mlir::Value from(mlir::Value index);

  /// SwizzledTile::getOffset of values.
  mlir::Value getOffset(const SwizzledTile &tile, mlir::Value row,
                        mlir::Value chunk);

private:
  mlir::ImplicitLocOpBuilder &b;
};

/// `address` in shared memory plus `offset` bytes, as a pointer.
mlir::Value getSharedPointer(mlir::ImplicitLocOpBuilder &b, mlir::Value address,
                             int64_t offset);

/// The 16-bit element `index` of the buffer at `pointer` in global memory.
mlir::Value getElementPointer(mlir::ImplicitLocOpBuilder &b,
                              mlir::Value pointer, mlir::Value index);

/// One operand's matrix in global memory, as a thread block sees it.
struct GlobalMatrix {
  /// The first element of the batch's matrix.
  mlir::Value pointer;
  /// The first row (lhs) or column (rhs) of the block's tile, an index.
  mlir::Value origin;
  /// How many there are, and how deep the product is.
  int64_t extent = 0, depth = 0;
};

/// Copies tiles of one operand to shared memory, each thread some pieces of
/// `copyBytes`. What lies outside the matrix becomes zero.
class TileCopier {
public:
  TileCopier(mlir::ImplicitLocOpBuilder &builder,
             const TensorCoreOperand &operand, const GlobalMatrix &matrix,
             int64_t threads, mlir::Value thread);

  /// Where the thread's first piece of the first tile comes from.
  mlir::Value getStart() const { return start; }
  /// The same piece of the next tile along the depth.
  mlir::Value advance(mlir::Value pointer);
  /// Copies the tile whose first piece is at `pointer`, `depth` elements (i32)
  /// along the depth, to `address`.
  void emit(mlir::Value pointer, mlir::Value depth, mlir::Value address);

private:
  mlir::Value getSize(int64_t pass, mlir::Value depth);

  mlir::ImplicitLocOpBuilder &b;
  Index32 i32;
  TensorCoreOperand operand;
  GlobalMatrix matrix;
  /// Rows of the tile that all threads copy at once, and how often they do.
  int64_t passRows, passes;
  bool hasEdge, hasDepthEdge;
  /// The thread's piece of a pass, in elements: row of the tile and position in
  /// it.
  mlir::Value row, column;
  mlir::Value start;
  /// Offsets in the tile of the first passes, after which they repeat.
  llvm::SmallVector<mlir::Value> offsets;
  /// Whether a pass is inside the matrix as far as the depth does not matter;
  /// one value where all passes are alike.
  llvm::SmallVector<mlir::Value> inside;
};

/// Loads what a warp multiplies from shared memory, by ldmatrix: 16 rows (lhs)
/// or columns (rhs) x 16 along the depth at once.
class FragmentLoader {
public:
  enum class Side { Lhs, Rhs };
  /// Of the tile at `base`, the warp reads `extent` rows or columns from
  /// `first` (i32) on; `lane` is the thread's number in its warp.
  FragmentLoader(mlir::ImplicitLocOpBuilder &builder,
                 const TensorCoreOperand &operand, Side side, int64_t base,
                 int64_t extent, mlir::Value first, mlir::Value lane);

  /// Four registers of two elements each for each 16 rows or columns, at mma
  /// step `step` of the tile whose stage begins at `stage`.
  llvm::SmallVector<mlir::Value> load(mlir::Value stage, int64_t step) const;
  size_t getRegisterCount() const { return 4 * groups; }

private:
  mlir::ImplicitLocOpBuilder &b;
  TensorCoreOperand operand;
  int64_t groups;
  /// The thread's offsets in a stage: per step of the depth, or per group.
  llvm::SmallVector<mlir::Value> offsets;
};

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_TENSORCORE_TENSORCOREOPERANDS_H
