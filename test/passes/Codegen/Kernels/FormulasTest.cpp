// Tests the code of every formula and derivative against the formula in
// float64, on every runnable target.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Formulas.h"
#include "test/passes/Codegen/KernelHarness.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

namespace mpc::test {
namespace {

class Formulas : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Targets, Formulas,
                         testing::ValuesIn(runnableTargets()));

constexpr size_t kPoints = 133;

/// Values from -8 to 8 without kinks, far values, and NaN. Functions defined
/// only below 1 get closer values.
template <typename T>
std::vector<T> makePoints(const std::string &op) {
  std::vector<T> x = {-1e4, -95, 95, 1e4, std::numeric_limits<T>::quiet_NaN()};
  bool isShort = op == "asin" || op == "acos" || op == "atanh";
  double step = isShort ? 0.0156 : 0.125;
  while (x.size() < kPoints)
    x.push_back(-64.24 * step + step * (x.size() - 5));
  return x;
}

/// The op of `formula` on elements of `type`, and its gradient for an incoming
/// gradient of 1.
std::string makeKernel(const formulas::Formula &formula, std::string type) {
  std::string tensor = "tensor<133x" + type + ">", op = formula.op.str();
  auto number = [](double value) {
    return llvm::formatv("{0:f20} : f64", value).str();
  };
  std::string given =
      formula.a.name.empty() ? "" : " {" + formula.a.name.str() + " = ALPHA}";
  std::string text = "func.func private @kernel(%x: T, %dy: T) -> (T, T) "
                     "attributes {mpc.kernel = #mpc.kernel<pointwise>} {\n"
                     "%0 = mpc." +
                     op + " %x" + given +
                     " : (T) -> T\n"
                     "%1 = mpc.formula_grad %dy, %x {of = \"" +
                     op + "\", a = ALPHA, b = " + number(formula.b.byDefault) +
                     "} : (T, T) -> T\nreturn %0, %1 : T, T\n}";
  std::string result;
  for (size_t i = 0; i < text.size(); ++i)
    if (text.compare(i, 5, "ALPHA") == 0) {
      result += number(0.75);
      i += 4;
    } else if (text[i] == 'T' && !std::isalpha(text[i + 1])) {
      result += tensor;
    } else {
      result += text[i];
    }
  return result;
}

/// Expects an error of some multiples of `unit`, relative to the terms of the
/// result. Beyond `largest`, expects infinity.
void expectClose(double found, double expected, double x, double unit,
                 double largest, const std::string &what) {
  if (std::isnan(expected) || std::isnan(x)) {
    EXPECT_TRUE(std::isnan(found)) << what << " of " << x << " is " << found;
    return;
  }
  if (std::abs(expected) > largest) {
    EXPECT_EQ(found, std::copysign(INFINITY, expected)) << what << " at " << x;
    return;
  }
  double scale =
      std::max({1.0, std::abs(expected), std::min(std::abs(x), 10.0)});
  EXPECT_NEAR(found, expected, 8 * unit * scale) << what << " at " << x;
}

template <typename T>
void compareAll(const std::string &target, const std::string &type) {
  constexpr double unit = std::numeric_limits<T>::epsilon();
  constexpr double largest = std::numeric_limits<T>::max();
  for (const formulas::Formula &formula : formulas::getFormulas()) {
    CompiledKernel kernel(makeKernel(formula, type), target);
    ASSERT_EQ(kernel.getError(), "") << formula.op.str();
    std::vector<T> x = makePoints<T>(formula.op.str()), one(kPoints, 1),
                   y(kPoints), dx(kPoints);
    kernel.launch({x.data(), one.data(), y.data(), dx.data()});
    double a = formula.a.name.empty() ? 0 : 0.75, b = formula.b.byDefault;
    std::string op = formula.op.str();
    for (size_t i = 0; i < kPoints; ++i) {
      expectClose(y[i], formula.value(x[i], a, b), x[i], unit, largest, op);
      expectClose(dx[i], formula.slope(x[i], a, b), x[i], unit, largest,
                  op + "'");
    }
  }
}

TEST_P(Formulas, AreComputedInF32) { compareAll<float>(GetParam(), "f32"); }
TEST_P(Formulas, AreComputedInF64) { compareAll<double>(GetParam(), "f64"); }

// GELU has all its digits down to denormal results. The reference is x Phi(x),
// with Phi by erfc in the 64 bits of a long double.
TEST_P(Formulas, HaveTheirDigitsInTheTailOfGelu) {
  const formulas::Formula *gelu = formulas::findFormula("gelu");
  CompiledKernel kernel(makeKernel(*gelu, "f64"), GetParam());
  ASSERT_EQ(kernel.getError(), "");
  std::vector<double> x(kPoints), one(kPoints, 1), y(kPoints), dx(kPoints);
  for (size_t i = 0; i < kPoints; ++i)
    x[i] = 3 - 0.3 * static_cast<double>(i);
  x[0] = INFINITY;
  kernel.launch({x.data(), one.data(), y.data(), dx.data()});
  EXPECT_EQ(y[0], INFINITY);
  for (size_t i = 1; i < kPoints; ++i) {
    long double exact = x[i] * 0.5L * erfcl(-x[i] * std::sqrt(0.5L));
    double unit = std::max(std::abs(static_cast<double>(exact)) * 0x1p-52,
                           std::numeric_limits<double>::denorm_min());
    EXPECT_NEAR(y[i], static_cast<double>(exact), 8 * unit) << x[i];
  }
}

} // namespace
} // namespace mpc::test
