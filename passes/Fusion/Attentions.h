// Pairs attentions with their gradients.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_FUSION_ATTENTIONS_H
#define MPC_PASSES_FUSION_ATTENTIONS_H

#include "compiler/Dialect/MPC/MPC.h"

#include <tuple>

namespace mpc {

/// True if `gradient` is the gradient of attention `op`: both are in one block,
/// with the same operands and equal attributes that affect the scores. Several
/// attentions may share operands, so equal operands are not enough. Dropout
/// need not be compared, since the gradient reads the softmax before dropout.
inline bool isForwardOf(AttentionOp op, AttentionGradOp gradient) {
  auto scoring = [](auto attention) {
    return std::tuple(attention.getScaleAttr(), attention.getSoftcapAttr(),
                      attention.getCausalOffsetAttr(),
                      attention.getHiddenAttr(),
                      attention.getZeroEmptyRowsAttr());
  };
  return op->getBlock() == gradient->getBlock() &&
         op->isBeforeInBlock(gradient) &&
         llvm::equal(op->getOperands(), gradient->getOperands().drop_front()) &&
         scoring(op) == scoring(gradient);
}

} // namespace mpc

#endif // MPC_PASSES_FUSION_ATTENTIONS_H
