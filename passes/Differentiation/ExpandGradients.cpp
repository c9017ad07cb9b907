// Builds the backward pass that every mpc.gradient stands for.
//
// The ops between the gradient's Xs and its Y are visited from last to first;
// each adds, by its rule, to the gradients of its operands. Only values that
// depend on an X and that Y depends on get a gradient: nothing is built for the
// input of a first layer, nor below the lowest parameter that is trained.
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
  // The ops between the Xs and Y, which gradients flow through.
  DenseSet<Value> sources = findDifferentiableSources(gradient.getY()), active;
  for (Value x : gradient.getXs())
    if (sources.contains(x))
      active.insert(x);
  SmallVector<Operation *> ops =
      findActiveOps(*gradient->getBlock(), gradient, sources, active);
  // Start with dY/dY, unless Y depends on no X.
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
  // An X that Y does not depend on has a gradient of zeros.
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
    // No derivative asks any more where it ends.
    getOperation()->walk([](StopGradientOp stop) {
      stop.getOutput().replaceAllUsesWith(stop.getInput());
      stop.erase();
    });
  }
};
} // namespace
