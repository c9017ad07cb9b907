// Lets kernels and products write the inputs of a concat (a join) directly into
// the concat's result. The join then needs no step.
//
// Example: queries, keys and values are columns of one product. In the backward
// pass, three products compute their gradients per head. A join puts the
// gradients side by side along the last axis of [samples, tokens, 3 * heads *
// 64]. A product can write rows of 64 elements at any distance. So each product
// writes a box of [samples, tokens, 3 * heads, 64], a view of the joined
// memory.
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
/// An input of a concat: the value `made` that becomes this input, and the box
/// of the concat's result that the value fills.
struct JoinedPart {
  OpResult made;
  RankedTensorType whole; ///< the concat's result, with the axes of `made`
  SmallVector<int64_t> offsets;
};
} // namespace

//===----------------------------------------------------------------------===//
// Joins
//===----------------------------------------------------------------------===//

/// Returns the concat if the kernel of `region` contains nothing else and each
/// input fills a part of every row of the result; null otherwise. A concat
/// along the outermost axis needs no kernel (ProgramJoins.cpp).
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

/// Returns the op that computes `yielded`, looking through a final transpose
/// that only decides where the value is stored.
static Operation *findStored(Value yielded) {
  Operation *stored = yielded.getDefiningOp();
  return stored && isArrangement(stored) ? stored->getOperand(0).getDefiningOp()
                                         : stored;
}

/// True if the op that computes `made` can write to a box of a larger tensor: a
/// library product, the kernel of an epilogue, or a kernel that stores rows
/// anywhere.
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
  // A kernel can store a value with strides if the value is computed element by
  // element.
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

/// Returns the number of elements along the axes of `shape` from `axis` on.
static int64_t countFrom(ArrayRef<int64_t> shape, size_t axis) {
  return ShapedType::getNumElements(shape.drop_front(axis));
}

/// Returns the innermost axis with more than one index from which on `shape`
/// has `elements` elements: axis 2 of (8, 128, 12, 64) for 768. nullopt if
/// there is none.
static std::optional<size_t> findAxisOfRun(ArrayRef<int64_t> shape,
                                           int64_t elements) {
  for (size_t axis = shape.size(); axis-- > 0;)
    if (shape[axis] != 1 && countFrom(shape, axis) >= elements)
      return countFrom(shape, axis) == elements ? std::optional(axis)
                                                : std::nullopt;
  return std::nullopt;
}

/// Looks for the op that computes `operand`, an input of `join` that starts at
/// index `start` of the joined axis. Returns the value and the box that the
/// value fills; looks through views without other users. Returns nullopt if the
/// op cannot write into a box.
static std::optional<JoinedPart> findPart(Value operand, ConcatOp join,
                                          int64_t start) {
  Value made = operand;
  while (auto view =
             made.hasOneUse() ? made.getDefiningOp<ReshapeOp>() : ReshapeOp())
    made = view.getInput();
  auto result = dyn_cast<OpResult>(made);
  if (!result || !made.hasOneUse() || !canPlace(result))
    return std::nullopt;
  // Find the outermost axis of the run of elements in the join: axis 2 (heads)
  // of (8, 128, 12, 64), which is (8, 128, 768) in the join.
  size_t joined = join.getAxis();
  ArrayRef<int64_t> shape = shapeOf(made);
  std::optional<size_t> axis =
      findAxisOfRun(shape, countFrom(shapeOf(operand), joined));
  if (!axis)
    return std::nullopt;
  // The box must begin and end at whole indices of this axis, in the example
  // between two heads. The concat's result must have whole heads too.
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

/// True if each row of the box starts at a multiple of the vector size of a
/// GPU's kernels and libraries.
static bool isAligned(const JoinedPart &part) {
  int64_t unit = TargetInfo::kGPUAlignment /
                 plan::getElementBytes(part.whole.getElementType());
  return part.whole.getShape().back() % unit == 0 &&
         part.offsets.back() % unit == 0;
}

/// Returns all parts of `join`, the only op of `region`. Empty if a part cannot
/// be written in place, or if a kernel makes several parts: two results of a
/// kernel may not share a buffer.
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

/// Adds a plan.place, so that the op that computes `part` writes to the part's
/// box. Returns the value whose buffer is the whole result.
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
  // A bare library product writes through a plan.place behind the product; a
  // kernel has the plan.place inside.
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

/// Replaces `region`, the kernel of a concat, by plan.assemble, which takes no
/// step.
static void assemble(RegionOp region, ArrayRef<JoinedPart> parts) {
  SmallVector<Value> placed = llvm::map_to_vector(parts, place);
  OpBuilder builder(region);
  auto assembled = plan::AssembleOp::create(
      builder, region.getLoc(), region.getResult(0).getType(), placed);
  region.getResult(0).replaceAllUsesWith(assembled.getOutput());
  // The parts no longer pass through the views between the ops and the concat.
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
