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
/// A reshape keeps the order of elements, so it keeps the number of elements
/// outside the samples.
struct ReshapeSamples : SamplesBase<ReshapeSamples, ReshapeOp> {
  Samples followSamples(Operation *op, OperandSamples operands,
                        int64_t batch) const {
    Samples place = operands.front();
    if (!place)
      return std::nullopt;
    // Positions before the samples: whole axes, and the outer part of the
    // samples' axis.
    int64_t outside = ShapedType::getNumElements(
                          shapeOf(op->getOperand(0)).take_front(place->axis)) *
                      place->outer;
    int64_t before = 1;
    // Find the result axis that contains that many positions.
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

/// A slice keeps the samples if it takes all of them in order.
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

/// Operands are joined along another axis than that of the samples, as the two
/// directions of a recurrent layer.
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

/// The axes of the indices replace the indexed axis of the data.
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

/// Keeps every axis that is not normalised.
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
/// Each matrix of the leading axes is an independent attention.
struct AttentionSamples : SamplesBase<AttentionSamples, AttentionOp> {
  Samples followSamples(Operation *op, OperandSamples operands, int64_t) const {
    Samples query = operands.front();
    int64_t rank = typeOf(op->getOperand(0)).getRank();
    if (!query || query->axis >= rank - 2)
      return std::nullopt;
    // Other operands must have the samples of the query, or no samples.
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

/// Follows rows and batch axes of the left operand. Its columns are contracted.
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

/// Follows rows of the left matrix.
struct GemmSamples : SamplesBase<GemmSamples, GemmOp> {
  Samples followSamples(Operation *op, OperandSamples operands, int64_t) const {
    Samples place = operands.front();
    bool isRow = place && place->axis == 0 && !cast<GemmOp>(op).getTransA();
    return isRow ? place : Samples();
  }
};

/// Images lie along axis 0 of input and output.
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
