// Arithmetic on one element or on a vector of adjacent elements, written once.
//
// A value of the emitter is a scalar or a `vector<Nxtype>`. If an op has
// operands of both kinds, the scalar is broadcast. Constants are scalars. A
// formula is thus written once, and values that are uniform over a loop stay
// scalar and move out of the loop.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_LOOPS_LANES_H
#define MPC_PASSES_CODEGEN_KERNELS_LOOPS_LANES_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/TypeUtilities.h"

namespace mpc::codegen {

class Lanes {
public:
  /// Formulas of floats are computed in `compute`, f32 or f64.
  Lanes(mlir::ImplicitLocOpBuilder &builder, mlir::FloatType compute)
      : b(builder), compute(compute) {}

  mlir::FloatType getComputeType() const { return compute; }
  mlir::ImplicitLocOpBuilder &getBuilder() { return b; }

  mlir::Value constant(double value) { return constant(compute, value); }
  mlir::Value constant(mlir::FloatType type, double value);
  mlir::Value integer(mlir::Type type, int64_t value);

  mlir::Value add(mlir::Value x, mlir::Value y);
  mlir::Value sub(mlir::Value x, mlir::Value y);
  mlir::Value mul(mlir::Value x, mlir::Value y);
  mlir::Value div(mlir::Value x, mlir::Value y);
  /// Emits sum + x * y, as one fused multiply-add if the target has the
  /// instruction. Both forms are right: products of 16-bit floats are exact in
  /// f32, and for f32 the fused form has one rounding less. Results may differ
  /// between targets, but not between runs on one target.
  mlir::Value multiplyAdd(mlir::Value x, mlir::Value y, mlir::Value sum);
  mlir::Value neg(mlir::Value x);
  mlir::Value abs(mlir::Value x);
  mlir::Value exp(mlir::Value x);
  /// Emits the natural logarithm, also right for subnormal numbers.
  mlir::Value log(mlir::Value x);
  mlir::Value sqrt(mlir::Value x);
  /// Emits x^y. With the flag `afn`, a GPU needs half the operations, and loses
  /// digits if the result is far from 1.
  mlir::Value
  pow(mlir::Value x, mlir::Value y,
      mlir::arith::FastMathFlags flags = mlir::arith::FastMathFlags::none);
  /// Emit the maximum and the minimum; NaN if either operand is NaN.
  mlir::Value maximum(mlir::Value x, mlir::Value y);
  mlir::Value minimum(mlir::Value x, mlir::Value y);

  mlir::Value addInt(mlir::Value x, mlir::Value y);
  mlir::Value mulInt(mlir::Value x, mlir::Value y);
  mlir::Value xorInt(mlir::Value x, mlir::Value y);

  mlir::Value compare(mlir::arith::CmpFPredicate predicate, mlir::Value x,
                      mlir::Value y);
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, mlir::Value x,
                      mlir::Value y);
  mlir::Value select(mlir::Value condition, mlir::Value onTrue,
                     mlir::Value onFalse);

  /// Converts to another float type, with a single rounding to nearest even.
  mlir::Value convert(mlir::Value value, mlir::FloatType type);

  /// Returns `element`, or a vector of `element` with as many lanes as `like`.
  static mlir::Type typeLike(mlir::Type element, mlir::Value like);

  /// Broadcasts a scalar `value` to as many lanes as `like` has.
  mlir::Value broadcast(mlir::Value value, mlir::Value like);

private:
  template <typename OpTy>
  mlir::Value binary(mlir::Value x, mlir::Value y);

  mlir::Value roundToOdd(mlir::Value wide);

  mlir::ImplicitLocOpBuilder &b;
  mlir::FloatType compute;
};

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_LOOPS_LANES_H
