// A product with a wide result, and the ops around it that can run in parts.
// Only TileProducts.cpp uses this header.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_FUSION_TILE_H
#define MPC_PASSES_FUSION_TILE_H

#include "compiler/Dialect/MPC/MPC.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <optional>

namespace mpc {

/// True if `op` makes a large mask by comparing positions or combining other
/// masks. A loop over parts recomputes its part of the mask. Recomputing costs
/// less than keeping the mask: for n tokens, n * n elements.
bool makesLargeMask(mlir::Operation *op);

/// A batched product whose result is larger than both operands, with the ops of
/// its phase that read or make equally large values. An attention, for example:
/// S = Q K^T, softmax(S), and the product of softmax(S) and V. The ops become
/// the body of a loop.
class Tile {
public:
  /// Stands for the axis of a result that is the sum over all parts.
  static constexpr int64_t kSum = -2;

  /// Finds the tile around `product` in parts along `axis` of its result, each
  /// of about `elements` elements if there can be that many parts. nullopt if
  /// the ops cannot run in parts, or if `isTiled` contains any of the ops.
  static std::optional<Tile>
  find(MatMulOp product, int64_t axis, int64_t elements,
       const llvm::DenseSet<mlir::Operation *> &isTiled);

  MatMulOp getProduct() const { return product; }
  mlir::Attribute getPhase() const { return phase; }
  /// Returns the number of parts.
  int64_t getCount() const { return count; }
  /// Returns the ops of the tile in program order.
  llvm::SmallVector<mlir::Operation *> getOps() const;
  bool contains(mlir::Operation *op) const { return op && axes.contains(op); }
  /// Returns the axis along which an op of the tile makes its result in parts,
  /// or kSum.
  int64_t getAxis(mlir::Operation *op) const { return axes.lookup(op); }
  /// Returns the axis along which an op of the tile reads an operand in parts,
  /// or kWhole.
  int64_t getAxis(mlir::OpOperand &operand) const;
  /// True if the operand is a part that another op of the tile makes.
  bool isMadeInside(mlir::OpOperand &operand) const;
  /// True if ops outside the tile read the unsplit result of `op`. The loop
  /// then has a copy of `op`.
  bool isCopy(mlir::Operation *op) const { return copies.contains(op); }

  /// Makes ops of other phases recompute the wide values that they read.
  void recomputeEscaping();
  /// Absorbs surrounding ops that cost nothing in the loop.
  void absorb();

private:
  Tile(MatMulOp product);

  bool isWide(mlir::Value value) const;
  bool isInPhase(mlir::Operation *op) const;
  bool add(mlir::Operation *op, std::optional<int64_t> axis);
  bool addReader(mlir::OpOperand &use, int64_t axis);
  bool addReaders(mlir::Operation *op);
  bool addMakers(mlir::Operation *op);
  bool addBetween();
  bool isConsistent() const;
  bool chooseCount(int64_t elements);
  bool setCount(int64_t possible, int64_t elements);
  bool canRecompute() const;
  void addEscapingMaxima();
  bool absorbMaker(mlir::OpOperand &operand);
  bool absorbReader(mlir::Operation *op);

  MatMulOp product;
  /// Null for the forward pass.
  mlir::Attribute phase;
  int64_t wide, count = 0;
  llvm::MapVector<mlir::Operation *, int64_t> axes;
  llvm::DenseSet<mlir::Operation *> copies;
  /// Wide values that ops of another phase read, and maxima of wide values.
  llvm::SetVector<mlir::Value> escaping;
};

} // namespace mpc

#endif // MPC_PASSES_FUSION_TILE_H
