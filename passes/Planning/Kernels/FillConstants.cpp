// Replaces large constants whose elements are all equal by kernels that fill a
// buffer.
//
// The artifact stores constants in full, so zeros of a weight's shape take as
// much space as the weight. Such zeros arise as gradients of values that a
// branch does not use, and as the initial sums of a loop.
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

/// A smaller constant stays in the artifact: an extra step costs more than the
/// bytes.
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
    // A constant inside a kernel is generated as code, not stored.
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
