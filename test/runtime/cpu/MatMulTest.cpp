// Tests matrix products against float64 loops: types, transpositions, batches,
// edge tiles and epilogues. The bits are the same on any number of threads.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/MatMulCase.h"

#include <random>

using namespace mpc::runtime;
using namespace mpc::runtime::test;

namespace {

MatMulCase tiled(MatMulCase c, int64_t m, int64_t n) {
  c.tileM = m;
  c.tileN = n;
  return c;
}

void expectCorrect(const MatMulCase &c) {
  MatMul matmul(c);
  ArtifactBuilder builder;
  matmul.addTo(builder);
  expectClose(runOnThreads(builder, "c"), matmul.reference());
}

TEST(MatMul, EveryCombinationOfTypes) {
  for (DType a : {DType::F32, DType::BF16, DType::F16})
    for (DType b : {DType::F32, DType::BF16, DType::F16})
      for (DType c : {DType::F32, DType::BF16, DType::F16}) {
        SCOPED_TRACE(std::string(nameOf(a)) + " x " + std::string(nameOf(b)) +
                     " -> " + std::string(nameOf(c)));
        expectCorrect(tiled({33, 48, 40, a, b, c}, 16, 32));
      }
}

TEST(MatMul, EveryTranspositionWithPaddedRows) {
  for (DType type : {DType::F32, DType::BF16, DType::F16})
    for (bool transA : {false, true})
      for (bool transB : {false, true}) {
        SCOPED_TRACE(std::string(nameOf(type)) + (transA ? " A'" : " A") +
                     (transB ? " B'" : " B"));
        for (int64_t padding : {0, 5}) {
          MatMulCase c = tiled(
              {70, 50, 90, type, type, DType::F32, transA, transB}, 32, 32);
          c.padding = padding;
          expectCorrect(c);
        }
      }
}

TEST(MatMul, ExtremesOfShape) {
  for (DType type : {DType::F32, DType::BF16}) {
    expectCorrect(tiled({1, 1, 1, type, type}, 64, 64));
    expectCorrect(tiled({1, 10, 300, type, type}, 1, 10));
    expectCorrect(tiled({300, 1, 7, type, type}, 64, 64));
    expectCorrect(tiled({5, 3, 2000, type, type}, 2, 2));
    expectCorrect(tiled({257, 129, 65, type, type}, 128, 64));
  }
}

// With AMX the library crashed on this depth by an illegal instruction.
TEST(MatMul, DepthOf63) {
  for (int64_t n : {1, 63}) {
    SCOPED_TRACE(n);
    expectCorrect(tiled({195, n, 63, DType::BF16, DType::BF16}, 195, n));
    expectCorrect(tiled({195, n, 63, DType::BF16, DType::BF16}, 80, n));
  }
}

TEST(MatMul, Batches) {
  for (DType type : {DType::F32, DType::BF16, DType::F16})
    for (bool repeatB : {false, true}) {
      MatMulCase c = tiled({20, 24, 16, type, type, type}, 16, 16);
      c.batch = 3;
      c.repeatB = repeatB;
      expectCorrect(c);
    }
}

TEST(MatMul, WidensLargeOperandsInSeveralSlices) {
  for (int64_t padding : {0, 3}) {
    MatMulCase c = tiled({300, 20, 250, DType::F16, DType::BF16}, 128, 32);
    c.batch = 2;
    c.padding = padding;
    expectCorrect(c);
  }
}

TEST(MatMul, AlphaScalesTheResult) {
  for (DType type : {DType::F32, DType::BF16}) {
    MatMulCase c = tiled({20, 24, 16, type, type, type}, 16, 16);
    c.alpha = 0.125;
    expectCorrect(c);
  }
}

/// Tests products of `c` through an epilogue. Its result has row `row` of
/// matrix `matrix` at row matrix * matrixStep + row * rowStep.
void expectEpilogue(const MatMulCase &c, int64_t matrixStep, int64_t rowStep) {
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
  step["stride_c"] = matrixStep * c.n;
  step["ldc"] = rowStep * c.n;
  f.step(step);
  f.output("out", out);

  std::vector<DotProduct> expected = matmul.reference();
  std::vector<double> result = toDoubles(runOnThreads(builder, "out"));
  for (int64_t i = 0; i < static_cast<int64_t>(expected.size()); ++i) {
    const int64_t row = i / c.n, column = i % c.n;
    DotProduct &product = expected[static_cast<size_t>(i)];
    product.add(bias.as<float>()[column], 1);
    const int64_t at = row / c.m * matrixStep + row % c.m * rowStep;
    ASSERT_NEAR(result[static_cast<size_t>(at * c.n + column)],
                std::max(product.value, 0.0), product.bound(DType::F32))
        << i;
  }
}

TEST(MatMul, EpilogueSeesEveryElementOnce) {
  for (DType type : {DType::F32, DType::BF16, DType::F16}) {
    MatMulCase c = tiled({45, 70, 32, type, type}, 16, 32);
    c.batch = 2;
    expectEpilogue(c, c.m, 1);
  }
}

TEST(MatMul, EpilogueTakesRowsInAnotherOrder) {
  for (DType type : {DType::F32, DType::BF16, DType::F16}) {
    MatMulCase c = tiled({45, 70, 32, type, type}, 16, 32);
    c.batch = 3;
    c.repeatB = true;
    expectEpilogue(c, 1, c.batch);
  }
}

TEST(MatMul, RandomShapes) {
  std::mt19937 random(7);
  auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  const DType types[] = {DType::F32, DType::BF16, DType::F16};
  for (int i = 0; i < 60; ++i) {
    MatMulCase c{pick(1, 90), pick(1, 90), pick(1, 90)};
    c.tileM = pick(1, 40);
    c.tileN = pick(1, 40);
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
  MatMulCase c = tiled({6, 4, 5}, 4, 4);
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

/// Heads of an attention as columns of one matrix. The product reads a and b,
/// and writes c, as such columns.
class Heads {
public:
  Heads(DType type, bool transB)
      : transB(transB), x(randomTensor(type, {samples, rows, width}, 3)),
        values(toDoubles(x)) {}

  Json step(size_t buffer, size_t result) const {
    return {{"op", "matmul"},
            {"name", "attention"},
            {"a", buffer},
            {"b", buffer},
            {"c", result},
            {"batch", heads},
            {"m", rows},
            {"n", columns()},
            {"k", transB ? depth : rows},
            {"trans_a", !transB},
            {"trans_b", transB},
            {"lda", width},
            {"ldb", width},
            {"ldc", heads * columns()},
            {"stride_a", depth},
            {"stride_b", depth},
            {"stride_c", columns()},
            {"offset_a", 0},
            {"offset_b", heads * depth},
            {"outer",
             {{"extents", {samples}},
              {"a", {rows * width}},
              {"b", {rows * width}},
              {"c", {resultRows() * heads * columns()}}}},
            {"alpha", 1.0},
            {"tile_m", 4},
            {"tile_n", 3},
            {"epilogue", nullptr}};
  }

  std::vector<DotProduct> reference() const {
    std::vector<DotProduct> result;
    for (int64_t sample = 0; sample < samples; ++sample)
      for (int64_t row = 0; row < resultRows(); ++row)
        for (int64_t head = 0; head < heads; ++head)
          for (int64_t column = 0; column < columns(); ++column)
            result.push_back(product(sample, head, row, column));
    return result;
  }

  Shape shape() const { return {samples, resultRows(), heads, columns()}; }

  static constexpr int64_t samples = 3, heads = 2, rows = 7, depth = 5;
  static constexpr int64_t width = 2 * heads * depth;
  const bool transB; ///< a b^T of rows, or a^T b of columns
  const Tensor x;

private:
  int64_t columns() const { return transB ? rows : depth; }
  int64_t resultRows() const { return transB ? rows : depth; }
  double at(int64_t sample, int64_t row, int64_t column) const {
    return values[static_cast<size_t>((sample * rows + row) * width + column)];
  }
  DotProduct product(int64_t sample, int64_t head, int64_t row,
                     int64_t column) const {
    const int64_t left = head * depth, right = (heads + head) * depth;
    DotProduct dot;
    for (int64_t k = 0; k < (transB ? depth : rows); ++k)
      dot.add(transB ? at(sample, row, left + k) : at(sample, k, left + row),
              transB ? at(sample, column, right + k)
                     : at(sample, k, right + column));
    return dot;
  }

  const std::vector<double> values;
};

TEST(MatMul, ReadsAndWritesHeadsWhereTheyAre) {
  for (DType type : {DType::F32, DType::BF16, DType::F16})
    for (bool transB : {false, true}) {
      SCOPED_TRACE(std::string(nameOf(type)) + (transB ? " rows" : " columns"));
      Heads heads(type, transB);
      ArtifactBuilder builder;
      FunctionBuilder f = builder.function("step");
      size_t result = f.arena(DType::F32, heads.shape());
      Json step = heads.step(f.constant(heads.x), result);
      if (!transB)
        step["m"] = Heads::depth;
      f.step(step);
      f.output("c", result);
      expectClose(runOnThreads(builder, "c"), heads.reference());
    }
}

} // namespace
