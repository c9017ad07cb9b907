// Evaluates float ops on constants, for folding. Results are rounded to the
// op's type: 0.1 + 0.2 of f32 gives an f32. The file has every op whose result
// IEEE 754 fixes to the last bit. Functions such as exp differ between machines
// in the last digits, so these functions are left to kernels.
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
/// digits of an f32. So a sum, product, quotient or root that is computed in
/// double and then rounded equals the f32 result.
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
/// Returns 1 or -1 with the sign of x. Zeros and NaN stay as they are.
inline APFloat evaluate(SignOp, const APFloat &x) {
  return x.isZero() || x.isNaN() ? x : number(x.isNegative() ? -1 : 1, x);
}
/// Returns max(x, 0). The result is +0 for -0 too, as in kernels.
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

/// Functions of Formulas.def with integral results. A double holds the result
/// exactly, so evaluate over doubles.
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
// The result is NaN if an operand is NaN. +0 counts as larger than -0, as in
// IEEE 754, while an x86 kernel returns the second operand for two zeros.
MPC_FLOAT_BINARY(Maximum, APFloat, llvm::maximum(a, b))
MPC_FLOAT_BINARY(Minimum, APFloat, llvm::minimum(a, b))
MPC_FLOAT_BINARY(Equal, bool, a == b)
MPC_FLOAT_BINARY(Less, bool, a < b)
MPC_FLOAT_BINARY(LessOrEqual, bool, a <= b)
#undef MPC_FLOAT_BINARY

} // namespace mpc::floats

#endif // MPC_COMPILER_DIALECT_MPC_FOLD_FLOATFORMULAS_H
