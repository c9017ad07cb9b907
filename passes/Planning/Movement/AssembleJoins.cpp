// Lets the kernels and products that make what a join puts side by side write
// their part of every row themselves.
//
// Queries, keys and values that are columns of one product have gradients that
// come of three products, of heads each; a join puts them side by side again,
// along the last axis of [samples, tokens, 3 * heads * 64]. Each product can
// write rows of 64 elements at any distance: its heads are a box of
// [samples, tokens, 3 * heads, 64], which is the same memory.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Movement/FoldIntoKernels.h"
#include "passes/Planning/Movement/Movement.h"
#include "passes/Planning/Passes.h"

#include "compiler/Dialect/MPC/Target.h"
#include "compiler/Kernels/KernelHero.h"
#include "compiler/Kernels/KernelSpace.h"

#include "llvm/ADT/SmallPtrSet.h"

namespace mpc {
#define GEN_PASS_DEF_ASSEMBLEJOINSPASS
#include "passes/Planning/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
/// What makes a part of a join, and the box that it is of the whole.
struct JoinedPart {
  OpResult made;
  RankedTensorType whole; ///< with the axes of `made`
  SmallVector<int64_t> offsets;
};
} // namespace

//===----------------------------------------------------------------------===//
// Joins
//===----------------------------------------------------------------------===//

/// The join that is all a kernel does, of parts of rows; null for any other
/// kernel. Values that lie one after the other in the result need no kernel
/// anyway (ProgramJoins.cpp).
static ConcatOp findJoinOfRows(RegionOp region) {
  auto join = dyn_cast<ConcatOp>(region.getBody().front().front());
  if (!join || region.getBody().front().getOperations().size() != 2)
    return {};
  ArrayRef<int64_t> shape = shapeOf(join.getOutput());
  bool isOutermost =
      ShapedType::getNumElements(shape.take_front(join.getAxis())) == 1;
  bool isOfRows = llvm::all_of(join.getInputs(), [&](Value input) {
    return isa<BlockArgument>(input) && typeOf(input).getNumElements() > 0 &&
           elementOf(input) == elementOf(join.getOutput()) &&
           isContiguousPart(shapeOf(input), shape);
  });
  return !isOutermost && isOfRows && !isReturned(region.getResult(0))
             ? join
             : ConcatOp();
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

/// What is stored in front of a transpose that only says where.
static Operation *findStored(Value yielded) {
  Operation *stored = yielded.getDefiningOp();
  return stored && isArrangement(stored) ? stored->getOperand(0).getDefiningOp()
                                         : stored;
}

/// Whether what makes `made` can write it to a box of a larger tensor: a
/// product that a library does, the kernel of a tail, or a kernel that stores
/// rows anywhere.
static bool canPlace(OpResult made) {
  Operation *maker = made.getOwner();
  if (isa<MatMulOp, plan::ArrangeOp>(maker))
    return true;
  auto region = dyn_cast<RegionOp>(maker);
  if (!region || isa<RegionOp>(region.getBody().front().front()))
    return false;
  Operation *contraction = region.getContraction();
  if (contraction && isBareLibraryContraction(region))
    return isa<MatMulOp>(contraction);
  // What its kernel computes element by element, it stores by strides.
  Block &body = region.getBody().front();
  Operation *stored =
      findStored(body.getTerminator()->getOperand(made.getResultNumber()));
  if (!stored)
    return false;
  if (contraction)
    return stored == contraction || hasRole(stored, RegionRole::Elementwise);
  return takesAnyOrder(region) &&
         isStoredByElement(region, made.getResultNumber());
}

/// The elements of a tensor of `shape` along its axes from `axis` on.
static int64_t countFrom(ArrayRef<int64_t> shape, size_t axis) {
  return ShapedType::getNumElements(shape.drop_front(axis));
}

/// The axis of a tensor of `shape` from which on it has `elements` elements,
/// the innermost but for axes of one index; nothing where there is none.
static std::optional<size_t> findAxisOfRun(ArrayRef<int64_t> shape,
                                           int64_t elements) {
  for (size_t axis = shape.size(); axis-- > 0;)
    if (shape[axis] != 1 && countFrom(shape, axis) >= elements)
      return countFrom(shape, axis) == elements ? std::optional(axis)
                                                : std::nullopt;
  return std::nullopt;
}

/// The part that `operand` is of `join`, from index `start` of its axis on, and
/// who makes it, in front of views that nothing else reads. Nothing where the
/// maker cannot write it there.
static std::optional<JoinedPart> findPart(Value operand, ConcatOp join,
                                          int64_t start) {
  Value made = operand;
  while (auto view =
             made.hasOneUse() ? made.getDefiningOp<ReshapeOp>() : ReshapeOp())
    made = view.getInput();
  auto result = dyn_cast<OpResult>(made);
  if (!result || !made.hasOneUse() || !canPlace(result))
    return std::nullopt;
  // The outermost axis of what is a run of elements in the join: heads, of
  // (8, 128, 12, 64) that are (8, 128, 768) there.
  size_t joined = join.getAxis();
  ArrayRef<int64_t> shape = shapeOf(made);
  std::optional<size_t> axis =
      findAxisOfRun(shape, countFrom(shapeOf(operand), joined));
  if (!axis)
    return std::nullopt;
  // Whole heads are in front of it, and in all of the join.
  int64_t head = countFrom(shape, *axis + 1);
  int64_t first = start * countFrom(shapeOf(operand), joined + 1);
  int64_t extent = countFrom(shapeOf(join.getOutput()), joined);
  if (extent % head != 0 || first % head != 0)
    return std::nullopt;
  SmallVector<int64_t> whole(shape), offsets(shape.size(), 0);
  whole[*axis] = extent / head;
  offsets[*axis] = first / head;
  return JoinedPart{result, typeOf(made).clone(whole), std::move(offsets)};
}

/// Whether vectors of a GPU's kernels and libraries are at multiples of their
/// size in the box.
static bool isAligned(const JoinedPart &part) {
  int64_t unit = TargetInfo::kGPUAlignment /
                 plan::getElementBytes(part.whole.getElementType());
  return part.whole.getShape().back() % unit == 0 &&
         part.offsets.back() % unit == 0;
}

/// All parts of `join`, the only op of `region`. None where one of them cannot
/// be written in place, or one kernel makes several: no two of its results may
/// be one buffer.
static SmallVector<JoinedPart> findParts(RegionOp region, ConcatOp join,
                                         const TargetInfo &target) {
  SmallVector<JoinedPart> parts;
  llvm::SmallPtrSet<Operation *, 4> makers;
  int64_t start = 0;
  for (Value input : join.getInputs()) {
    Value operand = region.getTiedInput(input);
    std::optional<JoinedPart> part = findPart(operand, join, start);
    if (!part || (target.isGPU() && !isAligned(*part)))
      return {};
    start += shapeOf(operand)[join.getAxis()];
    makers.insert(part->made.getOwner());
    parts.push_back(std::move(*part));
  }
  return makers.size() == parts.size() ? parts : SmallVector<JoinedPart>();
}

//===----------------------------------------------------------------------===//
// Assembling
//===----------------------------------------------------------------------===//

/// Lets the maker of `part` write its box; the value whose memory is the whole.
static Value place(const JoinedPart &part) {
  auto region = dyn_cast<RegionOp>(part.made.getOwner());
  OpBuilder builder(part.made.getContext());
  auto create = [&](Value value) {
    bool isFirst =
        llvm::all_of(part.offsets, [](int64_t offset) { return offset == 0; });
    auto offsets = isFirst ? DenseI64ArrayAttr()
                           : builder.getDenseI64ArrayAttr(part.offsets);
    return plan::PlaceOp::create(builder, part.made.getLoc(), part.whole, value,
                                 offsets)
        .getOutput();
  };
  // A library's product is placed behind it, all else within its kernel.
  bool isBare =
      region && region.getContraction() && isBareLibraryContraction(region);
  if (!region || isBare) {
    builder.setInsertionPointAfter(part.made.getOwner());
    return create(part.made);
  }
  Operation *yield = region.getBody().front().getTerminator();
  OpOperand &yielded = yield->getOpOperand(part.made.getResultNumber());
  builder.setInsertionPoint(yield);
  yielded.set(create(yielded.get()));
  Value made = part.made;
  made.setType(part.whole);
  return made;
}

/// Makes `region`, a kernel that joins, an op without a step.
static void assemble(RegionOp region, ArrayRef<JoinedPart> parts) {
  SmallVector<Value> placed = llvm::map_to_vector(parts, place);
  OpBuilder builder(region);
  auto assembled = plan::AssembleOp::create(
      builder, region.getLoc(), region.getResult(0).getType(), placed);
  region.getResult(0).replaceAllUsesWith(assembled.getOutput());
  // The views between makers and the join go with it.
  SmallVector<Value> operands(region.getInputs());
  region.erase();
  for (Value operand : operands)
    while (auto view = operand.getDefiningOp<ReshapeOp>()) {
      operand = view.getInput();
      view.erase();
    }
}

namespace {
struct AssembleJoinsPass
    : public mpc::impl::AssembleJoinsPassBase<AssembleJoinsPass> {
  using AssembleJoinsPassBase::AssembleJoinsPassBase;
  void runOnOperation() override;
};
} // namespace

void AssembleJoinsPass::runOnOperation() {
  func::FuncOp function = getOperation();
  if (function.isExternal() || getKernelKind(function))
    return;
  TargetInfo target = getTarget(function);
  Block &block = function.getBody().front();
  for (auto region : llvm::make_early_inc_range(block.getOps<RegionOp>()))
    if (ConcatOp join = findJoinOfRows(region)) {
      SmallVector<JoinedPart> parts = findParts(region, join, target);
      if (!parts.empty())
        assemble(region, parts);
    }
}
