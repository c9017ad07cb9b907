// Formulas of elementwise functions, written once as templates (Formulas.def)
// and evaluated over whatever number is asked for: doubles here, vectors in
// generated code (passes/Codegen/Kernels/EmitFormulas.cpp), and dual numbers of
// either for derivatives. For example, with x = Dual{3, 1}, x * x is Dual{9,
// 6}: nine, and the slope of the square at three.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_FORMULAS_H
#define MPC_COMPILER_DIALECT_MPC_FORMULAS_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cmath>

namespace mpc::formulas {

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kSqrt2OverPi = 0.79788456080286535588;
constexpr double k2OverSqrtPi = 1.12837916709551257390;

//===----------------------------------------------------------------------===//
// Words of formulas, over doubles
//===----------------------------------------------------------------------===//

inline double exp(double x) { return std::exp(x); }
inline double log1p(double x) { return std::log1p(x); }
inline double tanh(double x) { return std::tanh(x); }
inline double erf(double x) { return std::erf(x); }
inline double abs(double x) { return std::abs(x); }
inline double max(double x, double y) { return x < y ? y : x; }
inline double min(double x, double y) { return x > y ? y : x; }
inline double where(bool condition, double x, double y) {
  return condition ? x : y;
}

//===----------------------------------------------------------------------===//
// Words made of words, over any number
//===----------------------------------------------------------------------===//

template <typename V>
V sigmoid(V x) {
  return 1.0 / (1.0 + exp(-x));
}

/// exp(x) - 1 without the loss of digits near 0: tanh(x/2) is
/// (exp(x) - 1) / (exp(x) + 1).
template <typename V>
V expm1(V x) {
  return tanh(0.5 * x) * (exp(x) + 1.0);
}

/// log(1 + exp(x)) that does not overflow.
template <typename V>
V softplus(V x) {
  return max(x, 0.0) + log1p(exp(-abs(x)));
}

//===----------------------------------------------------------------------===//
// Dual numbers
//===----------------------------------------------------------------------===//

/// A value and its derivative with respect to x.
template <typename V>
struct Dual {
  V value, slope;
};

template <typename V>
Dual<V> operator-(Dual<V> x) {
  return {-x.value, -x.slope};
}
template <typename V>
Dual<V> operator+(Dual<V> x, Dual<V> y) {
  return {x.value + y.value, x.slope + y.slope};
}
template <typename V>
Dual<V> operator+(Dual<V> x, double y) {
  return {x.value + y, x.slope};
}
template <typename V>
Dual<V> operator+(double x, Dual<V> y) {
  return y + x;
}
template <typename V>
Dual<V> operator*(Dual<V> x, Dual<V> y) {
  return {x.value * y.value, x.value * y.slope + x.slope * y.value};
}
template <typename V>
Dual<V> operator*(Dual<V> x, double y) {
  return {x.value * y, x.slope * y};
}
template <typename V>
Dual<V> operator*(double x, Dual<V> y) {
  return y * x;
}
template <typename V>
Dual<V> operator/(Dual<V> x, Dual<V> y) {
  V quotient = x.value / y.value;
  return {quotient, (x.slope - quotient * y.slope) / y.value};
}
template <typename V>
Dual<V> operator/(Dual<V> x, double y) {
  return {x.value / y, x.slope / y};
}

template <typename V>
auto operator<(Dual<V> x, double y) {
  return x.value < y;
}
template <typename V>
auto operator<=(Dual<V> x, double y) {
  return x.value <= y;
}
template <typename M, typename V>
Dual<V> where(M condition, Dual<V> x, Dual<V> y) {
  return {where(condition, x.value, y.value),
          where(condition, x.slope, y.slope)};
}
template <typename M, typename V>
Dual<V> where(M condition, double x, Dual<V> y) {
  return {where(condition, x, y.value), where(condition, 0.0, y.slope)};
}

template <typename V>
Dual<V> exp(Dual<V> x) {
  V power = exp(x.value);
  return {power, power * x.slope};
}
template <typename V>
Dual<V> log1p(Dual<V> x) {
  return {log1p(x.value), x.slope / (1.0 + x.value)};
}
/// By 1 / cosh^2, which keeps its digits where tanh is 1 but for a rounding and
/// 1 - tanh^2 has none: GeluTanh multiplies it by x^3.
template <typename V>
Dual<V> tanh(Dual<V> x) {
  V decay = exp(-2.0 * abs(x.value));
  V sum = 1.0 + decay;
  return {tanh(x.value), 4.0 * decay / (sum * sum) * x.slope};
}
template <typename V>
Dual<V> erf(Dual<V> x) {
  return {erf(x.value), k2OverSqrtPi * exp(-(x.value * x.value)) * x.slope};
}
template <typename V>
Dual<V> abs(Dual<V> x) {
  return {abs(x.value), where(x.value < 0.0, -x.slope, x.slope)};
}
/// At the kink the bound counts, which does not move: HardSigmoid has slope 0
/// where it becomes 0 or 1.
template <typename V>
Dual<V> max(Dual<V> x, double y) {
  return {max(x.value, y), where(x.value <= y, 0.0, x.slope)};
}
template <typename V>
Dual<V> min(Dual<V> x, double y) {
  return {min(x.value, y), where(-x.value <= -y, 0.0, x.slope)};
}
/// By its own derivative: that of a quotient with an infinite exp(-x) is NaN.
template <typename V>
Dual<V> sigmoid(Dual<V> x) {
  V result = sigmoid(x.value);
  return {result, result * (1.0 - result) * x.slope};
}
template <typename V>
Dual<V> expm1(Dual<V> x) {
  return {expm1(x.value), exp(x.value) * x.slope};
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

/// A struct per row: `SoftplusFormula::evaluate(x, a, b)`.
#define MPC_FORMULA(OP, MNEMONIC, ONNX, SINCE, FP16, BF16, WHY, ANAME, A,      \
                    BNAME, B, FORMULA)                                         \
  struct OP##Formula {                                                         \
    template <typename V>                                                      \
    static V evaluate(V x, [[maybe_unused]] double a,                          \
                      [[maybe_unused]] double b) {                             \
      return FORMULA;                                                          \
    }                                                                          \
  };
#include "compiler/Dialect/MPC/Formulas.def"

/// An attribute of an op that its formula reads; of no name where there is
/// none.
struct Parameter {
  llvm::StringRef name;
  double byDefault;
};

/// A row of the table.
struct Formula {
  llvm::StringRef op;
  Parameter a, b;
  /// The function and its derivative, in float64.
  double (*value)(double x, double a, double b);
  double (*slope)(double x, double a, double b);
};

/// All rows.
llvm::ArrayRef<Formula> getFormulas();

/// The row of an op by its mnemonic, null where it has none.
const Formula *findFormula(llvm::StringRef op);

/// The value that `op` gives to a parameter of its formula.
double getParameter(mlir::Operation *op, const Parameter &parameter);

} // namespace mpc::formulas

#endif // MPC_COMPILER_DIALECT_MPC_FORMULAS_H
