// Implements SampleAxisOpInterface for ops of the dialect that are not
// elementwise: finds the axis of the result that holds the samples of a batch.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Dialect/MPC/OpModels.h"
#include "compiler/Interfaces/SampleAxisOpInterface.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mpc;

using Samples = std::optional<SampleAxis>;

template <typename Model, typename OpT>
using SamplesBase = SampleAxisOpInterface::ExternalModel<Model, OpT>;

//===----------------------------------------------------------------------===//
// Views and moves
//===----------------------------------------------------------------------===//

namespace {
/// A reshape keeps the row-major order of elements, so as many positions
/// precede the samples as before. [time, batch, 8] has samples on axis 1;
/// reshaped to [time * batch, 8], on axis 0, where they repeat `time` times.
struct ReshapeSamples : SamplesBase<ReshapeSamples, ReshapeOp> {
  Samples followSamples(Operation *op, OperandSamples operands,
                        int64_t batch) const {
    Samples place = operands.front();
    if (!place)
      return std::nullopt;
    // Multiply the extents of the axes before the samples by `outer`, the
    // number of times that the samples repeat along their own axis.
    int64_t outside = ShapedType::getNumElements(
                          shapeOf(op->getOperand(0)).take_front(place->axis)) *
                      place->outer;
    int64_t before = 1;
    // Find the result axis along which the samples now lie.
    for (auto [axis, extent] : llvm::enumerate(shapeOf(op->getResult(0)))) {
      if (outside % before != 0)
        return std::nullopt;
      int64_t outer = outside / before;
      if (outer > 0 && extent > 0 && extent % (outer * batch) == 0)
        return SampleAxis{static_cast<int64_t>(axis), outer};
      before *= extent;
      if (before == 0)
        return std::nullopt;
    }
    return std::nullopt;
  }
};

struct TransposeSamples : SamplesBase<TransposeSamples, TransposeOp> {
  Samples followSamples(Operation *op, OperandSamples operands, int64_t) const {
    Samples place = operands.front();
    ArrayRef<int64_t> perm = cast<TransposeOp>(op).getPerm();
    if (place)
      place->axis = llvm::find(perm, place->axis) - perm.begin();
    return place;
  }
};

/// A slice keeps the axis of the samples if it selects all samples in order.
struct SliceSamples : SamplesBase<SliceSamples, SliceOp> {
  Samples followSamples(Operation *op, OperandSamples operands, int64_t) const {
    Samples place = operands.front();
    auto slice = cast<SliceOp>(op);
    bool isWhole = place && slice.getSizes()[place->axis] ==
                                shapeOf(slice.getInput())[place->axis];
    bool isTurned = isWhole && !slice.getStrides().empty() &&
                    slice.getStrides()[place->axis] < 0;
    return isWhole && !isTurned ? place : Samples();
  }
};

/// A concat keeps the axis of the samples unless it joins along this axis. A
/// recurrent layer, for example, joins its two directions along the features.
struct ConcatSamples : SamplesBase<ConcatSamples, ConcatOp> {
  Samples followSamples(Operation *op, OperandSamples operands, int64_t) const {
    Samples found;
    for (const Samples &place : operands) {
      if (place && found && !(*place == *found))
        return std::nullopt;
      found = place ? place : found;
    }
    const bool isJoined =
        found && found->axis == int64_t(cast<ConcatOp>(op).getAxis());
    return isJoined ? Samples() : found;
  }
};

/// A gather replaces the indexed axis of the data by the axes of the indices,
/// so axes after it move.
struct GatherSamples : SamplesBase<GatherSamples, GatherOp> {
  Samples followSamples(Operation *op, OperandSamples operands, int64_t) const {
    auto gather = cast<GatherOp>(op);
    const int64_t axis = gather.getAxis(), batchAxes = gather.getBatchDims();
    Samples data = operands[0], indices = operands[1];
    const int64_t added =
        static_cast<int64_t>(shapeOf(gather.getIndices()).size()) - batchAxes -
        1;
    if (data && data->axis == axis)
      return std::nullopt;
    if (data && data->axis > axis)
      data->axis += added;
    if (indices && indices->axis >= batchAxes)
      indices->axis += axis - batchAxes;
    if (data && indices && !(*data == *indices))
      return std::nullopt;
    return data ? data : indices;
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Ops that keep their axes
//===----------------------------------------------------------------------===//

namespace {
/// Keeps every axis.
template <typename OpT>
struct SamplesStay : SamplesBase<SamplesStay<OpT>, OpT> {
  Samples followSamples(Operation *, OperandSamples operands, int64_t) const {
    return operands.front();
  }
};

/// Keeps the axis of the samples, unless the op normalises along it.
template <typename OpT>
struct NormSamples : SamplesBase<NormSamples<OpT>, OpT> {
  Samples followSamples(Operation *op, OperandSamples operands, int64_t) const {
    Samples place = operands.front();
    bool isMixed =
        place && llvm::is_contained(cast<OpT>(op).getAxes(), place->axis);
    return isMixed ? Samples() : place;
  }
};

struct StopGradientSamples : SamplesBase<StopGradientSamples, StopGradientOp> {
  Samples followSamples(Operation *op, OperandSamples operands, int64_t) const {
    return followBroadcastSamples(op, operands);
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

namespace {
/// Attention keeps the axis of the samples if it is a leading axis, since each
/// matrix of the leading axes is computed on its own.
struct AttentionSamples : SamplesBase<AttentionSamples, AttentionOp> {
  Samples followSamples(Operation *op, OperandSamples operands, int64_t) const {
    Samples query = operands.front();
    int64_t rank = typeOf(op->getOperand(0)).getRank();
    if (!query || query->axis >= rank - 2)
      return std::nullopt;
    // Keys, values and masks must have the same samples as the query, at the
    // same axis counted from the end, or no samples.
    for (auto [operand, place] : llvm::zip(op->getOperands(), operands)) {
      if (!place)
        continue;
      SampleAxis own = *place;
      own.axis += rank - typeOf(operand).getRank();
      if (!(own == *query))
        return std::nullopt;
    }
    return query;
  }
};

/// Follows samples along the rows and batch axes of the left operand. Samples
/// along its columns are summed, so they end there.
struct MatMulSamples : SamplesBase<MatMulSamples, MatMulOp> {
  Samples followSamples(Operation *op, OperandSamples operands, int64_t) const {
    auto matmul = cast<MatMulOp>(op);
    Samples place = operands.front();
    int64_t rank = typeOf(matmul.getLhs()).getRank();
    bool isContracted = place && place->axis + 1 == rank;
    bool isMoved = matmul.getTransA() || operands[1] ||
                   rank != typeOf(matmul.getOutput()).getRank();
    return isContracted || isMoved ? Samples() : place;
  }
};

/// Follows samples along the rows of the left matrix.
struct GemmSamples : SamplesBase<GemmSamples, GemmOp> {
  Samples followSamples(Operation *op, OperandSamples operands, int64_t) const {
    Samples place = operands.front();
    bool isRow = place && place->axis == 0 && !cast<GemmOp>(op).getTransA();
    return isRow ? place : Samples();
  }
};

/// A convolution keeps samples on axis 0, the batch axis of input and output.
struct ConvSamples : SamplesBase<ConvSamples, ConvOp> {
  Samples followSamples(Operation *, OperandSamples operands, int64_t) const {
    Samples place = operands.front();
    return place && place->axis == 0 ? place : Samples();
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Registration
//===----------------------------------------------------------------------===//

void mpc::attachSampleAxisModels(MLIRContext &context) {
  ReshapeOp::attachInterface<ReshapeSamples>(context);
  TransposeOp::attachInterface<TransposeSamples>(context);
  SliceOp::attachInterface<SliceSamples>(context);
  ConcatOp::attachInterface<ConcatSamples>(context);
  GatherOp::attachInterface<GatherSamples>(context);
  attachEach<SamplesStay, SoftmaxOp, LogSoftmaxOp, BatchNormOp,
             BatchNormInferenceOp>(context);
  attachEach<NormSamples, LayerNormOp, RMSNormOp>(context);
  StopGradientOp::attachInterface<StopGradientSamples>(context);
  AttentionOp::attachInterface<AttentionSamples>(context);
  MatMulOp::attachInterface<MatMulSamples>(context);
  GemmOp::attachInterface<GemmSamples>(context);
  ConvOp::attachInterface<ConvSamples>(context);
}
