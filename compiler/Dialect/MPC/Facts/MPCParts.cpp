// Implements PartsOpInterface for ops that are not elementwise. The interface
// tells along which axes an op can be split: each part of the result is
// computed from parts of the operands. A part is one of n equal runs along an
// axis, such as rows 0 to 3 of 8.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Dialect/MPC/OpModels.h"
#include "compiler/Interfaces/PartsOpInterface.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mpc;

using List = SmallVector<int64_t>;
using PartedAxes = std::optional<List>;

template <typename Model, typename OpT>
using PartsBase = PartsOpInterface::ExternalModel<Model, OpT>;

// Returns `axis` for every operand if `holds`, else nullopt. For ops that
// compute a part of the result from the same part of every operand.
static PartedAxes sameIf(Operation *op, int64_t axis, bool holds) {
  return holds ? PartedAxes(List(op->getNumOperands(), axis)) : std::nullopt;
}

//===----------------------------------------------------------------------===//
// Matrix products, reductions and softmax
//===----------------------------------------------------------------------===//

namespace {
/// To compute a part of a batch axis, a product needs the same part of both
/// operands. To compute some rows of the result, it needs these rows of the
/// left operand; to compute some columns, these columns of the right operand.
struct MatMulParts : PartsBase<MatMulParts, MatMulOp> {
  PartedAxes findPartedAxes(Operation *op, int64_t axis) const {
    auto product = cast<MatMulOp>(op);
    int64_t rank = typeOf(product.getOutput()).getRank();
    int64_t left = typeOf(product.getLhs()).getRank();
    int64_t right = typeOf(product.getRhs()).getRank();
    if (axis == rank - 2)
      return List{product.getTransA() ? left - 1 : left - 2, kWhole};
    if (axis == rank - 1)
      return List{kWhole, product.getTransB() ? right - 2 : right - 1};
    return findAlignedAxes(op, axis);
  }
};

/// Finds the operand axis that the reduction keeps as `axis` of the result.
template <typename OpT>
struct ReductionParts : PartsBase<ReductionParts<OpT>, OpT> {
  PartedAxes findPartedAxes(Operation *op, int64_t axis) const {
    auto reduction = cast<OpT>(op);
    if (reduction.getParts())
      return std::nullopt;
    int64_t rank = typeOf(reduction.getInput()).getRank();
    for (int64_t i = 0, kept = 0; i < rank; ++i) {
      bool isReduced = llvm::is_contained(reduction.getAxes(), i);
      bool isKept = !isReduced || reduction.getKeepdims();
      if (isKept && kept++ == axis)
        return isReduced ? std::nullopt : PartedAxes(List{i});
    }
    return std::nullopt;
  }
};

/// A softmax needs whole rows, so its own axis cannot be split.
template <typename OpT>
struct SoftmaxParts : PartsBase<SoftmaxParts<OpT>, OpT> {
  PartedAxes findPartedAxes(Operation *op, int64_t axis) const {
    return sameIf(op, axis,
                  static_cast<int64_t>(cast<OpT>(op).getAxis()) != axis);
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Views and moves
//===----------------------------------------------------------------------===//

// True if the slice selects every element along `axis`, in order.
static bool hasAll(SliceOp op, int64_t axis) {
  ArrayRef<int64_t> strides = op.getStrides();
  return op.getOffsets()[axis] == 0 &&
         op.getSizes()[axis] == shapeOf(op.getInput())[axis] &&
         (strides.empty() || strides[axis] == 1);
}

namespace {
/// Finds the operand axis that becomes `axis` of the result: the axis with the
/// same number of elements before it. For [6, 4] reshaped to [2, 3, 4], axis 2
/// comes from axis 1.
struct ReshapeParts : PartsBase<ReshapeParts, ReshapeOp> {
  PartedAxes findPartedAxes(Operation *op, int64_t axis) const {
    auto reshape = cast<ReshapeOp>(op);
    auto countBefore = [](Value value, int64_t end) {
      return ShapedType::getNumElements(shapeOf(value).take_front(end));
    };
    int64_t wanted = countBefore(reshape.getOutput(), axis);
    Value input = reshape.getInput();
    for (int64_t i = 0; i < typeOf(input).getRank(); ++i)
      if (shapeOf(input)[i] > 1 && countBefore(input, i) == wanted)
        return List{i};
    return std::nullopt;
  }
};

struct TransposeParts : PartsBase<TransposeParts, TransposeOp> {
  PartedAxes findPartedAxes(Operation *op, int64_t axis) const {
    return List{cast<TransposeOp>(op).getPerm()[axis]};
  }
};

/// A slice can be split along axes that it selects entirely.
struct SliceParts : PartsBase<SliceParts, SliceOp> {
  PartedAxes findPartedAxes(Operation *op, int64_t axis) const {
    return sameIf(op, axis, hasAll(cast<SliceOp>(op), axis));
  }
  // The cloned op has the size of the whole slice along `axis`. Reduce it to
  // the size of a part.
  Operation *createPart(Operation *op, OpBuilder &builder, ValueRange operands,
                        int64_t axis, int64_t count, Value) const {
    auto part = cast<SliceOp>(clonePart(builder, op, operands, axis, count));
    SmallVector<int64_t> sizes(part.getSizes());
    sizes[axis] /= count;
    part.setSizes(sizes);
    return part;
  }
};

/// A concat can be split along all axes but the joined one.
struct ConcatParts : PartsBase<ConcatParts, ConcatOp> {
  PartedAxes findPartedAxes(Operation *op, int64_t axis) const {
    return sameIf(op, axis,
                  static_cast<int64_t>(cast<ConcatOp>(op).getAxis()) != axis);
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Dropout
//===----------------------------------------------------------------------===//

// Returns the distance in memory, in elements, between the starts of two
// adjacent parts.
static int64_t getElementsPerPart(DropoutOp op, int64_t axis, int64_t count) {
  assert(count > 0 && shapeOf(op.getOutput())[axis] % count == 0 &&
         "parts are equal");
  ArrayRef<int64_t> shape = shapeOf(op.getOutput());
  ArrayRef<int64_t> whole = op.getWhole().value_or(shape);
  return shape[axis] / count *
         ShapedType::getNumElements(whole.drop_front(axis + 1));
}

namespace {
struct DropoutParts : PartsBase<DropoutParts, DropoutOp> {
  PartedAxes findPartedAxes(Operation *op, int64_t axis) const {
    return findAlignedAxes(op, axis);
  }
  bool allowsParts(Operation *op, int64_t axis, int64_t count) const {
    return getElementsPerPart(cast<DropoutOp>(op), axis, count) % 4 == 0;
  }
  std::optional<int64_t> getGroupsPerPart(Operation *op, int64_t axis,
                                          int64_t count) const {
    return getElementsPerPart(cast<DropoutOp>(op), axis, count) / 4;
  }
  // A dropout draws random numbers for groups of four elements, numbered over
  // the whole tensor. So a part needs the number of its first group, and the
  // shape of the whole tensor.
  Operation *createPart(Operation *op, OpBuilder &builder, ValueRange operands,
                        int64_t axis, int64_t count, Value group) const {
    assert(group && "a part of a mask starts at a group");
    auto dropout = cast<DropoutOp>(op);
    SmallVector<Value> all(operands);
    // If the dropout is a part already, add the number of its first group.
    if (dropout.getGroup()) {
      group = AddOp::create(builder, op->getLoc(), group.getType(), all.back(),
                            group);
      all.pop_back();
    }
    all.push_back(group);
    auto part = cast<DropoutOp>(clonePart(builder, op, all, axis, count));
    List whole = dropout.getIndexedShape();
    part.setWhole(ArrayRef<int64_t>(whole));
    return part;
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Registration
//===----------------------------------------------------------------------===//

void mpc::attachPartsModels(MLIRContext &context) {
  MatMulOp::attachInterface<MatMulParts>(context);
  attachEach<ReductionParts, ReduceMeanOp, ReduceSumOp, ReduceMaxOp,
             ReduceProdOp>(context);
  attachEach<SoftmaxParts, SoftmaxOp, LogSoftmaxOp, SoftmaxGradOp,
             LogSoftmaxGradOp>(context);
  ReshapeOp::attachInterface<ReshapeParts>(context);
  TransposeOp::attachInterface<TransposeParts>(context);
  SliceOp::attachInterface<SliceParts>(context);
  ConcatOp::attachInterface<ConcatParts>(context);
  DropoutOp::attachInterface<DropoutParts>(context);
}
