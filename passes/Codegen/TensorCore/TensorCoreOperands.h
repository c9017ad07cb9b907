// Moves the operands of a matrix product on Tensor Cores from global memory
// through shared memory to the registers of the mma instruction.
//
// Addresses in shared memory are computed as 32-bit integers.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_TENSORCORE_TENSORCOREOPERANDS_H
#define MPC_PASSES_CODEGEN_TENSORCORE_TENSORCOREOPERANDS_H

#include "compiler/Kernels/TensorCoreTiling.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mpc::codegen {

/// Emits arithmetic on i32 indices, and folds trivial constants.
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
  /// Converts an index to i32.
  mlir::Value from(mlir::Value index);

  /// Emits SwizzledTile::getOffset for i32 values: the byte offset of a 16-byte
  /// chunk of a row.
  mlir::Value getOffset(const SwizzledTile &tile, mlir::Value row,
                        mlir::Value chunk);

private:
  mlir::ImplicitLocOpBuilder &b;
};

/// Returns a pointer to `address` in shared memory plus `offset` bytes.
mlir::Value getSharedPointer(mlir::ImplicitLocOpBuilder &b, mlir::Value address,
                             int64_t offset);

/// Returns a pointer to the 16-bit element `index` of the buffer at `pointer`
/// in global memory.
mlir::Value getElementPointer(mlir::ImplicitLocOpBuilder &b,
                              mlir::Value pointer, mlir::Value index);

/// One operand's matrix in global memory, from the view of a thread block.
struct GlobalMatrix {
  /// A pointer to the first element of the matrix.
  mlir::Value pointer;
  /// The first row (lhs) or column (rhs) of the thread block's tile, an index.
  mlir::Value origin;
  /// Rows (lhs) or columns (rhs) of the matrix, and the depth of the product.
  int64_t extent = 0, depth = 0;
};

/// Copies tiles of one operand to shared memory. Each thread copies several
/// vectors, each `copyBytes` long. Elements outside the matrix become zero.
class TileCopier {
public:
  TileCopier(mlir::ImplicitLocOpBuilder &builder,
             const TensorCoreOperand &operand, const GlobalMatrix &matrix,
             int64_t threads, mlir::Value thread);

  /// The address in global memory of the thread's first vector of the first
  /// tile.
  mlir::Value getStart() const { return start; }
  /// Returns the address of the same vector in the next tile along the depth.
  mlir::Value advance(mlir::Value pointer);
  /// Emits this thread's copies of a tile to `address` in shared memory. The
  /// thread's first vector is at `pointer`. The tile starts at index `depth`
  /// (i32) along the depth.
  void emit(mlir::Value pointer, mlir::Value depth, mlir::Value address);

private:
  mlir::Value getSize(int64_t pass, mlir::Value depth);

  mlir::ImplicitLocOpBuilder &b;
  Index32 i32;
  TensorCoreOperand operand;
  GlobalMatrix matrix;
  /// Rows of the tile that all threads copy in one pass, and the number of
  /// passes.
  int64_t passRows, passes;
  bool hasEdge, hasDepthEdge;
  /// The position in the tile of the vector that the thread copies in the first
  /// pass: the row, and the first element in the row.
  mlir::Value row, column;
  mlir::Value start;
  /// Byte offsets in the tile of the vectors that the thread copies in the
  /// first passes. Later passes repeat the swizzle pattern.
  llvm::SmallVector<mlir::Value> offsets;
  /// True for each pass in which the thread's vector is inside the matrix,
  /// along its rows (lhs) or columns (rhs). The depth is tested in getSize. A
  /// single value if tile rows run across the depth; empty if tiles divide the
  /// matrix evenly.
  llvm::SmallVector<mlir::Value> inside;
};

/// Loads a warp's operands from shared memory by ldmatrix: 16 rows (lhs) or
/// columns (rhs) x 16 along the depth at a time.
class FragmentLoader {
public:
  enum class Side { Lhs, Rhs };
  /// The warp reads `extent` rows (lhs) or columns (rhs) of the operand's tile,
  /// from `first` (i32) on. The tile starts `base` bytes after the start of a
  /// stage. `lane` is the thread's number in its warp.
  FragmentLoader(mlir::ImplicitLocOpBuilder &builder,
                 const TensorCoreOperand &operand, Side side, int64_t base,
                 int64_t extent, mlir::Value first, mlir::Value lane);

  /// Loads the fragments of mma step `step`, from the stage at address `stage`.
  /// Returns four registers, of two elements each, per 16 rows or columns.
  llvm::SmallVector<mlir::Value> load(mlir::Value stage, int64_t step) const;
  size_t getRegisterCount() const { return 4 * groups; }

private:
  mlir::ImplicitLocOpBuilder &b;
  TensorCoreOperand operand;
  int64_t groups;
  /// Byte offsets in a stage that the thread passes to ldmatrix: one per mma
  /// step if tile rows run along the depth, otherwise one per 16 rows or
  /// columns.
  llvm::SmallVector<mlir::Value> offsets;
};

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_TENSORCORE_TENSORCOREOPERANDS_H
