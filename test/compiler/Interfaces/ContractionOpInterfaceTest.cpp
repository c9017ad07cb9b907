// Tests contractions seen as matrix products.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Interfaces/ContractionOpInterface.h"
#include "test/compiler/OneOp.h"

#include <array>
#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

namespace {
// Rows, columns and depth.
std::array<int64_t, 3> findSpace(const std::string &arguments,
                                 const std::string &op) {
  OneOp parsed(arguments, op);
  ContractionSpace space =
      cast<ContractionOpInterface>(parsed.get()).getContractionSpace();
  return {space.rows, space.columns, space.depth};
}
using Extents = std::array<int64_t, 3>;
} // namespace

TEST(ContractionOpInterfaceTest, BatchesAreRows) {
  EXPECT_EQ(findSpace("%x: tensor<2x8x4xf32>, %y: tensor<2x6x8xf32>",
                      "%r = mpc.matmul %x, %y {transA = true, transB = true} "
                      ": (tensor<2x8x4xf32>, tensor<2x6x8xf32>) -> "
                      "tensor<2x4x6xf32>"),
            (Extents{2 * 4, 6, 8}));
}

TEST(ContractionOpInterfaceTest, PixelsAreRows) {
  EXPECT_EQ(
      findSpace("%x: tensor<2x8x8x3xf32>, %w: tensor<5x3x3x3xf32>",
                "%r = mpc.conv %x, %w {dilations = array<i64: 1, 1>, pads = "
                "array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>, layout = "
                "#mpc.layout<NHWC>} : (tensor<2x8x8x3xf32>, "
                "tensor<5x3x3x3xf32>) -> tensor<2x6x6x5xf32>"),
      (Extents{2 * 6 * 6, 5, 3 * 3 * 3}));
}

TEST(ContractionOpInterfaceTest, TheLastAxisCountsColumns) {
  OneOp product("%x: tensor<4x8xf32>, %y: tensor<8x6xf32>",
                "%r = mpc.matmul %x, %y : (tensor<4x8xf32>, tensor<8x6xf32>) "
                "-> tensor<4x6xf32>");
  EXPECT_EQ(cast<ContractionOpInterface>(product.get()).getColumnAxis(), 1u);
}
