// A tiled product: a product with a wide result, and the ops around the product
// that can run with it in parts, as the body of a loop. A wide value has as
// many elements as the product's result. Only TileProducts.cpp uses this
// header.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_FUSION_TILEDPRODUCT_H
#define MPC_PASSES_FUSION_TILEDPRODUCT_H

#include "compiler/Dialect/MPC/MPC.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <optional>

namespace mpc {

/// True if `op` makes a large mask from positions or from other masks. A loop
/// over parts recomputes each part of the mask, which costs less than storing n
/// * n elements for n tokens.
bool makesLargeMask(mlir::Operation *op);

/// A batched product whose result is larger than both operands, and the ops of
/// the same phase that read or make equally large (wide) values. Attention, for
/// example: S = Q K^T, softmax(S), and softmax(S) V. These ops become the body
/// of a loop over parts.
class TiledProduct {
public:
  /// Instead of an axis: the result is not made in parts, but is a sum over all
  /// parts.
  static constexpr int64_t kSum = -2;

  /// Finds the tiled product around `product`, divided along `axis` of its
  /// result into parts of about `elements` elements. nullopt if the ops cannot
  /// run in parts, or if another tiled product (`isTiled`) has one of the ops.
  static std::optional<TiledProduct>
  find(MatMulOp product, int64_t axis, int64_t elements,
       const llvm::DenseSet<mlir::Operation *> &isTiled);

  MatMulOp getProduct() const { return product; }
  mlir::Attribute getPhase() const { return phase; }
  /// Returns the number of parts.
  int64_t getCount() const { return count; }
  /// Returns the ops of the tiled product in program order.
  llvm::SmallVector<mlir::Operation *> getOps() const;
  bool contains(mlir::Operation *op) const { return op && axes.contains(op); }
  /// Returns the axis along which `op`, of the tiled product, makes its result
  /// in parts; kSum if the result is a sum over all parts.
  int64_t getAxis(mlir::Operation *op) const { return axes.lookup(op); }
  /// Returns the axis along which the owner of `operand` reads the operand in
  /// parts; kWhole if every part reads the whole operand.
  int64_t getAxis(mlir::OpOperand &operand) const;
  /// True if another op of the tiled product makes the part that the owner
  /// reads.
  bool isMadeInside(mlir::OpOperand &operand) const;
  /// True if `op` also stays outside the loop, because other ops read its whole
  /// result. The loop has a copy of `op`.
  bool isCopy(mlir::Operation *op) const { return copies.contains(op); }

  /// Makes ops of later phases recompute whole rows of the product that they
  /// read, so that no such rows stay in memory.
  void recomputeEscaping();
  /// Adds surrounding ops to the tiled product if they cost nothing in the
  /// loop.
  void fuse();

private:
  TiledProduct(MatMulOp product);

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
  bool fuseMaker(mlir::OpOperand &operand);
  bool fuseReader(mlir::Operation *op);

  MatMulOp product;
  /// The phase of all ops in the tiled product; null for the forward pass.
  mlir::Attribute phase;
  int64_t wide, count = 0;
  llvm::MapVector<mlir::Operation *, int64_t> axes;
  llvm::DenseSet<mlir::Operation *> copies;
  /// Wide values that ops of another phase read, and maxima of wide values.
  /// Later phases recompute these values.
  llvm::SetVector<mlir::Value> escaping;
};

} // namespace mpc

#endif // MPC_PASSES_FUSION_TILEDPRODUCT_H
