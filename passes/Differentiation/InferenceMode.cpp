// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/InferenceMode.h"

using namespace mlir;
using namespace mpc;

void mpc::convertToInference(BatchNormOp norm) {
  OpBuilder builder(norm);
  Value output = BatchNormInferenceOp::create(
      builder, norm.getLoc(), norm.getOutput().getType(), norm.getInput(),
      norm.getScale(), norm.getBias(), norm.getRunningMean(),
      norm.getRunningVar(), norm.getEpsilonAttr(), norm.getLayoutAttr());
  norm.getOutput().replaceAllUsesWith(output);
  norm.getNewRunningMean().replaceAllUsesWith(norm.getRunningMean());
  norm.getNewRunningVar().replaceAllUsesWith(norm.getRunningVar());
  norm.erase();
}

static void dropNothing(AttentionOp attention) {
  attention.setDropout(APFloat(0.0));
  attention.removeDropoutIdAttr();
  attention.getSeedMutable().clear();
  attention.getMicroStepMutable().clear();
}

void mpc::convertToInference(func::FuncOp function) {
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front())) {
    if (auto dropout = dyn_cast<DropoutOp>(op)) {
      dropout.getOutput().replaceAllUsesWith(dropout.getInput());
      dropout.erase();
    } else if (auto norm = dyn_cast<BatchNormOp>(op)) {
      convertToInference(norm);
    } else if (auto attention = dyn_cast<AttentionOp>(op)) {
      dropNothing(attention);
    }
  }
}
