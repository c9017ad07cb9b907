// Emits the primitive ops that replace a composite op, and declares the
// decomposition of each composite op.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_FUSION_DECOMPOSE_H
#define MPC_PASSES_FUSION_DECOMPOSE_H

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/MPC.h"

namespace mpc {

/// Tells which factor of a matrix product is transposed, if any.
enum class TransposedFactor { None, Lhs, Rhs };

/// Emits primitive ops in place of `op`, at the location and in the phase of
/// `op`. Computes in f64 if an operand or result of `op` is f64, otherwise in
/// f32.
class Emitter {
public:
  explicit Emitter(mlir::Operation *op);

  /// Emits an elementwise op on values that broadcast together.
  template <typename OpTy, typename... Values>
  mlir::Value emit(Values... operands) {
    return emitAs<OpTy>(compute, operands...);
  }

  /// Like `emit`, but the result has element type `element`.
  template <typename OpTy, typename... Values>
  mlir::Value emitAs(mlir::Type element, Values... operands) {
    mlir::Type type =
        mlir::RankedTensorType::get(broadcast({operands...}), element);
    return finish(OpTy::create(builder, type, operands...));
  }

  /// Emits a reduction that keeps its axes with size 1.
  template <typename OpTy>
  mlir::Value reduce(mlir::Value input, llvm::ArrayRef<int64_t> axes) {
    llvm::SmallVector<int64_t> shape(shapeOf(input));
    for (int64_t axis : axes)
      shape[axis] = 1;
    return finish(OpTy::create(builder,
                               mlir::RankedTensorType::get(shape, compute),
                               input, axes, /*keepdims=*/true));
  }

  /// Emits a reduction over all axes, to a value of rank 0.
  template <typename OpTy>
  mlir::Value reduceAll(mlir::Value input) {
    if (shapeOf(input).empty())
      return input;
    auto axes = llvm::to_vector(llvm::seq<int64_t>(0, shapeOf(input).size()));
    return reshape(reduce<OpTy>(input, axes), {});
  }

  mlir::Value scalar(double value);
  mlir::Value constant(mlir::ElementsAttr value);
  mlir::Value reshape(mlir::Value input, llvm::ArrayRef<int64_t> shape);
  mlir::Value transpose(mlir::Value input, llvm::ArrayRef<int64_t> perm);
  mlir::Value expand(mlir::Value input, mlir::RankedTensorType type);
  /// Inserts an axis of `depth` elements into `labels` at `axis`: 1 at the
  /// index equal to the label, else 0. Label 2 of depth 4 becomes [0, 0, 1, 0].
  mlir::Value oneHot(mlir::Value labels, int64_t axis, int64_t depth);
  /// Emits a boolean (i1) per element: true if the element of `value` is not
  /// zero.
  mlir::Value isNonZero(mlir::Value value);
  /// Converts the elements to another element type, by the rules of `mpc.cast`.
  mlir::Value convert(mlir::Value value, mlir::Type element);

  /// Sets the phase of a new op and returns its result.
  mlir::Value finish(mlir::Operation *op);

  mlir::ImplicitLocOpBuilder builder;
  mlir::Type compute;

private:
  llvm::SmallVector<int64_t> broadcast(llvm::ArrayRef<mlir::Value> operands);

  mlir::Attribute phase;
};

/// Declares `decompose` for each op of Decompositions.def. Returns the values
/// that replace the results of the op.
#define MPC_DECOMPOSITION(OpTy)                                                \
  llvm::SmallVector<mlir::Value> decompose(OpTy op, Emitter &e);
#include "passes/Fusion/Decompositions.def"

} // namespace mpc

#endif // MPC_PASSES_FUSION_DECOMPOSE_H
