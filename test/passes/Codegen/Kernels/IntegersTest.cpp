// Tests integer kernels on every target against the folders' formulas.
// test/numerics/test_integers.py compares these with NumPy.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Fold/IntegerFormulas.h"
#include "test/passes/Codegen/KernelHarness.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <random>

namespace mpc::test {
namespace {

using llvm::APInt;
using llvm::APSInt;

/// A signed or unsigned integer type by its width.
struct IntegerKind {
  unsigned width;
  bool isUnsigned;

  std::string name() const {
    return (isUnsigned ? "ui" : "i") + std::to_string(width);
  }
};

/// Integers in memory.
class Buffer {
public:
  Buffer(IntegerKind kind, size_t count)
      : kind(kind), bytes(count * kind.width / 8) {}

  APSInt get(size_t i) const {
    uint64_t bits = 0;
    std::memcpy(&bits, &bytes[i * kind.width / 8], kind.width / 8);
    return APSInt(APInt(kind.width, bits), kind.isUnsigned);
  }
  void set(size_t i, const APInt &value) {
    uint64_t bits = value.getZExtValue();
    std::memcpy(&bytes[i * kind.width / 8], &bits, kind.width / 8);
  }
  size_t size() const { return bytes.size() * 8 / kind.width; }
  void *data() { return bytes.data(); }

private:
  IntegerKind kind;
  std::vector<char> bytes;
};

/// First the type's limits and small numbers, then random ones.
Buffer makeNumbers(IntegerKind kind, size_t count, int seed) {
  Buffer buffer(kind, count);
  std::vector<int64_t> edges = {0, 1, 2, 3, 7, -1, -2, -3};
  std::mt19937_64 random(seed);
  for (size_t i = 0; i < count; ++i) {
    size_t at = seed % 2 ? i / 10 : i % 10;
    APInt value(64, random());
    if (i < 100 && at < edges.size())
      value = APInt(64, edges[at], /*isSigned=*/true);
    else if (i < 100)
      value = APInt(64, ~uint64_t(0) >> (64 - kind.width + at % 2));
    buffer.set(i, value.trunc(kind.width));
  }
  return buffer;
}

std::vector<IntegerKind> allKinds() {
  std::vector<IntegerKind> kinds;
  for (unsigned width : {8, 16, 32, 64})
    for (bool isUnsigned : {false, true})
      kinds.push_back({width, isUnsigned});
  return kinds;
}

class Integers : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Targets, Integers,
                         testing::ValuesIn(runnableTargets()));

/// Two operands of `count` numbers each, and `op` with attributes.
std::string binaryKernel(IntegerKind kind, const std::string &op,
                         const std::string &result, size_t count) {
  std::string shape = "tensor<" + std::to_string(count) + "x";
  std::string type = shape + kind.name() + ">";
  return "func.func private @kernel(%a: " + type + ", %b: " + type + ") -> " +
         shape + result +
         "> attributes {mpc.kernel = #mpc.kernel<pointwise>} " +
         "{\n%0 = mpc." + op + " : (" + type + ", " + type + ") -> " + shape +
         result + ">\nreturn %0 : " + shape + result + ">\n}";
}

using Formula = std::function<APInt(const APSInt &, const APSInt &)>;

void expectBinary(IntegerKind kind, const std::string &op,
                  const std::string &result, const std::string &target,
                  const Formula &formula) {
  SCOPED_TRACE("mpc." + op + " of " + kind.name());
  constexpr size_t count = 133;
  CompiledKernel kernel(binaryKernel(kind, op, result, count), target);
  ASSERT_EQ(kernel.getError(), "");
  Buffer a = makeNumbers(kind, count, 0), b = makeNumbers(kind, count, 1);
  Buffer c(result == "i1" ? IntegerKind{8, true} : kind, count);
  kernel.launch({a.data(), b.data(), c.data()});
  for (size_t i = 0; i < count; ++i) {
    APInt expected = formula(a.get(i), b.get(i)).zext(64);
    EXPECT_EQ(c.get(i).getZExtValue(), expected.getZExtValue())
        << i << ": " << toString(a.get(i), 10) << ", "
        << toString(b.get(i), 10);
  }
}

APInt toBits(const APSInt &value) { return value; }
APInt toBits(bool value) { return APInt(8, value); }

TEST_P(Integers, ComputeAsConstantsFold) {
  for (IntegerKind kind : allKinds()) {
    auto expect = [&](llvm::StringRef name, const Formula &formula) {
      expectBinary(kind, (name + " %a, %b").str(), kind.name(), GetParam(),
                   formula);
    };
    auto expectTruth = [&](llvm::StringRef name, const Formula &formula) {
      expectBinary(kind, (name + " %a, %b").str(), "i1", GetParam(), formula);
    };
#define BINARY(EXPECT, OP)                                                     \
  EXPECT(OP::getOperationName().drop_front(4),                                 \
         [](const APSInt &a, const APSInt &b) {                                \
           return toBits(integers::evaluate(OP(), a, b));                      \
         })
    BINARY(expect, AddOp);
    BINARY(expect, SubOp);
    BINARY(expect, MulOp);
    BINARY(expect, DivOp);
    BINARY(expect, MaximumOp);
    BINARY(expect, MinimumOp);
    BINARY(expect, XorOp);
    BINARY(expect, ShiftLeftOp);
    BINARY(expect, ShiftRightOp);
    BINARY(expectTruth, EqualOp);
    BINARY(expectTruth, LessOp);
    BINARY(expectTruth, LessOrEqualOp);
#undef BINARY
    expect("mod", [](const APSInt &a, const APSInt &b) {
      return APInt(integers::modulo(a, b));
    });
    expectBinary(kind, "mod %a, %b {fmod = true}", kind.name(), GetParam(),
                 [](const APSInt &a, const APSInt &b) {
                   return APInt(integers::remainder(a, b));
                 });
  }
}

TEST_P(Integers, PowersWrapAround) {
  for (IntegerKind kind : allKinds())
    expectBinary(kind, "pow %a, %b", kind.name(), GetParam(),
                 [](const APSInt &a, const APSInt &b) {
                   return APInt(integers::power(a, b));
                 });
}

/// Reduces every row, or column, of a matrix by `op`.
template <typename OpTy>
void expectReduction(IntegerKind kind, bool ofRows, const std::string &target) {
  int64_t rows = 9, columns = 300;
  std::string name = OpTy::getOperationName().str();
  SCOPED_TRACE(name + " of " + kind.name());
  std::string full = "tensor<9x300x" + kind.name() + ">";
  std::string reduced =
      (ofRows ? "tensor<9x1x" : "tensor<1x300x") + kind.name() + ">";
  CompiledKernel kernel("func.func private @kernel(%x: " + full + ") -> " +
                            reduced + " attributes {mpc.kernel = #mpc.kernel<" +
                            (ofRows ? "row" : "column") +
                            "_reduce>} {\n%0 = " + name +
                            " %x {axes = array<i64: " + (ofRows ? "1" : "0") +
                            ">, keepdims = true} : (" + full + ") -> " +
                            reduced + "\nreturn %0 : " + reduced + "\n}",
                        target);
  ASSERT_EQ(kernel.getError(), "");
  Buffer x = makeNumbers(kind, rows * columns, 4);
  // Even factors would soon make every product 0.
  for (size_t i = 0; std::is_same_v<OpTy, ReduceProdOp> && i < x.size(); ++i)
    x.set(i, x.get(i) | APInt(kind.width, 1));
  Buffer y(kind, ofRows ? rows : columns);
  kernel.launch({x.data(), y.data()});
  for (size_t i = 0; i < y.size(); ++i) {
    APSInt expected = integers::getFirst(OpTy(), x.get(0));
    for (int64_t j = 0; j < (ofRows ? columns : rows); ++j)
      expected = integers::evaluate(
          OpTy(), expected, x.get(ofRows ? i * columns + j : j * columns + i));
    EXPECT_EQ(y.get(i), expected) << i;
  }
}

TEST_P(Integers, AreReduced) {
  for (IntegerKind kind : allKinds())
    for (bool ofRows : {true, false}) {
      expectReduction<ReduceSumOp>(kind, ofRows, GetParam());
      expectReduction<ReduceMaxOp>(kind, ofRows, GetParam());
      expectReduction<ReduceProdOp>(kind, ofRows, GetParam());
    }
}

TEST_P(Integers, AreMadeOfAnyFloat) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<11xf32>) -> (tensor<11xi64>, tensor<11xui64>, tensor<11xi8>)
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.cast %x : (tensor<11xf32>) -> tensor<11xi64>
      %1 = mpc.cast %x : (tensor<11xf32>) -> tensor<11xui64>
      %2 = mpc.cast %x : (tensor<11xf32>) -> tensor<11xi8>
      return %0, %1, %2 : tensor<11xi64>, tensor<11xui64>, tensor<11xi8>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  std::vector<float> x = {-1.75f,   2.5f,      300.0f,   NAN,
                          INFINITY, -INFINITY, 1e30f,    0x1p63f,
                          0x1p64f,  -0x1p63f,  0x1.8p63f};
  std::vector<int64_t> i64(11);
  std::vector<uint64_t> u64(11);
  std::vector<int8_t> i8(11);
  kernel.launch({x.data(), i64.data(), u64.data(), i8.data()});
  const uint64_t lowest = uint64_t(1) << 63;
  std::vector<int64_t> expected = {-1,        2,         300,       INT64_MIN,
                                   INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN,
                                   INT64_MIN, INT64_MIN, INT64_MIN};
  EXPECT_EQ(i64, expected);
  std::vector<uint64_t> expectedUnsigned = {~uint64_t(0),
                                            2,
                                            300,
                                            lowest,
                                            lowest,
                                            lowest,
                                            lowest,
                                            lowest,
                                            lowest,
                                            lowest,
                                            lowest | (lowest >> 1)};
  EXPECT_EQ(u64, expectedUnsigned);
  std::vector<int8_t> expectedBytes = {-1, 2, 44, 0, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(i8, expectedBytes);
}

TEST_P(Integers, RemainderOfFloatsIsExact) {
  for (bool isWide : {false, true}) {
    std::string type = isWide ? "tensor<40xf64>" : "tensor<40xf32>";
    CompiledKernel kernel(
        "func.func private @kernel(%a: " + type + ", %b: " + type + ") -> " +
            type + " attributes {mpc.kernel = #mpc.kernel<pointwise>} {\n" +
            "%0 = mpc.mod %a, %b {fmod = true} : (" + type + ", " + type +
            ") -> " + type + "\nreturn %0 : " + type + "\n}",
        GetParam());
    ASSERT_EQ(kernel.getError(), "");
    std::vector<double> a(40), b(40), c(40);
    std::vector<float> narrowA(40), narrowB(40), narrowC(40);
    std::mt19937 random(7);
    std::uniform_real_distribution<double> exponent(-120, 120), sign(-1, 1);
    for (int i = 0; i < 40; ++i) {
      a[i] = narrowA[i] =
          static_cast<float>(sign(random) * std::exp2(exponent(random)));
      b[i] = narrowB[i] =
          static_cast<float>(sign(random) * std::exp2(exponent(random)));
    }
    b[3] = narrowB[3] = INFINITY;
    // Three times this exceeds the largest number.
    a[5] = std::numeric_limits<double>::max();
    b[5] = a[5] / 3;
    a[4] = narrowA[4] = -0.0f;
    if (isWide)
      kernel.launch({a.data(), b.data(), c.data()});
    else
      kernel.launch({narrowA.data(), narrowB.data(), narrowC.data()});
    for (int i = 0; i < 40; ++i)
      if (isWide)
        EXPECT_EQ(c[i], std::fmod(a[i], b[i])) << a[i] << " mod " << b[i];
      else
        EXPECT_EQ(narrowC[i], std::fmod(narrowA[i], narrowB[i])) << i;
  }
}

} // namespace
} // namespace mpc::test
