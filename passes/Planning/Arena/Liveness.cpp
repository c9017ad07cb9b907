// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Arena/Liveness.h"

#include "compiler/Dialect/Plan/Plan.h"
#include "compiler/Kernels/KernelHero.h"

using namespace mlir;
using namespace mpc;

EpilogueCalls mpc::findEpilogues(Block &block, const SymbolTable &symbols) {
  EpilogueCalls calls;
  for (auto call : block.getOps<func::CallOp>()) {
    auto kernel = symbols.lookup<func::FuncOp>(call.getCallee());
    std::optional<KernelKind> kind =
        kernel ? getKernelKind(kernel) : std::nullopt;
    if (kind && KernelHero::get(*kind).isCalledPerTile()) {
      assert(call.getOperand(0).getDefiningOp() &&
             "an epilogue's first operand is a contraction's result");
      calls[call.getOperand(0).getDefiningOp()] = call;
    }
  }
  return calls;
}

Value Liveness::root(Value value) {
  while (Operation *view = value.getDefiningOp()) {
    if (!plan::isView(view))
      break;
    value = view->getOperand(0);
  }
  return value;
}

Liveness::Liveness(Block &block, const EpilogueCalls &epilogueOf) {
  for (Operation &op : block)
    positions[&op] = positions.size() + 1;
  for (Operation &op : block) {
    if (plan::isView(&op))
      continue;
    // plan.arrange and plan.place are no steps: the product before them writes
    // the result, so they have the position of the product.
    if (isa<plan::ArrangeOp, plan::PlaceOp>(op)) {
      assert(positions.contains(op.getOperand(0).getDefiningOp()) &&
             "an arranged or placed value is the result of an op of the block");
      positions[&op] = positions.lookup(op.getOperand(0).getDefiningOp());
    }
    // A library calls the epilogue kernel for each tile of the contraction, so
    // the contraction reads its operands at the position of the epilogue's
    // call.
    func::CallOp epilogue = epilogueOf.lookup(&op);
    assert((!epilogue || op.isBeforeInBlock(epilogue)) &&
           "an epilogue follows its contraction");
    unsigned position = positions.lookup(epilogue ? epilogue : &op);
    for (Value operand : op.getOperands()) {
      unsigned &use = last[root(operand)];
      use = std::max(use, position);
    }
  }
}
