// Functions for the formulas in IntegerFormulas.def, written as templates. The
// formulas are evaluated over llvm::APSInt for constant folding, and over
// vectors in generated code
// (passes/Codegen/Kernels/Elementwise/EmitIntegers.cpp). Results wrap around
// modulo 2^n. No formula traps: an operand that would trap, such as a divisor
// of 0, is replaced first.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_FOLD_INTEGERFORMULAS_H
#define MPC_COMPILER_DIALECT_MPC_FOLD_INTEGERFORMULAS_H

#include "compiler/Dialect/MPC/MPC.h"

#include "llvm/ADT/APSInt.h"

namespace mpc::integers {

//===----------------------------------------------------------------------===//
// Basic functions, for constants (generated code has its own)
//===----------------------------------------------------------------------===//

using llvm::APInt;
using llvm::APSInt;

inline unsigned getWidth(const APSInt &x) { return x.getBitWidth(); }
inline bool isUnsigned(const APSInt &x) { return x.isUnsigned(); }
/// Converts `value` to the type of `like`.
inline APSInt number(int64_t value, const APSInt &like) {
  APInt wide(64, static_cast<uint64_t>(value));
  return APSInt(wide.trunc(like.getBitWidth()), like.isUnsigned());
}
inline APSInt where(bool condition, const APSInt &x, const APSInt &y) {
  return condition ? x : y;
}
inline bool either(bool x, bool y) { return x || y; }
inline bool both(bool x, bool y) { return x && y; }
inline bool differ(bool x, bool y) { return x != y; }
/// Requires `amount` to be below the bit width, as does shiftBitsRight.
inline APSInt shiftBitsLeft(const APSInt &x, const APSInt &amount) {
  return APSInt(x.shl(amount), x.isUnsigned());
}
inline APSInt shiftBitsRight(const APSInt &x, const APSInt &amount) {
  return x >> static_cast<unsigned>(amount.getZExtValue());
}

//===----------------------------------------------------------------------===//
// Functions built from the basic functions, for any integer type
//===----------------------------------------------------------------------===//

template <typename V>
V smallest(V x) {
  V zero = number(0, x);
  return isUnsigned(x)
             ? zero
             : shiftBitsLeft(number(1, x), number(getWidth(x) - 1, x));
}

template <typename V>
V sign(V x) {
  V zero = number(0, x), one = number(1, x);
  V positive = where(zero < x, one, zero);
  return isUnsigned(x) ? positive : where(x < zero, zero - one, positive);
}

/// Returns a / b, rounded toward zero; 0 if b is 0. The smallest number divided
/// by -1 gives the smallest number, since results wrap around.
template <typename V>
V divide(V a, V b) {
  V zero = number(0, b), one = number(1, b);
  auto isZero = b == zero;
  if (isUnsigned(b))
    return where(isZero, zero, a / where(isZero, one, b));
  auto isMinusOne = b == zero - one;
  V quotient = a / where(either(isZero, isMinusOne), one, b);
  return where(isZero, zero, where(isMinusOne, zero - a, quotient));
}

/// Returns the remainder of a division rounded toward zero. It has the sign of
/// a; 0 if b is 0.
template <typename V>
V remainder(V a, V b) {
  V zero = number(0, b), one = number(1, b);
  auto isZero = b == zero;
  // The remainder is 0 if b is 1 or -1, and by definition if b is 0. Divide by
  // 1 for b = 0, and for b = -1, since both may trap.
  auto isTrivial = isUnsigned(b) ? isZero : either(isZero, b == zero - one);
  return where(isTrivial, zero, a % where(isTrivial, one, b));
}

/// Returns the remainder of a division rounded down. It has the sign of b; 0 if
/// b is 0.
template <typename V>
V modulo(V a, V b) {
  V rest = remainder(a, b), zero = number(0, b);
  if (isUnsigned(b))
    return rest;
  auto isOff = both(differ(rest < zero, b < zero), rest != zero);
  return where(isOff, rest + b, rest);
}

/// Returns base^exponent by repeated squaring: if bit i of the exponent is set,
/// base^(2^i) is a factor. A negative exponent gives 1 / base^-exponent rounded
/// toward zero, which is 0 unless base is 1 or -1.
template <typename V>
V power(V base, V exponent) {
  V zero = number(0, base), one = number(1, base);
  V result = one, square = base, bit = one;
  unsigned bits = getWidth(exponent) - (isUnsigned(exponent) ? 0 : 1);
  for (unsigned i = 0; i < bits; ++i) {
    result = where((exponent & bit) != zero, result * square, result);
    square = square * square;
    bit = bit + bit;
  }
  if (isUnsigned(base))
    return result;
  auto isOdd = (exponent & one) != zero;
  V minusOne = zero - one;
  V inverse = where(base == minusOne, where(isOdd, minusOne, one),
                    where(base == one, one, zero));
  return where(exponent < zero, inverse, result);
}

/// True if `amount` is in [0, width).
template <typename V>
auto isShift(V amount) {
  V zero = number(0, amount);
  return both(zero <= amount, amount < number(getWidth(amount), amount));
}

/// Clears the bits of `amount` that are never set in a valid shift, so a valid
/// `amount` is unchanged. A select on the range of `amount` would be wrong
/// here: LLVM turns the selected shift into a GPU instruction that reads only
/// 32 bits of `amount`, so 1 << 2^32 became 1.
template <typename V>
V maskShift(V amount) {
  return amount & number(getWidth(amount) - 1, amount);
}

template <typename V>
V shiftLeft(V x, V amount) {
  return where(isShift(amount), shiftBitsLeft(x, maskShift(amount)),
               number(0, x));
}

template <typename V>
V shiftRight(V x, V amount) {
  V zero = number(0, x);
  V beyond = isUnsigned(x) ? zero : where(x < zero, zero - number(1, x), zero);
  return where(isShift(amount), shiftBitsRight(x, maskShift(amount)), beyond);
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

#define MPC_INTEGER_UNARY(OP, FORMULA)                                         \
  template <typename V>                                                        \
  V evaluate(OP##Op, V x) {                                                    \
    return FORMULA;                                                            \
  }
#define MPC_INTEGER_BINARY(OP, FORMULA)                                        \
  template <typename V>                                                        \
  V evaluate([[maybe_unused]] OP##Op op, V a, V b) {                           \
    return FORMULA;                                                            \
  }
#define MPC_INTEGER_COMPARE(OP, FORMULA)                                       \
  template <typename V>                                                        \
  auto evaluate(OP##Op, V a, V b) {                                            \
    return FORMULA;                                                            \
  }
#define MPC_INTEGER_REDUCE(OP, FIRST, STEP)                                    \
  template <typename V>                                                        \
  V getFirst(OP##Op, V x) {                                                    \
    return FIRST;                                                              \
  }                                                                            \
  template <typename V>                                                        \
  V evaluate(OP##Op, V a, V b) {                                               \
    return STEP;                                                               \
  }
#include "compiler/Dialect/MPC/Fold/IntegerFormulas.def"

} // namespace mpc::integers

#endif // MPC_COMPILER_DIALECT_MPC_FOLD_INTEGERFORMULAS_H
