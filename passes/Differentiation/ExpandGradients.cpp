// Builds the backward pass of every mpc.gradient.
//
// Visits the ops between the gradient's Xs and Y from last to first. The rule
// of each op adds to the gradients of the operands. Only values that depend on
// an X and that Y depends on get a gradient: nothing is built for the input of
// the first layer, nor below the lowest trained parameter.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/Passes.h"

#include "passes/Differentiation/BackwardPass.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

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

static LogicalResult expand(GradientOp gradient) {
  DenseSet<Value> sources = findDifferentiableSources(gradient.getY()), active;
  for (Value x : gradient.getXs())
    if (sources.contains(x))
      active.insert(x);
  SmallVector<Operation *> ops =
      findActiveOps(*gradient->getBlock(), gradient, sources, active);
  // The walk starts with the gradient of Y with respect to Y. If Y depends on
  // no X, all gradients are zero.
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
  // The gradient of an X that Y does not depend on is zero.
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
    // Derivatives are built, so remove stop_gradient: its result equals its
    // input.
    getOperation()->walk([](StopGradientOp stop) {
      stop.getOutput().replaceAllUsesWith(stop.getInput());
      stop.erase();
    });
  }
};
} // namespace
