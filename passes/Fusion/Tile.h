// A product whose result is wide, with the ops around it that can run on one
// part of it after the other: for TileProducts.cpp alone.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_FUSION_TILE_H
#define MPC_PASSES_FUSION_TILE_H

#include "compiler/Dialect/MPC/MPC.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <optional>

namespace mpc {

/// Whether `op` makes a large mask by comparing places with places, or of other
/// masks. A loop over parts makes its part again, which takes less than to keep
/// the mask in memory: of n tokens it has n * n elements.
bool makesLargeMask(mlir::Operation *op);

/// A product of batches whose result is wide: larger than both of its operands,
/// with the ops of its phase that read or make values as large: S = Q K^T,
/// softmax(S), and the product of that with V. They become the body of a loop.
class Tile {
public:
  /// In place of the axis of a result that is the sum over all parts.
  static constexpr int64_t kSum = -2;

  /// The tile around `product` in parts along `axis` of its result, of
  /// `elements` elements each if there can be that many parts. Nothing where
  /// the ops cannot run in parts, or where one of them is in `isTiled`.
  static std::optional<Tile>
  find(MatMulOp product, int64_t axis, int64_t elements,
       const llvm::DenseSet<mlir::Operation *> &isTiled);

  MatMulOp getProduct() const { return product; }
  mlir::Attribute getPhase() const { return phase; }
  /// How many parts there are.
  int64_t getCount() const { return count; }
  /// The ops in the order they are in.
  llvm::SmallVector<mlir::Operation *> getOps() const;
  bool contains(mlir::Operation *op) const { return op && axes.contains(op); }
  /// The axis along which the result of an op of the tile is made in parts, or
  /// kSum.
  int64_t getAxis(mlir::Operation *op) const { return axes.lookup(op); }
  /// The axis along which an op of the tile reads an operand in parts, or
  /// kWhole.
  int64_t getAxis(mlir::OpOperand &operand) const;
  /// Whether the operand is a part of what another op of the tile makes.
  bool isMadeInside(mlir::OpOperand &operand) const;
  /// Whether others read the result of an op of the tile as it was, so that the
  /// loop has a copy of the op.
  bool isCopy(mlir::Operation *op) const { return copies.contains(op); }

  /// Makes the ops of another phase read what they compute again.
  void recomputeEscaping();
  /// Takes in the ops around that cost nothing in the loop.
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
  /// Null stands for the forward pass.
  mlir::Attribute phase;
  int64_t wide, count = 0;
  llvm::MapVector<mlir::Operation *, int64_t> axes;
  llvm::DenseSet<mlir::Operation *> copies;
  /// Wide values that ops of another phase read, and maxima of them.
  llvm::SetVector<mlir::Value> escaping;
};

} // namespace mpc

#endif // MPC_PASSES_FUSION_TILE_H
