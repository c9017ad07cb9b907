// Tests on which axis ops keep the samples of their operands.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Interfaces/SampleAxisOpInterface.h"
#include "test/compiler/OneOp.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

namespace {
using Samples = std::optional<SampleAxis>;

/// The axis of the result, and how often it repeats all 4 samples.
std::optional<std::pair<int64_t, int64_t>> follow(const std::string &arguments,
                                                  const std::string &op,
                                                  ArrayRef<Samples> operands) {
  OneOp parsed(arguments, op);
  Samples found = followSamples(parsed.get(), operands, 4);
  if (!found)
    return std::nullopt;
  return std::pair(found->axis, found->outer);
}

using Place = std::pair<int64_t, int64_t>;
} // namespace

TEST(SampleAxesTest, ViewsAndMovesAreFollowed) {
  std::string x = "%x: tensor<3x4x8xf32>";
  EXPECT_EQ(follow(x,
                   "%r = mpc.reshape %x : (tensor<3x4x8xf32>) -> "
                   "tensor<12x8xf32>",
                   {SampleAxis{1}}),
            Place(0, 3));
  EXPECT_EQ(follow(x,
                   "%r = mpc.transpose %x {perm = array<i64: 1, 0, 2>} : "
                   "(tensor<3x4x8xf32>) -> tensor<4x3x8xf32>",
                   {SampleAxis{1}}),
            Place(0, 1));
  // All samples share a table, and each picks rows of it.
  std::string gather =
      "%r = mpc.gather %t, %i {axis = 0 : i64} : (tensor<9x8xf32>, "
      "tensor<4x2xi64>) -> tensor<4x2x8xf32>";
  std::string table = "%t: tensor<9x8xf32>, %i: tensor<4x2xi64>";
  EXPECT_EQ(follow(table, gather, {Samples(), SampleAxis{0}}), Place(0, 1));
  EXPECT_EQ(follow(table, gather, {SampleAxis{0}, Samples()}), std::nullopt);
}

TEST(SampleAxesTest, ProductsKeepRows) {
  std::string arguments = "%x: tensor<4x8xf32>, %w: tensor<8x4xf32>";
  std::string product = "%r = mpc.matmul %x, %w : (tensor<4x8xf32>, "
                        "tensor<8x4xf32>) -> tensor<4x4xf32>";
  EXPECT_EQ(follow(arguments, product, {SampleAxis{0}, Samples()}),
            Place(0, 1));
  // The product sums over columns, and mixes samples of both operands.
  EXPECT_EQ(follow(arguments, product, {SampleAxis{1}, Samples()}),
            std::nullopt);
  EXPECT_EQ(follow(arguments, product, {SampleAxis{0}, SampleAxis{1}}),
            std::nullopt);
  std::string transposed =
      "%r = mpc.gemm %x, %w {transA = true, transB = true} : "
      "(tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>";
  EXPECT_EQ(follow(arguments, transposed, {SampleAxis{0}, Samples()}),
            std::nullopt);
}

TEST(SampleAxesTest, NormsKeepTheAxesThatTheyDoNotMix) {
  std::string x = "%x: tensor<4x8xf32>";
  std::string softmax = "%r = mpc.softmax %x {axis = 1 : i64} : "
                        "(tensor<4x8xf32>) -> tensor<4x8xf32>";
  EXPECT_EQ(follow(x, softmax, {SampleAxis{0}}), Place(0, 1));
  std::string sum = "%r = mpc.reduce_sum %x {axes = array<i64: 1>} : "
                    "(tensor<4x8xf32>) -> tensor<4xf32>";
  // This op does not implement the interface.
  EXPECT_EQ(follow(x, sum, {SampleAxis{0}}), std::nullopt);
  EXPECT_EQ(
      follow(x, "%r = mpc.stop_gradient %x : tensor<4x8xf32>", {SampleAxis{0}}),
      Place(0, 1));
}
