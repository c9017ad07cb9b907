// Imports Resize and Upsample, axis by axis: a selection of elements (nearest),
// or a product with a weight matrix known at import (linear, cubic). Most
// weights are 0, but machines compute products fast, and the gradient of a
// product is a product.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Assemble.h"

#include "llvm/ADT/StringSwitch.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

//===----------------------------------------------------------------------===//
// One axis
//===----------------------------------------------------------------------===//

namespace {
enum class Filter { Nearest, Linear, Cubic };

/// The attributes of a Resize that apply to all axes.
struct Sampling {
  Filter filter = Filter::Nearest;
  std::string coordinates = "half_pixel", nearest = "round_prefer_floor";
  double cubicA = -0.75, extrapolation = 0.0;
  bool antialias = false, excludeOutside = false;

  bool crops() const { return coordinates == "tf_crop_and_resize"; }
};

/// An axis that is resized from `in` to `out` elements. `scale` is out / in,
/// before `out` is rounded. A crop covers the shares [start, end] of the input.
struct ResizedAxis {
  int64_t axis, in, out;
  double scale, start = 0.0, end = 1.0;

  template <typename Real>
  Real locate(const Sampling &sampling, int64_t position) const;
  bool isInside(double x) const { return x >= 0 && x <= in - 1; }
  int64_t findNearest(const Sampling &sampling, int64_t position) const;
  SmallVector<double> weigh(const Sampling &sampling, int64_t position) const;
};
} // namespace

// Returns the input coordinate of the center of result element `position`.
template <typename Real>
Real ResizedAxis::locate(const Sampling &sampling, int64_t position) const {
  // The formulas are those of the ONNX specification.
  StringRef mode = sampling.coordinates;
  Real scale = this->scale, length = in, resized = scale * length, x = position;
  constexpr Real kHalf = 0.5;
  if (mode == "asymmetric")
    return x / scale;
  if (mode == "align_corners")
    return resized == 1 ? 0 : x * (length - 1) / (resized - 1);
  if (sampling.crops()) {
    Real first = start, last = end;
    return resized == 1 ? kHalf * (first + last) * (length - 1)
                        : first * (length - 1) +
                              x * (last - first) * (length - 1) / (resized - 1);
  }
  if (mode == "tf_half_pixel_for_nn")
    return (x + kHalf) / scale;
  if (mode == "pytorch_half_pixel" && resized <= 1)
    return 0;
  // The modes half_pixel, pytorch_half_pixel and half_pixel_symmetric.
  Real center = (x + kHalf) / scale - kHalf;
  if (mode == "half_pixel_symmetric")
    center += length / 2 * (1 - out / resized);
  return center;
}

// Returns the input element for result element `position`. Computes in float,
// as other runtimes do: with a scale of 0.6, result element 3 is input element
// 5. In double, the input element would be 4, because float 0.6 is a little
// more than 0.6.
int64_t ResizedAxis::findNearest(const Sampling &sampling,
                                 int64_t position) const {
  float x = locate<float>(sampling, position);
  float nearest = llvm::StringSwitch<float>(sampling.nearest)
                      .Case("floor", std::floor(x))
                      .Case("ceil", std::ceil(x))
                      .Case("round_prefer_ceil", std::floor(x + 0.5f))
                      .Default(std::ceil(x - 0.5f));
  return std::clamp<double>(nearest, 0, in - 1);
}

// Returns the weight of an input element at `distance`: a triangle (linear), or
// Keys' cubic.
static double filterAt(const Sampling &sampling, double distance) {
  double x = std::abs(distance), a = sampling.cubicA;
  if (sampling.filter == Filter::Linear)
    return std::max(1.0 - x, 0.0);
  if (x <= 1)
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0.0;
}

// Returns the weights of all input elements in result element `position`. If
// the axis shrinks, antialiasing widens the filter so that all elements count.
// The weight of an element outside the input goes to the edge element, or is
// left out.
SmallVector<double> ResizedAxis::weigh(const Sampling &sampling,
                                       int64_t position) const {
  SmallVector<double> weights(in, 0.0);
  if (sampling.filter == Filter::Nearest) {
    weights[findNearest(sampling, position)] = 1.0;
    return weights;
  }
  // The filter reaches 1 element (linear) or 2 (cubic) to each side, more if
  // widened.
  auto x = locate<double>(sampling, position);
  double narrow = sampling.antialias ? std::min(scale, 1.0) : 1.0;
  double radius = (sampling.filter == Filter::Cubic ? 2 : 1) / narrow;
  double sum = 0.0;
  auto last = static_cast<int64_t>(std::ceil(x + radius));
  // With excludeOutside, the weights of elements outside are left out.
  for (auto i = static_cast<int64_t>(std::floor(x - radius)); i <= last; ++i) {
    if (sampling.excludeOutside && (i < 0 || i >= in))
      continue;
    double weight = filterAt(sampling, (i - x) * narrow);
    weights[std::clamp<int64_t>(i, 0, in - 1)] += weight;
    sum += weight;
  }
  // Normalize to a sum of 1 if elements were left out or the filter was
  // widened.
  if (sum != 0 && (sampling.antialias || sampling.excludeOutside))
    for (double &weight : weights)
      weight /= sum;
  return weights;
}

//===----------------------------------------------------------------------===//
// Attributes and inputs
//===----------------------------------------------------------------------===//

static bool isOneOf(StringRef word, ArrayRef<StringRef> words) {
  return llvm::is_contained(words, word);
}

static FailureOr<Filter> readFilter(NodeImporter &node) {
  std::string mode = node.string("mode", "nearest");
  if (mode == "nearest")
    return Filter::Nearest;
  if (mode == "linear" || mode == "bilinear")
    return Filter::Linear;
  if (mode == "cubic")
    return Filter::Cubic;
  return node.invalid("expected attribute 'mode' to be nearest, linear or "
                      "cubic, found '" +
                      mode + "'");
}

static FailureOr<Sampling> readSampling(NodeImporter &node) {
  Sampling sampling;
  FailureOr<Filter> filter = readFilter(node);
  if (failed(filter))
    return failure();
  sampling.filter = *filter;
  // Combinations of attributes that do not exist are refused below.
  sampling.coordinates =
      node.string("coordinate_transformation_mode", sampling.coordinates);
  sampling.nearest = node.string("nearest_mode", sampling.nearest);
  sampling.cubicA = node.real("cubic_coeff_a", sampling.cubicA);
  sampling.extrapolation = node.real("extrapolation_value", 0.0);
  sampling.antialias = node.integer("antialias", 0) != 0;
  sampling.excludeOutside = node.integer("exclude_outside", 0) != 0;
  if (!isOneOf(sampling.coordinates,
               {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
                "align_corners", "asymmetric", "tf_half_pixel_for_nn",
                "tf_crop_and_resize"}))
    return node.invalid("attribute 'coordinate_transformation_mode' has the "
                        "unknown value '" +
                        sampling.coordinates + "'");
  if (!isOneOf(sampling.nearest,
               {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}))
    return node.invalid(
        "attribute 'nearest_mode' has the unknown value '" + sampling.nearest +
        "', expected round_prefer_floor, round_prefer_ceil, floor or ceil");
  if (sampling.antialias && sampling.filter == Filter::Nearest)
    return node.invalid(
        "expected attribute 'antialias' of 0 in mode 'nearest', found 1");
  return sampling;
}

// Reads the elements of a float input that must be known at import.
static FailureOr<SmallVector<double>>
readFloats(NodeImporter &node, unsigned index, StringRef what) {
  std::optional<HostTensor> tensor = node.constant(index);
  if (!tensor) {
    node.demand(index);
    return node.unsupported("expected " + what + " (input '" +
                            node.getInputName(index) +
                            "') to be known at import; it depends on data");
  }
  SmallVector<double> values;
  for (int64_t i = 0; i < tensor->getNumElements(); ++i)
    values.push_back(tensor->getDouble(i));
  return values;
}

// True if optional input `index` is given. Exporters also write an absent input
// as an empty tensor.
static bool isGiven(NodeImporter &node, unsigned index) {
  return node.hasInput(index) && node.operandType(index).getNumElements() > 0;
}

// A larger extent is taken as a mistake in the file.
static constexpr double kLargestExtent = int64_t(1) << 30;

// Sets the extents of `axes` from scales, one for each axis.
static LogicalResult scaleAxes(NodeImporter &node,
                               MutableArrayRef<ResizedAxis> axes,
                               ArrayRef<double> scales) {
  if (scales.size() != axes.size())
    return node.invalid("expected " + Twine(axes.size()) +
                        " scales, one per axis, found " + Twine(scales.size()));
  for (auto [axis, scale] : llvm::zip(axes, scales)) {
    if (!(scale > 0) || !(scale * axis.in < kLargestExtent))
      return node.invalid("expected scales above 0 and results below 2^30 "
                          "elements per axis, found a scale of " +
                          std::to_string(scale) + " for " + Twine(axis.in) +
                          " elements");
    axis.scale = scale;
    // Computed in float, as ONNX infers shapes: 10 * 0.7f is 7, although 0.7f
    // is a little less than 0.7.
    float extent = static_cast<float>(axis.in) * static_cast<float>(scale);
    axis.out = static_cast<int64_t>(std::floor(extent));
  }
  return success();
}

// Sets the extents of `axes` from input 3, the sizes. With an aspect ratio
// policy, sizes are bounds, and all axes share one scale.
static LogicalResult sizeAxes(NodeImporter &node,
                              MutableArrayRef<ResizedAxis> axes) {
  auto sizes = node.integers(3, "sizes");
  if (failed(sizes))
    return failure();
  if (sizes->size() != axes.size())
    return node.invalid("expected " + Twine(axes.size()) +
                        " sizes, one per axis, found " + Twine(sizes->size()));
  for (auto [axis, size] : llvm::zip(axes, *sizes)) {
    if (size < 1 || size > kLargestExtent || axis.in < 1)
      return node.invalid("expected sizes from 1 to 2^30, found " +
                          Twine(size) + " for an axis of " + Twine(axis.in) +
                          " elements");
    axis.out = size;
    axis.scale = static_cast<double>(size) / axis.in;
  }
  // With the policy not_larger, all axes take the smallest scale of any axis;
  // with not_smaller, the largest.
  std::string policy = node.string("keep_aspect_ratio_policy", "stretch");
  if (policy == "stretch" || axes.empty())
    return success();
  if (policy != "not_larger" && policy != "not_smaller")
    return node.invalid(
        "attribute 'keep_aspect_ratio_policy' has the unknown value '" +
        policy + "', expected stretch, not_larger or not_smaller");
  double common = axes.front().scale;
  for (const ResizedAxis &axis : axes)
    common = policy == "not_larger" ? std::min(common, axis.scale)
                                    : std::max(common, axis.scale);
  for (ResizedAxis &axis : axes) {
    axis.scale = common;
    axis.out = static_cast<int64_t>(std::floor(common * axis.in + 0.5));
  }
  return success();
}

// Reads the region of interest: the starts of all axes, then the ends.
static LogicalResult cropAxes(NodeImporter &node,
                              MutableArrayRef<ResizedAxis> axes) {
  if (!isGiven(node, 1))
    return node.invalid(
        "expected a region of interest as input 1, because attribute "
        "'coordinate_transformation_mode' is tf_crop_and_resize, found none");
  auto region = readFloats(node, 1, "the region of interest");
  if (failed(region))
    return failure();
  if (region->size() != 2 * axes.size())
    return node.invalid("expected " + Twine(2 * axes.size()) +
                        " values as region of interest, found " +
                        Twine(region->size()));
  // NaN is refused, too: `NaN <= limit` is false.
  if (!llvm::all_of(*region, [](double share) {
        return std::abs(share) <= kLargestExtent;
      }))
    return node.invalid("expected a region of interest with values from -2^30 "
                        "to 2^30, found others in '" +
                        node.getInputName(1) + "'");
  for (auto [i, axis] : llvm::enumerate(axes)) {
    axis.start = (*region)[i];
    axis.end = (*region)[axes.size() + i];
  }
  return success();
}

//===----------------------------------------------------------------------===//
// The result
//===----------------------------------------------------------------------===//

// Multiplies an axis by its weight matrix: from the right if the axis is the
// last, otherwise from the left. `back` multiplies by the transpose, for the
// gradient.
static Value interpolate(NodeImporter &node, Value value,
                         const ResizedAxis &axis, const Sampling &sampling,
                         bool back = false) {
  constexpr int64_t kMostWeights = int64_t(1) << 26;
  Type element = NodeImporter::typeOf(value).getElementType();
  if (!isa<FloatType>(element)) {
    (void)node.unsupported("expected floats to interpolate, found " +
                           printTensorType(NodeImporter::typeOf(value)) +
                           "; mode nearest takes integers");
    return {};
  }
  // The matrix is stored in the artifact, so limit its size.
  if (axis.in > kMostWeights / axis.out) {
    (void)node.unsupported("an axis of " + Twine(axis.in) +
                           " elements is too "
                           "long to be interpolated to " +
                           Twine(axis.out));
    return {};
  }
  SmallVector<int64_t> shape(NodeImporter::shapeOf(value));
  bool isLast = axis.axis + 1 == static_cast<int64_t>(shape.size());
  // Column `to` holds the weights of result element `to`. A matrix that
  // multiplies from the left is transposed, and so is the matrix of a gradient.
  SmallVector<double> weights(axis.in * axis.out);
  for (int64_t to = 0; to < axis.out; ++to)
    for (auto [from, weight] : llvm::enumerate(axis.weigh(sampling, to)))
      weights[isLast != back ? from * axis.out + to : to * axis.in + from] =
          weight;
  ArrayRef<int64_t> all = shape;
  int64_t outer = ShapedType::getNumElements(all.take_front(axis.axis));
  int64_t inner = ShapedType::getNumElements(all.drop_front(axis.axis + 1));
  int64_t from = back ? axis.out : axis.in, to = back ? axis.in : axis.out;
  shape[axis.axis] = to;
  Value product;
  if (isLast) {
    Value matrix = floatConstant(node, element, {from, to}, weights);
    product = node.emit<MatMulOp>({node.reshape(value, {outer, from}), matrix});
  } else {
    Value matrix = floatConstant(node, element, {to, from}, weights);
    product = node.emit<MatMulOp>(
        {matrix, node.reshape(value, {outer, from, inner})});
  }
  return node.reshape(product, shape);
}

// Replaces the elements that a crop takes from outside the input by
// extrapolation_value.
static Value extrapolate(NodeImporter &node, Value value,
                         const ResizedAxis &axis, const Sampling &sampling) {
  if (!value)
    return {};
  auto type = NodeImporter::typeOf(value);
  SmallVector<int64_t> inside;
  for (int64_t to = 0; to < axis.out; ++to)
    inside.push_back(axis.isInside(axis.locate<double>(sampling, to)));
  if (llvm::all_of(inside, [](int64_t is) { return is; }))
    return value;
  SmallVector<int64_t> shape(type.getRank(), 1);
  shape[axis.axis] = axis.out;
  Value isInside = castTo(node, integerConstant(node, shape, inside),
                          node.attributes().getI1Type());
  return node.emit<SelectOp>(
      {isInside, value,
       numberConstant(node, sampling.extrapolation, type.getElementType())});
}

static Value resizeAxis(NodeImporter &node, Value value,
                        const ResizedAxis &axis, const Sampling &sampling) {
  bool movesAll =
      sampling.crops() || sampling.coordinates == "tf_half_pixel_for_nn";
  if (!value || (axis.in == axis.out && axis.scale == 1.0 && !movesAll))
    return value;
  if (sampling.filter == Filter::Nearest) {
    if (!canList(node, axis.out))
      return {};
    SmallVector<int64_t> places;
    for (int64_t to = 0; to < axis.out; ++to)
      places.push_back(axis.findNearest(sampling, to));
    value = take(node, value, axis.axis, places);
  } else {
    value = interpolate(node, value, axis, sampling);
  }
  return sampling.crops() ? extrapolate(node, value, axis, sampling) : value;
}

static LogicalResult resize(NodeImporter &node, ArrayRef<ResizedAxis> axes,
                            const Sampling &sampling) {
  SmallVector<int64_t> shape(node.operandShape(0));
  for (const ResizedAxis &axis : axes) {
    if (axis.in < 1 || axis.out < 1)
      return node.invalid("axis " + Twine(axis.axis) + " of " + Twine(axis.in) +
                          " elements would have " + Twine(axis.out) +
                          ", expected at least 1 before and after");
    shape[axis.axis] = axis.out;
  }
  if (!getCheckedBytes(shape, node.operandType(0).getElementType()))
    return node.invalid("the result of shape " + printShape(shape) +
                        " is too large");
  Value value = node.operand(0);
  for (const ResizedAxis &axis : axes)
    value = resizeAxis(node, value, axis, sampling);
  return node.define(0, value);
}

// Returns a ResizedAxis for each of the axes `numbers` of input `index`, with
// unchanged extents. Builders set the new extents.
static SmallVector<ResizedAxis>
axesOf(NodeImporter &node, ArrayRef<int64_t> numbers, unsigned index = 0) {
  SmallVector<ResizedAxis> axes;
  for (int64_t axis : numbers) {
    int64_t extent = node.operandShape(index)[axis];
    axes.push_back({axis, extent, extent, 1.0});
  }
  return axes;
}

// Imports Resize from opset 11 on, with scales or sizes for all axes or for
// those in 'axes'.
static LogicalResult importResize(NodeImporter &node) {
  int64_t rank = node.operandShape(0).size();
  FailureOr<Sampling> sampling = readSampling(node);
  if (failed(sampling))
    return failure();
  auto numbers = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  if (auto given = node.integerList("axes")) {
    if (failed(node.normalizeAxes(*given, rank)))
      return failure();
    numbers.clear();
    for (int64_t axis : *given)
      numbers.push_back(axis < 0 ? axis + rank : axis);
  }
  SmallVector<ResizedAxis> axes = axesOf(node, numbers);
  if (isGiven(node, 2) == isGiven(node, 3))
    return node.invalid(
        "expected either scales (input 2) or sizes (input 3), found " +
        Twine(isGiven(node, 2) ? "both" : "neither"));
  if (isGiven(node, 3)) {
    if (failed(sizeAxes(node, axes)))
      return failure();
  } else {
    node.ignore("keep_aspect_ratio_policy"); // applies to sizes only
    auto scales = readFloats(node, 2, "the scales");
    if (failed(scales) || failed(scaleAxes(node, axes, *scales)))
      return failure();
  }
  if (sampling->crops() && failed(cropAxes(node, axes)))
    return failure();
  return resize(node, axes, *sampling);
}

// Imports Resize of opset 10, and Upsample. The scales of Upsample are an
// attribute before opset 9; before opset 7, each image axis has its own
// attribute.
static LogicalResult importUpsample(NodeImporter &node) {
  Sampling sampling;
  sampling.coordinates = "asymmetric";
  sampling.nearest = "floor";
  FailureOr<Filter> filter = readFilter(node);
  if (failed(filter))
    return failure();
  sampling.filter = *filter;
  SmallVector<double> scales;
  using Attribute = proto::AttributeProto;
  if (node.hasInput(1)) {
    auto given = readFloats(node, 1, "the scales");
    if (failed(given))
      return failure();
    scales = *given;
  } else if (const auto *list = node.find("scales", Attribute::FLOATS)) {
    scales.assign(list->floats().begin(), list->floats().end());
  } else if (node.hasAttribute("height_scale") ||
             node.hasAttribute("width_scale")) {
    scales = {1, 1, node.real("height_scale", 1), node.real("width_scale", 1)};
  }
  auto numbers =
      llvm::to_vector(llvm::seq<int64_t>(0, node.operandShape(0).size()));
  SmallVector<ResizedAxis> axes = axesOf(node, numbers);
  if (failed(scaleAxes(node, axes, scales)))
    return failure();
  return resize(node, axes, sampling);
}

// Imports ResizeGrad: (dY, X, roi, scales) -> dX, with the attributes of the
// Resize. Multiplies by the transposed weights along each axis. Without scales,
// the extents of X and dY determine them.
static LogicalResult importResizeGrad(NodeImporter &node) {
  FailureOr<Sampling> sampling = readSampling(node);
  if (failed(sampling))
    return failure();
  if (sampling->crops())
    return node.unsupported(
        "the gradient of tf_crop_and_resize is not supported");
  ArrayRef<int64_t> large = node.operandShape(0), small = node.operandShape(1);
  if (large.size() != small.size() || llvm::is_contained(large, 0) ||
      llvm::is_contained(small, 0))
    return node.invalid("expected inputs of equal rank, with elements" +
                        node.found({0, 1}));
  auto numbers = llvm::to_vector(llvm::seq<int64_t>(0, small.size()));
  SmallVector<ResizedAxis> axes = axesOf(node, numbers, 1);
  if (isGiven(node, 3)) {
    auto scales = readFloats(node, 3, "the scales");
    if (failed(scales) || failed(scaleAxes(node, axes, *scales)))
      return failure();
  }
  Value value = node.operand(0);
  for (ResizedAxis &axis : axes) {
    if (isGiven(node, 3) && axis.out != large[axis.axis])
      return node.invalid("the scales give axis " + Twine(axis.axis) +
                          " of dY " + Twine(axis.out) + " elements" +
                          node.found({0, 1}));
    axis.out = large[axis.axis];
    if (!isGiven(node, 3))
      axis.scale = static_cast<double>(axis.out) / axis.in;
    if (axis.in == axis.out && axis.scale == 1.0)
      continue;
    value = interpolate(node, value, axis, *sampling, /*back=*/true);
    if (!value)
      return failure();
  }
  return node.define(0, value);
}

ArrayRef<OpEntry> mpc::onnx_frontend::getResizeOps() {
  static const OpEntry entries[] = {
      {kMicrosoft, "ResizeGrad", 1, kNoEnd, 2, 4, 1, importResizeGrad},
      {"", "Resize", 10, 10, 2, 2, 1, importUpsample},
      {"", "Resize", 11, kNoEnd, 1, 4, 1, importResize},
      {"", "Upsample", 6, 6, 1, 1, 1, importUpsample},
      {"", "Upsample", 7, 8, 1, 1, 1, importUpsample},
      {"", "Upsample", 9, kNoEnd, 2, 2, 1, importUpsample},
  };
  return entries;
}
