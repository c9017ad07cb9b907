// Computes both branches of a condition and selects between their results, for
// targets that cannot skip steps.
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

// Replaces the indices checked in `branch` by 0 if the condition chooses the
// other branch. The untaken branch is computed too, and its check must not
// fail. Index 0 is valid on every axis with elements.
static void guardChecks(IfOp op, Block &branch, IRRewriter &rewriter) {
  bool isThen = &branch == &op.getThenBlock();
  for (auto check : branch.getOps<CheckIndicesOp>()) {
    rewriter.setInsertionPoint(check);
    Location location = check.getLoc();
    RankedTensorType type = check.getInput().getType();
    Value zero = ConstantOp::create(
        rewriter, location, type,
        DenseElementsAttr::get(
            type, rewriter.getIntegerAttr(type.getElementType(), 0)));
    Value condition = branch.addArgument(op.getCondition().getType(), location);
    Value guarded = SelectOp::create(rewriter, location, condition,
                                     isThen ? check.getInput() : zero,
                                     isThen ? zero : check.getInput());
    check.getInputMutable().assign(guarded);
  }
}

// Moves the ops of a branch before `op`. Returns the yielded values.
static SmallVector<Value> inlineBranch(IfOp op, Block &branch,
                                       IRRewriter &rewriter) {
  guardChecks(op, branch, rewriter);
  // After the captured operands, the branch has arguments that `guardChecks`
  // has added. Pass the condition to each.
  SmallVector<Value> operands(op.getCaptured());
  operands.resize(branch.getNumArguments(), op.getCondition());
  Operation *yield = branch.getTerminator();
  rewriter.inlineBlockBefore(&branch, op, operands);
  SmallVector<Value> yielded(yield->getOperands());
  rewriter.eraseOp(yield);
  return yielded;
}

void ConvertIfToSelectPass::runOnOperation() {
  TargetInfo target = getTarget(getOperation());
  if (!target.isGPU())
    return;
  SmallVector<IfOp> conditions;
  // The walk visits nested conditions before the conditions around them.
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
