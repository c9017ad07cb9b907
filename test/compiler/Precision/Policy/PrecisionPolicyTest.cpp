// Tests the default table, presets and names. The tests of the pass cover
// policy files.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/Policy/PrecisionPolicy.h"

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringSet.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

namespace {
struct PrecisionPolicyTest : testing::Test {
  PrecisionPolicyTest() { context.loadDialect<MPCDialect, amp::AMPDialect>(); }

  FloatType fp16() { return Float16Type::get(&context); }
  FloatType bf16() { return BFloat16Type::get(&context); }

  MLIRContext context;
};
} // namespace

// Precision silently denies an op without a row.
TEST_F(PrecisionPolicyTest, EveryOpHasARow) {
  PrecisionPolicy policy(fp16());
  for (RegisteredOperationName name :
       context.getRegisteredOperationsByDialect("mpc"))
    EXPECT_TRUE(!name.hasInterface<PrecisionOpInterface>() ||
                // A gradient op uses the row of its forward op.
                name.hasTrait<SharedPolicyTrait>() ||
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

// Low-precision classes come first. Within a class, ops are sorted by name.
TEST_F(PrecisionPolicyTest, RowsAreInTheOrderOfTheirClasses) {
  ArrayRef<PolicyRow> rows = getPolicyRows();
  EXPECT_EQ(rows.front().op, "attention");
  EXPECT_EQ(rows.back().fp16, PrecisionClass::Fixed);
  for (auto [row, next] : llvm::zip(rows.drop_back(), rows.drop_front()))
    EXPECT_LT(std::tie(row.fp16, row.bf16, row.op),
              std::tie(next.fp16, next.bf16, next.op))
        << row.op.str() << " " << next.op.str();
}

// The name in a rule or file must identify one op.
TEST_F(PrecisionPolicyTest, NoTwoOpsShareAName) {
  llvm::StringSet<> seen;
  for (const std::string &name : getPolicyNames())
    EXPECT_TRUE(seen.insert(name).second) << name;
  EXPECT_TRUE(seen.contains("GreaterOrEqual"));
  EXPECT_TRUE(seen.contains("LogSoftmax"));
  EXPECT_TRUE(seen.contains("log_softmax_grad"));
}

TEST_F(PrecisionPolicyTest, ONNXNamesAreNames) {
  EXPECT_EQ(resolvePolicyKey("Gemm"), "gemm");
  EXPECT_EQ(resolvePolicyKey("Flatten"), "reshape");
  EXPECT_EQ(resolvePolicyKey("conv_input_grad"), "conv_input_grad");
  EXPECT_EQ(resolvePolicyKey(""), "");
  EXPECT_EQ(resolvePolicyKey("NoSuchOp"), "");
}
