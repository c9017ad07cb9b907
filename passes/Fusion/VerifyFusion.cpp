// Checks what the later stages take for granted about a function of kernels.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Fusion/Passes.h"

#include "compiler/Kernels/KernelPartition.h"
#include "compiler/Kernels/KernelSpace.h"

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

// Which role makes a kernel of a kind; elementwise ops may join some of them.
static RegionRole heroRole(KernelKind kind) {
  switch (kind) {
  case KernelKind::RowReduce:
  case KernelKind::ColumnReduce:
    return RegionRole::Reduction;
  case KernelKind::Contraction:
    return RegionRole::Contraction;
  case KernelKind::Window:
    return RegionRole::Window;
  case KernelKind::Movement:
    return RegionRole::Movement;
  case KernelKind::Pointwise:
  case KernelKind::Epilogue:
    return RegionRole::Elementwise;
  }
  llvm_unreachable("an unknown kind");
}

static bool standsAlone(KernelKind kind) {
  return kind == KernelKind::Window || kind == KernelKind::Movement;
}

static LogicalResult verifyReduction(Operation *op, KernelKind kind) {
  auto input = cast<RankedTensorType>(op->getOperand(0).getType());
  auto result = cast<RankedTensorType>(op->getResult(0).getType());
  if (isa<SumToSizeOp>(op) || result.getRank() != input.getRank())
    return op->emitOpError("expected a reduction that keeps its axes, run "
                           "mpc-normalize-reductions first");
  auto space = getReductionSpace(op);
  if (!space)
    return op->emitOpError("expected axes that lie together");
  if ((space->inner == 1) != (kind == KernelKind::RowReduce))
    return op->emitOpError("expected a reduction over ")
           << (kind == KernelKind::RowReduce ? "the last" : "leading")
           << " axes in a region of kind \"" << stringifyKernelKind(kind)
           << "\"";
  return success();
}

static LogicalResult verifyContraction(Operation *op) {
  if (!llvm::all_of(op->getOperands(),
                    [](Value operand) { return isa<BlockArgument>(operand); }))
    return op->emitOpError("expected to read inputs of its region alone");
  if (isa<MatMulOp>(op))
    return success();
  auto layout = op->getAttrOfType<LayoutAttr>("layout");
  if (!isa<ConvOp, ConvInputGradOp, ConvWeightGradOp>(op))
    return op->emitOpError("expected a matrix product or a convolution, run "
                           "mpc-split-contractions first");
  if (!layout || layout.getValue() != Layout::NHWC)
    return op->emitOpError("expected layout NHWC, run mpc-convert-layout "
                           "first");
  if (auto conv = dyn_cast<ConvOp>(op); conv && conv.getBias())
    return op->emitOpError("expected no bias, run mpc-split-contractions "
                           "first");
  return success();
}

static LogicalResult verifyRegion(RegionOp region) {
  KernelKind kind = region.getKind();
  if (!region.getKernel())
    return region.emitOpError("expected the name of a kernel");
  unsigned heroes = 0, ops = 0;
  for (Operation &op : region.getBody().front().without_terminator()) {
    auto candidate = dyn_cast<RegionOpInterface>(op);
    RegionRole role =
        candidate ? candidate.getRegionRole() : RegionRole::Composite;
    if (role == RegionRole::Constant)
      continue;
    ++ops;
    heroes += role == heroRole(kind);
    if (role != heroRole(kind) && role != RegionRole::Elementwise)
      return op.emitOpError("does not belong in a region of kind \"")
             << stringifyKernelKind(kind) << "\"";
    if (role == RegionRole::Reduction && failed(verifyReduction(&op, kind)))
      return failure();
    if (role == RegionRole::Contraction && failed(verifyContraction(&op)))
      return failure();
  }
  bool single = standsAlone(kind) || kind == KernelKind::Contraction;
  if (heroes == 0 || (single && heroes > 1) || (standsAlone(kind) && ops > 1))
    return region.emitOpError("expected ")
           << (standsAlone(kind) ? "one op" : "one hero op") << ", found "
           << (standsAlone(kind) ? ops : heroes);
  return success();
}

void VerifyFusionPass::runOnOperation() {
  for (Operation &op : getOperation().getBody().getOps()) {
    if (isa<ReshapeOp, ConstantOp>(op) || op.hasTrait<OpTrait::IsTerminator>())
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
