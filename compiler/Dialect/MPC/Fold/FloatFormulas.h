// Evaluates ops on constant floats, in the op's own type: 0.1 + 0.2 of f32 is
// rounded to f32. This file has every op whose result IEEE arithmetic fixes to
// the last bit. The last digits of functions such as exp differ between
// machines, so exp is not folded but left to the kernels.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_FOLD_FLOATFORMULAS_H
#define MPC_COMPILER_DIALECT_MPC_FOLD_FLOATFORMULAS_H

#include "compiler/Dialect/MPC/Formulas.h"
#include "compiler/Dialect/MPC/MPC.h"

#include "llvm/ADT/APFloat.h"

namespace mpc::floats {

using llvm::APFloat;

/// Rounds `value` to the type of `like`. A double has more than twice the
/// digits of an f32, so rounding to double first does not change sums,
/// products, quotients and roots.
inline APFloat number(double value, const APFloat &like) {
  APFloat result(value);
  bool losesInfo;
  result.convert(like.getSemantics(), APFloat::rmNearestTiesToEven, &losesInfo);
  return result;
}

//===----------------------------------------------------------------------===//
// Unary ops
//===----------------------------------------------------------------------===//

inline APFloat evaluate(NegOp, const APFloat &x) { return neg(x); }
inline APFloat evaluate(AbsOp, const APFloat &x) { return abs(x); }
/// Zeros and NaN are returned unchanged.
inline APFloat evaluate(SignOp, const APFloat &x) {
  return x.isZero() || x.isNaN() ? x : number(x.isNegative() ? -1 : 1, x);
}
/// Returns +0 for either zero, as the kernel does.
inline APFloat evaluate(ReluOp, const APFloat &x) {
  APFloat zero = number(0, x);
  return x <= zero ? zero : x;
}
inline APFloat evaluate(ReciprocalOp, const APFloat &x) {
  return number(1, x) / x;
}
inline APFloat evaluate(SqrtOp, const APFloat &x) {
  return number(std::sqrt(x.convertToDouble()), x);
}

/// Rows of Formulas.def with integral results, evaluated over doubles.
#define MPC_WHOLE_NUMBER(OP)                                                   \
  inline APFloat evaluate(OP##Op, const APFloat &x) {                          \
    return number(                                                             \
        formulas::OP##Formula::evaluate(x.convertToDouble(), 0.0, 0.0), x);    \
  }
MPC_WHOLE_NUMBER(Ceil)
MPC_WHOLE_NUMBER(Floor)
MPC_WHOLE_NUMBER(Round)
#undef MPC_WHOLE_NUMBER

//===----------------------------------------------------------------------===//
// Binary ops
//===----------------------------------------------------------------------===//

#define MPC_FLOAT_BINARY(OP, RESULT, FORMULA)                                  \
  inline RESULT evaluate(OP##Op, const APFloat &a, const APFloat &b) {         \
    return FORMULA;                                                            \
  }
MPC_FLOAT_BINARY(Add, APFloat, a + b)
MPC_FLOAT_BINARY(Sub, APFloat, a - b)
MPC_FLOAT_BINARY(Mul, APFloat, a *b)
MPC_FLOAT_BINARY(Div, APFloat, a / b)
// NaN if either operand is NaN. +0 is larger than -0, as in IEEE 754; a kernel
// for x86 returns the second operand.
MPC_FLOAT_BINARY(Maximum, APFloat, llvm::maximum(a, b))
MPC_FLOAT_BINARY(Minimum, APFloat, llvm::minimum(a, b))
MPC_FLOAT_BINARY(Equal, bool, a == b)
MPC_FLOAT_BINARY(Less, bool, a < b)
MPC_FLOAT_BINARY(LessOrEqual, bool, a <= b)
#undef MPC_FLOAT_BINARY

} // namespace mpc::floats

#endif // MPC_COMPILER_DIALECT_MPC_FOLD_FLOATFORMULAS_H
