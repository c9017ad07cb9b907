// Ops that read between elements of images, at places that boxes or learned
// offsets name: RoiAlign and DeformConv.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Ops/NN/Sampling.h"
#include "frontends/ONNX/Ops/NN/Window.h"

#include <cmath>
#include <map>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

//===----------------------------------------------------------------------===//
// RoiAlign
//===----------------------------------------------------------------------===//

namespace {
/// What the node says: each box is cut into `bins` along y and x.
struct RoiPooling {
  bool isMax, halfPixel;
  int64_t bins[2], samples;
  double scale;
};
} // namespace

static FailureOr<RoiPooling> readRoiPooling(NodeImporter &node) {
  RoiPooling pooling;
  // What opset 16 added has defaults that keep the old results.
  std::string mode = node.string("mode", "avg"),
              coordinates = "output_half_pixel";
  if (mode != "avg" && mode != "max")
    return node.invalid("expected attribute 'mode' to be avg or max, found '" +
                        mode + "'");
  // Where a box begins: `half_pixel` subtracts half an element.
  if (node.getOpset() >= 16)
    coordinates = node.string("coordinate_transformation_mode", "half_pixel");
  if (coordinates != "half_pixel" && coordinates != "output_half_pixel")
    return node.invalid("attribute 'coordinate_transformation_mode' is '" +
                        coordinates + "'");
  // Bins of the result, and samples in each of them.
  pooling.isMax = mode == "max";
  pooling.halfPixel = coordinates == "half_pixel";
  pooling.bins[0] = node.integer("output_height", 1);
  pooling.bins[1] = node.integer("output_width", 1);
  pooling.samples = node.integer("sampling_ratio", 0);
  pooling.scale = node.real("spatial_scale", 1.0);
  // Each sample is an element of a list, so there cannot be any number.
  constexpr int64_t kMost = int64_t(1) << 16;
  for (int64_t count : {pooling.bins[0], pooling.bins[1]})
    if (count < 1 || count > kMost)
      return node.invalid("expected 'output_height' and 'output_width' from 1 "
                          "to " +
                          Twine(kMost) + ", found " + Twine(count));
  if (pooling.samples < 0 || pooling.samples > kMost)
    return node.invalid("expected attribute 'sampling_ratio' from 0 to " +
                        Twine(kMost) + ", found " + Twine(pooling.samples));
  return pooling;
}

// What is read along an axis of `size`: of each bin of boxes, whose corners are
// [R, 4], as many places as `samples` says, evenly spread. All are of the shape
// [R, places, 1], or [R, 1, places] along x.
static SampledAxis sampleBins(NodeImporter &node, Value boxes,
                              const RoiPooling &pooling, bool isX,
                              int64_t samples, int64_t size) {
  int64_t count = NodeImporter::shapeOf(boxes)[0];
  int64_t places = pooling.bins[isX] * samples;
  double offset = pooling.halfPixel ? -0.5 : 0.0;
  auto corner = [&](int64_t column) {
    Value at = slice(node, boxes, {0, column}, {count, 1});
    return scalePlace(node, node.reshape(at, {count, 1, 1}), pooling.scale,
                      offset);
  };
  Value start = corner(isX ? 0 : 1);
  Value extent = node.emit<SubOp>({corner(isX ? 2 : 3), start});
  Type type = node.attributes().getF64Type();
  // Boxes have at least one element, but for those of half pixels.
  if (!pooling.halfPixel)
    extent = node.emit<MaximumOp>({extent, numberConstant(node, 1, type)});
  SmallVector<double> shares;
  for (int64_t i = 0; i < places; ++i)
    shares.push_back((i + 0.5) / places);
  SmallVector<int64_t> along = {1, isX ? 1 : places, isX ? places : 1};
  Value share = floatConstant(node, type, along, shares);
  Value x = node.emit<AddOp>({node.emit<MulOp>({extent, share}), start});
  // One element outside there is the edge, farther away nothing.
  Value inside = node.emit<AndOp>(
      {node.emit<LessOrEqualOp>({numberConstant(node, -1, type), x}),
       node.emit<LessOrEqualOp>({x, numberConstant(node, size, type)})});
  SampledAxis axis = {size, linearTaps(node, clampPlace(node, x, 0, size - 1)),
                      Outside::Edge};
  for (Tap &tap : axis.taps)
    tap.weight = node.emit<SelectOp>(
        {inside, tap.weight, numberConstant(node, 0, type)});
  return axis;
}

// Boxes [R, 4] of images `images` [R], all with the same number of places per
// bin along y and x: [C, R, height, width].
static Value poolBoxes(NodeImporter &node, Value boxes, Value images,
                       const RoiPooling &pooling, int64_t samplesY,
                       int64_t samplesX) {
  ArrayRef<int64_t> shape = node.operandShape(0);
  int64_t count = NodeImporter::shapeOf(boxes)[0];
  int64_t channels = shape[1], height = pooling.bins[0],
          width = pooling.bins[1];
  // The image is one more place.
  Value data = transpose(node, node.operand(0), {1, 0, 2, 3});
  SampledAxis image = {shape[0],
                       {{node.reshape(images, {count, 1, 1}), Value()}},
                       Outside::Zero};
  SampledAxis axes[] = {
      image, sampleBins(node, boxes, pooling, false, samplesY, shape[2]),
      sampleBins(node, boxes, pooling, true, samplesX, shape[3])};
  Value value;
  if (!pooling.isMax)
    value = sumTaps(node, data, /*batchDims=*/0, axes);
  // The specification's reference and ONNX Runtime take the largest of the
  // weighted elements, before they are added.
  else
    for (Value part : readTaps(node, data, /*batchDims=*/0, axes))
      value = value ? node.emit<MaximumOp>({value, part}) : part;
  Value apart =
      node.reshape(value, {channels, count, height, samplesY, width, samplesX});
  Value pooled = pooling.isMax
                     ? reduce<ReduceMaxOp>(node, apart, {3, 5}, false)
                     : reduce<ReduceMeanOp>(node, apart, {3, 5}, false);
  return castTo(node, pooled, elementTypeOf(data));
}

// As many places per bin as it has elements, rounded up, in float as other
// runtimes do.
static int64_t countSamples(const HostTensor &boxes, int64_t box, bool isX,
                            const RoiPooling &pooling) {
  auto corner = [&](int64_t column) {
    auto scale = static_cast<float>(pooling.scale);
    return static_cast<float>(boxes.getDouble(box * 4 + column)) * scale -
           (pooling.halfPixel ? 0.5f : 0.0f);
  };
  float extent = corner(isX ? 2 : 3) - corner(isX ? 0 : 1);
  if (!pooling.halfPixel)
    extent = std::max(extent, 1.0f);
  float samples = std::ceil(extent / static_cast<float>(pooling.bins[isX]));
  // What is no box has no places; one too large is refused.
  constexpr float kTooMany = 1 << 20;
  return samples > 0 ? static_cast<int64_t>(std::min(samples, kTooMany)) : 0;
}

// sampling_ratio 0: boxes with the same numbers of places together, each group
// by itself, and then in the order of the model.
static Value poolAdaptively(NodeImporter &node, const HostTensor &boxes,
                            const RoiPooling &pooling) {
  // Boxes of 3 x 5 samples are one group, boxes of 4 x 4 another.
  std::map<std::pair<int64_t, int64_t>, SmallVector<int64_t>> groups;
  int64_t count = boxes.getShape()[0];
  for (int64_t box = 0; box < count; ++box)
    groups[{countSamples(boxes, box, false, pooling),
            countSamples(boxes, box, true, pooling)}]
        .push_back(box);
  // Box after box in the order of the groups.
  Value rois = toPlace(node, node.operand(1));
  SmallVector<Value> parts;
  SmallVector<int64_t> order(count);
  int64_t done = 0;
  for (const auto &[samples, members] : groups) {
    auto [samplesY, samplesX] = samples;
    for (int64_t box : members)
      order[box] = done++;
    if (!canList(node, samplesY * pooling.bins[0]) ||
        !canList(node, samplesX * pooling.bins[1]))
      return {};
    if (samplesY * samplesX > 0) {
      parts.push_back(poolBoxes(node, take(node, rois, 0, members),
                                take(node, node.operand(2), 0, members),
                                pooling, samplesY, samplesX));
      continue;
    }
    // A box without places gives 0.
    Value zero = numberConstant(node, 0, elementTypeOf(node.operand(0)));
    parts.push_back(
        expand(node, zero,
               {node.operandShape(0)[1], static_cast<int64_t>(members.size()),
                pooling.bins[0], pooling.bins[1]}));
  }
  // Back in the order of the model.
  return take(node, concatenate(node, parts, 1), 1, order);
}

static LogicalResult importRoiAlign(NodeImporter &node) {
  ArrayRef<int64_t> shape = node.operandShape(0), boxes = node.operandShape(1);
  FailureOr<RoiPooling> pooling = readRoiPooling(node);
  if (failed(pooling) || node.hasFailed())
    return failure();
  // Boxes, and the image of each.
  if (shape.size() != 4 || boxes.size() != 2 || boxes[1] != 4 ||
      node.operandShape(2) != boxes.take_front())
    return node.invalid("expected an input of rank 4, boxes of shape (R, 4) "
                        "and R numbers of images");
  if (llvm::is_contained(shape, 0))
    return node.invalid("the input has no elements to read");
  std::optional<HostTensor> images = node.constant(2);
  if (images && !images->isFloat() && !node.isState(2)) {
    for (int64_t image : images->getIntegers())
      if (image < 0 || image >= shape[0])
        return node.invalid("image " + Twine(image) + " is not one of " +
                            Twine(shape[0]));
  } else if (failed(markIndices(node, 2, shape[0]))) {
    return failure();
  }
  // A number of samples for each bin, or one that depends on the box, which
  // then must be known.
  Value pooled;
  if (pooling->samples > 0) {
    pooled = poolBoxes(node, toPlace(node, node.operand(1)), node.operand(2),
                       *pooling, pooling->samples, pooling->samples);
  } else {
    std::optional<HostTensor> known = node.constant(1);
    if (!known || !known->isFloat()) {
      node.demand(1);
      return node.unsupported(
          "with sampling_ratio 0 boxes decide how much is read: expected them "
          "(input '" +
          node.getInputName(1) +
          "') to be known at import, or another sampling_ratio");
    }
    pooled = boxes[0] > 0 ? poolAdaptively(node, *known, *pooling)
                          : poolBoxes(node, toPlace(node, node.operand(1)),
                                      node.operand(2), *pooling, 1, 1);
  }
  return node.define(0,
                     pooled ? transpose(node, pooled, {1, 0, 2, 3}) : Value());
}

//===----------------------------------------------------------------------===//
// DeformConv
//===----------------------------------------------------------------------===//

namespace {
/// A deformable convolution: X is (N, C, extents...), the result (N, M,
/// results...), and `taps` is the number of elements of a kernel.
struct DeformedWindow {
  Window window;
  SmallVector<int64_t> results;
  int64_t group, offsetGroup, taps;
};
} // namespace

static FailureOr<DeformedWindow> readDeformedWindow(NodeImporter &node) {
  // The shapes of input, weight and offsets first, then the window that they
  // share.
  ArrayRef<int64_t> shape = node.operandShape(0),
                    filters = node.operandShape(1);
  ArrayRef<int64_t> offsets = node.operandShape(2);
  DeformedWindow deformed;
  // Channels in `group` groups have weights of their own, in `offset_group`
  // groups offsets.
  deformed.group = node.integer("group", 1);
  deformed.offsetGroup = node.integer("offset_group", 1);
  if (node.hasAttribute("auto_pad"))
    return node.invalid("attribute 'auto_pad' is not one of DeformConv");
  if (shape.size() < 3 || filters.size() != shape.size() ||
      offsets.size() != shape.size())
    return node.invalid("expected an input, a weight and offsets of one rank, "
                        "3 or more");
  if (shape.size() > 5)
    return node.unsupported("expected an input of rank 3 to 5, found rank " +
                            Twine(shape.size()));
  if (deformed.group < 1 || deformed.offsetGroup < 1 ||
      shape[1] % deformed.group != 0 || shape[1] % deformed.offsetGroup != 0 ||
      filters[1] != shape[1] / deformed.group ||
      filters[0] % deformed.group != 0)
    return node.invalid("groups do not divide the channels, or the weight is "
                        "not of shape (M, C/group, k...)");
  if (llvm::is_contained(shape, 0) || llvm::is_contained(filters, 0))
    return node.invalid("the input or the weight has no elements");
  auto window = readWindow(node, shape, filters.drop_front(2));
  if (failed(window))
    return failure();
  deformed.window = *window;
  deformed.taps = ShapedType::getNumElements(filters.drop_front(2));
  // As many places as a convolution without offsets would have.
  int64_t rank = shape.size() - 2;
  for (int64_t d = 0; d < rank; ++d) {
    int64_t covered = (filters[d + 2] - 1) * window->dilations[d] + 1;
    int64_t free =
        shape[d + 2] + window->pads[d] + window->pads[rank + d] - covered;
    deformed.results.push_back(free < 0 ? 0 : free / window->strides[d] + 1);
  }
  // Offsets are there for each place of each tap, and so is the mask.
  auto matches = [&](unsigned input, int64_t channels) {
    SmallVector<int64_t> expected = {shape[0], channels};
    expected.append(deformed.results);
    return node.operandShape(input) == ArrayRef<int64_t>(expected);
  };
  int64_t masks = deformed.offsetGroup * deformed.taps;
  if (llvm::is_contained(deformed.results, 0) || !matches(2, masks * rank))
    return node.invalid("expected offsets of shape (N, " + Twine(masks * rank) +
                        ", results...), with results as of a convolution");
  if (node.hasInput(4) && !matches(4, masks))
    return node.invalid("expected a mask of shape (N, " + Twine(masks) +
                        ", results...)");
  if (node.hasInput(3) && node.operandShape(3) != ArrayRef<int64_t>(filters[0]))
    return node.invalid("expected a bias of " + Twine(filters[0]) +
                        " elements");
  return deformed;
}

// Where along spatial axis `axis` each tap reads for each element of the
// result, (N, offset groups, taps * results): at its place in the window, plus
// the offset.
static SampledAxis deformAxis(NodeImporter &node,
                              const DeformedWindow &deformed, int64_t axis) {
  const Window &window = deformed.window;
  int64_t rank = deformed.results.size(), batch = node.operandShape(0)[0];
  // (N, offset groups, taps, 1, results...)
  SmallVector<int64_t> shape = {batch, deformed.offsetGroup, deformed.taps,
                                rank};
  shape.append(deformed.results);
  Value offsets = toPlace(node, node.reshape(node.operand(2), shape));
  SmallVector<int64_t> from(shape.size(), 0), box(shape);
  from[3] = axis;
  box[3] = 1;
  Value x = slice(node, offsets, from, box);
  // The place of the tap in the window, the last axis running fastest.
  SmallVector<double> taps, starts;
  int64_t inner = ShapedType::getNumElements(
      ArrayRef<int64_t>(window.kernel).drop_front(axis + 1));
  for (int64_t tap = 0; tap < deformed.taps; ++tap)
    taps.push_back(tap / inner % window.kernel[axis] * window.dilations[axis]);
  // The place of the window.
  for (int64_t i = 0; i < deformed.results[axis]; ++i)
    starts.push_back(i * window.strides[axis] - window.pads[axis]);
  SmallVector<int64_t> alongTaps(shape.size(), 1), alongResult(alongTaps);
  alongTaps[2] = deformed.taps;
  alongResult[4 + axis] = deformed.results[axis];
  Type type = node.attributes().getF64Type();
  Value place =
      node.emit<AddOp>({floatConstant(node, type, alongTaps, taps),
                        floatConstant(node, type, alongResult, starts)});
  x = node.emit<AddOp>({x, place});
  x = node.reshape(
      x, {batch, deformed.offsetGroup,
          deformed.taps * ShapedType::getNumElements(deformed.results)});
  // One element outside there is nothing more.
  int64_t size = node.operandShape(0)[axis + 2];
  return {size, linearTaps(node, clampPlace(node, x, -2, size + 1)),
          Outside::Zero};
}

// The elements that windows read, as columns, times the weights as a matrix.
static LogicalResult importDeformConv(NodeImporter &node) {
  FailureOr<DeformedWindow> deformed = readDeformedWindow(node);
  if (failed(deformed))
    return failure();
  ArrayRef<int64_t> shape = node.operandShape(0);
  int64_t batch = shape[0], channels = shape[1];
  int64_t filters = node.operandShape(1)[0], group = deformed->group;
  int64_t places = ShapedType::getNumElements(deformed->results);
  for (int64_t extent : deformed->results)
    if (!canList(node, extent))
      return failure();
  // Channels by the offsets that they share.
  SmallVector<int64_t> apart = {batch, deformed->offsetGroup,
                                channels / deformed->offsetGroup};
  llvm::append_range(apart, shape.drop_front(2));
  Value data = node.reshape(node.operand(0), apart);
  SmallVector<SampledAxis> axes;
  for (size_t axis = 0; axis < deformed->results.size(); ++axis)
    axes.push_back(deformAxis(node, *deformed, axis));
  Value columns = sumTaps(node, data, /*batchDims=*/2, axes);
  if (node.hasInput(4)) {
    Value mask = node.reshape(node.operand(4), {batch, deformed->offsetGroup, 1,
                                                deformed->taps * places});
    columns = node.emit<MulOp>({columns, mask});
  }
  // One product for each group of channels.
  int64_t depth = channels / group * deformed->taps;
  Value product = node.emit<MatMulOp>(
      {node.reshape(node.operand(1), {1, group, filters / group, depth}),
       node.reshape(columns, {batch, group, depth, places})});
  SmallVector<int64_t> result = {batch, filters};
  result.append(deformed->results);
  Value output = node.reshape(product, result);
  if (node.hasInput(3)) {
    SmallVector<int64_t> perFilter(result.size() - 1, 1);
    perFilter[0] = filters;
    output =
        node.emit<AddOp>({output, node.reshape(node.operand(3), perFilter)});
  }
  return node.define(0, output);
}

ArrayRef<OpEntry> mpc::onnx_frontend::getSampledOps() {
  static const OpEntry entries[] = {
      {"", "DeformConv", 19, kNoEnd, 3, 5, 1, importDeformConv},
      {"", "RoiAlign", 10, kNoEnd, 3, 3, 1, importRoiAlign},
  };
  return entries;
}
