// Test cases of a matrix product, for every device: random operands, the plan's
// step, and float64 loops as the reference.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_RUNTIME_MATMULCASE_H
#define MPC_TEST_RUNTIME_MATMULCASE_H

#include "test/runtime/cpu/Reference.h"

#include <optional>

namespace mpc::runtime::test {

struct MatMulCase {
  int64_t m, n, k;
  DType a = DType::F32, b = DType::F32, c = DType::F32;
  bool transA = false, transB = false;
  int64_t batch = 1;
  bool repeatB = false; ///< one b for the whole batch
  double alpha = 1;
  int64_t padding = 0; ///< elements between the rows of a and b
  int64_t tileM = 0, tileN = 0;
  const char *compute = "f32";
};

class MatMul {
public:
  explicit MatMul(const MatMulCase &c)
      : c(c), rowsA(c.transA ? c.k : c.m), rowsB(c.transB ? c.n : c.k),
        lda((c.transA ? c.m : c.k) + c.padding),
        ldb((c.transB ? c.k : c.n) + c.padding),
        a(randomTensor(c.a, {c.batch, rowsA, lda}, 1)),
        b(randomTensor(c.b, {c.repeatB ? 1 : c.batch, rowsB, ldb}, 2)) {}

  /// The step on buffers. Without a buffer for c, an epilogue consumes the
  /// result.
  Json step(size_t aBuffer, size_t bBuffer,
            std::optional<size_t> cBuffer = std::nullopt) const {
    return {{"op", "matmul"},
            {"name", "fc1"},
            {"a", aBuffer},
            {"b", bBuffer},
            {"c", cBuffer ? Json(*cBuffer) : Json()},
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
            {"epilogue", nullptr},
            {"compute", c.compute}};
  }

  /// Adds an artifact's function "step", whose output "c" is the result.
  void addTo(ArtifactBuilder &builder) const {
    FunctionBuilder f = builder.function("step");
    size_t aBuffer = f.constant(a), bBuffer = f.constant(b);
    size_t result = f.arena(c.c, {c.batch, c.m, c.n});
    f.step(step(aBuffer, bBuffer, result));
    f.output("c", result);
  }

  /// Element (row, k) of op(a[i]), and (k, column) of op(b[i]).
  double atA(int64_t i, int64_t row, int64_t k) const {
    if (c.transA)
      std::swap(row, k);
    return as[static_cast<size_t>((i * rowsA + row) * lda + k)];
  }
  double atB(int64_t i, int64_t k, int64_t column) const {
    if (c.transB)
      std::swap(k, column);
    return bs[static_cast<size_t>(((c.repeatB ? 0 : i) * rowsB + k) * ldb +
                                  column)];
  }

  /// Element (row, column) of result `i`.
  DotProduct product(int64_t i, int64_t row, int64_t column) const;

  /// All elements of the results, [batch, m, n].
  std::vector<DotProduct> reference() const;

  const MatMulCase c;
  const int64_t rowsA, rowsB, lda, ldb;
  const Tensor a, b;

private:
  const std::vector<double> as = toDoubles(a), bs = toDoubles(b);
};

} // namespace mpc::runtime::test

#endif // MPC_TEST_RUNTIME_MATMULCASE_H
