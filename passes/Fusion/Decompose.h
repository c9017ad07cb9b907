// The common parts of the decompositions: an emitter of primitive ops with one
// computation type, and the decompositions by family.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_FUSION_DECOMPOSE_H
#define MPC_PASSES_FUSION_DECOMPOSE_H

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/MPC.h"

namespace mpc {

/// The factor of a product of matrices that is transposed.
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

  /// Like `emit`, with element type `element` instead of the computation type.
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
  /// Emits 1 where the index along the new axis equals the label, else 0.
  mlir::Value oneHot(mlir::Value labels, int64_t axis, int64_t depth);
  /// Emits an i1 per element: true if the element of `value` is not zero.
  mlir::Value isNonZero(mlir::Value value);
  /// Converts the elements to another element type, by the rules of `mpc.cast`.
  mlir::Value convert(mlir::Value value, mlir::Type element);

  /// Returns the result of a newly built op, after setting its phase.
  mlir::Value finish(mlir::Operation *op);

  mlir::ImplicitLocOpBuilder builder;
  mlir::Type compute;

private:
  llvm::SmallVector<int64_t> broadcast(llvm::ArrayRef<mlir::Value> operands);

  mlir::Attribute phase;
};

/// Returns the replacements of a composite op's results. Declared for each op
/// of the list.
#define MPC_DECOMPOSITION(OpTy)                                                \
  llvm::SmallVector<mlir::Value> decompose(OpTy op, Emitter &e);
#include "passes/Fusion/Decompositions.def"

} // namespace mpc

#endif // MPC_PASSES_FUSION_DECOMPOSE_H
