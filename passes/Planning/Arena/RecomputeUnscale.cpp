// Lets every kernel that reads an unscaled gradient unscale the gradient
// itself.
//
// If a library computes a gradient, a separate kernel divides the gradient by
// the loss scale: a pass over memory for one operation. Tests for infinities,
// sums of squares and updates can divide while loading.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Passes.h"

#include "compiler/Dialect/MPC/Target.h"
#include "compiler/Kernels/KernelHero.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

namespace mpc {
#define GEN_PASS_DEF_RECOMPUTEUNSCALEPASS
#include "passes/Planning/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
struct RecomputeUnscalePass
    : public mpc::impl::RecomputeUnscalePassBase<RecomputeUnscalePass> {
  using RecomputeUnscalePassBase::RecomputeUnscalePassBase;
  void runOnOperation() override;
};
} // namespace

// Returns the op of a kernel that only unscales; null for any other kernel.
static amp::UnscaleOp findUnscale(RegionOp region) {
  Block &body = region.getBody().front();
  auto unscale = dyn_cast<amp::UnscaleOp>(body.front());
  bool isAlone = unscale && unscale->getNextNode() == body.getTerminator() &&
                 isa<BlockArgument>(unscale.getGrad()) &&
                 isa<BlockArgument>(unscale.getScale());
  return isAlone && region.getNumResults() == 1 ? unscale : amp::UnscaleOp();
}

// True if the kernel `user` can divide a gradient by the loss scale while
// loading: its loops read each element of the gradient once. False for a kernel
// that does nothing but unscale, since the pass may erase this kernel.
static bool canUnscale(Operation *user) {
  auto region = dyn_cast<RegionOp>(user);
  if (!region || findUnscale(region))
    return false;
  return KernelHero::get(region.getKind()).loadsByElement();
}

// Makes `user` read the operands of `region` and unscale the gradient.
static void unscaleIn(RegionOp user, RegionOp region, amp::UnscaleOp unscale) {
  // The user reads the gradient and the scale instead of the result.
  Value read[] = {region.getTiedInput(unscale.getGrad()),
                  region.getTiedInput(unscale.getScale())};
  llvm::SetVector<Value> inputs;
  for (Value input : user.getInputs())
    if (input != region.getResult(0))
      inputs.insert(input);
  inputs.insert(std::begin(read), std::end(read));

  // The inputs change, so a new region replaces `user`.
  OpBuilder builder(user);
  auto changed = RegionOp::create(builder, user.getLoc(), user.getResultTypes(),
                                  user.getKind(), inputs.getArrayRef());
  changed.setKernelAttr(user.getKernelAttr());
  changed.setProviderAttr(user.getProviderAttr());
  changed->setDiscardableAttrs(user->getDiscardableAttrDictionary());
  Block *body = builder.createBlock(&changed.getBody());
  IRMapping known;
  for (Value input : inputs)
    known.map(input, body->addArgument(input.getType(), user.getLoc()));
  known.map(region.getResult(0),
            amp::UnscaleOp::create(builder, unscale.getLoc(), unscale.getType(),
                                   known.lookup(read[0]), known.lookup(read[1]))
                .getOutput());
  // Clone the original ops behind the unscale.
  IRMapping mapping;
  for (auto [argument, input] :
       llvm::zip(user.getBody().getArguments(), user.getInputs()))
    mapping.map(argument, known.lookup(input));
  for (Operation &op : user.getBody().front())
    builder.clone(op, mapping);
  user.replaceAllUsesWith(changed.getResults());
  user.erase();
}

void RecomputeUnscalePass::runOnOperation() {
  func::FuncOp function = getOperation();
  if (function.isExternal() || getKernelKind(function))
    return;
  TargetInfo target = getTarget(function);
  // On a CPU the product calls an epilogue kernel, which already unscales.
  if (target.callsEpilogues())
    return;
  // A kernel that unscales can go only if all its users can unscale for
  // themselves.
  SmallVector<RegionOp> candidates;
  for (auto region : function.getBody().front().getOps<RegionOp>())
    if (findUnscale(region) && llvm::all_of(region->getUsers(), canUnscale))
      candidates.push_back(region);
  for (RegionOp region : candidates) {
    amp::UnscaleOp unscale = findUnscale(region);
    llvm::SetVector<Operation *> users(region->getUsers().begin(),
                                       region->getUsers().end());
    for (Operation *user : users)
      unscaleIn(cast<RegionOp>(user), region, unscale);
    region.erase();
  }
}
