// Verifies plan.access, plan.arrange, plan.place and plan.assemble, which
// determine at which elements of a tensor products and kernels read and write.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/Plan/Plan.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::plan;

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

bool AccessOp::isDense() {
  auto output = cast<RankedTensorType>(getOutput().getType());
  return ArrayRef<int64_t>(getDenseStrides(output.getShape())) == getStrides();
}

LogicalResult AccessOp::verify() {
  auto source = cast<RankedTensorType>(getSource().getType());
  auto output = cast<RankedTensorType>(getOutput().getType());
  if (source.getElementType() != output.getElementType())
    return emitOpError("expected elements of type ")
           << source.getElementType() << ", found " << output.getElementType();
  if (static_cast<int64_t>(getStrides().size()) != output.getRank())
    return emitOpError("expected a stride for each of ")
           << output.getRank() << " axes, found " << getStrides().size();
  // Strides are not negative, so if the first and the last element lie in the
  // source, all others do.
  int64_t last = getOffset();
  for (auto [extent, stride] : llvm::zip(output.getShape(), getStrides())) {
    if (stride < 0)
      return emitOpError("expected strides of at least 0, found ") << stride;
    last += (extent - 1) * stride;
  }
  if (static_cast<int64_t>(getOffset()) < 0 || last >= source.getNumElements())
    return emitOpError("reaches element ")
           << last << " of a tensor of " << source.getNumElements();
  return success();
}

LogicalResult ArrangeOp::verify() {
  ArrayRef<int64_t> from =
      cast<RankedTensorType>(getProduct().getType()).getShape();
  auto output = cast<RankedTensorType>(getOutput().getType());
  SmallVector<int64_t> sorted(getPerm()), shape;
  llvm::sort(sorted);
  if (!llvm::equal(sorted, llvm::seq<int64_t>(0, from.size())) ||
      sorted.empty() || getPerm().back() != sorted.back())
    return emitOpError("expected a permutation that keeps the last of ")
           << from.size() << " axes, found [" << getPerm() << "]";
  for (int64_t axis : getPerm())
    shape.push_back(from[axis]);
  if (output != cast<RankedTensorType>(getProduct().getType()).clone(shape))
    return emitOpError("expected a result of shape [")
           << shape << "], found " << output;
  if (!getProduct().hasOneUse())
    return emitOpError("expected to be the only reader of its product, found ")
           << llvm::range_size(getProduct().getUses()) << " readers";
  return success();
}

int64_t PlaceOp::getFirstElement() {
  auto output = cast<RankedTensorType>(getOutput().getType());
  return getOffsets()
             ? linearize(*getOffsets(), getDenseStrides(output.getShape()))
             : 0;
}

LogicalResult PlaceOp::verify() {
  auto input = cast<RankedTensorType>(getInput().getType());
  auto output = cast<RankedTensorType>(getOutput().getType());
  if (input.getRank() != output.getRank() ||
      input.getElementType() != output.getElementType() ||
      input.getNumElements() >= output.getNumElements())
    return emitOpError("expected a larger tensor of the same elements, found ")
           << output << " for " << input;
  // The op that computes the box writes it in place, so the box must lie within
  // the tensor.
  SmallVector<int64_t> offsets(input.getRank(), 0);
  if (getOffsets())
    offsets.assign(getOffsets()->begin(), getOffsets()->end());
  if (static_cast<int64_t>(offsets.size()) != input.getRank())
    return emitOpError("expected an offset for each of ")
           << input.getRank() << " axes, found " << offsets.size();
  for (auto [axis, offset] : llvm::enumerate(offsets))
    if (offset < 0 || offset > output.getDimSize(axis) - input.getDimSize(axis))
      return emitOpError("expected a box within ")
             << output << ", found one of " << input.getDimSize(axis)
             << " elements from " << offset << " on along axis " << axis;
  Operation *maker = getInput().getDefiningOp();
  bool isOfProduct = maker && (isa<ProductOp, ArrangeOp>(maker) ||
                               hasRole(maker, RegionRole::Contraction));
  if (isOfProduct && !getInput().hasOneUse())
    return emitOpError("expected to be the only reader of its product, found ")
           << llvm::range_size(getInput().getUses()) << " readers";
  return success();
}

//===----------------------------------------------------------------------===//
// Tensors assembled from boxes
//===----------------------------------------------------------------------===//

// Returns the plan.place that defines `part`. If a region defines `part`,
// returns the plan.place inside the region that defines the yielded value. Null
// if there is none.
static PlaceOp findPlace(Value part) {
  if (auto region = part.getDefiningOp<RegionOp>()) {
    Operation *yield = region.getBody().front().getTerminator();
    part = yield->getOperand(cast<OpResult>(part).getResultNumber());
  }
  return part.getDefiningOp<PlaceOp>();
}

// True if the boxes of two plan.place ops overlap. The ops place the boxes in
// tensors of equal shape.
static bool overlap(PlaceOp first, PlaceOp second) {
  auto offsetOf = [](PlaceOp place, size_t axis) {
    return place.getOffsets() ? (*place.getOffsets())[axis] : 0;
  };
  ArrayRef<int64_t> a = shapeOf(first.getInput()),
                    b = shapeOf(second.getInput());
  return llvm::all_of(llvm::seq(a.size()), [&](size_t axis) {
    int64_t from = offsetOf(first, axis), other = offsetOf(second, axis);
    return from < other + b[axis] && other < from + a[axis];
  });
}

// Verifies that the boxes of all parts do not overlap and fill the whole
// tensor. Succeeds without a check if the plan.place of a part is inside a
// kernel function, where this op cannot see it.
static LogicalResult verifyBoxes(AssembleOp op) {
  SmallVector<PlaceOp> places = llvm::map_to_vector(op.getParts(), findPlace);
  int64_t elements = 0;
  for (auto [number, place] : llvm::enumerate(places)) {
    Operation *maker = op.getParts()[number].getDefiningOp();
    if (!place && isa_and_nonnull<RegionOp>(maker))
      return op.emitOpError("expected part ")
             << number << " to be stored through plan.place";
    if (!place)
      return success();
    elements += typeOf(place.getInput()).getNumElements();
    for (PlaceOp other : ArrayRef(places).take_front(number))
      if (other.getType() == place.getType() && overlap(other, place))
        return op.emitOpError("expected boxes that do not overlap, found part ")
               << number << " over another";
  }
  int64_t whole = typeOf(op.getOutput()).getNumElements();
  if (elements != whole)
    return op.emitOpError("expected boxes of ")
           << whole << " elements, found " << elements;
  return success();
}

LogicalResult AssembleOp::verify() {
  auto output = cast<RankedTensorType>(getOutput().getType());
  for (Value part : getParts()) {
    auto type = cast<RankedTensorType>(part.getType());
    if (type.getElementType() != output.getElementType() ||
        type.getNumElements() != output.getNumElements())
      return emitOpError("expected parts as large as ")
             << output << ", found " << type;
    if (!part.hasOneUse())
      return emitOpError("expected to be the only reader of its parts, found ")
             << llvm::range_size(part.getUses()) << " readers of " << type;
  }
  return verifyBoxes(*this);
}
