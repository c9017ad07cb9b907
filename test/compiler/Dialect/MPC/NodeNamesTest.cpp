// Tests the names of nodes in locations.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/NodeNames.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

namespace {
Location fuseNames(MLIRContext *context, ArrayRef<StringRef> names) {
  SmallVector<Location> parts;
  for (StringRef name : names)
    parts.push_back(namedLocation(context, name));
  return FusedLoc::get(context, parts);
}
using Names = SmallVector<StringRef>;
} // namespace

TEST(NodeNamesTest, FusedLocationsHaveAllNamesOnce) {
  MLIRContext context;
  Location both = fuseNames(&context, {"Add_9", "Mul_8", "Add_9"});
  EXPECT_EQ(getNodeNames(both), (Names{"Add_9", "Mul_8"}));
  EXPECT_EQ(getNodeNames(UnknownLoc::get(&context)), Names{});
}

// A position in a file may have a name too, which is no node's.
TEST(NodeNamesTest, ThePositionOfANodeIsNoNode) {
  MLIRContext context;
  auto position = NameLoc::get(StringAttr::get(&context, "model.onnx"));
  auto name = NameLoc::get(StringAttr::get(&context, "Add_9"), position);
  EXPECT_EQ(getNodeNames(name), Names{"Add_9"});
}

TEST(NodeNamesTest, SuffixesFollowEveryName) {
  MLIRContext context;
  Location both = fuseNames(&context, {"Add_9", "Mul_8"});
  EXPECT_EQ(getNodeNames(addSuffix(both, "dx")),
            (Names{"Add_9#dx", "Mul_8#dx"}));
  Location unknown = UnknownLoc::get(&context);
  EXPECT_EQ(addSuffix(unknown, "dx"), unknown);
}
