// Tests generated matrix products and convolutions in float64 against plain
// loops.
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

TEST_P(Contraction, MultipliesEveryOrientationWithAnEpilogue) {
  constexpr int64_t M = 7, K = 29, J = 45;
  for (bool transA : {false, true})
    for (bool transB : {false, true}) {
      std::string a = transA ? "tensor<3x29x7xf64>" : "tensor<3x7x29xf64>";
      std::string c = transB ? "tensor<45x29xf64>" : "tensor<29x45xf64>";
      CompiledKernel kernel(
          "func.func private @kernel(%a: " + a + ", %b: " + c +
              ", %bias: tensor<45xf64>) -> tensor<3x7x45xf64> attributes "
              "{mpc.kernel = #mpc.kernel<contraction>} {\n%0 = mpc.matmul %a, "
              "%b "
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

/// 3 x 2 taps, strides 2 x 1, dilations 1 x 2, pads (1, 2) and (0, 1).
struct Convolution {
  int64_t batch, in, out, groups, height, width;
  bool channelsLast;
  bool packed = false; ///< filters are stored with the written channels last

  int64_t outHeight() const { return (height - 2) / 2 + 1; }
  int64_t outWidth() const { return width + 1; }
  int64_t inPerGroup() const { return in / groups; }
  int64_t outPerGroup() const { return out / groups; }

  int64_t x(int64_t n, int64_t c, int64_t i, int64_t j) const {
    return channelsLast ? ((n * height + i) * width + j) * in + c
                        : ((n * in + c) * height + i) * width + j;
  }
  int64_t y(int64_t n, int64_t c, int64_t i, int64_t j) const {
    int64_t h = outHeight(), w = outWidth();
    return channelsLast ? ((n * h + i) * w + j) * out + c
                        : ((n * out + c) * h + i) * w + j;
  }
  int64_t w(int64_t o, int64_t c, int64_t ki, int64_t kj) const {
    return ((o * inPerGroup() + c) * 3 + ki) * 2 + kj;
  }

  /// Calls `each` with the elements of x, w and y of every product.
  template <typename Function>
  void forEachProduct(Function each) const {
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t o = 0; o < out; ++o)
        for (int64_t i = 0; i < outHeight(); ++i)
          for (int64_t j = 0; j < outWidth(); ++j)
            for (int64_t c = 0; c < inPerGroup(); ++c)
              for (int64_t tap = 0; tap < 6; ++tap) {
                int64_t row = i * 2 - 1 + tap / 2, col = j - 2 + tap % 2 * 2;
                if (row < 0 || row >= height || col < 0 || col >= width)
                  continue;
                int64_t channel = o / outPerGroup() * inPerGroup() + c;
                each(x(n, channel, row, col), w(o, c, tap / 2, tap % 2),
                     y(n, o, i, j));
              }
  }

  std::string type(std::vector<int64_t> shape) const {
    std::string text = "tensor<";
    for (int64_t extent : shape)
      text += std::to_string(extent) + "x";
    return text + "f64>";
  }
  std::string activations(int64_t channels, int64_t h, int64_t w) const {
    return channelsLast ? type({batch, h, w, channels})
                        : type({batch, channels, h, w});
  }
  /// Replaces XT, YT, WT and ATTRS in `text`. WP is the stored type of the
  /// filters, %w, and UNPACK makes %u of %w, in ONNX's order.
  std::string kernel(std::string text, bool isForward) const {
    std::string filters = type({out, inPerGroup(), 3, 2}), stored = filters;
    std::string perm = "0, 1, 2, 3";
    if (packed) {
      stored = isForward ? type({3, 2, inPerGroup(), out})
                         : type({out, 3, 2, inPerGroup()});
      perm = isForward ? "3, 2, 0, 1" : "0, 3, 1, 2";
    }
    auto replace = [&](std::string name, std::string with) {
      for (size_t p; (p = text.find(name)) != std::string::npos;)
        text.replace(p, name.size(), with);
    };
    replace("UNPACK", "mpc.transpose %w {perm = array<i64: " + perm + ">} : (" +
                          stored + ") -> " + filters);
    replace("XT", activations(in, height, width));
    replace("YT", activations(out, outHeight(), outWidth()));
    replace("WT", filters);
    replace("WP", stored);
    replace("ATTRS",
            "strides = array<i64: 2, 1>, pads = array<i64: 1, 2, 0, 1>, "
            "dilations = array<i64: 1, 2>, group = " +
                std::to_string(groups) + " : i64, layout = #mpc.layout<" +
                (channelsLast ? "NHWC>" : "NCHW>"));
    return text;
  }
  /// Filters in the order that the kernel of that direction reads.
  std::vector<double> store(const std::vector<double> &filters,
                            bool isForward) const {
    if (!packed)
      return filters;
    std::vector<double> stored;
    int64_t outer = isForward ? 6 : out, inner = isForward ? out : 6;
    for (int64_t a = 0; a < outer; ++a)
      for (int64_t b = 0; b < (isForward ? inPerGroup() : inner); ++b)
        for (int64_t c = 0; c < (isForward ? inner : inPerGroup()); ++c)
          stored.push_back(isForward ? filters[(c * inPerGroup() + b) * 6 + a]
                                     : filters[(a * inPerGroup() + c) * 6 + b]);
    return stored;
  }
};

void expectNear(const std::vector<double> &actual,
                const std::vector<double> &expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    ASSERT_NEAR(actual[i], expected[i], 1e-11) << i;
}

void expectConvolves(const Convolution &c, const std::string &target) {
  CompiledKernel forward(c.kernel(R"(
    func.func private @kernel(%x: XT, %w: WP) -> YT attributes {mpc.kernel = #mpc.kernel<contraction>} {
      %u = UNPACK
      %0 = mpc.conv %x, %u {ATTRS} : (XT, WT) -> YT
      return %0 : YT
    })",
                                  true),
                         target);
  CompiledKernel inputGrad(c.kernel(R"(
    func.func private @kernel(%dy: YT, %w: WP) -> XT attributes {mpc.kernel = #mpc.kernel<contraction>} {
      %u = UNPACK
      %0 = mpc.conv_input_grad %dy, %u {ATTRS} : (YT, WT) -> XT
      return %0 : XT
    })",
                                    false),
                           target);
  CompiledKernel weightGrad(c.kernel(R"(
    func.func private @kernel(%x: XT, %dy: YT) -> WT attributes {mpc.kernel = #mpc.kernel<contraction>} {
      %0 = mpc.conv_weight_grad %x, %dy {ATTRS} : (XT, YT) -> WT
      return %0 : WT
    })",
                                     false),
                            target);
  ASSERT_EQ(forward.getError(), "");
  ASSERT_EQ(inputGrad.getError(), "");
  ASSERT_EQ(weightGrad.getError(), "");
  auto x = randomDoubles(c.batch * c.in * c.height * c.width);
  auto w = randomDoubles(c.out * c.inPerGroup() * 6);
  auto dy = randomDoubles(c.batch * c.out * c.outHeight() * c.outWidth());
  std::vector<double> y(dy.size()), dx(x.size()), dw(w.size());
  std::vector<double> ey(dy.size()), edx(x.size()), edw(w.size());
  auto forwardFilters = c.store(w, true), backwardFilters = c.store(w, false);
  forward.launch({x.data(), forwardFilters.data(), y.data()});
  inputGrad.launch({dy.data(), backwardFilters.data(), dx.data()});
  weightGrad.launch({x.data(), dy.data(), dw.data()});
  c.forEachProduct([&](int64_t xi, int64_t wi, int64_t yi) {
    ey[yi] += x[xi] * w[wi];
    edx[xi] += dy[yi] * w[wi];
    edw[wi] += dy[yi] * x[xi];
  });
  expectNear(y, ey);
  expectNear(dx, edx);
  expectNear(dw, edw);
}

TEST_P(Contraction, ConvolvesForwardAndBackward) {
  for (bool last : {true, false})
    expectConvolves({2, 4, 6, 2, 8, 7, last}, GetParam());
}

TEST_P(Contraction, ConvolvesWithPackedFilters) {
  expectConvolves({2, 4, 6, 2, 8, 7, true, true}, GetParam());
  // All widths of vectors, and blocks of pixels inside and at the border.
  expectConvolves({3, 15, 47, 1, 6, 13, true, true}, GetParam());
  expectConvolves({5, 1, 21, 1, 4, 9, true, true}, GetParam());
}

} // namespace
} // namespace mpc::test
