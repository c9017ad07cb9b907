// Tests kernels of several shapes in one launch: every segment's elements are
// computed once, in that segment's buffers.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/passes/Codegen/KernelHarness.h"

#include <gtest/gtest.h>

using namespace mpc::test;

namespace {
class Segments : public testing::TestWithParam<std::string> {};
} // namespace

INSTANTIATE_TEST_SUITE_P(Targets, Segments,
                         testing::ValuesIn(runnableTargets()));

/// Three equal computations of different sizes, one shorter than a vector and
/// one with several slices; and a different computation.
TEST_P(Segments, ScaleTensorsOfAnySize) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%a: tensor<10xf32>, %s: tensor<f32>, %b: tensor<50x1000xf32>, %c: tensor<3xf32>, %d: tensor<7xf32>)
        -> (tensor<10xf32>, tensor<50x1000xf32>, tensor<3xf32>, tensor<7xf32>) attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.region pointwise (%a, %s) : (tensor<10xf32>, tensor<f32>) -> tensor<10xf32> {
      ^bb0(%x: tensor<10xf32>, %y: tensor<f32>):
        %z = mpc.mul %x, %y : (tensor<10xf32>, tensor<f32>) -> tensor<10xf32>
        mpc.yield %z : tensor<10xf32>
      }
      %1 = mpc.region pointwise (%b, %s) : (tensor<50x1000xf32>, tensor<f32>) -> tensor<50x1000xf32> {
      ^bb0(%x: tensor<50x1000xf32>, %y: tensor<f32>):
        %z = mpc.mul %x, %y : (tensor<50x1000xf32>, tensor<f32>) -> tensor<50x1000xf32>
        mpc.yield %z : tensor<50x1000xf32>
      }
      %2 = mpc.region pointwise (%c, %s) : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32> {
      ^bb0(%x: tensor<3xf32>, %y: tensor<f32>):
        %z = mpc.mul %x, %y : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
        mpc.yield %z : tensor<3xf32>
      }
      %3 = mpc.region pointwise (%d) : (tensor<7xf32>) -> tensor<7xf32> {
      ^bb0(%x: tensor<7xf32>):
        %z = mpc.neg %x : (tensor<7xf32>) -> tensor<7xf32>
        mpc.yield %z : tensor<7xf32>
      }
      return %0, %1, %2, %3 : tensor<10xf32>, tensor<50x1000xf32>, tensor<3xf32>, tensor<7xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto a = randomFloats(10), b = randomFloats(50000), c = randomFloats(3),
       d = randomFloats(7);
  float scale = 3;
  std::vector<float> w(10), x(50000), y(3), z(7);
  kernel.launch({a.data(), &scale, b.data(), c.data(), d.data(), w.data(),
                 x.data(), y.data(), z.data()},
                /*backwards=*/true);
  for (size_t i = 0; i < w.size(); ++i)
    EXPECT_EQ(w[i], a[i] * 3) << i;
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_EQ(x[i], b[i] * 3) << i;
  for (size_t i = 0; i < y.size(); ++i)
    EXPECT_EQ(y[i], c[i] * 3) << i;
  for (size_t i = 0; i < z.size(); ++i)
    EXPECT_EQ(z[i], -d[i]) << i;
}

TEST_P(Segments, ReduceRowsOfAnyLength) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%a: tensor<3x1000xf32>, %b: tensor<5xf32>)
        -> (tensor<3x1xf32>, tensor<1xf32>) attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
      %0 = mpc.region row_reduce (%a) : (tensor<3x1000xf32>) -> tensor<3x1xf32> {
      ^bb0(%x: tensor<3x1000xf32>):
        %z = mpc.reduce_max %x {axes = array<i64: 1>, keepdims = true} : (tensor<3x1000xf32>) -> tensor<3x1xf32>
        mpc.yield %z : tensor<3x1xf32>
      }
      %1 = mpc.region row_reduce (%b) : (tensor<5xf32>) -> tensor<1xf32> {
      ^bb0(%x: tensor<5xf32>):
        %z = mpc.reduce_max %x {axes = array<i64: 0>, keepdims = true} : (tensor<5xf32>) -> tensor<1xf32>
        mpc.yield %z : tensor<1xf32>
      }
      return %0, %1 : tensor<3x1xf32>, tensor<1xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto a = randomFloats(3000), b = randomFloats(5);
  a[999] = 11, a[1000] = 12, a[2500] = 13, b[4] = 14;
  std::vector<float> x(3), y(1);
  kernel.launch({a.data(), b.data(), x.data(), y.data()});
  EXPECT_EQ(x, (std::vector<float>{11, 12, 13}));
  EXPECT_EQ(y.front(), 14);
}
