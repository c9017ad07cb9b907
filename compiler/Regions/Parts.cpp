// SPDX-License-Identifier: Apache-2.0
#include "compiler/Regions/Parts.h"

#include "compiler/Dialect/MPC/MPC.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpc;

// Whether an operand runs along axis 0 of the result as the result does, rather
// than being broadcast along it.
static bool runsAlong(Value operand, Value result) {
  return typeOf(operand).getRank() == typeOf(result).getRank() &&
         shapeOf(operand).front() == shapeOf(result).front();
}

// Each operand where it runs along axis 0 of the one result.
static SmallVector<bool> findAligned(Operation *op) {
  return llvm::map_to_vector(op->getOperands(), [&](Value operand) {
    return runsAlong(operand, op->getResult(0));
  });
}

// Whether a box has all of axis 0, in order.
static bool keepsFirstAxis(SliceOp op) {
  ArrayRef<int64_t> strides = op.getStrides();
  return op.getOffsets().front() == 0 &&
         op.getSizes().front() == shapeOf(op.getInput()).front() &&
         (strides.empty() || strides.front() == 1);
}

// Whether a reduction leaves axis 0 as it is.
static bool reducesOthers(Operation *op) {
  auto axes = op->getAttrOfType<DenseI64ArrayAttr>("axes");
  return axes && !op->hasAttr("parts") &&
         !llvm::is_contained(axes.asArrayRef(), 0);
}

std::optional<SmallVector<bool>> mpc::findPartedOperands(Operation *op) {
  if (op->getNumResults() != 1 || op->getNumRegions() != 0 ||
      op->getNumOperands() == 0 || typeOf(op->getResult(0)).getRank() == 0)
    return std::nullopt;
  SmallVector<bool> all(op->getNumOperands(), true);
  auto allIf = [&](bool holds) {
    return holds ? std::optional(all) : std::nullopt;
  };
  using Parted = std::optional<SmallVector<bool>>;
  return llvm::TypeSwitch<Operation *, Parted>(op)
      .Case<SoftmaxOp, LogSoftmaxOp, SoftmaxGradOp, LogSoftmaxGradOp>(
          [&](auto softmax) { return allIf(softmax.getAxis() != 0); })
      .Case([&](MatMulOp product) {
        // Axis 0 is one of batches.
        return typeOf(product.getOutput()).getRank() > 2
                   ? Parted(findAligned(op))
                   : std::nullopt;
      })
      .Case([&](ReshapeOp reshape) {
        return allIf(typeOf(reshape.getInput()).getRank() > 0);
      })
      .Case([&](TransposeOp transpose) {
        return allIf(transpose.getPerm().front() == 0);
      })
      .Case([&](SliceOp slice) { return allIf(keepsFirstAxis(slice)); })
      .Case([&](ConcatOp concat) { return allIf(concat.getAxis() != 0); })
      .Case([&](DropoutOp dropout) {
        return dropout.getPart() ? std::nullopt : Parted(findAligned(op));
      })
      .Default([&](Operation *other) -> Parted {
        if (hasRole(other, RegionRole::Reduction))
          return allIf(reducesOthers(other));
        if (hasRole(other, RegionRole::Elementwise) && !dependsOnPlace(other))
          return findAligned(other);
        return std::nullopt;
      });
}

Type mpc::getPart(Type type, int64_t count) {
  auto tensor = cast<RankedTensorType>(type);
  SmallVector<int64_t> shape(tensor.getShape());
  assert(shape.front() % count == 0 && "parts are equal");
  shape.front() /= count;
  return tensor.clone(shape);
}

bool mpc::readsPartNumber(Operation *op) { return isa<DropoutOp>(op); }

Operation *mpc::createPart(OpBuilder &builder, Operation *op,
                           ValueRange operands, int64_t count, Value number) {
  OperationState state(op->getLoc(), op->getName());
  state.addOperands(operands);
  state.addTypes(getPart(op->getResult(0).getType(), count));
  state.addAttributes(op->getAttrs());
  Operation *part = builder.create(state);
  if (auto slice = dyn_cast<SliceOp>(part)) {
    SmallVector<int64_t> sizes(slice.getSizes());
    sizes.front() /= count;
    slice.setSizes(sizes);
  }
  if (auto dropout = dyn_cast<DropoutOp>(part))
    dropout.getPartMutable().assign(number);
  return part;
}
