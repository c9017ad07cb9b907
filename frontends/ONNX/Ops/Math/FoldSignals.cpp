// Folds the tables of signal processing whose sizes are known at import:
// windows and mel filter weights.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/FoldElements.h"

#include "llvm/ADT/StringSwitch.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

// Reads attribute 'output_datatype', which must be a float type.
static FailureOr<Type> readDataType(NodeImporter &node) {
  FailureOr<Type> element =
      node.elementType("output_datatype", node.attributes().getF32Type());
  if (succeeded(element) && !isa<FloatType>(*element))
    return node.unsupported(
        "expected attribute 'output_datatype' to be a float type, found " +
        printElementType(*element));
  return element;
}

// Reads an input that is one integer of at least `smallest`.
static FailureOr<int64_t> readCount(NodeImporter &node, unsigned index,
                                    StringRef what, int64_t smallest) {
  auto values = node.integers(index, what);
  if (failed(values))
    return failure();
  if (values->size() != 1 || values->front() < smallest)
    return node.invalid("expected " + what + " to be one number of at least " +
                        Twine(smallest) + ", found " + printShape(*values));
  return values->front();
}

//===----------------------------------------------------------------------===//
// Windows
//===----------------------------------------------------------------------===//

// Folds the cosine window c[0] - c[1] cos(t) + c[2] cos(2 t), for t from 0 to 2
// pi, where c is `coefficients`.
static LogicalResult foldWindow(NodeImporter &node,
                                ArrayRef<double> coefficients) {
  FailureOr<int64_t> size = readCount(node, 0, "the size", 0);
  FailureOr<Type> element = readDataType(node);
  if (failed(size) || failed(element))
    return failure();
  if (*size > kMostFoldedResults)
    return node.unsupported("a window of " + Twine(*size) +
                            " elements is too long: expected at most " +
                            Twine(kMostFoldedResults));
  bool isPeriodic = node.integer("periodic", 1) != 0;
  int64_t period = isPeriodic ? *size : *size - 1;
  SmallVector<double> values;
  for (int64_t i = 0; i < *size; ++i) {
    double turn = 2 * M_PI * static_cast<double>(i) /
                  static_cast<double>(std::max<int64_t>(period, 1));
    double value = coefficients[0] - coefficients[1] * std::cos(turn) +
                   coefficients[2] * std::cos(2 * turn);
    // A symmetric window of one element has no period. The element is the
    // middle of the window, whose value is 1.
    values.push_back(period == 0 ? 1 : value);
  }
  return node.define(0, makeFloats(*element, *size, values));
}

static LogicalResult foldHannWindow(NodeImporter &node) {
  return foldWindow(node, {0.5, 0.5, 0});
}

static LogicalResult foldHammingWindow(NodeImporter &node) {
  return foldWindow(node, {25.0 / 46, 21.0 / 46, 0});
}

static LogicalResult foldBlackmanWindow(NodeImporter &node) {
  return foldWindow(node, {0.42, 0.5, 0.08});
}

//===----------------------------------------------------------------------===//
// Mel filters
//===----------------------------------------------------------------------===//

static double toMel(double hertz) { return 2595 * std::log10(1 + hertz / 700); }

static double toHertz(double mel) {
  return 700 * (std::pow(10.0, mel / 2595) - 1);
}

namespace {
/// The parameters of a mel weight matrix.
struct MelFilters {
  int64_t filters, length, rate;
  double lower, upper; ///< in hertz

  int64_t bins() const { return length / 2 + 1; }
  /// The spectrum bins where the filters begin, peak and end: filter i has
  /// edges i, i + 1 and i + 2.
  SmallVector<int64_t> edges() const;
};
} // namespace

SmallVector<int64_t> MelFilters::edges() const {
  double first = toMel(lower);
  double step = (toMel(upper) - first) / static_cast<double>(filters + 2);
  SmallVector<int64_t> result;
  for (int64_t i = 0; i < filters + 2; ++i) {
    double hertz = toHertz(first + static_cast<double>(i) * step);
    double bin =
        static_cast<double>(length + 1) * hertz / static_cast<double>(rate);
    result.push_back(static_cast<int64_t>(std::floor(bin)));
  }
  return result;
}

// Reads the parameters of a mel weight matrix. The lower and upper frequency
// must lie between 0 and half the sample rate.
static FailureOr<MelFilters> readFilters(NodeImporter &node) {
  FailureOr<int64_t> filters = readCount(node, 0, "num_mel_bins", 1);
  FailureOr<int64_t> length = readCount(node, 1, "dft_length", 1);
  FailureOr<int64_t> rate = readCount(node, 2, "sample_rate", 1);
  if (failed(filters) || failed(length) || failed(rate))
    return failure();
  FailureOr<double> lower = node.scalar(3, "lower_edge_hertz");
  FailureOr<double> upper = node.scalar(4, "upper_edge_hertz");
  if (failed(lower) || failed(upper))
    return failure();
  if (!(*lower >= 0 && *lower < *upper &&
        *upper <= static_cast<double>(*rate) / 2))
    return node.invalid("expected 0 <= lower_edge_hertz < upper_edge_hertz <= "
                        "sample_rate / 2, found " +
                        std::to_string(*lower) + ", " + std::to_string(*upper) +
                        " and a sample rate of " + Twine(*rate));
  if (*filters > kMostFoldedResults || *length > kMostFoldedResults ||
      (*length / 2 + 1) * *filters > kMostFoldedResults)
    return node.unsupported("the matrix is too large: expected at most " +
                            Twine(kMostFoldedResults) + " elements, found " +
                            Twine(*filters) + " filters for a transform of " +
                            Twine(*length) + " elements");
  return MelFilters{*filters, *length, *rate, *lower, *upper};
}

// Folds MelWeightMatrix: a column per filter, a row per spectrum bin. Each
// filter is a triangle that overlaps its neighbours.
static LogicalResult foldMelWeightMatrix(NodeImporter &node) {
  FailureOr<MelFilters> mel = readFilters(node);
  FailureOr<Type> element = readDataType(node);
  if (failed(mel) || failed(element))
    return failure();
  SmallVector<int64_t> edges = mel->edges();
  SmallVector<double> values(mel->bins() * mel->filters, 0);
  // Every edge is a row of the matrix, because the upper frequency is at most
  // half the sample rate.
  for (int64_t i = 0; i < mel->filters; ++i) {
    int64_t begin = edges[i], middle = edges[i + 1], end = edges[i + 2];
    auto at = [&](int64_t bin) -> double & {
      return values[bin * mel->filters + i];
    };
    for (int64_t bin = begin; bin < middle; ++bin)
      at(bin) = static_cast<double>(bin - begin) /
                static_cast<double>(middle - begin);
    at(middle) = 1;
    for (int64_t bin = middle + 1; bin < end; ++bin)
      at(bin) =
          static_cast<double>(end - bin) / static_cast<double>(end - middle);
  }
  return node.define(0,
                     makeFloats(*element, {mel->bins(), mel->filters}, values));
}

Folder mpc::onnx_frontend::getSignalFolder(StringRef op) {
  return llvm::StringSwitch<Folder>(op)
      .Case("BlackmanWindow", foldBlackmanWindow)
      .Case("HammingWindow", foldHammingWindow)
      .Case("HannWindow", foldHannWindow)
      .Case("MelWeightMatrix", foldMelWeightMatrix)
      .Default(nullptr);
}
