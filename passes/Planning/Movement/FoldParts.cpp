// Lets kernels load the part of a tensor that a slice takes, and store side by
// side what a join puts there.
//
// The kernel of such a slice or join reads and writes every element once and
// computes nothing. A kernel's loads and stores go by strides: the gates of an
// LSTM, columns of one product, are read where they are, and the gradients of a
// gated unit's halves are written where the gradient of the whole has them.
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

/// Whether the kernel that reads `use` can load a part of a tensor there.
static bool canLoadPart(OpOperand &use) {
  auto reader = dyn_cast<RegionOp>(use.getOwner());
  return reader &&
         (KernelHero::get(reader.getKind()).loadsInAnyOrder() ||
          reader.getProvider() == ContractionProvider::Library) &&
         isReadByElement(use);
}

/// Whether a kernel of another phase than `phase` reads `value`, which then
/// stays in memory from one phase to the other.
static bool isReadInOtherPhase(Value value, Phase phase) {
  return llvm::any_of(value.getUsers(),
                      [&](Operation *user) { return getPhase(user) != phase; });
}

/// Whether kernels can load all parts that are copied of `source`, which is
/// made in `phase`, and need no more memory for it. Of a gated unit, u *
/// sigmoid(v), the backward pass reads u and the sigmoid: only half of what u
/// and v are slices of, so both are copied; of u * v it reads both.
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

/// Makes the readers of a kernel that copies a part of every row, such as the
/// gates of an LSTM that are columns of one product, load that part themselves.
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

/// The join that is all a kernel does, of values of one shape and of whole
/// rows' parts; null for any other kernel. Values that lie one after the other
/// in the result need no kernel: they are made where they belong.
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

/// The kernel that computes all that `region` joins, and nothing else reads;
/// null where none does, or it cannot store parts.
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

/// Whether `reader` is the last to read a value of type `type`, which some
/// kernel made: a result of the type can be written over it.
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

/// Makes the kernel that computes all that `movement` joins, such as the
/// gradients of an LSTM's gates, store it side by side: not so where it would
/// write the parts over what it reads, and the whole would need new memory.
static void storeParts(RegionOp movement) {
  ConcatOp join = findJoin(movement);
  RegionOp maker = join ? findMaker(movement) : RegionOp();
  if (!maker || (endsValueOf(maker, join.getInputs().front().getType()) &&
                 !endsValueOf(maker, join.getType())))
    return;
  // The join as the last op of the kernel.
  Operation *yield = maker.getBody().front().getTerminator();
  OpBuilder builder(yield);
  IRMapping mapping;
  for (OpOperand &operand : movement->getOpOperands())
    mapping.map(
        movement.getBody().getArgument(operand.getOperandNumber()),
        yield->getOperand(cast<OpResult>(operand.get()).getResultNumber()));
  Value joined = builder.clone(*join, mapping)->getResult(0);
  // What the kernel gives: what is not joined, then what is.
  SmallVector<Value> kept, yielded;
  for (OpResult result : maker->getResults())
    if (!llvm::is_contained(movement->getOperands(), result)) {
      kept.push_back(result);
      yielded.push_back(yield->getOperand(result.getResultNumber()));
    }
  yielded.push_back(joined);
  yield->setOperands(yielded);
  // A kernel of these results in its place.
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
  // Slices first: whether a join is in place depends on what is loaded.
  Block &block = function.getBody().front();
  for (auto region : llvm::make_early_inc_range(block.getOps<RegionOp>()))
    loadParts(region);
  SmallVector<RegionOp> movements;
  for (auto region : block.getOps<RegionOp>())
    if (findJoin(region))
      movements.push_back(region);
  llvm::for_each(movements, storeParts);
}
