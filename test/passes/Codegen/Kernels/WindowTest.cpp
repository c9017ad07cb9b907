// Tests pooling and its gradients against plain loops, channels first and last.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/passes/Codegen/KernelHarness.h"

#include <cmath>
#include <gtest/gtest.h>

namespace mpc::test {
namespace {

class Window : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Targets, Window, testing::ValuesIn(runnableTargets()));

// 3 x 3 windows, stride 2, pads 1 begin and 0 end, on 2 images of 7 x 6 with 19
// channels: 3 x 3 outputs, overlapping.
constexpr int64_t N = 2, H = 7, W = 6, C = 19, O = 3;

int64_t at(bool last, int64_t n, int64_t c, int64_t i, int64_t j, int64_t h,
           int64_t w) {
  return last ? ((n * h + i) * w + j) * C + c : ((n * C + c) * h + i) * w + j;
}

std::string types(bool last, std::string text) {
  auto replace = [&](std::string name, std::string with) {
    for (size_t p; (p = text.find(name)) != std::string::npos;)
      text.replace(p, name.size(), with);
  };
  replace("LARGE", last ? "2x7x6x19" : "2x19x7x6");
  replace("SMALL", last ? "2x3x3x19" : "2x19x3x3");
  replace("ATTRS", std::string("kernel = array<i64: 3, 3>, strides = "
                               "array<i64: 2, 2>, pads = array<i64: 1, 1, 0, "
                               "0>, layout = #mpc.layout<") +
                       (last ? "NHWC>" : "NCHW>"));
  return text;
}

template <typename Fn>
void forEachTap(int64_t oi, int64_t oj, Fn fn) {
  for (int64_t ki = 0; ki < 3; ++ki)
    for (int64_t kj = 0; kj < 3; ++kj) {
      int64_t i = oi * 2 - 1 + ki, j = oj * 2 - 1 + kj;
      if (i >= 0 && i < H && j >= 0 && j < W)
        fn(i, j);
    }
}

template <typename Fn>
void forEachOutput(Fn fn) {
  for (int64_t n = 0; n < N; ++n)
    for (int64_t c = 0; c < C; ++c)
      for (int64_t i = 0; i < O; ++i)
        for (int64_t j = 0; j < O; ++j)
          fn(n, c, i, j);
}

TEST_P(Window, TakesTheFirstMaximumAndItsPosition) {
  for (bool last : {true, false}) {
    CompiledKernel forward(types(last, R"(
      func.func private @kernel(%x: tensor<LARGExf32>) -> (tensor<SMALLxf32>, tensor<SMALLxi32>) attributes {mpc.kernel = #mpc.kernel<window>} {
        %0, %1 = mpc.max_pool %x {ATTRS, dilations = array<i64: 1, 1>} : (tensor<LARGExf32>) -> (tensor<SMALLxf32>, tensor<SMALLxi32>)
        return %0, %1 : tensor<SMALLxf32>, tensor<SMALLxi32>
      })"),
                           GetParam());
    ASSERT_EQ(forward.getError(), "");
    auto x = randomFloats(N * H * W * C);
    for (float &value : x)
      value = std::round(value); // makes ties
    x[5] = NAN;
    std::vector<float> y(N * O * O * C);
    std::vector<int32_t> positions(y.size());
    forward.launch({x.data(), y.data(), positions.data()});
    std::vector<float> dx(x.size(), 0), expected(x.size(), 0);
    auto dy = randomFloats(y.size());
    forEachOutput([&](int64_t n, int64_t c, int64_t oi, int64_t oj) {
      float best = -INFINITY;
      int64_t where = -1;
      forEachTap(oi, oj, [&](int64_t i, int64_t j) {
        float value = x[at(last, n, c, i, j, H, W)];
        if (where < 0 || value > best ||
            (std::isnan(value) && !std::isnan(best))) {
          best = value;
          where = i * W + j;
        }
      });
      int64_t out = at(last, n, c, oi, oj, O, O);
      EXPECT_EQ(positions[out], where);
      EXPECT_TRUE(y[out] == best || (std::isnan(best) && std::isnan(y[out])));
      expected[at(last, n, c, where / W, where % W, H, W)] += dy[out];
    });

    CompiledKernel backward(types(last, R"(
      func.func private @kernel(%i: tensor<SMALLxi32>, %dy: tensor<SMALLxf32>) -> tensor<LARGExf32> attributes {mpc.kernel = #mpc.kernel<window>} {
        %0 = mpc.max_pool_grad %dy, %i {ATTRS, dilations = array<i64: 1, 1>} : (tensor<SMALLxf32>, tensor<SMALLxi32>) -> tensor<LARGExf32>
        return %0 : tensor<LARGExf32>
      })"),
                            GetParam());
    ASSERT_EQ(backward.getError(), "");
    backward.launch({positions.data(), dy.data(), dx.data()});
    for (size_t i = 0; i < dx.size(); ++i)
      EXPECT_NEAR(dx[i], expected[i], 1e-5) << i;
  }
}

TEST_P(Window, AveragesWithAndWithoutThePadding) {
  for (bool last : {true, false})
    for (bool pad : {true, false}) {
      std::string flag =
          std::string("count_include_pad = ") + (pad ? "true" : "false");
      CompiledKernel forward(
          types(last, R"(
        func.func private @kernel(%x: tensor<LARGExbf16>) -> tensor<SMALLxf32> attributes {mpc.kernel = #mpc.kernel<window>} {
          %0 = mpc.average_pool %x {ATTRS, )" +
                          flag +
                          R"(} : (tensor<LARGExbf16>) -> tensor<SMALLxf32>
          return %0 : tensor<SMALLxf32>
        })"),
          GetParam());
      ASSERT_EQ(forward.getError(), "");
      CompiledKernel backward(
          types(last, R"(
        func.func private @kernel(%dy: tensor<SMALLxf32>) -> tensor<LARGExf32> attributes {mpc.kernel = #mpc.kernel<window>} {
          %0 = mpc.average_pool_grad %dy {ATTRS, )" +
                          flag + R"(} : (tensor<SMALLxf32>) -> tensor<LARGExf32>
          return %0 : tensor<LARGExf32>
        })"),
          GetParam());
      ASSERT_EQ(backward.getError(), "");
      std::vector<uint16_t> x;
      for (float value : randomFloats(N * H * W * C))
        x.push_back(toBF16(value));
      std::vector<float> y(N * O * O * C), dx(x.size()), expected(x.size(), 0);
      auto dy = randomFloats(y.size());
      forward.launch({x.data(), y.data()});
      backward.launch({dy.data(), dx.data()});
      forEachOutput([&](int64_t n, int64_t c, int64_t oi, int64_t oj) {
        double sum = 0, count = 0;
        forEachTap(oi, oj, [&](int64_t i, int64_t j) {
          sum += fromBF16(x[at(last, n, c, i, j, H, W)]);
          ++count;
        });
        if (pad)
          count = 9;
        int64_t out = at(last, n, c, oi, oj, O, O);
        EXPECT_NEAR(y[out], sum / count, 1e-6);
        forEachTap(oi, oj, [&](int64_t i, int64_t j) {
          expected[at(last, n, c, i, j, H, W)] += dy[out] / count;
        });
      });
      for (size_t i = 0; i < dx.size(); ++i)
        EXPECT_NEAR(dx[i], expected[i], 1e-5) << i;
    }
}

} // namespace
} // namespace mpc::test
