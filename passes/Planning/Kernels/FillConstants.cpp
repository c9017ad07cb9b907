// Lets kernels write constants that have one value throughout.
//
// Steps read constants from the artifact, where zeros of the size of a weight
// take as much room as the weight: gradients that a branch does not have, sums
// that a loop starts from.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Passes.h"

#include "compiler/Dialect/Plan/Plan.h"

namespace mpc {
#define GEN_PASS_DEF_FILLCONSTANTSPASS
#include "passes/Planning/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
struct FillConstantsPass
    : public mpc::impl::FillConstantsPassBase<FillConstantsPass> {
  void runOnOperation() override;
};
} // namespace

/// Below, a step of its own costs more than the bytes do.
static constexpr int64_t kFewestBytes = 16384;

static bool isLargeSplat(ConstantOp constant) {
  auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
  if (!elements || !elements.isSplat())
    return false;
  RankedTensorType type = typeOf(constant.getOutput());
  auto memory = MemRefType::get(type.getShape(), type.getElementType());
  return plan::getBufferBytes(memory) >= kFewestBytes;
}

void FillConstantsPass::runOnOperation() {
  SmallVector<ConstantOp> constants;
  getOperation().walk([&](ConstantOp constant) {
    // One within a kernel is no memory.
    if (constant->getParentOp() == getOperation() && isLargeSplat(constant))
      constants.push_back(constant);
  });
  for (ConstantOp constant : constants) {
    OpBuilder builder(constant);
    auto region =
        RegionOp::create(builder, constant.getLoc(), constant->getResultTypes(),
                         KernelKind::Pointwise, ValueRange());
    region.setKernelAttr(builder.getStringAttr("fill"));
    region->setDiscardableAttrs(constant->getDiscardableAttrDictionary());
    constant->replaceAllUsesWith(region->getResults());
    builder.createBlock(&region.getBody());
    constant->moveBefore(builder.getInsertionBlock(),
                         builder.getInsertionPoint());
    YieldOp::create(builder, constant.getLoc(), constant->getResults());
  }
}
