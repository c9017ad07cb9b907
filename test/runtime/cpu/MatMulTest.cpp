// Matrix products against float64 loops: types, transpositions, batches, edge
// tiles, epilogues; the same bits on any number of threads.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/cpu/Reference.h"

using namespace mpc::runtime;
using namespace mpc::runtime::test;

namespace {

struct Case {
  int64_t m, n, k, tileM, tileN;
  DType a = DType::F32, b = DType::F32, c = DType::F32;
  bool transA = false, transB = false;
  int64_t batch = 1;
  bool repeatB = false; ///< one b for the whole batch
  double alpha = 1;
  int64_t padding = 0; ///< elements between the rows of a and b
};

class MatMul {
public:
  explicit MatMul(const Case &c)
      : c(c), rowsA(c.transA ? c.k : c.m), colsA(c.transA ? c.m : c.k),
        rowsB(c.transB ? c.n : c.k), colsB(c.transB ? c.k : c.n),
        lda(colsA + c.padding), ldb(colsB + c.padding),
        a(randomTensor(c.a, {c.batch, rowsA, lda}, 1)),
        b(randomTensor(c.b, {c.repeatB ? 1 : c.batch, rowsB, ldb}, 2)) {}

  Json step(size_t aBuffer, size_t bBuffer) const {
    return {{"op", "matmul"},
            {"a", aBuffer},
            {"b", bBuffer},
            {"c", nullptr},
            {"batch", c.batch},
            {"m", c.m},
            {"n", c.n},
            {"k", c.k},
            {"trans_a", c.transA},
            {"trans_b", c.transB},
            {"lda", lda},
            {"ldb", ldb},
            {"ldc", c.n},
            {"stride_a", rowsA * lda},
            {"stride_b", c.repeatB ? 0 : rowsB * ldb},
            {"stride_c", c.m * c.n},
            {"alpha", c.alpha},
            {"tile_m", c.tileM},
            {"tile_n", c.tileN},
            {"epilogue", nullptr}};
  }

  std::vector<DotProduct> reference() const {
    std::vector<double> av = toDoubles(a), bv = toDoubles(b);
    std::vector<DotProduct> result;
    for (int64_t i = 0; i < c.batch; ++i)
      for (int64_t row = 0; row < c.m; ++row)
        for (int64_t col = 0; col < c.n; ++col) {
          DotProduct dot;
          for (int64_t k = 0; k < c.k; ++k)
            dot.add(c.alpha * av[elementA(i, row, k)], bv[elementB(i, k, col)]);
          result.push_back(dot);
        }
    return result;
  }

  const Case c;
  const int64_t rowsA, colsA, rowsB, colsB, lda, ldb;
  const Tensor a, b;

private:
  size_t elementA(int64_t i, int64_t row, int64_t k) const {
    if (c.transA)
      std::swap(row, k);
    return static_cast<size_t>((i * rowsA + row) * lda + k);
  }
  size_t elementB(int64_t i, int64_t k, int64_t col) const {
    if (c.transB)
      std::swap(k, col);
    return static_cast<size_t>(((c.repeatB ? 0 : i) * rowsB + k) * ldb + col);
  }
};

void expectCorrect(const Case &c) {
  MatMul matmul(c);
  ArtifactBuilder builder;
  FunctionBuilder f = builder.function("step");
  Json step = matmul.step(f.constant(matmul.a), f.constant(matmul.b));
  size_t result = f.arena(c.c, {c.batch, c.m, c.n});
  step["c"] = result;
  f.step(step);
  f.output("c", result);
  expectClose(runOnThreads(builder, "c"), matmul.reference());
}

TEST(MatMul, EveryCombinationOfTypes) {
  for (DType a : {DType::F32, DType::BF16, DType::F16})
    for (DType b : {DType::F32, DType::BF16, DType::F16})
      for (DType c : {DType::F32, DType::BF16, DType::F16}) {
        SCOPED_TRACE(std::string(nameOf(a)) + " x " + std::string(nameOf(b)) +
                     " -> " + std::string(nameOf(c)));
        expectCorrect({33, 48, 40, 16, 32, a, b, c});
      }
}

TEST(MatMul, EveryTranspositionWithPaddedRows) {
  for (DType type : {DType::F32, DType::BF16, DType::F16})
    for (bool transA : {false, true})
      for (bool transB : {false, true}) {
        SCOPED_TRACE(std::string(nameOf(type)) + (transA ? " A'" : " A") +
                     (transB ? " B'" : " B"));
        for (int64_t padding : {0, 5}) {
          Case c{70, 50, 90, 32, 32, type, type, DType::F32, transA, transB};
          c.padding = padding;
          expectCorrect(c);
        }
      }
}

TEST(MatMul, ExtremesOfShape) {
  for (DType type : {DType::F32, DType::BF16}) {
    expectCorrect({1, 1, 1, 64, 64, type, type});
    expectCorrect({1, 10, 300, 1, 10, type, type});
    expectCorrect({300, 1, 7, 64, 64, type, type});
    expectCorrect({5, 3, 2000, 2, 2, type, type});
    expectCorrect({257, 129, 65, 128, 64, type, type});
  }
}

TEST(MatMul, Batches) {
  for (DType type : {DType::F32, DType::BF16, DType::F16})
    for (bool repeatB : {false, true}) {
      Case c{20, 24, 16, 16, 16, type, type, type};
      c.batch = 3;
      c.repeatB = repeatB;
      expectCorrect(c);
    }
}

TEST(MatMul, WidensLargeOperandsInSeveralSlices) {
  for (int64_t padding : {0, 3}) {
    Case c{300, 20, 250, 128, 32, DType::F16, DType::BF16};
    c.batch = 2;
    c.padding = padding;
    expectCorrect(c);
  }
}

TEST(MatMul, AlphaScalesTheResult) {
  for (DType type : {DType::F32, DType::BF16}) {
    Case c{20, 24, 16, 16, 16, type, type, type};
    c.alpha = 0.125;
    expectCorrect(c);
  }
}

TEST(MatMul, EpilogueSeesEveryElementOnce) {
  for (DType type : {DType::F32, DType::BF16, DType::F16}) {
    Case c{45, 70, 32, 16, 32, type, type};
    c.batch = 2;
    MatMul matmul(c);
    Tensor bias = randomTensor(DType::F32, {c.n}, 3);
    Tensor columns = Tensor::zeros(DType::I64, {});
    *columns.as<int64_t>() = c.n;

    ArtifactBuilder builder;
    FunctionBuilder f = builder.function("step");
    Json step = matmul.step(f.constant(matmul.a), f.constant(matmul.b));
    size_t out = f.arena(DType::F32, {c.batch, c.m, c.n});
    step["epilogue"] = {{"kernel", "bias_relu"},
                        {"args", {f.constant(bias), out, f.constant(columns)}}};
    f.step(step);
    f.output("out", out);

    std::vector<DotProduct> expected = matmul.reference();
    std::vector<double> result = toDoubles(runOnThreads(builder, "out"));
    for (size_t i = 0; i < expected.size(); ++i) {
      expected[i].add(bias.as<float>()[i % static_cast<size_t>(c.n)], 1);
      double relu = std::max(expected[i].value, 0.0);
      ASSERT_NEAR(result[i], relu, expected[i].bound(DType::F32)) << i;
    }
  }
}

TEST(MatMul, RandomShapes) {
  std::mt19937 random(7);
  auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  const DType types[] = {DType::F32, DType::BF16, DType::F16};
  for (int i = 0; i < 60; ++i) {
    Case c{pick(1, 90), pick(1, 90), pick(1, 90), pick(1, 40), pick(1, 40)};
    c.a = types[pick(0, 2)];
    c.b = pick(0, 3) ? c.a : types[pick(0, 2)];
    c.c = types[pick(0, 2)];
    c.transA = pick(0, 1);
    c.transB = pick(0, 1);
    c.batch = pick(0, 2) ? 1 : pick(2, 3);
    c.repeatB = pick(0, 1);
    c.padding = pick(0, 1) * pick(0, 9);
    SCOPED_TRACE("case " + std::to_string(i));
    expectCorrect(c);
  }
}

TEST(MatMul, InterleavedBatchesOfHeads) {
  // c is [m, batch * n]: the matrices of the batch side by side.
  Case c{6, 4, 5, 4, 4};
  c.batch = 3;
  MatMul matmul(c);
  ArtifactBuilder builder;
  FunctionBuilder f = builder.function("step");
  Json step = matmul.step(f.constant(matmul.a), f.constant(matmul.b));
  size_t result = f.arena(DType::F32, {c.m, c.batch * c.n});
  step["c"] = result;
  step["ldc"] = c.batch * c.n;
  step["stride_c"] = c.n;
  f.step(step);
  f.output("c", result);
  std::vector<DotProduct> stacked = matmul.reference(), expected;
  for (int64_t row = 0; row < c.m; ++row)
    for (int64_t i = 0; i < c.batch; ++i)
      for (int64_t col = 0; col < c.n; ++col)
        expected.push_back(
            stacked[static_cast<size_t>((i * c.m + row) * c.n + col)]);
  expectClose(runOnThreads(builder, "c"), expected);
}

} // namespace
