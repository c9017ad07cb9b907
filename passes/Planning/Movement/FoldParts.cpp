// Lets kernels load slices of tensors, and store results side by side, as the
// parts of a concat (a join).
//
// A kernel for such a slice or join reads and writes every element once and
// computes nothing, while other kernels can load and store with strides at no
// cost. So the kernels of an LSTM read the four gates, columns of one product,
// in place. The backward kernel of a gated unit writes the gradients of both
// halves directly into the gradient of the whole.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Movement/Movement.h"
#include "passes/Planning/Passes.h"

#include "compiler/Kernels/KernelHero.h"
#include "compiler/Kernels/KernelSpace.h"

#include "mlir/IR/IRMapping.h"

namespace mpc {
#define GEN_PASS_DEF_FOLDPARTSPASS
#include "passes/Planning/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Slices
//===----------------------------------------------------------------------===//

/// True if the kernel that reads `use` can load a part of a tensor instead.
static bool canLoadPart(OpOperand &use) {
  auto reader = dyn_cast<RegionOp>(use.getOwner());
  return reader &&
         (KernelHero::get(reader.getKind()).loadsInAnyOrder() ||
          reader.getProvider() == ContractionProvider::Library) &&
         isReadByElement(use);
}

/// True if a kernel of another phase than `phase` reads `value`, so that the
/// value stays in memory between the phases.
static bool isReadInOtherPhase(Value value, Phase phase) {
  return llvm::any_of(value.getUsers(),
                      [&](Operation *user) { return getPhase(user) != phase; });
}

/// True if kernels can load all slices of `source`, made in phase `phase`, in
/// place without keeping more memory until another phase. Example: in a gated
/// unit u * sigmoid(v), u and v are slices of `source`, and the backward pass
/// reads u and sigmoid(v). Loading u in place would keep all of `source` for
/// the sake of half of it, so u and v are copied. In u * v, the backward pass
/// reads both slices, so `source` is kept.
static bool canLoadParts(Value source, Phase phase) {
  int64_t kept = 0;
  bool isKept = false;
  for (Operation *user : source.getUsers()) {
    isKept |= getPhase(user) != phase;
    if (!isa_and_nonnull<SliceOp>(findMovement(user)))
      continue;
    Value part = user->getResult(0);
    if (!llvm::all_of(part.getUses(), canLoadPart))
      return false;
    if (isReadInOtherPhase(part, phase))
      kept += typeOf(part).getNumElements();
  }
  return isKept || kept == 0 || kept >= typeOf(source).getNumElements();
}

/// Removes a kernel that copies a part of every row (a gate of an LSTM, say):
/// the users load the part themselves.
static void loadParts(RegionOp movement) {
  auto slice = dyn_cast_or_null<SliceOp>(findMovement(movement));
  if (!slice)
    return;
  Value source = movement->getOperand(0), part = movement.getResult(0);
  if (part.use_empty() || typeOf(part).getNumElements() == 0 ||
      !isContiguousPart(shapeOf(part), shapeOf(source)) ||
      !isWorthKeeping(source, part) ||
      !llvm::all_of(part.getUses(), canLoadPart) ||
      (source.getDefiningOp() && !canLoadParts(source, getPhase(movement))))
    return;
  for (OpOperand &use : llvm::make_early_inc_range(part.getUses()))
    readThrough(use, slice);
  movement.erase();
}

//===----------------------------------------------------------------------===//
// Joins
//===----------------------------------------------------------------------===//

/// Returns the concat if the kernel of `region` contains nothing else and puts
/// equally shaped inputs side by side in every row; null otherwise. A concat
/// along the outermost axis needs no kernel (ProgramJoins.cpp).
static ConcatOp findJoin(RegionOp region) {
  auto join = dyn_cast<ConcatOp>(region.getBody().front().front());
  if (!join || region.getBody().front().getOperations().size() != 2)
    return {};
  RankedTensorType first = typeOf(join.getInputs().front());
  bool isAlike = llvm::all_of(join.getInputs(), [&](Value input) {
    return isa<BlockArgument>(input) && input.getType() == first;
  });
  bool isOutermost =
      ShapedType::getNumElements(
          shapeOf(join.getOutput()).take_front(join.getAxis())) == 1;
  return isAlike && !isOutermost && first.getNumElements() > 0 &&
                 isContiguousPart(first.getShape(),
                                  shapeOf(join.getOutput())) &&
                 elementOf(join.getOutput()) == first.getElementType()
             ? join
             : ConcatOp();
}

/// Returns the kernel that computes all operands of `region`, if `region` is
/// their only user. Returns null if no kernel does, or if the kernel cannot
/// store joined results.
static RegionOp findMaker(RegionOp region) {
  auto maker = region->getOperand(0).getDefiningOp<RegionOp>();
  if (!maker || (!KernelHero::get(maker.getKind()).storesJoined() &&
                 maker.getProvider() != ContractionProvider::Library))
    return {};
  Operation *yield = maker.getBody().front().getTerminator();
  bool makesAll = llvm::all_of(region->getOperands(), [&](Value value) {
    if (value.getDefiningOp() != maker || !value.hasOneUse())
      return false;
    unsigned number = cast<OpResult>(value).getResultNumber();
    Operation *computed = yield->getOperand(number).getDefiningOp();
    return computed && hasRole(computed, RegionRole::Elementwise);
  });
  return makesAll ? maker : RegionOp();
}

/// True if `reader` reads a computed value of type `type` that no later op
/// reads. A result of the same type can then use the value's memory.
static bool endsValueOf(RegionOp reader, Type type) {
  auto isNotBehind = [&](Operation *user) {
    Operation *place = reader->getBlock()->findAncestorOpInBlock(*user);
    return place == reader || place->isBeforeInBlock(reader);
  };
  return llvm::any_of(reader.getInputs(), [&](Value input) {
    return input.getType() == type && input.getDefiningOp() &&
           llvm::all_of(input.getUsers(), isNotBehind);
  });
}

/// Makes the kernel that computes all operands of the concat in `movement`
/// store them side by side, such as the gradients of an LSTM's gates. Does
/// nothing if single parts could overwrite an operand of the kernel, but the
/// larger concat could not.
static void storeParts(RegionOp movement) {
  ConcatOp join = findJoin(movement);
  RegionOp maker = join ? findMaker(movement) : RegionOp();
  if (!maker || (endsValueOf(maker, join.getInputs().front().getType()) &&
                 !endsValueOf(maker, join.getType())))
    return;
  // Clone the join to the end of the kernel.
  Operation *yield = maker.getBody().front().getTerminator();
  OpBuilder builder(yield);
  IRMapping mapping;
  for (OpOperand &operand : movement->getOpOperands())
    mapping.map(
        movement.getBody().getArgument(operand.getOperandNumber()),
        yield->getOperand(cast<OpResult>(operand.get()).getResultNumber()));
  Value joined = builder.clone(*join, mapping)->getResult(0);
  // The kernel yields the results that are not joined, then the join.
  SmallVector<Value> kept, yielded;
  for (OpResult result : maker->getResults())
    if (!llvm::is_contained(movement->getOperands(), result)) {
      kept.push_back(result);
      yielded.push_back(yield->getOperand(result.getResultNumber()));
    }
  yielded.push_back(joined);
  yield->setOperands(yielded);
  // Result types change, so replace the kernel.
  builder.setInsertionPoint(maker);
  auto replacement =
      RegionOp::create(builder, maker.getLoc(), ValueRange(yielded).getTypes(),
                       maker.getKind(), maker.getInputs());
  replacement->setAttrs(maker->getAttrs());
  replacement.getBody().takeBody(maker.getBody());
  for (auto [old, result] : llvm::zip(kept, replacement->getResults()))
    old.replaceAllUsesWith(result);
  movement.getResult(0).replaceAllUsesWith(replacement->getResults().back());
  movement.erase();
  maker.erase();
}

namespace {
struct FoldPartsPass : public mpc::impl::FoldPartsPassBase<FoldPartsPass> {
  using FoldPartsPassBase::FoldPartsPassBase;
  void runOnOperation() override;
};
} // namespace

void FoldPartsPass::runOnOperation() {
  func::FuncOp function = getOperation();
  if (function.isExternal() || getKernelKind(function))
    return;
  // First make kernels load slices in place: a kernel that then reads the whole
  // tensor may be able to overwrite the tensor with a concat.
  Block &block = function.getBody().front();
  for (auto region : llvm::make_early_inc_range(block.getOps<RegionOp>()))
    loadParts(region);
  SmallVector<RegionOp> movements;
  for (auto region : block.getOps<RegionOp>())
    if (findJoin(region))
      movements.push_back(region);
  llvm::for_each(movements, storeParts);
}
