// Builds the backward pass that every mpc.gradient stands for.
//
// The ops between the gradient's Xs and its Y are visited from last to first;
// each adds, by its rule, to the gradients of its operands. Only values that
// depend on an X and that Y depends on get a gradient: nothing is built for the
// input of a first layer, nor below the lowest parameter that is trained.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/Passes.h"

#include "compiler/Support/ExitCode.h"
#include "passes/Differentiation/GradientRules.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace mpc {
#define GEN_PASS_DEF_EXPANDGRADIENTSPASS
#include "passes/Differentiation/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

static Location nodeLocation(Value value) {
  if (Operation *op = value.getDefiningOp())
    return op->getLoc();
  return value.getLoc();
}

// The ops of the gradient's block that a derivative passes through on its way
// from Y to some X, in order; `active` receives the values between.
static SmallVector<Operation *> findActiveOps(GradientOp gradient,
                                              DenseSet<Value> &active) {
  DenseSet<Value> sources = findDifferentiableSources(gradient.getY());
  for (Value x : gradient.getXs())
    if (sources.contains(x))
      active.insert(x);
  SmallVector<Operation *> ops;
  for (Operation &op : *gradient->getBlock()) {
    if (&op == gradient)
      break;
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

// All ops without a rule, in one error at the first of them: "relu_grad x2
// (node 'a')".
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

// A derivative that a rule does not know must not be lost.
static LogicalResult checkResults(Operation *op, const GradientRule &rule,
                                  GradientBuilder &gradients) {
  for (unsigned index : rule.opaqueResults)
    if (gradients.gradientOf(op->getResult(index)))
      return withExitCode(op->emitError(), ExitCode::Unsupported)
             << "expected the loss to depend on output 0 of "
             << op->getName().getStringRef() << " alone, found that it reads "
             << "output " << index
             << ", through which there is no gradient; compute it from the "
                "input with ReduceMean, or freeze the parameters before the "
                "node with --freeze";
  return success();
}

// Applies the rules from the last op to the first.
static LogicalResult runBackwards(ArrayRef<Operation *> ops,
                                  GradientBuilder &gradients) {
  if (failed(checkRules(ops)))
    return failure();
  for (Operation *op : llvm::reverse(ops)) {
    bool hasGradient = llvm::any_of(op->getResults(), [&](Value result) {
      return gradients.gradientOf(result) != nullptr;
    });
    if (!hasGradient)
      continue;
    const GradientRule *rule = GradientRules::get().lookup(op);
    if (failed(checkResults(op, *rule, gradients)))
      return failure();
    gradients.setOp(op);
    rule->apply(op, gradients);
  }
  return success();
}

static LogicalResult expand(GradientOp gradient) {
  DenseSet<Value> active;
  SmallVector<Operation *> ops = findActiveOps(gradient, active);
  GradientBuilder gradients(gradient, active);
  Value y = gradient.getY();
  if (active.contains(y)) {
    Location location = nodeLocation(y);
    gradients.accumulate(y, location,
                         GradientSeedOp::create(gradients.ops(), location,
                                                getGradientType(y.getType())));
  }
  if (failed(runBackwards(ops, gradients)))
    return failure();
  for (auto [x, result] :
       llvm::zip(gradient.getXs(), gradient.getGradients())) {
    auto type = cast<RankedTensorType>(result.getType());
    Value dx = gradients.gradientOf(x);
    if (!dx)
      dx = gradients.zeros(gradient.getLoc(), type);
    else if (dx.getType() != type)
      dx = mpc::CastOp::create(gradients.ops(), dx.getLoc(), type, dx);
    result.replaceAllUsesWith(dx);
  }
  gradient.erase();
  return success();
}

namespace {
class ExpandGradientsPass
    : public mpc::impl::ExpandGradientsPassBase<ExpandGradientsPass> {
  void runOnOperation() override {
    SmallVector<GradientOp> gradients;
    getOperation()->walk([&](GradientOp op) { gradients.push_back(op); });
    for (GradientOp gradient : gradients)
      if (failed(expand(gradient)))
        return signalPassFailure();
  }
};
} // namespace
