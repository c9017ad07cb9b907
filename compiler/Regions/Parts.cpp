// SPDX-License-Identifier: Apache-2.0
#include "compiler/Regions/Parts.h"

#include "compiler/Dialect/MPC/MPC.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpc;

using Axes = SmallVector<int64_t>;

// The axis of `operand` that runs along axis `axis` of `result` by NumPy's
// rules; kWhole where it is broadcast along that.
static int64_t findAligned(Value operand, Value result, int64_t axis) {
  int64_t own = axis - typeOf(result).getRank() + typeOf(operand).getRank();
  bool runsAlong = own >= 0 && shapeOf(operand)[own] == shapeOf(result)[axis];
  return runsAlong ? own : kWhole;
}

static Axes findAllAligned(Operation *op, int64_t axis) {
  return llvm::map_to_vector(op->getOperands(), [&](Value operand) {
    return findAligned(operand, op->getResult(0), axis);
  });
}

// A product: along an axis of batches as elementwise ops, along rows of its
// result along those of the left operand, along columns those of the right.
static Axes findAxesOfProduct(MatMulOp op, int64_t axis) {
  int64_t rank = typeOf(op.getOutput()).getRank();
  int64_t left = typeOf(op.getLhs()).getRank();
  int64_t right = typeOf(op.getRhs()).getRank();
  if (axis == rank - 2)
    return {op.getTransA() ? left - 1 : left - 2, kWhole};
  if (axis == rank - 1)
    return {kWhole, op.getTransB() ? right - 2 : right - 1};
  return findAllAligned(op, axis);
}

// The axis of the operand that becomes `axis` of the result: as many elements
// lie in front of it. Of [6, 4] reshaped to [2, 3, 4], axis 2 is axis 1.
static std::optional<Axes> findAxisOfReshape(ReshapeOp op, int64_t axis) {
  auto countBefore = [](Value value, int64_t end) {
    return ShapedType::getNumElements(shapeOf(value).take_front(end));
  };
  int64_t wanted = countBefore(op.getOutput(), axis);
  for (int64_t i = 0; i < typeOf(op.getInput()).getRank(); ++i)
    if (shapeOf(op.getInput())[i] > 1 &&
        countBefore(op.getInput(), i) == wanted)
      return Axes{i};
  return std::nullopt;
}

// Whether a box has all of an axis, in order.
static bool hasAll(SliceOp op, int64_t axis) {
  ArrayRef<int64_t> strides = op.getStrides();
  return op.getOffsets()[axis] == 0 &&
         op.getSizes()[axis] == shapeOf(op.getInput())[axis] &&
         (strides.empty() || strides[axis] == 1);
}

// The axis of the operand that a reduction keeps as `axis`.
static std::optional<Axes> findAxisOfReduction(Operation *op, int64_t axis) {
  auto reduced = op->getAttrOfType<DenseI64ArrayAttr>("axes");
  auto keepdims = op->getAttrOfType<BoolAttr>("keepdims");
  if (!reduced || op->hasAttr("parts"))
    return std::nullopt;
  int64_t own = 0;
  for (int64_t i = 0, kept = 0; i < typeOf(op->getOperand(0)).getRank(); ++i) {
    own = i;
    bool isReduced = llvm::is_contained(reduced.asArrayRef(), i);
    bool isKept = !isReduced || (keepdims && keepdims.getValue());
    if (isKept && kept++ == axis)
      return isReduced ? std::nullopt : std::optional(Axes{own});
  }
  return std::nullopt;
}

std::optional<SmallVector<int64_t>> mpc::findPartedAxes(Operation *op,
                                                        int64_t axis) {
  // One result, with something along the axis to divide.
  if (op->getNumResults() != 1 || op->getNumRegions() != 0 ||
      op->getNumOperands() == 0 || axis >= typeOf(op->getResult(0)).getRank() ||
      shapeOf(op->getResult(0))[axis] == 1)
    return std::nullopt;
  // Ops for which parts of a result need the same parts of every operand.
  auto sameIf = [&](bool holds) {
    return holds ? std::optional(Axes(op->getNumOperands(), axis))
                 : std::nullopt;
  };
  using Found = std::optional<Axes>;
  // Along which axis of each operand the parts lie, by kind of op.
  return llvm::TypeSwitch<Operation *, Found>(op)
      // A softmax needs whole rows: no parts along its axis.
      .Case<SoftmaxOp, LogSoftmaxOp, SoftmaxGradOp, LogSoftmaxGradOp>(
          [&](auto softmax) {
            return sameIf(static_cast<int64_t>(softmax.getAxis()) != axis);
          })
      .Case([&](MatMulOp product) -> Found {
        return findAxesOfProduct(product, axis);
      })
      .Case([&](ReshapeOp reshape) { return findAxisOfReshape(reshape, axis); })
      .Case([&](TransposeOp transpose) -> Found {
        return Axes{transpose.getPerm()[axis]};
      })
      // A slice that takes all along the axis, a join along another one.
      .Case([&](SliceOp slice) { return sameIf(hasAll(slice, axis)); })
      .Case([&](ConcatOp concat) {
        return sameIf(static_cast<int64_t>(concat.getAxis()) != axis);
      })
      .Case([&](DropoutOp dropout) -> Found {
        return findAllAligned(dropout, axis);
      })
      // Of a sum, parts along axes that stay; elementwise, any that are the
      // operand's too.
      .Default([&](Operation *other) -> Found {
        if (hasRole(other, RegionRole::Reduction))
          return findAxisOfReduction(other, axis);
        if (hasRole(other, RegionRole::Elementwise) && !dependsOnPlace(other))
          return findAllAligned(other, axis);
        return std::nullopt;
      });
}

// How many elements are in front of each further part of a dropout.
static int64_t getElementsPerPart(DropoutOp op, int64_t axis, int64_t count) {
  ArrayRef<int64_t> shape = shapeOf(op.getOutput());
  ArrayRef<int64_t> whole = op.getWhole().value_or(shape);
  return shape[axis] / count *
         ShapedType::getNumElements(whole.drop_front(axis + 1));
}

bool mpc::canSplit(Operation *op, int64_t axis, int64_t count) {
  auto divides = [&](Value value, int64_t own) {
    return own == kWhole || shapeOf(value)[own] % count == 0;
  };
  auto dropout = dyn_cast<DropoutOp>(op);
  return divides(op->getResult(0), axis) &&
         llvm::all_of(llvm::zip(op->getOperands(), *findPartedAxes(op, axis)),
                      [&](auto pair) {
                        return divides(std::get<0>(pair), std::get<1>(pair));
                      }) &&
         (!dropout || getElementsPerPart(dropout, axis, count) % 4 == 0);
}

std::optional<int64_t> mpc::findResultAxis(OpOperand &operand, int64_t axis) {
  Operation *op = operand.getOwner();
  if (op->getNumResults() != 1)
    return std::nullopt;
  for (int64_t i = 0; i < typeOf(op->getResult(0)).getRank(); ++i)
    if (auto axes = findPartedAxes(op, i);
        axes && (*axes)[operand.getOperandNumber()] == axis)
      return i;
  return std::nullopt;
}

SmallVector<int64_t, 2> mpc::getSummedAxes(Operation *product) {
  auto op = cast<MatMulOp>(product);
  int64_t left = typeOf(op.getLhs()).getRank();
  int64_t right = typeOf(op.getRhs()).getRank();
  return {op.getTransA() ? left - 2 : left - 1,
          op.getTransB() ? right - 1 : right - 2};
}

bool mpc::isSummed(OpOperand &operand, int64_t axis) {
  return isa<MatMulOp>(operand.getOwner()) &&
         getSummedAxes(operand.getOwner())[operand.getOperandNumber()] == axis;
}

RankedTensorType mpc::getPart(Type type, int64_t axis, int64_t count) {
  auto tensor = cast<RankedTensorType>(type);
  SmallVector<int64_t> shape(tensor.getShape());
  assert(shape[axis] % count == 0 && "parts are equal");
  shape[axis] /= count;
  return tensor.clone(shape);
}

std::optional<int64_t> mpc::getGroupsPerPart(Operation *op, int64_t axis,
                                             int64_t count) {
  auto dropout = dyn_cast<DropoutOp>(op);
  if (!dropout)
    return std::nullopt;
  return getElementsPerPart(dropout, axis, count) / 4;
}

Operation *mpc::createPart(OpBuilder &builder, Operation *op,
                           ValueRange operands, int64_t axis, int64_t count,
                           Value group) {
  OperationState state(op->getLoc(), op->getName());
  state.addOperands(operands);
  state.addTypes(getPart(op->getResult(0).getType(), axis, count));
  state.addAttributes(op->getAttrs());
  // A dropout's mask follows from the place in the whole tensor: a part needs
  // the number of its first group, and the whole shape.
  if (auto dropout = dyn_cast<DropoutOp>(op)) {
    if (dropout.getGroup()) {
      group = AddOp::create(builder, op->getLoc(), group.getType(),
                            operands.back(), group);
      state.operands.pop_back();
    }
    state.addOperands(group);
    state.attributes.set(
        "whole", builder.getDenseI64ArrayAttr(dropout.getIndexedShape()));
  }
  Operation *part = builder.create(state);
  // A slice of a part has a part's size.
  if (auto slice = dyn_cast<SliceOp>(part)) {
    SmallVector<int64_t> sizes(slice.getSizes());
    sizes[axis] /= count;
    slice.setSizes(sizes);
  }
  return part;
}
