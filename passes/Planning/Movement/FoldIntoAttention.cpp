// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Movement/FoldIntoAttention.h"

#include "compiler/Dialect/Plan/Plan.h"
#include "compiler/Kernels/KernelSpace.h"
#include "compiler/Target/TargetInfo.h"
#include "passes/Planning/Contractions/ProductLayout.h"
#include "passes/Planning/Movement/Movement.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// True if the library can read a tensor of 16-bit elements by `access`: the
/// elements of a row are adjacent, and each row starts at a whole vector.
static bool isReadable(const Access &access) {
  constexpr int64_t kUnit = TargetInfo::kGPUAlignment / 2;
  if (access.strides.back() != 1 || access.offset % kUnit != 0)
    return false;
  return llvm::all_of(
      llvm::drop_end(llvm::zip_equal(access.shape, access.strides)),
      [](auto axis) {
        auto [extent, stride] = axis;
        return extent == 1 || (stride > 0 && stride % kUnit == 0);
      });
}

/// Makes `operand` read the farthest source that the library can read.
static void readSource(OpOperand &operand) {
  SmallVector<Source> sources = findSources(operand.get());
  llvm::erase_if(sources, [&](const Source &source) {
    return !isReadable(source.access) ||
           !isWorthKeeping(source.value, operand.get());
  });
  if (sources.empty())
    return;
  const Source &farthest = sources.back();
  OpBuilder builder(operand.getOwner());
  operand.set(plan::AccessOp::create(
      builder, operand.getOwner()->getLoc(), operand.get().getType(),
      farthest.value, farthest.access.offset, farthest.access.strides));
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

/// Returns the kernel that only transposes `result`, if all other users are
/// gradients of attention that read the output of their forward pass. Null if
/// there is none.
static RegionOp findHeadTranspose(OpResult result) {
  RegionOp found;
  for (OpOperand &use : result.getUses()) {
    auto gradient = dyn_cast<LibraryAttentionGradOp>(use.getOwner());
    if (gradient && &use == &gradient.getOutputMutable())
      continue;
    auto transpose =
        dyn_cast_or_null<TransposeOp>(findMovement(use.getOwner()));
    if (found || !transpose || !isArrangement(transpose))
      return {};
    found = cast<RegionOp>(use.getOwner());
  }
  return found;
}

/// Lets the library write `result` in the order of the transpose in `movement`.
/// Gradients then read the result through a plan.access.
static void arrangeHeads(OpResult result, RegionOp movement) {
  auto transpose = cast<TransposeOp>(findMovement(movement));
  OpBuilder builder(result.getContext());
  builder.setInsertionPointAfter(result.getOwner());
  auto arranged = plan::ArrangeOp::create(builder, movement.getLoc(),
                                          movement.getResult(0).getType(),
                                          result, transpose.getPerm());
  movement.getResult(0).replaceAllUsesWith(arranged.getOutput());
  movement.erase();
  const ProductPlace place = ProductPlace::getArranged(
      shapeOf(arranged.getOutput()), arranged.getPerm());
  for (OpOperand &use : llvm::make_early_inc_range(result.getUses())) {
    if (use.getOwner() == arranged)
      continue;
    builder.setInsertionPoint(use.getOwner());
    use.set(plan::AccessOp::create(builder, use.getOwner()->getLoc(),
                                   result.getType(), arranged.getOutput(),
                                   place.offset, place.strides));
  }
}

void mpc::foldMovementIntoAttention(Block &block) {
  SmallVector<Operation *> attentions;
  for (Operation &op : block)
    if (hasRole(&op, RegionRole::Library))
      attentions.push_back(&op);
  for (Operation *op : attentions)
    for (OpOperand &operand : op->getOpOperands())
      if (typeOf(operand.get()).getElementTypeBitWidth() == 16 &&
          typeOf(operand.get()).getRank() == 4)
        readSource(operand);
  for (Operation *op : attentions)
    for (OpResult result : op->getResults())
      if (RegionOp movement = findHeadTranspose(result))
        arrangeHeads(result, movement);
}
