// Tests the rows of the default precision policy.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/Policy/PolicyTable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <gtest/gtest.h>

using namespace mpc;

TEST(PolicyTableTest, NoNameIsShared) {
  llvm::StringSet<> names;
  for (const PolicyRow &row : getPolicyRows()) {
    EXPECT_TRUE(names.insert(row.op).second) << row.op.str();
    EXPECT_FALSE(row.why.empty()) << row.op.str();
    EXPECT_FALSE(row.bf16Why.empty()) << row.op.str();
    // A reason in bf16 must not speak of fp16.
    EXPECT_FALSE(row.bf16Why.contains("fp16")) << row.op.str();
    // Two classes cannot have one reason.
    EXPECT_TRUE(row.fp16 == row.bf16 || row.why != row.bf16Why) << row.op.str();
    for (llvm::StringRef name : row.onnx) {
      if (name != row.op)
        EXPECT_TRUE(names.insert(name).second) << name.str();
      EXPECT_EQ(resolvePolicyKey(name), row.op);
    }
  }
  EXPECT_EQ(resolvePolicyKey("NoSuchOp"), "");
}

TEST(PolicyTableTest, GradientsFollowTheirOps) {
  EXPECT_EQ(getPolicyLeader("conv_weight_grad"), "conv");
  EXPECT_EQ(getPolicyLeader("conv"), "conv");
  for (const PolicyFollower &follower : getPolicyFollowers())
    EXPECT_TRUE(llvm::any_of(getPolicyRows(), [&](const PolicyRow &row) {
      return row.op == follower.leader;
    })) << follower.op.str();
}

TEST(PolicyTableTest, SomeValuesStayFP32) {
  // The mask of an attention, and the sum of a reduction.
  EXPECT_TRUE(policyKeepsOperandFP32("attention", 3));
  EXPECT_FALSE(policyKeepsOperandFP32("attention", 0));
  EXPECT_TRUE(policyKeepsResultFP32("reduce_sum", 0));
  EXPECT_FALSE(policyKeepsResultFP32("relu", 0));
}
