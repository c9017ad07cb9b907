// Replaces conditions by both branches, for targets whose steps have none.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Fusion/Passes.h"

#include "compiler/Dialect/MPC/Target.h"

#include "mlir/IR/PatternMatch.h"

namespace mpc {
#define GEN_PASS_DEF_CONVERTIFTOSELECTPASS
#include "passes/Fusion/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
struct ConvertIfToSelectPass
    : public mpc::impl::ConvertIfToSelectPassBase<ConvertIfToSelectPass> {
  using ConvertIfToSelectPassBase::ConvertIfToSelectPassBase;
  void runOnOperation() override;
};
} // namespace

// Puts the ops of a branch in front of `op`; returns what it yields.
static SmallVector<Value> inlineBranch(IfOp op, Block &branch,
                                       IRRewriter &rewriter) {
  Operation *yield = branch.getTerminator();
  rewriter.inlineBlockBefore(&branch, op, op.getCaptured());
  SmallVector<Value> yielded(yield->getOperands());
  rewriter.eraseOp(yield);
  return yielded;
}

void ConvertIfToSelectPass::runOnOperation() {
  TargetInfo target = getTarget(getOperation());
  if (!target.isGPU())
    return;
  SmallVector<IfOp> conditions;
  // Those within others come first.
  getOperation()->walk([&](IfOp op) { conditions.push_back(op); });
  IRRewriter rewriter(&getContext());
  for (IfOp op : conditions) {
    SmallVector<Value> then = inlineBranch(op, op.getThenBlock(), rewriter);
    SmallVector<Value> otherwise =
        inlineBranch(op, op.getElseBlock(), rewriter);
    rewriter.setInsertionPoint(op);
    SmallVector<Value> chosen;
    for (auto [a, b] : llvm::zip(then, otherwise)) {
      auto select =
          SelectOp::create(rewriter, op.getLoc(), op.getCondition(), a, b);
      select->setDiscardableAttrs(op->getDiscardableAttrDictionary());
      chosen.push_back(select);
    }
    rewriter.replaceOp(op, chosen);
  }
}
