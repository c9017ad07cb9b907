// Imports CenterCropPad, AffineGrid and GridSample. A tap is one element to
// read along an axis, with its weight (Sampling.h).
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Ops/NN/Sampling.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

//===----------------------------------------------------------------------===//
// CenterCropPad
//===----------------------------------------------------------------------===//

// Imports CenterCropPad: crops long axes at both ends and pads short axes with
// zeros at both ends. For an odd difference, the larger half is at the end.
static LogicalResult importCenterCropPad(NodeImporter &node) {
  auto type = node.operandType(0);
  auto wanted = node.integers(1, "the shape");
  if (failed(wanted))
    return failure();
  auto axes = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  if (auto given = node.integerList("axes")) {
    if (failed(node.normalizeAxes(*given, type.getRank())))
      return failure();
    axes = *given;
  }
  if (wanted->size() != axes.size())
    return node.invalid("expected " + Twine(axes.size()) +
                        " extents, one per axis, found " +
                        Twine(wanted->size()));
  // For each axis: `cut` elements are kept. They begin at `from` in the input
  // and at `to` in the result.
  SmallVector<int64_t> shape(type.getShape()), cut(shape);
  SmallVector<int64_t> from(shape.size(), 0), to(shape.size(), 0);
  for (auto [given, extent] : llvm::zip(axes, *wanted)) {
    int64_t axis = given < 0 ? given + type.getRank() : given;
    if (extent < 0)
      return node.invalid("expected extents of 0 and more, found " +
                          Twine(extent));
    int64_t own = shape[axis];
    cut[axis] = std::min(own, extent);
    from[axis] = (own - cut[axis]) / 2;
    to[axis] = (extent - cut[axis]) / 2;
    shape[axis] = extent;
  }
  if (!getCheckedBytes(shape, type.getElementType()))
    return node.invalid("the result of shape " + printShape(shape) +
                        " is too large");
  Value value = slice(node, node.operand(0), from, cut);
  if (shape != cut)
    value = node.emit<PadOp>(
        {value}, {node.attribute("offsets", ArrayRef<int64_t>(to)),
                  node.attribute("shape", ArrayRef<int64_t>(shape))});
  return node.define(0, value);
}

//===----------------------------------------------------------------------===//
// AffineGrid
//===----------------------------------------------------------------------===//

// Returns the coordinates of the elements of an axis of `size` elements,
// between -1 and 1. With `alignCorners`, the first and last elements are at -1
// and 1; otherwise elements are the centers of equal parts. A single element is
// at 0, as in PyTorch.
static SmallVector<double> spreadEvenly(int64_t size, bool alignCorners) {
  SmallVector<double> places;
  for (int64_t i = 0; i < size; ++i)
    places.push_back(alignCorners ? (size > 1 ? 2.0 * i / (size - 1) - 1 : 0)
                                  : (2.0 * i + 1) / size - 1);
  return places;
}

// Imports AffineGrid: multiplies each coordinate vector (x, y, 1) by the matrix
// theta. Columns are multiplied one by one, because a matrix product may round
// coordinates to 16 bits or tf32. Coordinate x runs along the last axis.
static LogicalResult importAffineGrid(NodeImporter &node) {
  auto type = node.operandType(0);
  auto size = node.integers(1, "the size");
  if (failed(size))
    return failure();
  // The result holds 2 or 3 coordinates for each element of the grid.
  bool alignCorners = node.integer("align_corners", 0) != 0;
  int64_t rank = static_cast<int64_t>(size->size()) - 2;
  if (rank != 2 && rank != 3)
    return node.invalid("expected a size of 4 or 5 elements, found " +
                        Twine(size->size()));
  if (type.getShape() != ArrayRef<int64_t>({size->front(), rank, rank + 1}))
    return node.invalid("expected matrices of shape (" + Twine(size->front()) +
                        ", " + Twine(rank) + ", " + Twine(rank + 1) + ")" +
                        node.found({0}));
  SmallVector<int64_t> result = {size->front()};
  result.append(size->begin() + 2, size->end());
  result.push_back(rank);
  if (!getCheckedBytes(result, type.getElementType()))
    return node.invalid("the size " + printShape(*size) +
                        " has a negative extent or is too large");
  // Compute coordinates in f32 at least: f16 has 11 bits, too few to place
  // 1,000 columns.
  Type wide = type.getElementType().isF64() ? type.getElementType()
                                            : node.attributes().getF32Type();
  Value theta = castTo(node, node.operand(0), wide);
  // Returns column `column` of every matrix, broadcast over the grid.
  auto takeColumn = [&](int64_t column) {
    SmallVector<int64_t> apart(rank + 2, 1);
    apart.front() = size->front();
    apart.back() = rank;
    return node.reshape(
        slice(node, theta, {0, 0, column}, {size->front(), rank, 1}), apart);
  };
  // The last column is the translation. Multiply each other column by the
  // coordinates of its axis.
  Value sum = takeColumn(rank);
  for (int64_t column = 0; column < rank; ++column) {
    int64_t axis = rank - column, extent = result[axis];
    if (!canList(node, extent))
      return failure();
    SmallVector<int64_t> along(rank + 2, 1);
    along[axis] = extent;
    Value places =
        floatConstant(node, wide, along, spreadEvenly(extent, alignCorners));
    sum =
        node.emit<AddOp>({node.emit<MulOp>({takeColumn(column), places}), sum});
  }
  return node.define(0, castTo(node, sum, type.getElementType()));
}

//===----------------------------------------------------------------------===//
// GridSample
//===----------------------------------------------------------------------===//

namespace {
enum class GridMode { Nearest, Linear, Cubic };
enum class GridPadding { Zeros, Border, Reflection };

struct GridSampling {
  GridMode mode;
  GridPadding padding;
  bool alignCorners;
};
} // namespace

static FailureOr<GridSampling> readGridSampling(NodeImporter &node) {
  GridSampling sampling;
  // Before opset 20, the names are bilinear and bicubic.
  std::string mode = node.string("mode", "linear");
  if (mode == "nearest")
    sampling.mode = GridMode::Nearest;
  else if (mode == "linear" || mode == "bilinear")
    sampling.mode = GridMode::Linear;
  else if (mode == "cubic" || mode == "bicubic")
    sampling.mode = GridMode::Cubic;
  else
    return node.invalid("expected attribute 'mode' to be linear, nearest or "
                        "cubic, found '" +
                        mode + "'");
  std::string padding = node.string("padding_mode", "zeros");
  if (padding == "zeros")
    sampling.padding = GridPadding::Zeros;
  else if (padding == "border")
    sampling.padding = GridPadding::Border;
  else if (padding == "reflection")
    sampling.padding = GridPadding::Reflection;
  else
    return node.invalid("expected attribute 'padding_mode' to be zeros, border "
                        "or reflection, found '" +
                        padding + "'");
  sampling.alignCorners = node.integer("align_corners", 0) != 0;
  return sampling;
}

// Mirrors position x at `low` and `high` until x lies between both.
static Value reflectPlace(NodeImporter &node, Value x, double low,
                          double high) {
  Type type = node.attributes().getF64Type();
  double range = high - low;
  if (range <= 0) // an axis of one element
    return scalePlace(node, x, 0, low);
  Value distance = node.emit<AbsOp>({scalePlace(node, x, 1, -low)});
  Value there =
      node.emit<ModOp>({distance, numberConstant(node, 2 * range, type)},
                       {node.attribute("fmod", true)});
  Value back = scalePlace(node, there, -1, 2 * range);
  Value isBack = node.emit<LessOp>({numberConstant(node, range, type), there});
  return scalePlace(node, node.emit<SelectOp>({isBack, back, there}), 1, low);
}

// Mirrors the element number `at`, up to two elements outside the axis, once.
// On a shorter axis, a number may still be outside; the tap then has weight 0.
static Value reflectElement(NodeImporter &node, Value at, int64_t size,
                            bool alignCorners) {
  // With aligned corners the axis is mirrored at the center of the last
  // element: 0 1 2 1 0. Otherwise the axis is mirrored at the edge, which
  // repeats the last element: 0 1 2 2 1 0.
  int64_t twice = alignCorners ? 0 : 1;
  auto number = [&](int64_t value) { return integerConstant(node, {}, value); };
  Value zero = number(0), last = number(size - 1);
  Value fromLow = node.emit<SubOp>({number(-twice), at});
  at = node.emit<SelectOp>({node.emit<LessOp>({at, zero}), fromLow, at});
  Value fromHigh = node.emit<SubOp>({number(2 * (size - 1) + twice), at});
  return node.emit<SelectOp>({node.emit<LessOp>({last, at}), fromHigh, at});
}

// Returns the four taps of Keys' cubic with a = -3/4 around position x:
// elements at the distances 1 + rest, rest, 1 - rest and 2 - rest, where rest =
// x - floor(x).
static SmallVector<Tap> cubicTaps(NodeImporter &node, Value x) {
  constexpr double kA = -0.75;
  auto [below, rest] = splitPlace(node, x);
  auto polynomial = [&, rest = rest](bool mirrored,
                                     ArrayRef<double> coefficients) {
    Value t = mirrored ? scalePlace(node, rest, -1, 1) : rest, sum;
    for (double coefficient : coefficients) {
      Value constant =
          numberConstant(node, coefficient, node.attributes().getF64Type());
      sum = sum ? node.emit<AddOp>({node.emit<MulOp>({sum, t}), constant})
                : constant;
    }
    return sum;
  };
  // The weight of an element at distance t in [0, 1] is ((a + 2) t - (a + 3))
  // t^2 + 1. At distance d in [1, 2] the weight is a d^3 - 5a d^2 + 8a d - 4a.
  // With d = t + 1, this is (a t - 2a) t^2 + a t.
  double near[] = {kA + 2, -(kA + 3), 0, 1};
  double far[] = {kA, -2 * kA, kA, 0};
  auto element = [&, below = below](int64_t offset) {
    return node.emit<AddOp>({below, integerConstant(node, {}, offset)});
  };
  return {{element(-1), polynomial(false, far)},
          {below, polynomial(false, near)},
          {element(1), polynomial(true, near)},
          {element(2), polynomial(true, far)}};
}

// Returns the taps along an axis of `size` elements for the coordinates `at`,
// in [-1, 1].
static SampledAxis sampleAxis(NodeImporter &node, Value at, int64_t size,
                              const GridSampling &sampling) {
  // From this position on, f64 holds no fractions.
  constexpr double kFarthest = int64_t(1) << 52;
  // Coordinates -1 and 1 are the centers of the outermost elements with aligned
  // corners, otherwise the outer edges of these elements.
  bool aligned = sampling.alignCorners;
  bool reflects = sampling.padding == GridPadding::Reflection;
  double low = aligned ? 0 : -0.5, high = aligned ? size - 1 : size - 0.5;
  double half = (high - low) / 2;
  Value x = scalePlace(node, at, half, low + half);
  // All positions three elements or more outside read the same value.
  x = reflects ? clampPlace(node, x, -kFarthest, kFarthest)
               : clampPlace(node, x, -3, size + 3);
  SampledAxis axis = {size, {}, Outside::Edge};
  if (sampling.padding == GridPadding::Zeros)
    axis.outside = Outside::Zero;
  if (sampling.mode == GridMode::Nearest) {
    Value nearest = roundPlace(node, x);
    if (reflects)
      nearest =
          castTo(node, reflectPlace(node, toPlace(node, nearest), low, high),
                 node.attributes().getI64Type());
    axis.taps = {{nearest, Value()}};
    return axis;
  }
  if (reflects)
    x = reflectPlace(node, x, low, high);
  axis.taps = sampling.mode == GridMode::Linear ? linearTaps(node, x)
                                                : cubicTaps(node, x);
  if (reflects)
    for (Tap &tap : axis.taps)
      tap.place = reflectElement(node, tap.place, size, aligned);
  return axis;
}

// Imports GridSample: samples X, (N, C, D1, ..., Dr), at a grid of (N, E1, ...,
// Er, r). The grid's last axis holds one coordinate per axis of X, from the
// last axis to the first: (x, y) for images.
static LogicalResult importGridSample(NodeImporter &node) {
  auto type = node.operandType(0), gridType = node.operandType(1);
  int64_t rank = type.getRank() - 2;
  FailureOr<GridSampling> sampling = readGridSampling(node);
  if (failed(sampling))
    return failure();
  // Three axes at most limit the cost: in cubic mode each point then reads 4 *
  // 4 * 4 elements.
  if (rank < 1 || rank > 3)
    return node.unsupported("expected an input of rank 3 to 5, found rank " +
                            Twine(type.getRank()));
  // ONNX has volumes from opset 20 on. PyTorch's exporter writes volumes in any
  // opset; other runtimes refuse such files.
  ModuleImporter &module = node.getFunction().getModule();
  if (node.getOpset() < 20 && rank != 2 && module.isFirst("grids of volumes"))
    module.warn(node.describe() + ": ONNX has an input of rank " +
                Twine(type.getRank()) + " from opset 20 on; taken as there");
  if (gridType.getRank() != rank + 2 ||
      gridType.getDimSize(0) != type.getDimSize(0) ||
      gridType.getDimSize(rank + 1) != rank ||
      !isa<FloatType>(gridType.getElementType()))
    return node.invalid("expected a grid of floats of shape (" +
                        Twine(type.getDimSize(0)) + ", ..., " + Twine(rank) +
                        ") and rank " + Twine(rank + 2) + node.found({1}));
  if (llvm::is_contained(type.getShape().drop_front(2), 0))
    return node.invalid("expected an input with elements to read" +
                        node.found({0}));
  if (sampling->mode != GridMode::Nearest &&
      !isa<FloatType>(type.getElementType()))
    return node.unsupported("expected floats to interpolate" + node.found({0}) +
                            "; mode nearest takes integers");
  // Flatten the grid points of each sample.
  SmallVector<int64_t> result(type.getShape().take_front(2));
  llvm::append_range(result, gridType.getShape().slice(1, rank));
  int64_t batch = type.getDimSize(0);
  int64_t places =
      ShapedType::getNumElements(gridType.getShape().slice(1, rank));
  Value grid = node.reshape(node.operand(1), {batch, places, rank});
  SmallVector<SampledAxis> axes;
  for (int64_t axis = 0; axis < rank; ++axis) {
    Value at = slice(node, grid, {0, 0, rank - 1 - axis}, {batch, places, 1});
    at = toPlace(node, node.reshape(at, {batch, places}));
    axes.push_back(sampleAxis(node, at, type.getDimSize(axis + 2), *sampling));
  }
  Value value = sumTaps(node, node.operand(0), /*batchDims=*/1, axes);
  return node.define(0, node.reshape(value, result));
}

ArrayRef<OpEntry> mpc::onnx_frontend::getGridOps() {
  static const OpEntry entries[] = {
      {"", "AffineGrid", 20, kNoEnd, 2, 2, 1, importAffineGrid},
      {"", "CenterCropPad", 18, kNoEnd, 2, 2, 1, importCenterCropPad},
      {"", "GridSample", 16, kNoEnd, 2, 2, 1, importGridSample},
  };
  return entries;
}
