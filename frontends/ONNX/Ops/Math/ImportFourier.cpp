// Imports Fourier transforms as products with matrices of cosines and sines,
// which are known at import. Machines compute products fast, and the gradient
// of a product is a product. A long transform of n = a * b elements is split
// (Cooley and Tukey): b transforms of a elements, a rotation of each element,
// and a transforms of b elements. The split takes n (a + b) multiplications
// instead of n * n, and small matrices.
//
// All of it is in f64, which the Precision stage leaves alone. The products are
// not the model's own, and a sum of n elements that cancels in 16 bits keeps
// few digits or none.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Assemble.h"
#include "frontends/ONNX/Importer/FoldElements.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

//===----------------------------------------------------------------------===//
// Transforms of rows
//===----------------------------------------------------------------------===//

namespace {
/// Transforms the rows of (rows, n, parts) to (rows, n, 2). The last axis holds
/// the real part and, if `parts` is 2, the imaginary part. Each result is
/// multiplied by `scale`.
struct Transform {
  int64_t rows, n;
  bool isInverse;
  double scale = 1.0;

  /// Returns the real and imaginary part of e^(-2 pi i m / n), or of the
  /// conjugate if inverse.
  std::pair<double, double> turn(int64_t m) const {
    double angle = 2 * llvm::numbers::pi * static_cast<double>(m % n) / n;
    return {std::cos(angle), isInverse ? std::sin(angle) : -std::sin(angle)};
  }
};
} // namespace

// The longest transform that is one product. Up to this length, one product
// costs no more than several shorter products and the steps between.
static constexpr int64_t kShort = 128;

// Returns the largest divisor of n that is at most sqrt(n).
static int64_t findDivisor(int64_t n) {
  auto divisor = static_cast<int64_t>(std::sqrt(static_cast<double>(n)));
  while (n % divisor != 0)
    --divisor;
  return divisor;
}

// The most elements of the matrix of one product. A transform of prime length n
// is one product, whose matrix has n * n elements or more.
static constexpr int64_t kMostWeights = int64_t(1) << 24;

static void refuseTransform(NodeImporter &node, int64_t n) {
  (void)node.unsupported("a transform of " + Twine(n) +
                         " elements is too long: expected one whose prime "
                         "factors are below 2048");
}

static int64_t findLargestPrime(int64_t n) {
  int64_t largest = 1;
  for (int64_t divisor = 2; divisor * divisor <= n; ++divisor)
    for (; n % divisor == 0; n /= divisor)
      largest = divisor;
  return std::max(largest, n);
}

// True if a transform of n elements is neither too long nor has too large
// matrices. Otherwise reports an error, before any op is created.
static bool canTransform(NodeImporter &node, int64_t n) {
  if (!canList(node, n))
    return false;
  // If n is prime, the transform is one product, and transformShort() checks
  // the size of the matrix.
  int64_t prime = findLargestPrime(n);
  if (prime == n || prime <= kMostWeights / 2 / prime)
    return true;
  refuseTransform(node, prime);
  return false;
}

// Transforms by one product with the matrix of all rotations. Returns the first
// `kept` results of each row.
static Value transformShort(NodeImporter &node, Value x,
                            const Transform &transform, int64_t kept) {
  int64_t n = transform.n, parts = NodeImporter::shapeOf(x).back();
  // The matrix is stored in the artifact, so limit its size.
  if (n > kMostWeights / (2 * parts) / kept) {
    refuseTransform(node, n);
    return {};
  }
  // The matrix maps the real and imaginary parts of inputs to those of results.
  SmallVector<double> weights(n * parts * kept * 2);
  for (int64_t from = 0; from < n; ++from)
    for (int64_t to = 0; to < kept; ++to) {
      auto [real, imaginary] = transform.turn(from * to);
      double *re = &weights[(from * parts * kept + to) * 2];
      re[0] = real * transform.scale;
      re[1] = imaginary * transform.scale;
      // The imaginary part of an input contributes i times as much: i * (re + i
      // im) = -im + i re.
      if (parts == 1)
        continue;
      double *im = re + kept * 2;
      im[0] = -re[1];
      im[1] = re[0];
    }
  Value matrix =
      floatConstant(node, elementTypeOf(x), {n * parts, kept * 2}, weights);
  Value product = node.emit<MatMulOp>(
      {node.reshape(x, {transform.rows, n * parts}), matrix});
  return node.reshape(product, {transform.rows, kept, 2});
}

// Multiplies element (row, j, k) of (rows, b, a, 2) by the rotation of j * k.
static Value turnElements(NodeImporter &node, Value x,
                          const Transform &transform) {
  if (!x)
    return {};
  SmallVector<int64_t> shape(NodeImporter::shapeOf(x)); // (rows, b, a, 2)
  SmallVector<double> reals, imaginaries;
  for (int64_t j = 0; j < shape[1]; ++j)
    for (int64_t k = 0; k < shape[2]; ++k) {
      auto [real, imaginary] = transform.turn(j * k);
      reals.push_back(real);
      imaginaries.push_back(imaginary);
    }
  SmallVector<int64_t> part = {1, shape[1], shape[2], 1}, box(shape);
  Value real = floatConstant(node, elementTypeOf(x), part, reals);
  Value imaginary = floatConstant(node, elementTypeOf(x), part, imaginaries);
  box.back() = 1;
  // Multiply complex numbers: x by the rotation.
  Value re = slice(node, x, {0, 0, 0, 0}, box);
  Value im = slice(node, x, {0, 0, 0, 1}, box);
  auto times = [&](Value a, Value b) { return node.emit<MulOp>({a, b}); };
  return concatenate(
      node,
      {node.emit<SubOp>({times(re, real), times(im, imaginary)}),
       node.emit<AddOp>({times(re, imaginary), times(im, real)})},
      3);
}

// Transforms rows of n elements. A long transform is split, n = a * b: input
// element b i + j has indices i < a and j < b, and result k1 + a k2 has indices
// k1 < a and k2 < b. Transforms over i for every j, rotates by j * k1, then
// transforms over j for every k1.
static Value transformRows(NodeImporter &node, Value x,
                           const Transform &transform, int64_t kept) {
  if (!x)
    return {};
  // A short transform, or one of prime length, is a single product.
  int64_t n = transform.n, a = n > kShort ? findDivisor(n) : 1, b = n / a;
  if (a == 1)
    return transformShort(node, x, transform, kept);
  // Transform over i: one row for each j.
  int64_t rows = transform.rows, parts = NodeImporter::shapeOf(x).back();
  Value apart =
      transpose(node, node.reshape(x, {rows, a, b, parts}), {0, 2, 1, 3});
  Transform first = {rows * b, a, transform.isInverse, transform.scale};
  Value inner =
      transformRows(node, node.reshape(apart, {rows * b, a, parts}), first, a);
  Value turned =
      turnElements(node, node.reshape(inner, {rows, b, a, 2}), transform);
  if (!turned)
    return {};
  // Transform over j: one row for each k1.
  Value crossed = transpose(node, turned, {0, 2, 1, 3});
  Transform second = {rows * a, b, transform.isInverse};
  Value outer =
      transformRows(node, node.reshape(crossed, {rows * a, b, 2}), second, b);
  if (!outer)
    return {};
  // Restore the order of results, and keep the first `kept`.
  Value ordered =
      transpose(node, node.reshape(outer, {rows, a, b, 2}), {0, 2, 1, 3});
  return slice(node, node.reshape(ordered, {rows, n, 2}), {0, 0, 0},
               {rows, kept, 2});
}

//===----------------------------------------------------------------------===//
// DFT
//===----------------------------------------------------------------------===//

// Reads one integer that must be known at import. Returns `byDefault` if the
// input is absent.
static FailureOr<int64_t> readLength(NodeImporter &node, unsigned input,
                                     StringRef what, int64_t byDefault) {
  if (!node.hasInput(input))
    return byDefault;
  auto given = node.integers(input, what);
  if (failed(given))
    return failure();
  constexpr int64_t kMost = int64_t(1) << 30;
  if (given->size() != 1 || given->front() < 1 || given->front() > kMost)
    return node.invalid("expected " + what + " to be one integer from 1 to " +
                        Twine(kMost) + ", found " + printShape(*given));
  return given->front();
}

// Cuts an axis to its first `length` elements, or pads it with zeros at the
// end.
static Value fitAxis(NodeImporter &node, Value x, int64_t axis,
                     int64_t length) {
  SmallVector<int64_t> shape(NodeImporter::shapeOf(x));
  SmallVector<int64_t> origin(shape.size(), 0);
  bool isLonger = length > shape[axis];
  shape[axis] = length;
  if (!isLonger)
    return slice(node, x, origin, shape);
  return node.emit<PadOp>({x},
                          {node.attribute("offsets", ArrayRef<int64_t>(origin)),
                           node.attribute("shape", ArrayRef<int64_t>(shape))});
}

namespace {
enum class FourierDirection { Forward, Inverse };
/// The results that a transform keeps: all n, or the first n / 2 + 1, which
/// determine the others for a real signal.
enum class FourierResults { All, OneSided };
} // namespace

static FourierResults resultsOf(bool isOneSided) {
  return isOneSided ? FourierResults::OneSided : FourierResults::All;
}

// Transforms `x`, (outer..., n, inner..., parts), along `axis`, which has n
// elements. There is 1 part (real) or 2 (real, imaginary).
static Value transformAxis(NodeImporter &node, Value x, int64_t axis,
                           FourierDirection direction, FourierResults results) {
  const bool isInverse = direction == FourierDirection::Inverse;
  const bool isOneSided = results == FourierResults::OneSided;
  SmallVector<int64_t> shape(NodeImporter::shapeOf(x));
  assert(axis >= 0 && size_t(axis) + 1 < shape.size() &&
         "an axis before that of real and imaginary parts");
  int64_t rank = shape.size(), n = shape[axis], parts = shape.back();
  int64_t kept = isOneSided ? n / 2 + 1 : n;
  Type element = elementTypeOf(x);
  // Move the axis in front of the real and imaginary parts (the last axis), and
  // merge all other axes into rows.
  SmallVector<int64_t> perm = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  std::rotate(perm.begin() + axis, perm.begin() + axis + 1, perm.end() - 1);
  SmallVector<int64_t> moved, back(rank);
  for (auto [to, from] : llvm::enumerate(perm)) {
    moved.push_back(shape[from]);
    back[from] = to;
  }
  moved[rank - 2] = kept;
  moved[rank - 1] = 2;
  int64_t rows =
      ShapedType::getNumElements(ArrayRef<int64_t>(moved).drop_back(2));
  Value wide = castTo(node, x, node.attributes().getF64Type());
  Value lines = node.reshape(transpose(node, wide, perm), {rows, n, parts});
  Transform transform = {rows, n, isInverse};
  if (isInverse)
    transform.scale = 1.0 / n;
  Value result =
      node.reshape(transformRows(node, lines, transform, kept), moved);
  return result ? castTo(node, transpose(node, result, back), element)
                : Value();
}

// Computes the real signal of n elements from its first n / 2 + 1 transform
// results along `axis`. The other results are the conjugates of those, in
// reverse order.
static LogicalResult invertOneSided(NodeImporter &node, int64_t axis) {
  SmallVector<int64_t> shape(node.operandShape(0));
  auto length = readLength(node, 1, "the length", 2 * (shape[axis] - 1));
  if (failed(length))
    return failure();
  // The default length, 2 * (results - 1), is even. An odd length must be
  // given.
  int64_t n = *length;
  if (n < 1)
    return node.invalid(
        "expected the length of the signal as input 1: its transform has one "
        "element, which does not tell the length");
  if (!canTransform(node, n))
    return failure();
  // Append the conjugates of results 1 to (n - 1) / 2, from last to first.
  Value half = fitAxis(node, node.operand(0), axis, n / 2 + 1);
  SmallVector<int64_t> mirrored;
  for (int64_t k = n / 2 + 1; k < n; ++k)
    mirrored.push_back(n - k);
  Value whole = half;
  if (half && !mirrored.empty()) {
    Value sign = floatConstant(node, elementTypeOf(half), {2}, {1.0, -1.0});
    Value others = node.emit<MulOp>({take(node, half, axis, mirrored), sign});
    whole = concatenate(node, {half, others}, axis);
  }
  if (!whole)
    return failure();
  Value signal = transformAxis(node, whole, axis, FourierDirection::Inverse,
                               FourierResults::All);
  if (!signal)
    return failure();
  // The signal is real: its imaginary parts are 0.
  SmallVector<int64_t> real(NodeImporter::shapeOf(signal));
  real.back() = 1;
  SmallVector<int64_t> origin(real.size(), 0);
  return node.define(0, slice(node, signal, origin, real));
}

static LogicalResult assembleDFT(NodeImporter &node, int64_t givenAxis) {
  auto type = node.operandType(0);
  int64_t rank = type.getRank();
  bool isInverse = node.integer("inverse", 0) != 0;
  bool isOneSided = node.integer("onesided", 0) != 0;
  auto axis = node.normalizeAxis(givenAxis, rank);
  if (failed(axis))
    return failure();
  if (*axis == rank - 1)
    return node.invalid(
        "axis " + Twine(givenAxis) +
        " holds the real and imaginary parts: expected another axis" +
        node.found({0}));
  if (!isa<FloatType>(type.getElementType()))
    return node.invalid("expected floats" + node.found({0}));
  // The last axis holds a real part, or a real and an imaginary part.
  int64_t parts = type.getShape().back();
  if (parts != 1 && parts != 2)
    return node.invalid("expected a last axis of 1 or 2 elements, for real and "
                        "imaginary parts, found " +
                        Twine(parts));
  if (isOneSided && parts == 2 && !isInverse)
    return node.invalid("with attribute 'onesided' expected a real input, with "
                        "a last axis of 1 element" +
                        node.found({0}));
  if (type.getNumElements() == 0)
    return node.invalid("expected an input with elements" + node.found({0}));
  if (isOneSided && parts == 2)
    return invertOneSided(node, *axis);
  // Input 1, if present, is the length to which the axis is cut or padded with
  // zeros.
  auto length = readLength(node, 1, "the length", type.getDimSize(*axis));
  if (failed(length) || !canTransform(node, *length))
    return failure();
  Value x = fitAxis(node, node.operand(0), *axis, *length);
  if (!x)
    return failure();
  auto direction =
      isInverse ? FourierDirection::Inverse : FourierDirection::Forward;
  return node.define(
      0, transformAxis(node, x, *axis, direction, resultsOf(isOneSided)));
}

static LogicalResult importDFT(NodeImporter &node) {
  int64_t axis = -2;
  if (node.hasInput(2)) {
    auto given = node.integers(2, "the axis");
    if (failed(given))
      return failure();
    if (given->size() != 1)
      return node.invalid("expected one axis, found " + Twine(given->size()));
    axis = given->front();
  }
  return assembleDFT(node, axis);
}

// Imports DFT before opset 20, which has the axis as an attribute.
static LogicalResult importAttributeDFT(NodeImporter &node) {
  return assembleDFT(node, node.integer("axis", 1));
}

//===----------------------------------------------------------------------===//
// STFT
//===----------------------------------------------------------------------===//

// Imports STFT: cuts the signal into frames, which may overlap, multiplies each
// frame by the window, and transforms the products.
static LogicalResult importSTFT(NodeImporter &node) {
  SmallVector<int64_t> shape(node.operandShape(0));
  // Like ONNX Runtime, accept a real signal without its last axis.
  if (shape.size() == 2)
    shape.push_back(1);
  if (shape.size() != 3 || (shape[2] != 1 && shape[2] != 2) ||
      llvm::is_contained(shape, 0))
    return node.invalid(
        "expected a signal of shape (batch, length, 1 or 2) with elements" +
        node.found({0}));
  if (!isa<FloatType>(node.operandType(0).getElementType()))
    return node.invalid("expected floats" + node.found({0}));
  // The length of a frame is input 3, or else the length of the window, or else
  // that of the signal.
  int64_t byDefault = shape[1];
  if (node.hasInput(2)) {
    if (node.operandShape(2).size() != 1)
      return node.invalid("expected a window of rank 1, found rank " +
                          Twine(node.operandShape(2).size()));
    byDefault = node.operandShape(2)[0];
  }
  auto step = readLength(node, 1, "the step", 1);
  auto length = readLength(node, 3, "the length of a frame", byDefault);
  if (failed(step) || failed(length))
    return failure();
  if (node.hasInput(2) && byDefault != *length)
    return node.invalid("expected a window of " + Twine(*length) +
                        " elements, as a frame has, found " + Twine(byDefault));
  if (*length < 1 || *length > shape[1])
    return node.invalid("a frame of " + Twine(*length) +
                        " elements is not within a signal of " +
                        Twine(shape[1]));
  bool isOneSided = node.integer("onesided", 1) != 0;
  if (isOneSided && shape[2] == 2)
    return node.invalid("with attribute 'onesided', which is 1 by default, "
                        "expected a real signal" +
                        node.found({0}) + "; set 'onesided' to 0");
  // The gather below lists every element of every frame, so limit their number.
  int64_t frames = (shape[1] - *length) / *step + 1;
  if (!canTransform(node, *length) || !canList(node, frames) ||
      !canList(node, frames * *length))
    return failure();
  // Overlapping frames read elements repeatedly; one gather makes all frames.
  SmallVector<int64_t> places;
  for (int64_t frame = 0; frame < frames; ++frame)
    for (int64_t i = 0; i < *length; ++i)
      places.push_back(frame * *step + i);
  Value signal = node.reshape(node.operand(0), shape);
  Value x = node.reshape(take(node, signal, 1, places),
                         {shape[0], frames, *length, shape[2]});
  if (node.hasInput(2))
    x = node.emit<MulOp>(
        {x, node.reshape(node.operand(2), {1, 1, *length, 1})});
  if (!x)
    return failure();
  return node.define(0, transformAxis(node, x, 2, FourierDirection::Forward,
                                      resultsOf(isOneSided)));
}

ArrayRef<OpEntry> mpc::onnx_frontend::getFourierOps() {
  static const OpEntry entries[] = {
      {"", "DFT", 17, 19, 1, 2, 1, importAttributeDFT},
      {"", "DFT", 20, kNoEnd, 1, 3, 1, importDFT},
      {"", "STFT", 17, kNoEnd, 2, 4, 1, importSTFT},
  };
  return entries;
}
