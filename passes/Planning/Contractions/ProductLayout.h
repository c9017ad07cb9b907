// Where the matrices of a batched product lie, and as how many calls of a
// library it is done.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PLANNING_CONTRACTIONS_PRODUCTLAYOUT_H
#define MPC_PASSES_PLANNING_CONTRACTIONS_PRODUCTLAYOUT_H

#include "compiler/Dialect/Plan/Plan.h"
#include "compiler/Target/TargetInfo.h"

namespace mpc {

/// Rows below which a product reads its right operand more than it multiplies.
inline constexpr int64_t kFewRows = 64;

/// Where the elements of a product's operand or result lie in a buffer: the
/// first one, and the elements between neighbours along each axis.
struct ProductPlace {
  int64_t offset = 0;
  llvm::SmallVector<int64_t> strides;

  /// The place of a buffer of its own.
  static ProductPlace getDense(llvm::ArrayRef<int64_t> shape);
  /// The place of a product's result that is written with its axes permuted:
  /// axis perm[i] of the product is axis i of a dense buffer of `shape`.
  static ProductPlace getArranged(llvm::ArrayRef<int64_t> shape,
                                  llvm::ArrayRef<int64_t> perm);
  /// The place of a value of `shape` whose rows begin `row` elements apart.
  static ProductPlace getPadded(llvm::ArrayRef<int64_t> shape, int64_t row);
};

/// The places of both operands and of the result.
struct ProductPlaces {
  ProductPlace a, b, c;
};

/// An axis of the batch: its size, and the elements between neighbours in a, b
/// and c; 0 repeats a matrix.
struct BatchAxis {
  int64_t extent = 1, a = 0, b = 0, c = 0;

  /// True if this axis and the next inner one can be walked as one axis with
  /// inner's strides, in all three operands.
  bool continues(const BatchAxis &inner) const {
    return a == inner.a * inner.extent && b == inner.b * inner.extent &&
           c == inner.c * inner.extent;
  }
};

/// A batch of products of matrices: m x n, k deep, with the elements from row
/// to row of each matrix as it is stored.
struct ProductLayout {
  int64_t m = 0, n = 0, k = 0, lda = 0, ldb = 0, ldc = 0;
  int64_t offsetA = 0, offsetB = 0;
  /// At least one, the outermost first. A library takes the last in one call.
  llvm::SmallVector<BatchAxis> axes;

  /// The calls of a library that takes one axis of a batch.
  int64_t countCalls() const;
  int64_t countMatrices() const { return countCalls() * axes.back().extent; }
};

/// The plan.arrange that reorders `result`, or null if the product writes its
/// own order.
plan::ArrangeOp findArrange(mlir::Value result);

/// The plan.place through which `result`, or what plan.arrange makes of it, is
/// written; null where there is none.
plan::PlaceOp findPlace(mlir::Value result);

/// Where `op`, an mpc.matmul or a plan.product, finds its operands and writes.
ProductPlaces getProductPlaces(mlir::Operation *op);

/// `op` as it is done with operands and result in the places that `places`
/// says: in as few axes of a batch as say the same. A GPU's library, which is
/// called once for every index of the outer axes, takes the longest as the
/// last.
ProductLayout layOutProduct(mlir::Operation *op, bool transA,
                            const TargetInfo &target,
                            const ProductPlaces &places);
inline ProductLayout layOutProduct(mlir::Operation *op, bool transA,
                                   const TargetInfo &target) {
  return layOutProduct(op, transA, target, getProductPlaces(op));
}

/// Whether all matrices of `op`, laid out so, start at, and their rows are
/// apart by, what vectors of a GPU's library are multiples of.
bool isAligned(const ProductLayout &layout, mlir::Operation *op);

} // namespace mpc

#endif // MPC_PASSES_PLANNING_CONTRACTIONS_PRODUCTLAYOUT_H
