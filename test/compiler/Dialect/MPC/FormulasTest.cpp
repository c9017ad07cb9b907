// Tests that every formula computes its function, and that its derivative is
// the function's.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Formulas.h"

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringSet.h"

#include <gtest/gtest.h>
#include <limits>

using namespace mpc;
using namespace mpc::formulas;

namespace mpc::formulas {
#define MPC_FORMULA(OP, MNEMONIC, ONNX, SINCE, FP16, BF16, WHY, ANAME, A,      \
                    BNAME, B, FORMULA)                                         \
  struct OP##Formula {                                                         \
    template <typename V>                                                      \
    static V evaluate(V x) {                                                   \
      return FORMULA;                                                          \
    }                                                                          \
  };
#include "test/compiler/Dialect/MPC/DocumentedFormula.def"
#undef MPC_FORMULA
} // namespace mpc::formulas

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Kinks are at multiples of 1/2, and no point is.
std::vector<double> points() {
  std::vector<double> all;
  for (double x = -8.031; x < 8; x += 0.17)
    all.push_back(x);
  return all;
}

/// The domain of a function: all numbers, with exceptions.
struct Domain {
  double low = -kInfinity, high = kInfinity;
  /// True if function and slope stay finite far out.
  bool isTame = true;
};

Domain domainOf(const Formula &formula) {
  if (formula.op == "asin" || formula.op == "acos" || formula.op == "atanh")
    return {-1, 1, false};
  if (formula.op == "acosh")
    return {1, kInfinity, false};
  bool grows = formula.op == "sinh" || formula.op == "cosh" ||
               formula.op == "tan"; // which has poles
  return {-kInfinity, kInfinity, !grows};
}

TEST(Formulas, HaveTheSlopeOfTheirValues) {
  for (const Formula &formula : getFormulas())
    for (double x : points()) {
      double a = formula.a.byDefault, b = formula.b.byDefault, step = 1e-6;
      Domain domain = domainOf(formula);
      if (x < domain.low || x > domain.high)
        continue;
      double expected =
          (formula.value(x + step, a, b) - formula.value(x - step, a, b)) /
          (2 * step);
      EXPECT_NEAR(formula.slope(x, a, b), expected,
                  1e-8 * std::max(1.0, expected * expected))
          << formula.op.str() << " at " << x;
    }
}

// Outside its domain, a function's slope is NaN too.
TEST(Formulas, AreNaNOutsideTheirDomain) {
  for (const Formula &formula : getFormulas())
    for (double x : {-800.0, -1.5, 0.5, 1.5, 800.0}) {
      Domain domain = domainOf(formula);
      bool isInside = x >= domain.low && x <= domain.high;
      double a = formula.a.byDefault, b = formula.b.byDefault;
      EXPECT_EQ(std::isnan(formula.value(x, a, b)), !isInside)
          << formula.op.str() << " at " << x;
      EXPECT_EQ(std::isnan(formula.slope(x, a, b)), !isInside)
          << formula.op.str() << "' at " << x;
    }
}

// An unbounded formula's slope may be infinite or NaN if an exponential
// overflows, although the function is flat there.
TEST(Formulas, HaveFiniteSlopesFarOut) {
  for (const Formula &formula : getFormulas())
    for (double x : {-1e4, -800.0, 800.0, 1e4}) {
      if (!domainOf(formula).isTame)
        continue;
      double a = formula.a.byDefault, b = formula.b.byDefault;
      EXPECT_TRUE(std::isfinite(formula.value(x, a, b)))
          << formula.op.str() << " at " << x;
      EXPECT_LE(std::abs(formula.slope(x, a, b)), 2)
          << formula.op.str() << " at " << x;
    }
}

TEST(Formulas, LetNaNPass) {
  for (const Formula &formula : getFormulas())
    EXPECT_TRUE(std::isnan(
        formula.value(kNaN, formula.a.byDefault, formula.b.byDefault)))
        << formula.op.str();
}

double at(llvm::StringRef op, double x) {
  const Formula &formula = *findFormula(op);
  return formula.value(x, formula.a.byDefault, formula.b.byDefault);
}

TEST(Formulas, AreTheFunctionsOfTheirNames) {
  for (double x : points()) {
    double normal = (1 + std::erf(x / std::sqrt(2.0))) / 2;
    EXPECT_NEAR(at("gelu", x), x * normal, 1e-14);
    EXPECT_NEAR(at("gelu_tanh", x), x * normal, 1e-3);
    EXPECT_NEAR(at("softplus", x), std::log(1 + std::exp(x)), 1e-14);
    EXPECT_NEAR(at("mish", x), x * std::tanh(std::log(1 + std::exp(x))), 1e-14);
    EXPECT_NEAR(at("swish", x), x / (1 + std::exp(-x)), 1e-14);
    EXPECT_NEAR(at("elu", x), x < 0 ? std::expm1(x) : x, 1e-15);
  }
  EXPECT_EQ(at("round", 2.5), 2);
  EXPECT_EQ(at("round", -3.5), -4);
  EXPECT_EQ(at("floor", -0.5), -1);
  EXPECT_EQ(at("ceil", 0.5), 1);
  EXPECT_EQ(at("hard_swish", -3), 0);
  EXPECT_EQ(at("hard_swish", 3), 3);
  EXPECT_EQ(at("leaky_relu", -2), -0.02);
  EXPECT_EQ(at("thresholded_relu", 1), 0);
  EXPECT_EQ(at("thresholded_relu", 1.5), 1.5);
  EXPECT_EQ(at("softplus", kInfinity), kInfinity);
}

// A large number's square overflows, but its slope does not.
TEST(Formulas, KeepSlopesFarOut) {
  const Formula &formula = *findFormula("asinh");
  for (double x : {0.5, 999999999.0, 1000000001.0, 1e200, -1e300})
    EXPECT_NEAR(formula.slope(x, 0, 0) * std::hypot(x, 1), 1, 1e-15) << x;
}

// Near 0, exp(x) - 1 would lose its digits.
TEST(Formulas, KeepDigitsNearZero) {
  for (double x : {1e-3, -1e-8, 1e-12, -1e-300})
    EXPECT_NEAR(formulas::expm1(x) / std::expm1(x), 1, 1e-15) << x;
}

// docs/adding-an-op.md adds this row and describes it.
TEST(Formulas, OfTheDocumentationIsLogSigmoid) {
  for (double x : points()) {
    Dual<double> y = LogSigmoidFormula::evaluate(Dual<double>{x, 1});
    EXPECT_NEAR(y.value, -std::log1p(std::exp(-x)), 1e-14) << x;
    EXPECT_NEAR(y.slope, 1 / (1 + std::exp(x)), 1e-14) << x;
  }
}

// The rows are exactly the dialect's ops with the formula trait.
TEST(Formulas, AreOpsOfTheDialect) {
  mlir::MLIRContext context;
  context.loadDialect<MPCDialect>();
  llvm::StringSet<> seen;
  for (const Formula &formula : getFormulas()) {
    auto name = ("mpc." + formula.op).str();
    EXPECT_TRUE(mlir::RegisteredOperationName::lookup(name, &context)) << name;
    EXPECT_TRUE(seen.insert(formula.op).second) << name;
  }
  EXPECT_EQ(findFormula("tanh"), nullptr);
}

TEST(Formulas, SayHowTheyFareIn16Bits) {
  OpPolicy elu = formulas::getDefaultPolicy("elu");
  ASSERT_EQ(elu.onnx.size(), 1u);
  EXPECT_EQ(elu.onnx.front(), "Elu");
  EXPECT_EQ(elu.why, "one rounding per element");
  EXPECT_TRUE(formulas::getDefaultPolicy("gelu_tanh").onnx.empty());
  EXPECT_DEATH(formulas::getDefaultPolicy("tanh"),
               "mpc.tanh has no row in Formulas.def");
}

} // namespace
