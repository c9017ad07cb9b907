// Describes the places of the matrices of a batched product, and the library
// calls that compute the product.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PLANNING_CONTRACTIONS_PRODUCTLAYOUT_H
#define MPC_PASSES_PLANNING_CONTRACTIONS_PRODUCTLAYOUT_H

#include "compiler/Dialect/Plan/Plan.h"
#include "compiler/Target/TargetInfo.h"

namespace mpc {

/// A product with fewer rows spends more time on reading the right operand than
/// on multiplying.
inline constexpr int64_t kFewRows = 64;

/// The place of a product's operand or result in a buffer: the index of the
/// first element, and the stride along each axis in elements.
struct ProductPlace {
  int64_t offset = 0;
  llvm::SmallVector<int64_t> strides;

  /// Returns the place of a dense buffer of `shape`.
  static ProductPlace getDense(llvm::ArrayRef<int64_t> shape);
  /// Returns the place of a product's result that is written with permuted axes
  /// into a dense buffer of `shape`. Axis i of the buffer is axis perm[i] of
  /// the product.
  static ProductPlace getArranged(llvm::ArrayRef<int64_t> shape,
                                  llvm::ArrayRef<int64_t> perm);
  /// Returns the place of a value of `shape` whose rows start `row` elements
  /// apart.
  static ProductPlace getPadded(llvm::ArrayRef<int64_t> shape, int64_t row);
};

/// The places of both operands and of the result.
struct ProductPlaces {
  ProductPlace a, b, c;
};

/// An axis of the batch: the extent, and the strides in a, b and c in elements.
/// Stride 0 repeats a matrix.
struct BatchAxis {
  int64_t extent = 1, a = 0, b = 0, c = 0;

  /// True if this axis and the next inner axis `inner` can merge into a single
  /// axis in all three matrices: a step along this axis is as long as
  /// inner.extent steps along `inner`.
  bool continues(const BatchAxis &inner) const {
    return a == inner.a * inner.extent && b == inner.b * inner.extent &&
           c == inner.c * inner.extent;
  }
};

/// A batch of matrix products of m x k by k x n, with the leading dimension of
/// each stored matrix.
struct ProductLayout {
  int64_t m = 0, n = 0, k = 0, lda = 0, ldb = 0, ldc = 0;
  int64_t offsetA = 0, offsetB = 0;
  /// The axes of the batch, outermost first; at least one. A library takes the
  /// last axis in one call.
  llvm::SmallVector<BatchAxis> axes;

  /// Returns the number of calls of a library that takes one batch axis.
  int64_t countCalls() const;
  int64_t countMatrices() const { return countCalls() * axes.back().extent; }
};

/// Returns the plan.arrange of `result`; null if the product does not reorder
/// axes.
plan::ArrangeOp findArrange(mlir::Value result);

/// Returns the plan.place that writes `result`, directly or after plan.arrange;
/// null if there is none.
plan::PlaceOp findPlace(mlir::Value result);

/// Returns the place of `operand` in the memory that a library reads: a
/// plan.access, or a dense value.
ProductPlace getOperandPlace(mlir::Value operand);

/// Returns the place of `result` in the memory that a library writes, through a
/// plan.arrange and a plan.place. If the library writes a box of a larger
/// tensor, the buffer starts at the box, so the offset is 0.
ProductPlace getResultPlace(mlir::Value result);

/// Returns the places that `op`, an mpc.matmul or a plan.product, reads and
/// writes.
ProductPlaces getProductPlaces(mlir::Operation *op);

/// Returns the layout of `op` with its matrices in `places`, with as few batch
/// axes as possible. A GPU's library is called once per index of the outer
/// axes, so its longest axis comes last.
ProductLayout layOutProduct(mlir::Operation *op, bool transA,
                            const TargetInfo &target,
                            const ProductPlaces &places);
inline ProductLayout layOutProduct(mlir::Operation *op, bool transA,
                                   const TargetInfo &target) {
  return layOutProduct(op, transA, target, getProductPlaces(op));
}

/// True if all matrices of `op` start at, and their rows are apart by,
/// multiples of the vector size of a GPU's library.
bool isAligned(const ProductLayout &layout, mlir::Operation *op);

} // namespace mpc

#endif // MPC_PASSES_PLANNING_CONTRACTIONS_PRODUCTLAYOUT_H
