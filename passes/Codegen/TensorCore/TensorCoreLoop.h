// Emits the main loop of a matrix product on Tensor Cores, from operands in
// memory to the fp32 sums of a tile in registers.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_TENSORCORE_TENSORCORELOOP_H
#define MPC_PASSES_CODEGEN_TENSORCORE_TENSORCORELOOP_H

#include "compiler/Kernels/TensorCoreTiling.h"
#include "passes/Codegen/TensorCore/TensorCoreOperands.h"

namespace mpc::codegen {

/// Emits, for one thread block and a ring of S stages in shared memory:
///
/// ```
///     fill stages 0 .. S-2
///     for every tile of the depth:
///       for every mma step of the tile:
///         load the next step's fragments from shared memory
///         at the first step, copy the tile S-1 further on into the ring
///         multiply this step's fragments
/// ```
///
/// Global loads thus run S-1 tiles ahead, and loads from shared memory run one
/// step ahead of the mma instructions. The last S-1 tiles copy nothing, and
/// form a separate loop.
///
/// With whole tiles of 128 x 128, ptxas 13.0 makes 122 instructions per
/// iteration, for sm_80 as for sm_90: 64 mma, 16 ldmatrix, 8 copies and 34
/// others. A thread uses 236 to 242 registers without spilling, and a block
/// uses 64 KiB of shared memory. Two blocks thus share a multiprocessor.
class TensorCoreLoop {
public:
  TensorCoreLoop(mlir::ImplicitLocOpBuilder &builder,
                 const TensorCoreTiling &tiling, mlir::FloatType element,
                 TileCopier &lhsCopies, TileCopier &rhsCopies,
                 const FragmentLoader &lhsFragments,
                 const FragmentLoader &rhsFragments, mlir::Value shared);

  /// Emits the loop. Returns the sums of the warp's tile that this thread
  /// holds, in the order of getSum.
  llvm::SmallVector<mlir::Value> emit();

  /// Returns the index, among a thread's sums, of `element` (0 to 3) of the mma
  /// tile at (row, column) of the warp's tile. Elements 0 and 1 are adjacent in
  /// a row; elements 2 and 3 are eight rows below.
  static size_t getSum(int64_t row, int64_t column, int64_t element);

private:
  struct State;
  /// The stretches of the loop along the depth, in order. A `Copying` tile also
  /// copies the tile S-1 further on. A `Draining` tile copies nothing, since
  /// all tiles have been copied. The `Last` tile has no next tile to load
  /// fragments of.
  enum class Stretch { Copying, Draining, Last };
  static constexpr int64_t kSteps =
      TensorCoreTiling::kBlockK / TensorCoreTiling::kMmaK;
  static constexpr int64_t kColumns =
      TensorCoreTiling::kWarpN / TensorCoreTiling::kMmaN;

  void fillStages(State &state);
  void loadFragments(State &state, int64_t step, State &into);
  void emitTile(State &state, Stretch stretch, mlir::Value tile = {});
  void emitTiles(State &state, Stretch stretch, int64_t begin, int64_t end);
  void copyAhead(State &state, mlir::Value tile);
  void multiply(State &state);
  mlir::Value nextStage(mlir::Value stage);

  mlir::ImplicitLocOpBuilder &b;
  const TensorCoreTiling &tiling;
  mlir::FloatType element;
  TileCopier &lhsCopies, &rhsCopies;
  const FragmentLoader &lhsFragments, &rhsFragments;
  mlir::Value shared;
};

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_TENSORCORE_TENSORCORELOOP_H
