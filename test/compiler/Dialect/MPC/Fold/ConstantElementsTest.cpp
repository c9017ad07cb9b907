// Tests reading and writing the elements of constant tensors.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Fold/ConstantElements.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

TEST(ConstantElementsTest, IndicesAreVisitedInRowMajorOrder) {
  SmallVector<SmallVector<int64_t>> seen;
  forEachIndex({2, 2},
               [&](ArrayRef<int64_t> index) { seen.emplace_back(index); });
  EXPECT_EQ(seen, (SmallVector<SmallVector<int64_t>>{
                      {0, 0}, {0, 1}, {1, 0}, {1, 1}}));
  int visits = 0;
  forEachIndex({2, 0}, [&](ArrayRef<int64_t>) { ++visits; });
  EXPECT_EQ(visits, 0);
}

TEST(ConstantElementsTest, BroadcastAxesAreReadAtZero) {
  EXPECT_EQ(getPosition({1, 2}, {2, 3}), 5);
  EXPECT_EQ(getPosition({1, 2}, {2, 1}), 1);
  EXPECT_EQ(getPosition({1, 2}, {3}), 2);
}

TEST(ConstantElementsTest, ElementsKeepTheirBitsAndSign) {
  MLIRContext context;
  Builder builder(&context);
  auto bytes = RankedTensorType::get({2}, builder.getIntegerType(8, false));
  auto elements = ConstantElements::read(
      DenseElementsAttr::get(bytes, ArrayRef<uint8_t>{200, 7}));
  ASSERT_TRUE(elements);
  EXPECT_FALSE(elements->isSplat());
  EXPECT_EQ(elements->getInteger(0).getExtValue(), 200);
  auto signedBytes = RankedTensorType::get({2}, builder.getIntegerType(8));
  elements = ConstantElements::read(
      DenseElementsAttr::get(signedBytes, ArrayRef<int8_t>{-56, 7}));
  EXPECT_EQ(elements->getInteger(0).getExtValue(), -56);
  // Booleans are packed.
  auto booleans = RankedTensorType::get({3}, builder.getI1Type());
  elements = ConstantElements::read(
      DenseElementsAttr::get(booleans, ArrayRef<bool>{true, false, true}));
  EXPECT_EQ(elements->getBits(1), 0);
  EXPECT_EQ(elements->getBits(2), 1);
}

TEST(ConstantElementsTest, LargeTensorsAreReadIfTheyAreSplats) {
  MLIRContext context;
  Builder builder(&context);
  auto large =
      RankedTensorType::get({kMostFoldedElements + 1}, builder.getF32Type());
  auto splat = ConstantElements::read(DenseElementsAttr::get(large, 2.5f));
  ASSERT_TRUE(splat);
  EXPECT_EQ(splat->getFloat(kMostFoldedElements).convertToFloat(), 2.5f);
  std::vector<float> values(kMostFoldedElements + 1);
  values.back() = 1;
  EXPECT_FALSE(ConstantElements::read(
      DenseElementsAttr::get(large, ArrayRef<float>(values))));
  EXPECT_FALSE(ConstantElements::read(Attribute()));
}

TEST(ConstantElementsTest, WrittenElementsAreReadBack) {
  MLIRContext context;
  Builder builder(&context);
  for (unsigned width : {1, 8, 16, 64}) {
    auto type = RankedTensorType::get({3}, builder.getIntegerType(width));
    SmallVector<APInt> bits = {APInt(width, 1), APInt(width, 0),
                               APInt(width, 1)};
    auto elements = ConstantElements::read(makeElements(type, bits));
    ASSERT_TRUE(elements);
    for (int64_t i = 0; i < 3; ++i)
      EXPECT_EQ(elements->getBits(i), bits[i]) << width;
  }
}
