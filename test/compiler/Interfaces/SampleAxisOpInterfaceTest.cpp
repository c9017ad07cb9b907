// Tests on which axis elementwise ops keep the samples of their operands.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Interfaces/SampleAxisOpInterface.h"
#include "test/compiler/OneOp.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

namespace {
using Samples = std::optional<SampleAxis>;

using Place = std::pair<int64_t, int64_t>;

/// The axis of the result, and how often it repeats all 4 samples.
std::optional<Place> followSum(const std::string &arguments,
                               const std::string &op,
                               ArrayRef<Samples> operands) {
  OneOp parsed(arguments, op);
  Samples found = followSamples(parsed.get(), operands, 4);
  if (!found)
    return std::nullopt;
  return Place(found->axis, found->outer);
}

} // namespace

TEST(SampleAxisOpInterfaceTest, BroadcastOperandsAgree) {
  std::string arguments = "%x: tensor<3x4x8xf32>, %y: tensor<4x8xf32>";
  std::string add = "%r = mpc.add %x, %y : (tensor<3x4x8xf32>, "
                    "tensor<4x8xf32>) -> tensor<3x4x8xf32>";
  EXPECT_EQ(followSum(arguments, add, {SampleAxis{1}, Samples()}), Place(1, 1));
  EXPECT_EQ(followSum(arguments, add, {SampleAxis{1}, SampleAxis{0}}),
            Place(1, 1));
  EXPECT_EQ(followSum(arguments, add, {SampleAxis{0}, SampleAxis{0}}),
            std::nullopt);
  EXPECT_EQ(followSum(arguments, add, {Samples(), Samples()}), std::nullopt);
}
