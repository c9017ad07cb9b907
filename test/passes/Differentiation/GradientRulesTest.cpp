// Tests that every op has a gradient rule or a reason to have none, and that
// every rule has a test.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/GradientRules.h"

#include "mlir/IR/MLIRContext.h"
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <set>

using namespace mlir;
using namespace mpc;

// Ops without a rule. A missing op would only be found when a user's model
// contains it.
static const std::map<std::string, std::string> kWithoutRule = {
    {"mpc.constant", "has no operands"},
    {"mpc.variable", "is a declaration"},
    {"mpc.gradient", "is what the rules replace"},
    {"mpc.gradient_seed", "has no operands"},
    {"mpc.accuracy", "is constant almost everywhere, and is for evaluation"},
    {"mpc.equal", "gives booleans"},
    {"mpc.less", "gives booleans"},
    {"mpc.less_or_equal", "gives booleans"},
    {"mpc.is_inf", "gives booleans"},
    {"mpc.is_nan", "gives booleans"},
    {"mpc.bit_cast", "no derivative goes through bits: importers stop it"},
    {"mpc.and", "reads integers"},
    {"mpc.not", "reads integers"},
    {"mpc.or", "reads integers"},
    {"mpc.shift_left", "reads integers"},
    {"mpc.shift_right", "reads integers"},
    {"mpc.xor", "reads integers"},
    {"mpc.one_hot", "reads integers"},
    {"mpc.random_uniform", "reads counters"},
    {"mpc.increment", "counts in integers"},
    {"mpc.kept", "is made after differentiation"},
    {"mpc.library_attention", "is made after differentiation"},
    {"mpc.library_attention_grad", "is made after differentiation"},
    {"mpc.region", "is made after differentiation"},
    {"mpc.if_call", "is made after differentiation"},
    {"mpc.scan_call", "is made after differentiation"},
    {"mpc.yield", "is made after differentiation"},
    {"mpc.all_reduce", "follows the backward pass"},
    {"mpc.clip_grad_norm", "follows the backward pass"},
    {"mpc.check_indices", "has no result"},
    // Derivatives of derivatives.
    {"mpc.attention_grad", "gradient"},
    {"mpc.average_pool_grad", "gradient"},
    {"mpc.batch_norm_grad", "gradient"},
    {"mpc.bce_grad", "gradient"},
    {"mpc.bce_with_logits_grad", "gradient"},
    {"mpc.clip_grad", "gradient"},
    {"mpc.conv_weight_grad", "gradient"},
    {"mpc.fake_quantize_grad", "gradient"},
    {"mpc.fake_quantize_scale_grad", "gradient"},
    {"mpc.formula_grad", "gradient"},
    {"mpc.global_average_pool_grad", "gradient"},
    {"mpc.layer_norm_grad", "gradient"},
    {"mpc.log_softmax_grad", "gradient"},
    {"mpc.max_pool_grad", "gradient"},
    {"mpc.nll_loss_grad", "gradient"},
    {"mpc.relu_grad", "gradient"},
    {"mpc.rms_norm_grad", "gradient"},
    {"mpc.sigmoid_grad", "gradient"},
    {"mpc.softmax_cross_entropy_loss_grad", "gradient"},
    {"mpc.softmax_grad", "gradient"},
    {"mpc.tanh_grad", "gradient"},
    // Updates.
    {"mpc.adagrad", "optimizer"},
    {"mpc.adam", "optimizer"},
    {"mpc.momentum", "optimizer"},
    {"mpc.rmsprop", "optimizer"},
    {"mpc.sgd", "optimizer"},
};

static std::set<std::string> getRules() {
  std::set<std::string> names;
  for (StringRef name : GradientRules::get().getOpNames())
    names.insert(name.str());
  return names;
}

TEST(GradientRulesTest, EveryOpHasARuleOrAReason) {
  MLIRContext context;
  context.loadDialect<MPCDialect>();
  std::set<std::string> rules = getRules(), ops;
  for (RegisteredOperationName op :
       context.getRegisteredOperationsByDialect("mpc")) {
    std::string name = op.getStringRef().str();
    ops.insert(name);
    EXPECT_NE(rules.count(name), kWithoutRule.count(name)) << name;
  }
  for (const auto &[name, reason] : kWithoutRule)
    EXPECT_TRUE(ops.count(name)) << name << " is no op: " << reason;
}

// test/numerics lists the finite-difference test of each rule, and checks that
// the test exists.
TEST(GradientRulesTest, EveryRuleIsCompared) {
  std::ifstream file(MPC_TEST_GRADIENT_RULES);
  ASSERT_TRUE(file) << MPC_TEST_GRADIENT_RULES;
  std::set<std::string> compared;
  for (std::string line; std::getline(file, line);)
    if (line.rfind("#", 0) != 0)
      compared.insert(line.substr(0, line.find(' ')));
  EXPECT_EQ(compared, getRules());
}
