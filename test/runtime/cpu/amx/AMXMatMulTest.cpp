// Tests products by tile registers: with AMX if the CPU has it, and on every
// CPU with a portable substitute.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/onednn/OperandSums.h"
#include "test/runtime/cpu/RunContraction.h"

#include <cmath>
#include <cstring>
#include <limits>

using namespace mpc::runtime;
using namespace mpc::runtime::test;

namespace {

class AMXMatMul : public OnTiles {
protected:
  Tensor run(const MatMul &matmul, int workers = 2) const {
    Tensor result = emptyResult(matmul);
    MatMulOperands operands = operandsOf(matmul, result);
    auto made = prepareAMXMatMul(stepOf(matmul), operands, configOf(workers));
    EXPECT_TRUE(made);
    if (made)
      runAll(*made);
    return result;
  }
  void expectCorrect(const MatMulCase &c) const {
    SCOPED_TRACE(std::to_string(c.m) + " x " + std::to_string(c.n) + " x " +
                 std::to_string(c.k) + (c.transA ? " A'" : " A") +
                 (c.transB ? " B'" : " B"));
    MatMul matmul(c);
    expectClose(run(matmul), matmul.reference());
  }
};

MatMulCase bf16Case(int64_t m, int64_t n, int64_t k) {
  return {m, n, k, DType::BF16, DType::BF16};
}

/// Types of one, two and three terms.
constexpr DType kTypes[] = {DType::BF16, DType::F16, DType::F32};

/// Whole panels and steps, and each of their edges: half tile registers, one
/// row or column more, and more than one chunk of the depth.
TEST_P(AMXMatMul, EveryTranspositionAndEdge) {
  for (DType type : kTypes)
    for (bool transA : {false, true})
      for (bool transB : {false, true})
        for (auto [m, n, k] : {std::array<int64_t, 3>{64, 64, 64},
                               {16, 16, 16},
                               {33, 49, 257},
                               {48, 31, 520},
                               {17, 80, 31}})
          for (int64_t padding : {0, 5}) {
            MatMulCase c{m, n, k, type, type};
            c.transA = transA;
            c.transB = transB;
            c.padding = padding;
            expectCorrect(c);
          }
}

/// Products of f32 numbers keep f32's digits: errors are far below the 2^-9 of
/// bf16, and do not grow with the depth.
TEST_P(AMXMatMul, ProductsOfTermsHaveAllDigits) {
  for (DType type : {DType::F16, DType::F32}) {
    MatMul matmul({64, 64, 1000, type, type});
    const std::vector<double> values = toDoubles(run(matmul));
    const std::vector<DotProduct> expected = matmul.reference();
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(values[i], expected[i].value,
                  0x1p-22 * expected[i].magnitude);
  }
}

/// Infinite, NaN, huge and tiny elements are not sums of terms. They do not
/// affect other products, and the bits are the same for any tiles.
TEST_P(AMXMatMul, ElementsWithoutTerms) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (bool transposed : {false, true}) {
    MatMulCase c{100, 90, 200, DType::F32, DType::F32};
    c.transA = c.transB = transposed;
    MatMul matmul(c);
    auto set = [](const Tensor &tensor, int64_t element, float value) {
      std::memcpy(const_cast<std::byte *>(tensor.bytes.data()) + element * 4,
                  &value, 4);
    };
    // In a, row 70 and element 150 of the depth, and so on.
    auto setA = [&](int64_t i, int64_t k, float value) {
      set(matmul.a, transposed ? k * matmul.lda + i : i * matmul.lda + k,
          value);
    };
    auto setB = [&](int64_t k, int64_t j, float value) {
      set(matmul.b, transposed ? j * matmul.ldb + k : k * matmul.ldb + j,
          value);
    };
    setA(70, 150, infinity);
    setA(5, 3, 3e38f);
    setB(3, 40, 0x1p-120f);
    setB(199, 89, std::numeric_limits<float>::quiet_NaN());
    setB(150, 11, 0);

    const Tensor result = run(matmul, 1);
    for (int workers : {3, 16})
      EXPECT_EQ(run(matmul, workers).bytes, result.bytes);
    const std::vector<double> values = toDoubles(result);
    const std::vector<double> as = toDoubles(matmul.a),
                              bs = toDoubles(matmul.b);
    for (int64_t i = 0; i < c.m; ++i)
      for (int64_t j = 0; j < c.n; ++j) {
        DotProduct dot;
        for (int64_t k = 0; k < c.k; ++k)
          dot.add(
              as[size_t(transposed ? k * matmul.lda + i : i * matmul.lda + k)],
              bs[size_t(transposed ? j * matmul.ldb + k : k * matmul.ldb + j)]);
        const double value = values[size_t(i * c.n + j)];
        if (std::isnan(dot.value))
          ASSERT_TRUE(std::isnan(value)) << i << ", " << j;
        else if (std::isinf(dot.value))
          ASSERT_EQ(value, dot.value) << i << ", " << j;
        else
          ASSERT_NEAR(value, dot.value, dot.bound(DType::F32))
              << i << ", " << j;
      }
  }
}

/// Rows of whole panels are read in place, from a wider matrix too, unless
/// their distance is 4096 bytes. The last of several tiles has other rows.
TEST_P(AMXMatMul, ReadsRowsWhereTheyAre) {
  for (int64_t m : {96, 330})
    for (int64_t rowElements : {320, 2048}) {
      MatMulCase c = bf16Case(m, 96, 288);
      c.padding = rowElements - c.k;
      expectCorrect(c);
    }
}

/// The gradient of a small layer's weight: a deep product with one panel of
/// rows, or little more, and two panels of columns.
TEST_P(AMXMatMul, DeepProductsOfFewRows) {
  for (auto [m, n] :
       {std::pair<int64_t, int64_t>{32, 64}, {20, 50}, {64, 128}}) {
    MatMulCase c = bf16Case(m, n, 2304);
    c.transA = true;
    expectCorrect(c);
  }
}

TEST_P(AMXMatMul, Batches) {
  for (bool repeatB : {false, true}) {
    MatMulCase c = bf16Case(40, 24, 33);
    c.batch = 3;
    c.repeatB = repeatB;
    c.alpha = 0.125;
    c.transB = true;
    expectCorrect(c);
  }
}

TEST_P(AMXMatMul, RoundsToTheTypeOfTheResult) {
  for (DType type : {DType::BF16, DType::F16}) {
    MatMulCase c = bf16Case(50, 70, 90);
    c.c = type;
    expectCorrect(c);
  }
}

/// The number of workers determines the tiles, but not the bits.
TEST_P(AMXMatMul, SameBitsOnAnyNumberOfWorkers) {
  for (DType type : kTypes)
    for (bool transA : {false, true}) {
      MatMulCase c{160, 250, 500, type, type};
      c.transA = transA;
      MatMul matmul(c);
      const Tensor one = run(matmul, 1);
      for (int workers : {2, 16})
        EXPECT_EQ(run(matmul, workers).bytes, one.bytes) << workers;
    }
}

/// A product that sums its left or right operand along the depth.
struct Summing {
  Summing(const MatMulCase &c, bool ofLeft)
      : matmul(c), ofLeft(ofLeft), result(emptyResult(matmul)),
        sums(static_cast<size_t>(ofLeft ? c.m : c.n), -1), step(stepOf(matmul)),
        operands(operandsOf(matmul, result)) {
    step.fused =
        Fused{ofLeft ? FusedKind::BGradA : FusedKind::BGradB, {}, {}, 3};
    operands.sums = {DType::F32, sums.data()};
  }

  /// Compares the product and the sums with float64 loops.
  void expectCorrect() const {
    expectClose(result, matmul.reference());
    for (int64_t i = 0; i < static_cast<int64_t>(sums.size()); ++i) {
      DotProduct sum;
      for (int64_t k = 0; k < matmul.c.k; ++k)
        sum.add(ofLeft ? matmul.atA(0, i, k) : matmul.atB(0, k, i), 1);
      EXPECT_NEAR(sums[size_t(i)], sum.value, 1e-6 * sum.magnitude) << i;
    }
  }

  MatMul matmul;
  bool ofLeft;
  Tensor result;
  std::vector<float> sums;
  MatMulStep step;
  MatMulOperands operands;
};

/// Numbers of columns with and without a remainder, and several tiles of either
/// operand. The bits are the same on any number of workers.
TEST_P(AMXMatMul, SumsAnOperandOnTheWay) {
  for (DType type : kTypes)
    for (bool ofLeft : {true, false})
      for (auto [m, n, k] : {std::array<int64_t, 3>{160, 250, 500},
                             {17, 600, 65},
                             {544, 33, 31}}) {
        MatMulCase c{m, n, k, type, type};
        c.transA = ofLeft;
        c.transB = ofLeft;
        c.padding = 3;
        std::vector<float> first;
        for (int workers : {1, 2, 16}) {
          Summing summing(c, ofLeft);
          auto made = prepareAMXMatMul(summing.step, summing.operands,
                                       configOf(workers));
          ASSERT_TRUE(made);
          runAll(*made);
          summing.expectCorrect();
          if (first.empty())
            first = summing.sums;
          EXPECT_EQ(summing.sums, first) << workers;
        }
      }
}

/// If no tile sums the operand, a separate phase gives the same bits. A plan's
/// loops find the addresses of the sums and of the operand behind all others.
TEST_P(AMXMatMul, SumsAnOperandApart) {
  for (bool ofLeft : {true, false}) {
    MatMulCase c = bf16Case(80, 300, 100);
    c.transA = true;
    c.tileM = 32;
    c.tileN = 64;
    Summing onTheWay(c, ofLeft), apart(c, ofLeft);
    auto tiles =
        prepareAMXMatMul(onTheWay.step, onTheWay.operands, configOf(2));
    ASSERT_TRUE(tiles);
    runAll(*tiles);
    OperandSums sums(apart.step, apart.operands);
    auto product = prepareOneDNNMatMul(apart.step, apart.operands, configOf(2));
    ASSERT_TRUE(product.ok()) << product.status().message();
    const size_t phases = (*product)->phases().size();
    auto both = addOperandSums(std::move(*product), sums);
    EXPECT_EQ(runAll(*both), phases + 1);
    apart.expectCorrect();
    EXPECT_EQ(apart.sums, onTheWay.sums);
    for (Contraction *made : {tiles.get(), both.get()}) {
      std::vector<void **> addresses = made->addresses();
      ASSERT_EQ(addresses.size(), 5u);
      const Summing &of = made == both.get() ? apart : onTheWay;
      EXPECT_EQ(*addresses[3], of.sums.data());
      EXPECT_EQ(*addresses[4], *addresses[ofLeft ? 0 : 1]);
    }
  }
}

TEST_P(AMXMatMul, EpilogueSeesEveryElementOnce) {
  MatMulCase c = bf16Case(130, 203, 300);
  c.transA = true;
  MatMul matmul(c);
  Tensor result = emptyResult(matmul);
  int64_t columns = c.n;
  MatMulOperands operands = operandsOf(matmul, result);
  operands.epilogue.function = addToBuffer;
  operands.epilogue.args = {result.bytes.data(), &columns};
  auto made = prepareAMXMatMul(stepOf(matmul), operands, configOf(3));
  ASSERT_TRUE(made);
  runAll(*made);
  expectClose(result, matmul.reference());
}

/// Small results of great depth are summed in parts. The order of the parts
/// does not change the bits. The last part and its last rows are smaller.
TEST_P(AMXMatMul, DepthInParts) {
  for (DType type : kTypes)
    for (auto [m, n, k] :
         {std::array<int64_t, 3>{33, 50, 8192}, {16, 16, 9001}}) {
      SCOPED_TRACE(k);
      MatMulCase c{m, n, k, type, type};
      c.transA = true;
      MatMul matmul(c);
      Tensor result = emptyResult(matmul);
      MatMulOperands operands = operandsOf(matmul, result);
      auto made = prepareAMXDepthParts(stepOf(matmul), operands, configOf(2));
      ASSERT_TRUE(made);
      EXPECT_EQ(runAll(*made), 2u);
      expectClose(result, matmul.reference());
    }
}

/// AMX leaves other products to the library and does not touch their operands.
TEST_P(AMXMatMul, LeavesOtherProductsToTheLibrary) {
  MatMulCase narrow = bf16Case(8, 64, 64), wide = bf16Case(64, 64, 64);
  wide.b = DType::F32;
  for (const MatMulCase &c : {narrow, wide}) {
    MatMul matmul(c);
    Tensor result = emptyResult(matmul);
    MatMulOperands operands = operandsOf(matmul, result);
    EXPECT_FALSE(prepareAMXMatMul(stepOf(matmul), operands, configOf(1)));
    EXPECT_FALSE(prepareAMXDepthParts(stepOf(matmul), operands, configOf(1)));
    EXPECT_EQ(operands.a.data, matmul.a.bytes.data());
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, AMXMatMul, testing::Bool(), nameOfTiles);

} // namespace
