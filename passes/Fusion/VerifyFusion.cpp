// Checks the guarantees of the Fusion stage: later stages rely on the form of
// regions.
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

// Checks that the hero `op` fits a region of `kind`. For example, a reduction
// must reduce the axes that the kind allows.
static LogicalResult verifyHero(Operation *op, KernelKind kind) {
  if (failed(KernelHero::get(kind).verify(op)))
    return failure();
  if (KernelHero::findKind(op) == kind)
    return success();
  return op->emitOpError("expected ")
         << KernelHero::get(kind).getWanted() << " in a region of kind \""
         << stringify(kind) << "\"";
}

// An op that reads a table at computed indices needs the table in memory, so
// the table must be an input of the region.
static LogicalResult verifyTable(Operation *op) {
  OpOperand *table = findTable(op);
  if (table && !isa<BlockArgument>(table->get()))
    return op->emitOpError("expected to gather from an input of its region, "
                           "found the result of ")
           << table->get().getDefiningOp()->getName();
  auto rotary = dyn_cast<RotaryEmbeddingOp>(op);
  if (rotary && !llvm::all_of(op->getOperands(), [](Value operand) {
        return isa<BlockArgument>(operand);
      }))
    return op->emitOpError("expected to rotate an input of its region with "
                           "tables that are inputs, too");
  return success();
}

static LogicalResult verifyRegion(RegionOp region) {
  KernelKind kind = region.getKind();
  const KernelHero &hero = KernelHero::get(kind);
  if (!region.getKernel())
    return region.emitOpError(
        "expected the name of a kernel in attribute 'kernel', found none");
  // Every op must be allowed in a region of this kind, and every hero must fit
  // the region's loops.
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
  // Check the numbers of heroes and of other ops.
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
    if (isa<ReshapeOp, ConstantOp, CheckIndicesOp, AllReduceOp, ScanCallOp,
            IfCallOp>(op) ||
        hasRole(&op, RegionRole::Library) ||
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
