// Infers the result shapes of the normalisation ops.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Shapes/ShapeInference.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Batch normalisation: statistics over all samples of a batch
//===----------------------------------------------------------------------===//

INFER(BatchNormOp) {
  ValueRange vectors = adaptor.getOperands().drop_front();
  if (failed(verifyChannels(loc, adaptor.getInput(), adaptor.getLayout(),
                            vectors)))
    return failure();
  (void)infer(results, shapeOf(adaptor.getInput()),
              elementOf(adaptor.getInput()));
  for (int i = 0; i < 4; ++i)
    (void)infer(results, shapeOf(vectors.front()), elementOf(vectors.front()));
  return success();
}

INFER(BatchNormInferenceOp) {
  if (failed(verifyChannels(loc, adaptor.getInput(), adaptor.getLayout(),
                            adaptor.getOperands().drop_front())))
    return failure();
  return infer(results, shapeOf(adaptor.getInput()),
               elementOf(adaptor.getInput()));
}

INFER(BatchNormGradOp) {
  ValueRange vectors = adaptor.getOperands().drop_front(2);
  if (failed(verifySameShape(loc, adaptor.getOperands().take_front(2))) ||
      failed(verifyChannels(loc, adaptor.getInput(), adaptor.getLayout(),
                            vectors)))
    return failure();
  (void)infer(results, shapeOf(adaptor.getInput()),
              elementOf(adaptor.getDOutput()));
  for (int i = 0; i < 2; ++i)
    (void)infer(results, shapeOf(vectors.front()), elementOf(vectors.front()));
  return success();
}

//===----------------------------------------------------------------------===//
// Layer and RMS normalisation: statistics of each sample
//===----------------------------------------------------------------------===//

// Returns the shape of statistics over `axes`: the input's shape, but with size
// 1 along `axes`. Fails if an axis is invalid or not in ascending order.
static FailureOr<Shape> inferStatistics(std::optional<Location> loc,
                                        Value input, ArrayRef<int64_t> axes) {
  Shape shape(shapeOf(input));
  int64_t least = 0;
  for (int64_t axis : axes) {
    if (failed(verifyAxis(loc, axis, shape.size())))
      return failure();
    if (axis < least)
      return emitOptionalError(loc, "expected ascending axes, found [", axes,
                               "]");
    least = axis + 1;
    shape[axis] = 1;
  }
  return shape;
}

// Checks that `scales`, the scale and the bias, broadcast to the input.
static LogicalResult verifyScales(std::optional<Location> loc, Value input,
                                  ValueRange scales) {
  for (Value scale : scales) {
    auto whole = broadcastShapes(shapeOf(scale), shapeOf(input));
    if (failed(whole) || ArrayRef<int64_t>(*whole) != shapeOf(input))
      return emitOptionalError(loc, "shape [", shapeOf(scale),
                               "] does not broadcast to the input's [",
                               shapeOf(input), "]");
  }
  return success();
}

// Checks that each of `statistics`, which the forward op saved, has the shape
// of statistics over `axes`.
static LogicalResult verifyStatistics(std::optional<Location> loc, Value input,
                                      ArrayRef<int64_t> axes,
                                      ValueRange statistics) {
  auto shape = inferStatistics(loc, input, axes);
  if (failed(shape))
    return failure();
  for (Value statistic : statistics)
    if (shapeOf(statistic) != ArrayRef<int64_t>(*shape))
      return emitOptionalError(loc, "expected statistics of shape [",
                               ArrayRef<int64_t>(*shape), "], found [",
                               shapeOf(statistic), "]");
  return success();
}

INFER(LayerNormOp) {
  Value input = adaptor.getInput();
  auto statistics = inferStatistics(loc, input, adaptor.getAxes());
  if (failed(statistics) ||
      failed(verifyScales(loc, input, adaptor.getOperands().drop_front())))
    return failure();
  (void)infer(results, shapeOf(input), elementOf(input));
  for (int i = 0; i < 2; ++i)
    (void)infer(results, *statistics, elementOf(input));
  return success();
}

INFER(LayerNormGradOp) {
  Value input = adaptor.getInput(), scale = adaptor.getScale();
  if (failed(verifySameShape(loc, adaptor.getOperands().take_front(2))) ||
      failed(verifyScales(loc, input, scale)) ||
      failed(verifyStatistics(loc, input, adaptor.getAxes(),
                              {adaptor.getMean(), adaptor.getInvStd()})))
    return failure();
  (void)infer(results, shapeOf(input), elementOf(adaptor.getDOutput()));
  return infer(results, shapeOf(scale), elementOf(scale));
}

INFER(RMSNormOp) {
  Value input = adaptor.getInput();
  auto statistics = inferStatistics(loc, input, adaptor.getAxes());
  if (failed(statistics) ||
      failed(verifyScales(loc, input, adaptor.getScale())))
    return failure();
  (void)infer(results, shapeOf(input), elementOf(input));
  return infer(results, *statistics, elementOf(input));
}

INFER(RMSNormGradOp) {
  Value input = adaptor.getInput(), scale = adaptor.getScale();
  if (failed(verifySameShape(loc, adaptor.getOperands().take_front(2))) ||
      failed(verifyScales(loc, input, scale)) ||
      failed(
          verifyStatistics(loc, input, adaptor.getAxes(), adaptor.getInvRms())))
    return failure();
  (void)infer(results, shapeOf(input), elementOf(adaptor.getDOutput()));
  return infer(results, shapeOf(scale), elementOf(scale));
}
