// Through which ops of the dialect the samples of a batch can be followed,
// where these are not simply elementwise.
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
/// The order of elements stays, so as many lie outside the samples as before.
struct ReshapeSamples : SamplesBase<ReshapeSamples, ReshapeOp> {
  Samples followSamples(Operation *op, OperandSamples operands,
                        int64_t batch) const {
    Samples place = operands.front();
    if (!place)
      return std::nullopt;
    // How many positions stand before the samples, in axes or within one.
    int64_t outside = ShapedType::getNumElements(
                          shapeOf(op->getOperand(0)).take_front(place->axis)) *
                      place->outer;
    int64_t before = 1;
    // The axis of the new shape that so many positions end in.
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

/// Samples stay where all of them are taken, in their order.
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

/// The axes of the indices stand where the axis of the data was that they name.
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
// Ops that leave axes where they are
//===----------------------------------------------------------------------===//

namespace {
/// Every axis stays.
template <typename OpT>
struct SamplesStay : SamplesBase<SamplesStay<OpT>, OpT> {
  Samples followSamples(Operation *, OperandSamples operands, int64_t) const {
    return operands.front();
  }
};

/// Every axis stays that is not normalised.
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
/// Each matrix of the leading axes is an attention by itself.
struct AttentionSamples : SamplesBase<AttentionSamples, AttentionOp> {
  Samples followSamples(Operation *op, OperandSamples operands, int64_t) const {
    Samples query = operands.front();
    int64_t rank = typeOf(op->getOperand(0)).getRank();
    if (!query || query->axis >= rank - 2)
      return std::nullopt;
    // Keys, values and masks have the samples that the queries have, or none.
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

/// Rows, or one matrix for each sample; not columns of the left matrix.
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

/// Rows of the left matrix are samples.
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
