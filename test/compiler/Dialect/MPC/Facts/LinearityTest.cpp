// Tests that every op of the dialects says if the op is linear in operand 0.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringSet.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

/// The ops that are not marked by MPC_Linear. A new op needs MPC_Linear or an
/// entry. The loss scale multiplies the results of an op of MPC_Linear, so an
/// op marked by mistake would hide a gradient that is scaled twice, or not.
static const llvm::StringSet<> &getUnmarkedOps() {
  static const llvm::StringSet<> ops = {
      // LossScaleAnalysis has a rule for the role, the interface or the op.
      "amp.scale_loss", "amp.unscale", "mpc.add", "mpc.all_reduce",
      "mpc.concat", "mpc.conv", "mpc.conv_input_grad", "mpc.conv_weight_grad",
      "mpc.div", "mpc.gather", "mpc.gather_elements", "mpc.gemm", "mpc.if",
      "mpc.matmul", "mpc.maximum", "mpc.minimum", "mpc.mul", "mpc.pad",
      "mpc.reshape", "mpc.scan", "mpc.scatter", "mpc.scatter_elements",
      "mpc.select", "mpc.slice", "mpc.sub", "mpc.transpose",
      // Functions of x that differ from x times a constant.
      "mpc.acos", "mpc.acosh", "mpc.asin", "mpc.asinh", "mpc.atan", "mpc.atanh",
      "mpc.bit_cast", "mpc.ceil", "mpc.celu", "mpc.clip", "mpc.cos", "mpc.cosh",
      "mpc.elu", "mpc.erf", "mpc.exp", "mpc.fake_quantize", "mpc.floor",
      "mpc.gelu", "mpc.gelu_tanh", "mpc.hard_sigmoid", "mpc.hard_swish",
      "mpc.log", "mpc.log_softmax", "mpc.mish", "mpc.mod", "mpc.pow",
      "mpc.reciprocal", "mpc.reduce_prod", "mpc.round", "mpc.selu",
      "mpc.shrink", "mpc.sigmoid", "mpc.sign", "mpc.sin", "mpc.sinh",
      "mpc.softmax", "mpc.softplus", "mpc.softsign", "mpc.sqrt", "mpc.swish",
      "mpc.tan", "mpc.tanh", "mpc.thresholded_relu",
      // Linear or not, ops of forward passes. No gradient passes through them.
      "mpc.attention", "mpc.batch_norm", "mpc.batch_norm_inference",
      "mpc.layer_norm", "mpc.leaky_relu", "mpc.library_attention",
      "mpc.max_pool", "mpc.rms_norm", "mpc.stop_gradient",
      // Losses and metrics.
      "mpc.accuracy", "mpc.bce", "mpc.bce_with_logits", "mpc.nll_loss",
      "mpc.softmax_cross_entropy_loss",
      // Booleans, integers and indices.
      "amp.all_finite", "amp.non_finite", "mpc.and", "mpc.check_indices",
      "mpc.equal", "mpc.increment", "mpc.is_inf", "mpc.is_nan", "mpc.less",
      "mpc.less_or_equal", "mpc.not", "mpc.one_hot", "mpc.or", "mpc.shift_left",
      "mpc.shift_right", "mpc.xor",
      // Updates, which read gradients without the loss scale.
      "amp.update_scale", "mpc.adagrad", "mpc.adam", "mpc.clip_grad_norm",
      "mpc.momentum", "mpc.rmsprop", "mpc.sgd",
      // Sources and structure.
      "mpc.constant", "mpc.gradient", "mpc.gradient_seed", "mpc.if_call",
      "mpc.kept", "mpc.random_uniform", "mpc.region", "mpc.scan_call",
      "mpc.variable", "mpc.yield"};
  return ops;
}

TEST(Linearity, EveryOpIsMarkedOrListed) {
  MLIRContext context;
  context.loadDialect<MPCDialect, amp::AMPDialect>();
  llvm::StringSet<> found;
  for (RegisteredOperationName name : context.getRegisteredOperations()) {
    StringRef dialect = name.getDialectNamespace();
    if (dialect != "mpc" && dialect != "amp")
      continue;
    StringRef op = name.getStringRef();
    found.insert(op);
    EXPECT_NE(name.hasTrait<LinearInFirstOperand>(),
              getUnmarkedOps().contains(op))
        << op.str() << ": expected either MPC_Linear in the definition, or an "
        << "entry in the list of this test";
  }
  for (const auto &op : getUnmarkedOps())
    EXPECT_TRUE(found.contains(op.getKey())) << op.getKey().str();
}

TEST(Linearity, GradientsAreLinearInTheGradientOfTheResult) {
  MLIRContext context;
  context.loadDialect<MPCDialect, amp::AMPDialect>();
  for (RegisteredOperationName name : context.getRegisteredOperations())
    if (StringRef op = name.getStringRef();
        op.ends_with("_grad") && !op.starts_with("mpc.conv_"))
      EXPECT_TRUE(name.hasTrait<LinearInFirstOperand>()) << op.str();
}
