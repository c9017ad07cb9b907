// Checks the facts about a function of kernels that the later stages rely on.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Fusion/Passes.h"

#include "compiler/Kernels/KernelHero.h"

namespace mpc {
#define GEN_PASS_DEF_VERIFYFUSIONPASS
#include "passes/Fusion/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
struct VerifyFusionPass
    : public mpc::impl::VerifyFusionPassBase<VerifyFusionPass> {
  void runOnOperation() override;
};
} // namespace

// Checks that a hero fits the region's kind, such as the axes of a reduction.
static LogicalResult verifyHero(Operation *op, KernelKind kind) {
  if (failed(KernelHero::get(kind).verify(op)))
    return failure();
  if (KernelHero::findKind(op) == kind)
    return success();
  return op->emitOpError("expected ")
         << KernelHero::get(kind).getWanted() << " in a region of kind \""
         << stringify(kind) << "\"";
}

// Tables read at computed indices must be inputs: the kernel cannot compute
// them.
static LogicalResult verifyTable(Operation *op) {
  OpOperand *table = findTable(op);
  if (table && !isa<BlockArgument>(table->get()))
    return op->emitOpError("expected to gather from an input of its region");
  auto rotary = dyn_cast<RotaryEmbeddingOp>(op);
  if (rotary && !llvm::all_of(op->getOperands(), [](Value operand) {
        return isa<BlockArgument>(operand);
      }))
    return op->emitOpError("expected to turn an input of its region");
  return success();
}

static LogicalResult verifyRegion(RegionOp region) {
  KernelKind kind = region.getKind();
  const KernelHero &hero = KernelHero::get(kind);
  if (!region.getKernel())
    return region.emitOpError("expected the name of a kernel");
  // Every op must be allowed in a kernel of this kind, and heroes must fit its
  // loops.
  unsigned heroes = 0, ops = 0;
  for (Operation &op : region.getBody().front().without_terminator()) {
    if (hasRole(&op, RegionRole::Constant))
      continue;
    ++ops;
    if (!mayHold(kind, &op))
      return op.emitOpError("does not belong in a region of kind \"")
             << stringify(kind) << "\"";
    if (failed(verifyTable(&op)))
      return failure();
    if (!hasRole(&op, hero.getRole()))
      continue;
    ++heroes;
    if (failed(verifyHero(&op, kind)))
      return failure();
  }
  // Check the number of heroes and other ops that the kind allows.
  bool alone = hero.getCompany() == Company::None;
  bool single = hero.getCompany() != Company::Heroes;
  if (heroes == 0 || (single && heroes > 1) || (alone && ops > 1))
    return region.emitOpError("expected ")
           << (alone ? "one op" : "one hero op") << ", found "
           << (alone ? ops : heroes);
  return success();
}

void VerifyFusionPass::runOnOperation() {
  for (Operation &op : getOperation().getBody().getOps()) {
    if (isa<ReshapeOp, ConstantOp, CheckIndicesOp, ScanCallOp, IfCallOp>(op) ||
        op.hasTrait<OpTrait::IsTerminator>())
      continue;
    auto region = dyn_cast<RegionOp>(op);
    if (!region) {
      op.emitOpError("expected to be part of an mpc.region");
      return signalPassFailure();
    }
    if (failed(verifyRegion(region)))
      return signalPassFailure();
  }
}
