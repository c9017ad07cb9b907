// Functions for the formulas of elementwise ops in Formulas.def, written once
// as templates. Formulas are evaluated over doubles here, and over vectors in
// generated code (passes/Codegen/Kernels/Elementwise/EmitFormulas.cpp).
// Derivatives are evaluated over dual numbers of doubles or of vectors: for x =
// Dual{3, 1}, x * x is Dual{9, 6}, the value 9 and the slope 6 of the square at
// 3.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_FORMULAS_H
#define MPC_COMPILER_DIALECT_MPC_FORMULAS_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cmath>
#include <limits>

namespace mpc::formulas {

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kSqrt2OverPi = 0.79788456080286535588;
constexpr double k2OverSqrtPi = 1.12837916709551257390;
constexpr double k1OverSqrt2Pi = 0.39894228040143267794;

//===----------------------------------------------------------------------===//
// Basic functions over doubles
//===----------------------------------------------------------------------===//

inline double exp(double x) { return std::exp(x); }
inline double log1p(double x) { return std::log1p(x); }
inline double tanh(double x) { return std::tanh(x); }
inline double erf(double x) { return std::erf(x); }
/// The cumulative distribution function of the standard normal distribution.
/// Uses erfc, since 1 + erf would lose the digits of small results.
inline double normalCDF(double x) { return 0.5 * std::erfc(-x * kSqrtHalf); }
inline double sqrt(double x) { return std::sqrt(x); }
inline double sin(double x) { return std::sin(x); }
inline double cos(double x) { return std::cos(x); }
inline double tan(double x) { return std::tan(x); }
inline double asin(double x) { return std::asin(x); }
inline double acos(double x) { return std::acos(x); }
inline double atan(double x) { return std::atan(x); }
inline double sinh(double x) { return std::sinh(x); }
inline double cosh(double x) { return std::cosh(x); }
inline double asinh(double x) { return std::asinh(x); }
inline double acosh(double x) { return std::acosh(x); }
inline double atanh(double x) { return std::atanh(x); }
inline double floor(double x) { return std::floor(x); }
inline double ceil(double x) { return std::ceil(x); }
/// Rounds halves to even. nearbyint does so in the default rounding mode.
inline double roundeven(double x) { return std::nearbyint(x); }
inline double abs(double x) { return std::abs(x); }
inline double max(double x, double y) { return x < y ? y : x; }
inline double min(double x, double y) { return x > y ? y : x; }
inline double where(bool condition, double x, double y) {
  return condition ? x : y;
}

//===----------------------------------------------------------------------===//
// Functions built from the basic functions, for any kind of number
//===----------------------------------------------------------------------===//

template <typename V>
V sigmoid(V x) {
  return 1.0 / (1.0 + exp(-x));
}

/// exp(x) - 1, computed without cancellation near 0: tanh(x/2) is (exp(x) - 1)
/// / (exp(x) + 1).
template <typename V>
V expm1(V x) {
  return tanh(0.5 * x) * (exp(x) + 1.0);
}

/// log(1 + exp(x)) without overflow.
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
/// The slope of tanh is 1 / cosh^2. The equal formula 1 - tanh^2 would lose all
/// digits for large |x|, and GeluTanh multiplies the slope by x^3.
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
Dual<V> normalCDF(Dual<V> x) {
  V density = k1OverSqrt2Pi * exp(-0.5 * (x.value * x.value));
  return {normalCDF(x.value), density * x.slope};
}
template <typename V>
Dual<V> sin(Dual<V> x) {
  return {sin(x.value), cos(x.value) * x.slope};
}
template <typename V>
Dual<V> cos(Dual<V> x) {
  return {cos(x.value), -sin(x.value) * x.slope};
}
template <typename V>
Dual<V> tan(Dual<V> x) {
  V tangent = tan(x.value);
  return {tangent, (1.0 + tangent * tangent) * x.slope};
}
template <typename V>
Dual<V> asin(Dual<V> x) {
  return {asin(x.value), x.slope / sqrt((1.0 - x.value) * (1.0 + x.value))};
}
template <typename V>
Dual<V> acos(Dual<V> x) {
  return {acos(x.value), -x.slope / sqrt((1.0 - x.value) * (1.0 + x.value))};
}
template <typename V>
Dual<V> atan(Dual<V> x) {
  return {atan(x.value), x.slope / (1.0 + x.value * x.value)};
}
template <typename V>
Dual<V> sinh(Dual<V> x) {
  return {sinh(x.value), cosh(x.value) * x.slope};
}
template <typename V>
Dual<V> cosh(Dual<V> x) {
  return {cosh(x.value), sinh(x.value) * x.slope};
}
/// The slope of asinh is 1 / sqrt(1 + x^2). For |x| of 1e9 or more, x^2 could
/// overflow, and 1 + x^2 rounds to x^2 anyway.
template <typename V>
Dual<V> asinh(Dual<V> x) {
  V size = abs(x.value);
  V root = where(size < 1e9, sqrt(1.0 + x.value * x.value), size);
  return {asinh(x.value), x.slope / root};
}
template <typename V>
Dual<V> acosh(Dual<V> x) {
  V root = sqrt(x.value - 1.0) * sqrt(x.value + 1.0);
  return {acosh(x.value), x.slope / root};
}
/// Outside [-1, 1], where atanh is undefined, the slope is NaN. The formula of
/// the slope would give a finite number.
template <typename V>
Dual<V> atanh(Dual<V> x) {
  V slope = x.slope / ((1.0 - x.value) * (1.0 + x.value));
  return {atanh(x.value),
          where(-abs(x.value) < -1.0, std::numeric_limits<double>::quiet_NaN(),
                slope)};
}
/// The slope of a step function is 0 everywhere, also at the jumps.
template <typename V>
Dual<V> floor(Dual<V> x) {
  return {floor(x.value), 0.0 * x.slope};
}
template <typename V>
Dual<V> ceil(Dual<V> x) {
  return {ceil(x.value), 0.0 * x.slope};
}
template <typename V>
Dual<V> roundeven(Dual<V> x) {
  return {roundeven(x.value), 0.0 * x.slope};
}
template <typename V>
Dual<V> abs(Dual<V> x) {
  return {abs(x.value), where(x.value < 0.0, -x.slope, x.slope)};
}
/// At the point where x equals the bound, the slope is 0, that of the bound. So
/// HardSigmoid has slope 0 at the points where its value reaches 0 or 1.
template <typename V>
Dual<V> max(Dual<V> x, double y) {
  return {max(x.value, y), where(x.value <= y, 0.0, x.slope)};
}
template <typename V>
Dual<V> min(Dual<V> x, double y) {
  return {min(x.value, y), where(-x.value <= -y, 0.0, x.slope)};
}
/// sigmoid has a derivative rule of its own: the quotient rule would give NaN
/// if exp(-x) is infinite.
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

/// Defines one struct per row of Formulas.def, for example SoftplusFormula,
/// whose `evaluate(x, a, b)` computes the formula.
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

/// A parameter of a formula: the name of the op's attribute, and the default
/// value. The name is empty if the formula has fewer parameters.
struct Parameter {
  llvm::StringRef name;
  double byDefault;
};

/// A row of Formulas.def.
struct Formula {
  llvm::StringRef op;
  Parameter a, b;
  /// The function and its derivative with respect to x, in float64.
  double (*value)(double x, double a, double b);
  double (*slope)(double x, double a, double b);
};

/// Returns all rows.
llvm::ArrayRef<Formula> getFormulas();

/// Returns the row of the op with mnemonic `op`, for example "softplus"; null
/// if there is none.
const Formula *findFormula(llvm::StringRef op);

/// Returns the value of the attribute of `op` that `parameter` names, or the
/// default if `op` lacks the attribute.
double getParameter(mlir::Operation *op, const Parameter &parameter);

} // namespace mpc::formulas

#endif // MPC_COMPILER_DIALECT_MPC_FORMULAS_H
