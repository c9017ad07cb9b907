// Tests kernels of rotary embeddings against plain loops.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/FloatBits.h"
#include "test/passes/Codegen/KernelHarness.h"

#include <cmath>
#include <gtest/gtest.h>

namespace mpc::test {
namespace {

class RotaryEmbedding : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Targets, RotaryEmbedding,
                         testing::ValuesIn(runnableTargets()));

/// Rows of `size` elements, of which `2 * pairs` are rotated. The `rows` rows
/// of the table repeat for each head.
struct Turn {
  size_t heads, rows, size, pairs;
  bool interleaved, transposed;
};

std::vector<float> turn(const Turn &t, const std::vector<float> &x,
                        const std::vector<float> &cosine,
                        const std::vector<float> &sine) {
  std::vector<float> y = x;
  for (size_t row = 0; row < t.heads * t.rows; ++row)
    for (size_t j = 0; j < t.pairs; ++j) {
      size_t table = row % t.rows * t.pairs + j;
      size_t a = row * t.size + (t.interleaved ? 2 * j : j);
      size_t b = a + (t.interleaved ? 1 : t.pairs);
      float c = cosine[table], s = t.transposed ? -sine[table] : sine[table];
      y[a] = x[a] * c - x[b] * s;
      y[b] = x[b] * c + x[a] * s;
    }
  return y;
}

/// The kernel, with an addition fused behind the embedding.
std::string write(const Turn &t, const std::string &type) {
  auto rows = std::to_string(t.rows) + "x";
  auto x = "tensor<" + std::to_string(t.heads) + "x" + rows +
           std::to_string(t.size) + "x" + type + ">";
  auto table = "tensor<" + rows + std::to_string(t.pairs) + "xf32>";
  std::string flags = t.interleaved ? "interleaved" : "";
  if (t.transposed)
    flags += flags.empty() ? "transposed" : ", transposed";
  return "func.func private @kernel(%x: " + x + ", %c: " + table +
         ", %s: " + table + ") -> " + x +
         " attributes {mpc.kernel = #mpc.kernel<pointwise>} {\n"
         "  %0 = mpc.rotary_embedding %x, %c, %s {" +
         flags + "} : (" + x + ", " + table + ", " + table + ") -> " + x +
         "\n  %1 = mpc.add %0, %0 : (" + x + ", " + x + ") -> " + x +
         "\n  return %1 : " + x + "\n}";
}

// Vectors within a half and across halves, whole pairs and odd ends, all of a
// row and a part of one.
const Turn kTurns[] = {
    {3, 5, 64, 32, false, false}, {3, 5, 64, 32, true, false},
    {2, 3, 64, 32, false, true},  {2, 3, 64, 32, true, true},
    {2, 3, 64, 8, false, false},  {2, 3, 64, 8, true, false},
    {2, 3, 38, 19, false, false}, {2, 3, 38, 19, true, false},
    {2, 3, 23, 5, false, true},   {2, 3, 23, 5, true, true},
    {1, 1, 48, 24, false, false}, {1, 1, 48, 12, true, false},
    {4, 2, 2, 1, false, false},   {4, 2, 3, 1, true, false}};

TEST_P(RotaryEmbedding, TurnsPairs) {
  for (const Turn &t : kTurns) {
    std::string text = write(t, "f32");
    SCOPED_TRACE(text);
    CompiledKernel kernel(text, GetParam());
    ASSERT_EQ(kernel.getError(), "");
    auto x = randomFloats(t.heads * t.rows * t.size);
    auto angles = randomFloats(2 * t.rows * t.pairs);
    std::vector<float> cosine(angles.begin(),
                              angles.begin() + angles.size() / 2);
    std::vector<float> sine(angles.begin() + angles.size() / 2, angles.end());
    std::vector<float> y(x.size()), expected = turn(t, x, cosine, sine);
    kernel.launch({x.data(), cosine.data(), sine.data(), y.data()});
    for (size_t i = 0; i < y.size(); ++i)
      ASSERT_NEAR(y[i], 2 * expected[i], 1e-5) << i;
  }
}

TEST_P(RotaryEmbedding, RoundsOnceToLowTypes) {
  for (const Turn &t : kTurns) {
    CompiledKernel kernel(write(t, "bf16"), GetParam());
    ASSERT_EQ(kernel.getError(), "");
    auto values = randomFloats(t.heads * t.rows * t.size);
    std::vector<uint16_t> x, y(values.size());
    for (float &value : values) {
      x.push_back(toBF16(value));
      value = fromBF16(x.back());
    }
    auto cosine = randomFloats(t.rows * t.pairs);
    auto sine = randomFloats(t.rows * t.pairs, -1, 1);
    auto expected = turn(t, values, cosine, sine);
    kernel.launch({x.data(), cosine.data(), sine.data(), y.data()});
    for (size_t i = 0; i < y.size(); ++i)
      ASSERT_NEAR(fromBF16(y[i]), 2 * expected[i],
                  0x1p-8 * std::abs(2 * expected[i]) + 1e-5)
          << i;
  }
}

} // namespace
} // namespace mpc::test
