// Infers the result shapes of convolution and pooling, which slide a window
// over spatial axes.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Shapes/FilterLayout.h"
#include "compiler/Dialect/MPC/Shapes/ShapeInference.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Windows
//===----------------------------------------------------------------------===//

namespace {
/// The shape of an activation tensor, split into batch, channels and spatial
/// extents.
struct Activation {
  int64_t batch, channels;
  Shape spatial;

  static FailureOr<Activation> get(std::optional<Location> loc, Value value,
                                   Layout layout) {
    if (failed(verifyChannels(loc, value, layout, {})))
      return failure();
    ArrayRef<int64_t> shape = shapeOf(value);
    if (shape.size() < 3 || shape.size() > 5) {
      (void)emitOptionalError(loc, "expected one to three spatial axes, found ",
                              shape.size() - 2);
      return failure();
    }
    if (layout == Layout::NHWC)
      return Activation{shape.front(), shape.back(),
                        Shape(shape.drop_front().drop_back())};
    return Activation{shape[0], shape[1], Shape(shape.drop_front(2))};
  }

  Shape shape(Layout layout) const {
    Shape result = {batch};
    if (layout == Layout::NCHW)
      result.push_back(channels);
    result.append(spatial);
    if (layout == Layout::NHWC)
      result.push_back(channels);
    return result;
  }
};

/// The attributes of a sliding window, which convolution and pooling share.
struct Window {
  ArrayRef<int64_t> kernel, strides, pads, dilations;
  bool ceilMode = false;
};
} // namespace

// Returns the number of window positions along each spatial axis: the spatial
// shape of the result.
static FailureOr<Shape> slideWindow(std::optional<Location> loc,
                                    ArrayRef<int64_t> spatial, Window w) {
  size_t rank = spatial.size();
  if (w.kernel.size() != rank || w.strides.size() != rank ||
      w.dilations.size() != rank || w.pads.size() != 2 * rank) {
    (void)emitOptionalError(loc, "expected ", rank,
                            " kernel sizes, strides "
                            "and dilations and ",
                            2 * rank, " pads, found ", w.kernel.size(), ", ",
                            w.strides.size(), ", ", w.dilations.size(), " and ",
                            w.pads.size());
    return failure();
  }
  Shape out;
  for (size_t d = 0; d < rank; ++d) {
    if (w.kernel[d] < 1 || w.strides[d] < 1 || w.dilations[d] < 1 ||
        w.pads[d] < 0 || w.pads[rank + d] < 0) {
      (void)emitOptionalError(loc,
                              "expected kernel sizes, strides and dilations of "
                              "at least 1 and pads of at least 0, found ",
                              w.kernel[d], ", ", w.strides[d], ", ",
                              w.dilations[d], ", ", w.pads[d], " and ",
                              w.pads[rank + d], " on spatial axis ", d);
      return failure();
    }
    int64_t extent = (w.kernel[d] - 1) * w.dilations[d] + 1;
    int64_t room = spatial[d] + w.pads[d] + w.pads[rank + d] - extent;
    if (room < 0) {
      (void)emitOptionalError(loc, "a window of ", extent,
                              " does not fit a padded axis of ", room + extent);
      return failure();
    }
    int64_t count = room / w.strides[d] + 1;
    // ceil_mode adds one more window for the elements that the last whole
    // window leaves, unless the window would start in the end padding.
    if (w.ceilMode && room % w.strides[d] != 0 &&
        count * w.strides[d] < spatial[d] + w.pads[d])
      ++count;
    out.push_back(count);
  }
  return out;
}

// Returns the shape of a filter in the order output channels, input channels,
// spatial axes. `stored` is in the order of `layout`.
static Shape filterShape(ArrayRef<int64_t> stored, FilterLayout layout) {
  if (layout == FilterLayout::OIHW || stored.size() < 2)
    return Shape(stored);
  Shape shape = {stored.front(), stored.back()};
  llvm::append_range(shape, stored.drop_front().drop_back());
  return shape;
}

// Infers the output of a convolution of `input`. `weight` is the filter's
// shape: output channels, input channels per group, spatial axes.
template <typename AdaptorT>
static FailureOr<Activation>
inferConv(std::optional<Location> loc, const Activation &input,
          ArrayRef<int64_t> weight, AdaptorT attributes) {
  int64_t group = attributes.getGroup();
  if (weight.size() != input.spatial.size() + 2) {
    (void)emitOptionalError(loc, "expected a weight of rank ",
                            input.spatial.size() + 2, ", found [", weight, "]");
    return failure();
  }
  if (group < 1 || input.channels % group != 0 || weight[0] % group != 0 ||
      weight[1] != input.channels / group) {
    (void)emitOptionalError(loc, "a weight of shape [", weight, "] in ", group,
                            " groups does not fit ", input.channels,
                            " input channels");
    return failure();
  }
  FailureOr<Shape> spatial =
      slideWindow(loc, input.spatial,
                  {weight.drop_front(2), attributes.getStrides(),
                   attributes.getPads(), attributes.getDilations()});
  if (failed(spatial))
    return failure();
  return Activation{input.batch, weight[0], *spatial};
}

INFER(ConvOp) {
  Layout layout = adaptor.getLayout();
  auto input = Activation::get(loc, adaptor.getInput(), layout);
  if (failed(input))
    return failure();
  Shape weight =
      filterShape(shapeOf(adaptor.getWeight()), adaptor.getFilterLayout());
  auto output = inferConv(loc, *input, weight, adaptor);
  if (failed(output))
    return failure();
  if (Value bias = adaptor.getBias())
    if (shapeOf(bias) != ArrayRef<int64_t>(output->channels))
      return emitOptionalError(loc, "expected a bias of ", output->channels,
                               " elements, found [", shapeOf(bias), "]");
  return infer(results, output->shape(layout), elementOf(adaptor.getInput()));
}

// Checks a gradient of a convolution: infers the forward op's output, whose
// shape `dOutput` must have.
template <typename OpTy>
static LogicalResult verifyConvGrad(OpTy op, Value input, Value weight,
                                    Value dOutput) {
  auto in = Activation::get(op.getLoc(), input, op.getLayout());
  if (failed(in))
    return failure();
  auto out = inferConv(op.getLoc(), *in,
                       filterShape(shapeOf(weight), op.getFilterLayout()), op);
  if (failed(out))
    return failure();
  Shape expected = out->shape(op.getLayout());
  if (shapeOf(dOutput) != ArrayRef<int64_t>(expected))
    return op.emitOpError("expected d_output of shape [")
           << ArrayRef<int64_t>(expected) << "], found [" << shapeOf(dOutput)
           << "]";
  return success();
}

LogicalResult ConvInputGradOp::verify() {
  return verifyConvGrad(*this, getDInput(), getWeight(), getDOutput());
}

LogicalResult ConvWeightGradOp::verify() {
  return verifyConvGrad(*this, getInput(), getDWeight(), getDOutput());
}

//===----------------------------------------------------------------------===//
// Pooling
//===----------------------------------------------------------------------===//

INFER(MaxPoolOp) {
  Layout layout = adaptor.getLayout();
  auto input = Activation::get(loc, adaptor.getInput(), layout);
  if (failed(input))
    return failure();
  auto spatial =
      slideWindow(loc, input->spatial,
                  {adaptor.getKernel(), adaptor.getStrides(), adaptor.getPads(),
                   adaptor.getDilations(), adaptor.getCeilMode()});
  if (failed(spatial))
    return failure();
  Shape shape =
      Activation{input->batch, input->channels, *spatial}.shape(layout);
  (void)infer(results, shape, elementOf(adaptor.getInput()));
  return infer(results, shape, IntegerType::get(context, 32));
}

// Returns `dilations`, or ones if it is empty.
static Shape dilationsOrOnes(ArrayRef<int64_t> dilations, size_t rank) {
  return dilations.empty() ? Shape(rank, 1) : Shape(dilations);
}

INFER(AveragePoolOp) {
  Layout layout = adaptor.getLayout();
  auto input = Activation::get(loc, adaptor.getInput(), layout);
  if (failed(input))
    return failure();
  Shape dilations =
      dilationsOrOnes(adaptor.getDilations(), input->spatial.size());
  auto spatial =
      slideWindow(loc, input->spatial,
                  {adaptor.getKernel(), adaptor.getStrides(), adaptor.getPads(),
                   dilations, adaptor.getCeilMode()});
  if (failed(spatial))
    return failure();
  Activation output{input->batch, input->channels, *spatial};
  return infer(results, output.shape(layout), elementOf(adaptor.getInput()));
}

// Checks a gradient of a pooling op: infers the forward op's output, whose
// shape the gradient operand must have.
template <typename OpTy>
static LogicalResult verifyPoolGrad(OpTy op, ArrayRef<int64_t> dilations) {
  auto in = Activation::get(op.getLoc(), op.getDInput(), op.getLayout());
  if (failed(in))
    return failure();
  auto spatial = slideWindow(op.getLoc(), in->spatial,
                             {op.getKernel(), op.getStrides(), op.getPads(),
                              dilations, op.getCeilMode()});
  if (failed(spatial))
    return failure();
  Shape expected =
      Activation{in->batch, in->channels, *spatial}.shape(op.getLayout());
  if (shapeOf(op.getDOutput()) != ArrayRef<int64_t>(expected))
    return op.emitOpError("expected d_output of shape [")
           << ArrayRef<int64_t>(expected) << "], found ["
           << shapeOf(op.getDOutput()) << "]";
  return success();
}

LogicalResult MaxPoolGradOp::verify() {
  if (shapeOf(getIndices()) != shapeOf(getDOutput()))
    return emitOpError("expected indices of the shape of d_output, found ")
           << getIndices().getType() << " and " << getDOutput().getType();
  return verifyPoolGrad(*this, getDilations());
}

LogicalResult AveragePoolGradOp::verify() {
  return verifyPoolGrad(*this,
                        dilationsOrOnes(getDilations(), getKernel().size()));
}

INFER(GlobalAveragePoolOp) {
  auto input = Activation::get(loc, adaptor.getInput(), adaptor.getLayout());
  if (failed(input))
    return failure();
  llvm::fill(input->spatial, 1);
  return infer(results, input->shape(adaptor.getLayout()),
               elementOf(adaptor.getInput()));
}

LogicalResult GlobalAveragePoolGradOp::verify() {
  auto in = Activation::get(getLoc(), getDInput(), getLayout());
  if (failed(in))
    return failure();
  llvm::fill(in->spatial, 1);
  Shape expected = in->shape(getLayout());
  if (shapeOf(getDOutput()) != ArrayRef<int64_t>(expected))
    return emitOpError("expected d_output of shape [")
           << ArrayRef<int64_t>(expected) << "], found ["
           << shapeOf(getDOutput()) << "]";
  return success();
}
