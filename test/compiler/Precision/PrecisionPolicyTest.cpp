// The default table, presets and names. Policy files are tested through the
// pass that reads them.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/PrecisionPolicy.h"

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/MLIRContext.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;
using amp::PrecisionClass;

namespace {
struct PrecisionPolicyTest : testing::Test {
  PrecisionPolicyTest() { context.loadDialect<MPCDialect, amp::AMPDialect>(); }

  FloatType fp16() { return Float16Type::get(&context); }
  FloatType bf16() { return BFloat16Type::get(&context); }

  MLIRContext context;
};
} // namespace

// A new op must be put on a list, or precision would silently deny it.
TEST_F(PrecisionPolicyTest, EveryOpHasARow) {
  PrecisionPolicy policy(fp16());
  for (RegisteredOperationName name :
       context.getRegisteredOperationsByDialect("mpc"))
    EXPECT_TRUE(!name.hasInterface<PrecisionOpInterface>() ||
                // Asks for the row of the op that it is the gradient of.
                name.stripDialect() == "formula_grad" ||
                policy.lookup(name.stripDialect()).has_value())
        << name.getStringRef().str();
}

TEST_F(PrecisionPolicyTest, TheLowTypesHaveListsOfTheirOwn) {
  EXPECT_EQ(PrecisionPolicy(fp16()).lookup("exp")->precisionClass,
            PrecisionClass::Deny);
  EXPECT_EQ(PrecisionPolicy(bf16()).lookup("exp")->precisionClass,
            PrecisionClass::Infer);
}

TEST_F(PrecisionPolicyTest, GradientsFollowTheirForwardOp) {
  PrecisionPolicy policy(fp16());
  EXPECT_EQ(policy.lookup("softmax_grad")->precisionClass,
            PrecisionClass::Deny);
  EXPECT_EQ(policy.lookup("conv_weight_grad")->precisionClass,
            PrecisionClass::Allow);
}

TEST_F(PrecisionPolicyTest, PresetsChangeGradientsToo) {
  PrecisionPolicy policy(fp16());
  ASSERT_FALSE(static_cast<bool>(policy.load("tensorflow")));
  auto entry = policy.lookup("softmax_grad");
  EXPECT_EQ(entry->precisionClass, PrecisionClass::Infer);
  EXPECT_EQ(entry->rule, "preset:tensorflow:softmax");
}

TEST_F(PrecisionPolicyTest, StatisticsStayFP32) {
  EXPECT_FALSE(policyKeepsOperandFP32("batch_norm", 0));
  EXPECT_TRUE(policyKeepsOperandFP32("batch_norm", 1));
  EXPECT_FALSE(policyKeepsResultFP32("batch_norm", 0));
  EXPECT_TRUE(policyKeepsResultFP32("batch_norm", 4));
}

TEST_F(PrecisionPolicyTest, ONNXNamesAreNames) {
  EXPECT_EQ(resolvePolicyKey("Gemm"), "gemm");
  EXPECT_EQ(resolvePolicyKey("Flatten"), "reshape");
  EXPECT_EQ(resolvePolicyKey("conv_input_grad"), "conv_input_grad");
  EXPECT_EQ(resolvePolicyKey(""), "");
  EXPECT_EQ(resolvePolicyKey("NoSuchOp"), "");
}
