// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/BackwardPass.h"

#include "compiler/Support/ExitCode.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mpc;

SmallVector<Operation *> mpc::findActiveOps(Block &block, Operation *end,
                                            const DenseSet<Value> &sources,
                                            DenseSet<Value> &active) {
  assert((!end || end->getBlock() == &block) &&
         "the end is an op of the block");
  SmallVector<Operation *> ops;
  for (Operation &op : block) {
    if (&op == end)
      break;
    // An op is active if an operand is active and the differentiated value
    // depends on a result.
    bool reached = llvm::any_of(op.getOpOperands(), [&](OpOperand &operand) {
      return active.contains(operand.get()) &&
             GradientRules::get().flowsInto(operand);
    });
    bool used = llvm::any_of(op.getResults(), [&](Value result) {
      return sources.contains(result);
    });
    if (!reached || !used)
      continue;
    ops.push_back(&op);
    for (Value result : op.getResults())
      if (isFloatTensor(result))
        active.insert(result);
  }
  return ops;
}

// Reports all ops without a gradient rule in one error, located at the first
// such op: "relu_grad x2 (node 'a')".
static LogicalResult checkRules(ArrayRef<Operation *> ops) {
  llvm::MapVector<StringRef, SmallVector<Operation *>> missing;
  for (Operation *op : ops)
    if (!GradientRules::get().lookup(op))
      missing[op->getName().getStringRef()].push_back(op);
  if (missing.empty())
    return success();
  std::string list;
  for (const auto &[name, found] : missing) {
    list += (list.empty() ? "" : ", ") + name.str() + " x" +
            std::to_string(found.size());
    if (StringRef node = getNodeName(found.front()); !node.empty())
      list += (" (node '" + node + "')").str();
  }
  return withExitCode(mlir::emitError(missing.front().second.front()->getLoc()),
                      ExitCode::Unsupported)
         << "ops without a gradient: " << list
         << "; freeze the parameters before them with --freeze";
}

// Reports an error if the loss depends on a result of `op` that the rule cannot
// differentiate. Ignoring the gradient would train the model wrongly.
static LogicalResult checkResults(Operation *op, const GradientRule &rule,
                                  GradientBuilder &gradients) {
  assert(llvm::all_of(
             rule.opaqueResults,
             [&](unsigned index) { return index < op->getNumResults(); }) &&
         "a rule names results of its op");
  for (unsigned index : rule.opaqueResults)
    if (gradients.gradientOf(op->getResult(index)))
      return withExitCode(op->emitError(), ExitCode::Unsupported)
             << "expected the loss to depend on output 0 of "
             << op->getName().getStringRef() << " alone, found that it reads "
             << "output " << index
             << ", which has no gradient; compute it from the input with "
                "ReduceMean, or freeze the parameters before the node with "
                "--freeze";
  return success();
}

LogicalResult mpc::runBackwards(ArrayRef<Operation *> ops,
                                GradientBuilder &gradients) {
  assert(llvm::is_sorted(ops,
                         [](Operation *a, Operation *b) {
                           return a->isBeforeInBlock(b);
                         }) &&
         "ops of one block, in order");
  // Report missing rules before any op is created.
  if (failed(checkRules(ops)))
    return failure();
  for (Operation *op : llvm::reverse(ops)) {
    // Skip an op if the loss depends on none of the op's results.
    bool hasGradient = llvm::any_of(op->getResults(), [&](Value result) {
      return gradients.gradientOf(result) != nullptr;
    });
    if (!hasGradient)
      continue;
    const GradientRule *rule = GradientRules::get().lookup(op);
    assert(rule && "checkRules has found a rule for every op");
    if (failed(checkResults(op, *rule, gradients)))
      return failure();
    gradients.setOp(op);
    rule->apply(op, gradients);
    if (gradients.hasFailed())
      return failure();
  }
  return success();
}
