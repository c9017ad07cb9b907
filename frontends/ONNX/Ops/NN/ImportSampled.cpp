// Imports RoiAlign and DeformConv, which read between the elements of images,
// at positions given by boxes or learned offsets. A tap is one element to read
// along an axis, with its weight (Sampling.h).
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
/// The attributes of RoiAlign. Each box is cut into `bins` along y and x, and
/// each bin is read at `samples` positions along y and x; 0 if the box decides.
struct RoiPooling {
  bool isMax, halfPixel;
  int64_t bins[2], samples;
  double scale;
};
} // namespace

static FailureOr<RoiPooling> readRoiPooling(NodeImporter &node) {
  RoiPooling pooling;
  // Before opset 16, boxes are not shifted, as with output_half_pixel.
  std::string mode = node.string("mode", "avg"),
              coordinates = "output_half_pixel";
  if (mode != "avg" && mode != "max")
    return node.invalid("expected attribute 'mode' to be avg or max, found '" +
                        mode + "'");
  // From opset 16 on, the default half_pixel shifts boxes by half an element.
  if (node.getOpset() >= 16)
    coordinates = node.string("coordinate_transformation_mode", "half_pixel");
  if (coordinates != "half_pixel" && coordinates != "output_half_pixel")
    return node.invalid(
        "attribute 'coordinate_transformation_mode' has the unknown value '" +
        coordinates + "', expected half_pixel or output_half_pixel");
  pooling.isMax = mode == "max";
  pooling.halfPixel = coordinates == "half_pixel";
  pooling.bins[0] = node.integer("output_height", 1);
  pooling.bins[1] = node.integer("output_width", 1);
  pooling.samples = node.integer("sampling_ratio", 0);
  pooling.scale = node.real("spatial_scale", 1.0);
  // The import lists every position to read, so limit the counts.
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

// Returns the taps along x or y, an axis of `size` elements. Each bin of each
// box, with corners [R, 4], is read at `samples` evenly spaced positions. The
// taps have shape [R, positions, 1] along y, or [R, 1, positions] along x.
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
  // Without half_pixel, boxes are at least one element large.
  if (!pooling.halfPixel)
    extent = node.emit<MaximumOp>({extent, numberConstant(node, 1, type)});
  SmallVector<double> shares;
  for (int64_t i = 0; i < places; ++i)
    shares.push_back((i + 0.5) / places);
  SmallVector<int64_t> along = {1, isX ? 1 : places, isX ? places : 1};
  Value share = floatConstant(node, type, along, shares);
  Value x = node.emit<AddOp>({node.emit<MulOp>({extent, share}), start});
  // Up to one element outside, read the edge; farther away, read 0.
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

// Pools the boxes [R, 4] of images `images`, [R], with equally many samples per
// bin in all boxes. Returns [C, R, height, width].
static Value poolBoxes(NodeImporter &node, Value boxes, Value images,
                       const RoiPooling &pooling, int64_t samplesY,
                       int64_t samplesX) {
  ArrayRef<int64_t> shape = node.operandShape(0);
  int64_t count = NodeImporter::shapeOf(boxes)[0];
  int64_t channels = shape[1], height = pooling.bins[0],
          width = pooling.bins[1];
  // The image number is read as one more axis, so that boxes may lie in
  // different images.
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
  // In mode max, each element is multiplied by its weight, and the maximum
  // replaces the sum. The specification's reference and ONNX Runtime do so,
  // too.
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

// Returns the number of positions per bin of `box` along x or y: the bin's
// extent in elements, rounded up. Computed in float, as other runtimes do.
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
  // A box with its end before its start has no positions. A box with too many
  // positions is refused later.
  constexpr float kTooMany = 1 << 20;
  return samples > 0 ? static_cast<int64_t>(std::min(samples, kTooMany)) : 0;
}

// Pools the boxes if sampling_ratio is 0: the size of a box determines the
// number of positions per bin. Groups the boxes by these numbers, pools each
// group, and restores the order of the boxes.
static Value poolAdaptively(NodeImporter &node, const HostTensor &boxes,
                            const RoiPooling &pooling) {
  // For example, boxes of 3 x 5 positions per bin form one group, boxes of 4 x
  // 4 another.
  std::map<std::pair<int64_t, int64_t>, SmallVector<int64_t>> groups;
  int64_t count = boxes.getShape()[0];
  for (int64_t box = 0; box < count; ++box)
    groups[{countSamples(boxes, box, false, pooling),
            countSamples(boxes, box, true, pooling)}]
        .push_back(box);
  // `order` gives the index of each box in the concatenated groups.
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
    // A box without positions to read gives 0 in every bin.
    Value zero = numberConstant(node, 0, elementTypeOf(node.operand(0)));
    parts.push_back(
        expand(node, zero,
               {node.operandShape(0)[1], static_cast<int64_t>(members.size()),
                pooling.bins[0], pooling.bins[1]}));
  }
  return take(node, concatenate(node, parts, 1), 1, order);
}

static LogicalResult importRoiAlign(NodeImporter &node) {
  ArrayRef<int64_t> shape = node.operandShape(0), boxes = node.operandShape(1);
  FailureOr<RoiPooling> pooling = readRoiPooling(node);
  if (failed(pooling) || node.hasFailed())
    return failure();
  if (shape.size() != 4 || boxes.size() != 2 || boxes[1] != 4 ||
      node.operandShape(2) != boxes.take_front())
    return node.invalid("expected an input of rank 4, boxes of shape (R, 4) "
                        "and R image numbers" +
                        node.found({0, 1, 2}));
  if (llvm::is_contained(shape, 0))
    return node.invalid("expected an input with elements to read" +
                        node.found({0}));
  std::optional<HostTensor> images = node.constant(2);
  if (images && !images->isFloat() && !node.isState(2)) {
    for (int64_t image : images->getIntegers())
      if (image < 0 || image >= shape[0])
        return node.invalid("expected image numbers from 0 to " +
                            Twine(shape[0] - 1) + ", found " + Twine(image));
  } else if (failed(markIndices(node, 2, shape[0]))) {
    return failure();
  }
  // With a sampling_ratio of 0, the number of samples depends on the boxes,
  // which must be known.
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
/// A deformable convolution of X, (N, C, extents...), with the result (N, M,
/// results...). `taps` is the number of kernel elements.
struct DeformedWindow {
  Window window;
  SmallVector<int64_t> results;
  int64_t group, offsetGroup, taps;
};
} // namespace

static FailureOr<DeformedWindow> readDeformedWindow(NodeImporter &node) {
  ArrayRef<int64_t> shape = node.operandShape(0),
                    filters = node.operandShape(1);
  ArrayRef<int64_t> offsets = node.operandShape(2);
  DeformedWindow deformed;
  // Channels form `group` groups with separate weights, and `offset_group`
  // groups with separate offsets.
  deformed.group = node.integer("group", 1);
  deformed.offsetGroup = node.integer("offset_group", 1);
  if (node.hasAttribute("auto_pad"))
    return node.invalid("DeformConv has no attribute 'auto_pad'; use 'pads'");
  if (shape.size() < 3 || filters.size() != shape.size() ||
      offsets.size() != shape.size())
    return node.invalid(
        "expected an input, a weight and offsets of equal rank, 3 or more" +
        node.found({0, 1, 2}));
  if (shape.size() > 5)
    return node.unsupported("expected an input of rank 3 to 5, found rank " +
                            Twine(shape.size()));
  if (deformed.group < 1 || deformed.offsetGroup < 1 ||
      shape[1] % deformed.group != 0 || shape[1] % deformed.offsetGroup != 0 ||
      filters[1] != shape[1] / deformed.group ||
      filters[0] % deformed.group != 0)
    return node.invalid(
        "expected attributes 'group' and 'offset_group' to divide the "
        "channels, and a weight of shape (M, C/group, k...), found group " +
        Twine(deformed.group) + " and offset_group " +
        Twine(deformed.offsetGroup) + node.found({0, 1}));
  if (llvm::is_contained(shape, 0) || llvm::is_contained(filters, 0))
    return node.invalid("expected an input and a weight with elements" +
                        node.found({0, 1}));
  auto window = readWindow(node, shape, filters.drop_front(2));
  if (failed(window))
    return failure();
  deformed.window = *window;
  deformed.taps = ShapedType::getNumElements(filters.drop_front(2));
  // The result has the extents of a convolution without offsets.
  int64_t rank = shape.size() - 2;
  for (int64_t d = 0; d < rank; ++d) {
    int64_t covered = (filters[d + 2] - 1) * window->dilations[d] + 1;
    int64_t free =
        shape[d + 2] + window->pads[d] + window->pads[rank + d] - covered;
    deformed.results.push_back(free < 0 ? 0 : free / window->strides[d] + 1);
  }
  // Offsets and mask have an entry for each kernel element at each position of
  // the result.
  auto matches = [&](unsigned input, int64_t channels) {
    SmallVector<int64_t> expected = {shape[0], channels};
    expected.append(deformed.results);
    return node.operandShape(input) == ArrayRef<int64_t>(expected);
  };
  int64_t masks = deformed.offsetGroup * deformed.taps;
  if (llvm::is_contained(deformed.results, 0) || !matches(2, masks * rank))
    return node.invalid(
        "expected offsets of shape (N, " + Twine(masks * rank) +
        ", results...), where the results of the convolution are " +
        printShape(deformed.results) + node.found({2}));
  if (node.hasInput(4) && !matches(4, masks))
    return node.invalid(
        "expected a mask of shape (N, " + Twine(masks) +
        ", results...), where the results of the convolution are " +
        printShape(deformed.results) + node.found({4}));
  if (node.hasInput(3) && node.operandShape(3) != ArrayRef<int64_t>(filters[0]))
    return node.invalid("expected a bias of " + Twine(filters[0]) +
                        " elements" + node.found({3}));
  return deformed;
}

// Returns the taps along spatial axis `axis` for each kernel element at each
// result position, as (N, offset groups, taps * results). The position to read
// is that of the kernel element in the input, plus the learned offset.
static SampledAxis deformAxis(NodeImporter &node,
                              const DeformedWindow &deformed, int64_t axis) {
  const Window &window = deformed.window;
  int64_t rank = deformed.results.size(), batch = node.operandShape(0)[0];
  // Offsets are (N, offset groups, taps, axes, results...).
  SmallVector<int64_t> shape = {batch, deformed.offsetGroup, deformed.taps,
                                rank};
  shape.append(deformed.results);
  Value offsets = toPlace(node, node.reshape(node.operand(2), shape));
  SmallVector<int64_t> from(shape.size(), 0), box(shape);
  from[3] = axis;
  box[3] = 1;
  Value x = slice(node, offsets, from, box);
  // The position of each kernel element within the window; the last axis varies
  // fastest.
  SmallVector<double> taps, starts;
  int64_t inner = ShapedType::getNumElements(
      ArrayRef<int64_t>(window.kernel).drop_front(axis + 1));
  for (int64_t tap = 0; tap < deformed.taps; ++tap)
    taps.push_back(tap / inner % window.kernel[axis] * window.dilations[axis]);
  // The position of each window in the input, without offsets.
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
  // Positions two elements or more outside read 0, so clamp there.
  int64_t size = node.operandShape(0)[axis + 2];
  return {size, linearTaps(node, clampPlace(node, x, -2, size + 1)),
          Outside::Zero};
}

// Imports DeformConv: gathers the elements of all windows as columns, and
// multiplies them by the weight matrix.
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
  // Split the channels into groups that share offsets.
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
