// What the decompositions share: an emitter of primitive ops that computes in
// one type, and the decompositions by family.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_FUSION_DECOMPOSE_H
#define MPC_PASSES_FUSION_DECOMPOSE_H

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/MPC.h"

namespace mpc {

/// Emits primitive ops in place of `op`: at its location, in its phase, in f64
/// where an operand or result of it is f64 and in f32 otherwise.
class Emitter {
public:
  explicit Emitter(mlir::Operation *op);

  /// An elementwise op on values that broadcast together.
  template <typename OpTy, typename... Values>
  mlir::Value emit(Values... operands) {
    return emitAs<OpTy>(compute, operands...);
  }

  /// The same with another element type than the one computed in.
  template <typename OpTy, typename... Values>
  mlir::Value emitAs(mlir::Type element, Values... operands) {
    mlir::Type type =
        mlir::RankedTensorType::get(broadcast({operands...}), element);
    return finish(OpTy::create(builder, type, operands...));
  }

  /// A reduction that keeps its axes with size 1.
  template <typename OpTy>
  mlir::Value reduce(mlir::Value input, llvm::ArrayRef<int64_t> axes) {
    llvm::SmallVector<int64_t> shape(shapeOf(input));
    for (int64_t axis : axes)
      shape[axis] = 1;
    return finish(OpTy::create(builder,
                               mlir::RankedTensorType::get(shape, compute),
                               input, axes, /*keepdims=*/true));
  }

  /// Over all axes, to a value of rank 0.
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
  /// 1 where the new axis equals the label, else 0.
  mlir::Value oneHot(mlir::Value labels, int64_t axis, int64_t depth);
  /// Whether `value` is not zero, as i1.
  mlir::Value isNonZero(mlir::Value value);
  /// The elements as another element type, by the rules of `mpc.cast`.
  mlir::Value convert(mlir::Value value, mlir::Type element);

  /// The result of an op that was built, which gets the phase.
  mlir::Value finish(mlir::Operation *op);

  mlir::ImplicitLocOpBuilder builder;
  mlir::Type compute;

private:
  llvm::SmallVector<int64_t> broadcast(llvm::ArrayRef<mlir::Value> operands);

  mlir::Attribute phase;
};

/// The replacements of a composite op's results, for each op of the list.
#define MPC_DECOMPOSITION(OpTy)                                                \
  llvm::SmallVector<mlir::Value> decompose(OpTy op, Emitter &e);
#include "passes/Fusion/Decompositions.def"

} // namespace mpc

#endif // MPC_PASSES_FUSION_DECOMPOSE_H
