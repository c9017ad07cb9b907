// The gradient of a condition is another condition. Each branch recomputes the
// forward branch, then computes the gradients of the branch.
//
// The forward condition does not return values of its branches for the backward
// pass: both branches would have to return values of the same shapes.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/BackwardPass.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mpc;

namespace {
class IfGradient {
public:
  IfGradient(IfOp op, GradientBuilder &g);
  LogicalResult build();

private:
  LogicalResult buildBranch(Block &forward, Block &backward);

  IfOp op;
  GradientBuilder &g;
  /// `wanted` numbers the captured operands whose gradients the rule must
  /// compute. `given` numbers the results with a known gradient.
  SmallVector<unsigned> wanted, given;
};
} // namespace

IfGradient::IfGradient(IfOp op, GradientBuilder &g) : op(op), g(g) {
  for (OpOperand &captured : op->getOpOperands().drop_front())
    if (isFloatTensor(captured.get()) && g.needs(captured.getOperandNumber()))
      wanted.push_back(captured.getOperandNumber());
  for (OpResult result : op->getResults())
    if (isFloatTensor(result) && g.dy(result.getResultNumber()))
      given.push_back(result.getResultNumber());
}

// Builds a branch of the gradient. `backward` has the arguments of `forward`,
// followed by the gradients of the results.
LogicalResult IfGradient::buildBranch(Block &forward, Block &backward) {
  OpBuilder builder = OpBuilder::atBlockEnd(&backward);
  Operation *end = YieldOp::create(builder, op.getLoc(), ValueRange());
  DenseSet<Value> active, sources;
  GradientBuilder inner(end, active);
  IRMapping mapping;
  mapping.map(forward.getArguments(),
              backward.getArguments().take_front(forward.getNumArguments()));
  for (Operation &each : forward.without_terminator())
    inner.ops().clone(each, mapping);
  // Enter the known gradients of the results. Collect the values that these
  // results depend on.
  Operation *yield = forward.getTerminator();
  for (auto [position, index] : llvm::enumerate(given)) {
    Value result = mapping.lookup(yield->getOperand(index));
    inner.accumulate(
        result, op.getLoc(),
        backward.getArgument(forward.getNumArguments() + position));
    for (Value source : findDifferentiableSources(result))
      sources.insert(source);
  }
  for (unsigned operand : wanted)
    if (Value argument = backward.getArgument(operand - 1);
        sources.contains(argument))
      active.insert(argument);
  SmallVector<Operation *> ops = findActiveOps(backward, end, sources, active);
  if (failed(runBackwards(ops, inner)))
    return failure();
  // The gradient of an operand that this branch does not use is zero.
  SmallVector<Value> gradients;
  for (unsigned operand : wanted) {
    Value argument = backward.getArgument(operand - 1);
    Value gradient =
        active.contains(argument) ? inner.gradientOf(argument) : Value();
    gradients.push_back(
        gradient
            ? gradient
            : inner.zeros(g.at("dx"), getGradientType(argument.getType())));
  }
  end->setOperands(gradients);
  return success();
}

LogicalResult IfGradient::build() {
  if (wanted.empty() || given.empty())
    return success();
  SmallVector<Value> captured(op.getCaptured());
  for (unsigned index : given)
    captured.push_back(g.dy(index));
  SmallVector<Type> types;
  for (unsigned operand : wanted)
    types.push_back(getGradientType(op->getOperand(operand).getType()));
  auto backward =
      IfOp::create(g.ops(), g.at("dx"), types, op.getCondition(), captured);
  for (auto [from, to] : llvm::zip(op->getRegions(), backward->getRegions()))
    if (failed(buildBranch(from.front(), to.front())))
      return failure();
  for (auto [operand, gradient] : llvm::zip(wanted, backward->getResults()))
    g.add(operand, "dx", gradient);
  return success();
}

static void gradIf(IfOp op, GradientBuilder &g) {
  if (failed(IfGradient(op, g).build()))
    g.fail();
}

void mpc::addIfRules(GradientRules &rules) { rules.add(gradIf); }
