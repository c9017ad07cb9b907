// Generated matrix products and convolutions in float64 against plain loops.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/passes/Codegen/KernelHarness.h"

#include <gtest/gtest.h>

namespace mpc::test {
namespace {

class Contraction : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Targets, Contraction,
                         testing::ValuesIn(runnableTargets()));

std::vector<double> randomDoubles(size_t count) {
  auto floats = randomFloats(count);
  return std::vector<double>(floats.begin(), floats.end());
}

TEST_P(Contraction, MultipliesEveryOrientationWithATail) {
  constexpr int64_t M = 7, K = 29, J = 45;
  for (bool transA : {false, true})
    for (bool transB : {false, true}) {
      std::string a = transA ? "tensor<3x29x7xf64>" : "tensor<3x7x29xf64>";
      std::string c = transB ? "tensor<45x29xf64>" : "tensor<29x45xf64>";
      CompiledKernel kernel(
          "func.func private @kernel(%a: " + a + ", %b: " + c +
              ", %bias: tensor<45xf64>) -> tensor<3x7x45xf64> attributes "
              "{mpc.kernel = \"contraction\"} {\n%0 = mpc.matmul %a, %b "
              "{transA = " +
              (transA ? "true" : "false") +
              ", transB = " + (transB ? "true" : "false") +
              ", alpha = 0.5 : f64} : (" + a + ", " + c +
              ") -> tensor<3x7x45xf64>\n%1 = mpc.add %0, %bias : "
              "(tensor<3x7x45xf64>, tensor<45xf64>) -> tensor<3x7x45xf64>\n"
              "return %1 : tensor<3x7x45xf64>\n}",
          GetParam());
      ASSERT_EQ(kernel.getError(), "");
      auto x = randomDoubles(3 * M * K), w = randomDoubles(K * J);
      auto bias = randomDoubles(J);
      std::vector<double> y(3 * M * J);
      kernel.launch({x.data(), w.data(), bias.data(), y.data()});
      for (int64_t n = 0; n < 3; ++n)
        for (int64_t i = 0; i < M; ++i)
          for (int64_t j = 0; j < J; ++j) {
            double sum = 0;
            for (int64_t k = 0; k < K; ++k)
              sum += x[n * M * K + (transA ? k * M + i : i * K + k)] *
                     w[transB ? j * K + k : k * J + j];
            EXPECT_NEAR(y[(n * M + i) * J + j], 0.5 * sum + bias[j], 1e-12);
          }
    }
}

// 2 groups, 4 -> 6 channels, 3 x 2 taps, strides 2 x 1, dilations 1 x 2, pads
// (1, 2) and (0, 1), on 2 images of 8 x 7: outputs of 4 x 8.
constexpr int64_t N = 2, CI = 4, CO = 6, H = 8, W = 7, OH = 4, OW = 8;

std::string types(bool last, std::string text) {
  auto replace = [&](std::string name, std::string with) {
    for (size_t p; (p = text.find(name)) != std::string::npos;)
      text.replace(p, name.size(), with);
  };
  replace("XT", last ? "tensor<2x8x7x4xf64>" : "tensor<2x4x8x7xf64>");
  replace("YT", last ? "tensor<2x4x8x6xf64>" : "tensor<2x6x4x8xf64>");
  replace("WT", "tensor<6x2x3x2xf64>");
  replace("ATTRS", std::string("strides = array<i64: 2, 1>, pads = array<i64: "
                               "1, 2, 0, 1>, dilations = array<i64: 1, 2>, "
                               "group = 2 : i64, layout = ") +
                       (last ? "\"NHWC\"" : "\"NCHW\""));
  return text;
}

TEST_P(Contraction, ConvolvesForwardAndBackward) {
  for (bool last : {true, false}) {
    CompiledKernel forward(types(last, R"(
      func.func private @kernel(%x: XT, %w: WT) -> YT attributes {mpc.kernel = "contraction"} {
        %0 = mpc.conv %x, %w {ATTRS} : (XT, WT) -> YT
        return %0 : YT
      })"),
                           GetParam());
    CompiledKernel inputGrad(types(last, R"(
      func.func private @kernel(%dy: YT, %w: WT) -> XT attributes {mpc.kernel = "contraction"} {
        %0 = mpc.conv_input_grad %dy, %w {ATTRS} : (YT, WT) -> XT
        return %0 : XT
      })"),
                             GetParam());
    CompiledKernel weightGrad(types(last, R"(
      func.func private @kernel(%x: XT, %dy: YT) -> WT attributes {mpc.kernel = "contraction"} {
        %0 = mpc.conv_weight_grad %x, %dy {ATTRS} : (XT, YT) -> WT
        return %0 : WT
      })"),
                              GetParam());
    ASSERT_EQ(forward.getError(), "");
    ASSERT_EQ(inputGrad.getError(), "");
    ASSERT_EQ(weightGrad.getError(), "");
    auto x = randomDoubles(N * CI * H * W), w = randomDoubles(CO * 2 * 3 * 2);
    auto dy = randomDoubles(N * CO * OH * OW);
    std::vector<double> y(dy.size()), dx(x.size()), dw(w.size());
    std::vector<double> ey(dy.size()), edx(x.size()), edw(w.size());
    forward.launch({x.data(), w.data(), y.data()});
    inputGrad.launch({dy.data(), w.data(), dx.data()});
    weightGrad.launch({x.data(), dy.data(), dw.data()});
    for (int64_t n = 0; n < N; ++n)
      for (int64_t o = 0; o < CO; ++o)
        for (int64_t i = 0; i < OH; ++i)
          for (int64_t j = 0; j < OW; ++j)
            for (int64_t c = 0; c < 2; ++c)
              for (int64_t ki = 0; ki < 3; ++ki)
                for (int64_t kj = 0; kj < 2; ++kj) {
                  int64_t row = i * 2 - 1 + ki, col = j - 2 + kj * 2;
                  if (row < 0 || row >= H || col < 0 || col >= W)
                    continue;
                  int64_t in = o / 3 * 2 + c;
                  int64_t xi = last ? ((n * H + row) * W + col) * CI + in
                                    : ((n * CI + in) * H + row) * W + col;
                  int64_t yi = last ? ((n * OH + i) * OW + j) * CO + o
                                    : ((n * CO + o) * OH + i) * OW + j;
                  int64_t wi = ((o * 2 + c) * 3 + ki) * 2 + kj;
                  ey[yi] += x[xi] * w[wi];
                  edx[xi] += dy[yi] * w[wi];
                  edw[wi] += dy[yi] * x[xi];
                }
    for (size_t i = 0; i < y.size(); ++i)
      EXPECT_NEAR(y[i], ey[i], 1e-12) << i;
    for (size_t i = 0; i < dx.size(); ++i)
      EXPECT_NEAR(dx[i], edx[i], 1e-12) << i;
    for (size_t i = 0; i < dw.size(); ++i)
      EXPECT_NEAR(dw[i], edw[i], 1e-12) << i;
  }
}

} // namespace
} // namespace mpc::test
