// Tests that a product in parts equals the whole product, on numbers with
// exact sums, for every layout of operands.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/ProductParts.h"

#include "runtime/FloatBits.h"

#include <gtest/gtest.h>

using namespace mpc::runtime;
using namespace mpc::runtime::cuda;

namespace {

/// Rows of whole vectors, as `plan-pad-rows` makes them.
int64_t padded(int64_t elements) { return (elements + 7) / 8 * 8; }

/// A product with operands in host memory, which begins at a vector's boundary.
struct Product {
  Product(int64_t m, int64_t n, int64_t k, bool transA, bool transB) {
    step.m = m, step.n = n, step.k = k;
    step.transA = transA, step.transB = transB;
    step.lda = padded(transA ? m : k);
    step.ldb = padded(transB ? k : n);
    step.ldc = padded(n);
    fill(a, (transA ? k : m) * step.lda, 1);
    fill(b, (transB ? n : k) * step.ldb, 2);
    c.assign(static_cast<size_t>(m * step.ldc), -1);
    operands.a = {DType::BF16, a.data()};
    operands.b = {DType::BF16, b.data()};
    operands.c = {DType::F32, c.data()};
  }

  static void fill(std::vector<uint16_t> &values, int64_t count, int seed) {
    for (int64_t i = 0; i < count; ++i)
      values.push_back(floatToBF16(static_cast<float>((i * 7 + seed) % 5 - 2)));
  }

  MatMulStep step;
  MatMulAddresses operands;
  std::vector<uint16_t> a, b;
  std::vector<float> c;
};

float elementOf(const DeviceOperand &operand, int64_t index) {
  return bf16ToFloat(static_cast<const uint16_t *>(operand.data)[index]);
}

/// Multiplies a part like the library.
void multiply(const ProductPart &part) {
  const MatMulStep &s = part.step;
  auto *c = static_cast<float *>(part.operands.c.data);
  for (int64_t row = 0; row < s.m; ++row)
    for (int64_t column = 0; column < s.n; ++column) {
      float sum = part.adds ? c[row * s.ldc + column] : 0;
      for (int64_t i = 0; i < s.k; ++i)
        sum += elementOf(part.operands.a,
                         s.transA ? i * s.lda + row : row * s.lda + i) *
               elementOf(part.operands.b,
                         s.transB ? column * s.ldb + i : i * s.ldb + column);
      c[row * s.ldc + column] = sum;
    }
}

TEST(ProductParts, AreTheProduct) {
  for (bool transA : {false, true})
    for (bool transB : {false, true})
      for (int64_t m : {24, 27})
        for (int64_t n : {32, 33})
          for (int64_t k : {40, 47}) {
            Product whole(m, n, k, transA, transB), split = whole;
            split.operands.a.data = split.a.data();
            split.operands.b.data = split.b.data();
            split.operands.c.data = split.c.data();
            multiply({whole.step, whole.operands});
            for (const ProductPart &part :
                 splitProduct(split.step, split.operands, /*leastWork=*/0))
              multiply(part);
            EXPECT_EQ(split.c, whole.c);
          }
}

/// The extents of the parts.
std::vector<std::array<int64_t, 3>> extentsOf(const Product &product,
                                              double leastWork = 0) {
  std::vector<std::array<int64_t, 3>> extents;
  for (const ProductPart &part :
       splitProduct(product.step, product.operands, leastWork))
    extents.push_back({part.step.m, part.step.n, part.step.k});
  return extents;
}

using Extents = std::vector<std::array<int64_t, 3>>;

TEST(ProductParts, RowsOfWholeVectorsAreMultipliedFast) {
  // Scores of 33 words, the gradient of their input, and that of the words'
  // table.
  EXPECT_EQ(extentsOf({24, 33, 40, false, true}),
            (Extents{{24, 1, 40}, {24, 32, 40}}));
  EXPECT_EQ(extentsOf({24, 40, 33, false, false}),
            (Extents{{24, 40, 1}, {24, 40, 32}}));
  EXPECT_EQ(extentsOf({33, 40, 24, true, false}),
            (Extents{{1, 40, 24}, {32, 40, 24}}));
  // The number of rows does not matter.
  EXPECT_EQ(extentsOf({27, 32, 40, false, true}), (Extents{{27, 32, 40}}));
}

TEST(ProductParts, WhatWouldNotHelpStaysWhole) {
  const Extents whole{{24, 33, 40}};
  EXPECT_EQ(extentsOf({24, 33, 40, false, true}, kLeastSplitWork), whole);
  // Rows that begin anywhere.
  Product product(24, 33, 40, false, true);
  product.step.ldc = 33;
  EXPECT_EQ(extentsOf(product), whole);
  // Batches, epilogues, and types that Tensor Cores do not support.
  product = Product(24, 33, 40, false, true);
  product.step.batch = 2;
  EXPECT_EQ(extentsOf(product), whole);
  product.step.batch = 1;
  product.step.fused = Fused();
  EXPECT_EQ(extentsOf(product), whole);
  product.step.fused.reset();
  product.operands.a.type = product.operands.b.type = DType::F32;
  EXPECT_EQ(extentsOf(product), whole);
}

} // namespace
