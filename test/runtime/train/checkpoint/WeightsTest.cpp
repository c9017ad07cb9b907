// Tests that weights find their variables by name.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/train/Support.h"

#include "runtime/train/checkpoint/Weights.h"

namespace mpc::runtime::train {
namespace {

Array weights(const Shape &shape) {
  return makeArray("w", ElementType::F64, shape,
                   std::vector<double>(size_t(numElements(shape)), 1.5));
}

TEST(Weights, AreConvertedAndDerivedFrom) {
  ToyModel model;
  const Array other = makeArray<float>("other", ElementType::F32, {1}, {0});
  ASSERT_TRUE(loadWeights(model, {other, weights({4, 3})}, {"w"}).ok());
  EXPECT_EQ(model.state("w")->as<float>()[11], 1.5f);
  EXPECT_EQ(model.state("w.bf16")->as<uint16_t>()[11], 0x3fc0);
}

TEST(Weights, MissingOnesAreNamed) {
  ToyModel model;
  expectFailure(loadWeights(model, {weights({4, 3})}, {"w", "b", "c"}),
                StatusCode::InvalidInput, "the weights lack 'b', 'c'");
  const Array other = makeArray<float>("other", ElementType::F32, {1}, {0});
  expectFailure(loadWeights(model, {other}), StatusCode::InvalidInput,
                "no array");
}

TEST(Weights, OfAnotherShapeAreRefused) {
  ToyModel model;
  expectFailure(loadWeights(model, {weights({3, 4})}), StatusCode::InvalidInput,
                "weight 'w' is 3x4, the model wants 4x3");
  EXPECT_EQ(model.state("w")->as<float>()[0], 0);
}

TEST(Weights, ReadBackAreThoseOfATrainedModel) {
  ToyModel model;
  ASSERT_TRUE(loadWeights(model, {weights({4, 3})}).ok());
  StatusOr<std::vector<Array>> read = readWeights(model);
  ASSERT_TRUE(read.ok());
  ASSERT_EQ(read->size(), 1u); // no momentum, no counters
  EXPECT_EQ((*read)[0].name, "w");
  EXPECT_EQ((*read)[0].shape, (Shape{4, 3}));
}

} // namespace
} // namespace mpc::runtime::train
