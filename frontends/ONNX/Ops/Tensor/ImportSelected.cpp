// Ops whose results have as many elements as their data decides: Unique and
// NonMaxSuppression. Shapes are static, so both are computed at import, where
// their inputs are known there: constants of the model, or inputs whose values
// `mpc run` offers.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Assemble.h"
#include "frontends/ONNX/Importer/FoldElements.h"

#include <cmath>
#include <numeric>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

// The elements of an input that decides the shape of a result. State that
// training may change is not known.
static FailureOr<HostTensor> readKnown(NodeImporter &node, unsigned index) {
  std::optional<HostTensor> tensor = node.constant(index);
  bool mayChange =
      node.isState(index) && node.getMode() == ImportMode::Training;
  if (tensor && !mayChange)
    return *tensor;
  node.demand(index);
  return node.unsupported(
      "input '" + node.getInputName(index) +
      "' decides how many elements the result has, and is not known at "
      "import; give it as a constant, run the model with 'mpc run', which "
      "binds inputs, or end the model before this node");
}

//===----------------------------------------------------------------------===//
// Unique
//===----------------------------------------------------------------------===//

namespace {
/// The parts of a tensor along an axis, of (outer, parts, inner), in the order
/// of their elements.
class Parts {
public:
  Parts(const HostTensor &tensor, int64_t outer, int64_t count, int64_t inner)
      : tensor(tensor), outer(outer), count(count), inner(inner) {
    auto type = dyn_cast<IntegerType>(tensor.type.getElementType());
    isUnsigned = type && type.isUnsigned();
  }

  /// Below 0 where part `a` comes before part `b`, 0 where they are equal.
  int compare(int64_t a, int64_t b) const {
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i)
        if (int order = compareElements(position(o, a, i), position(o, b, i)))
          return order;
    return 0;
  }

private:
  int64_t position(int64_t o, int64_t part, int64_t i) const {
    return (o * count + part) * inner + i;
  }

  template <typename T>
  static int order(T a, T b) {
    return a < b ? -1 : b < a ? 1 : 0;
  }

  // NaN is behind all numbers, and equal to itself, as in NumPy.
  int compareElements(int64_t a, int64_t b) const {
    if (tensor.isFloat()) {
      double x = tensor.getDouble(a), y = tensor.getDouble(b);
      if (std::isnan(x) || std::isnan(y))
        return order<int>(std::isnan(x), std::isnan(y));
      return order(x, y);
    }
    int64_t x = tensor.getInteger(a), y = tensor.getInteger(b);
    return isUnsigned ? order<uint64_t>(x, y) : order(x, y);
  }

  const HostTensor &tensor;
  int64_t outer, count, inner;
  bool isUnsigned;
};
} // namespace

/// Which parts are equal.
struct EqualParts {
  /// The first part of each kind, in the order of the result.
  SmallVector<int64_t> firsts;
  /// For each part the number of its kind, and for each kind how many there
  /// are.
  SmallVector<int64_t> inverse, counts;
};

// Kinds are sorted by value, or in the order in which they first occur.
static EqualParts findEqualParts(const Parts &parts, int64_t count,
                                 bool isSorted) {
  // Equal parts beside each other, the first one first.
  EqualParts result;
  SmallVector<int64_t> order(count), firstOf(count), number(count);
  std::iota(order.begin(), order.end(), 0);
  llvm::stable_sort(
      order, [&](int64_t a, int64_t b) { return parts.compare(a, b) < 0; });
  for (int64_t i = 0; i < count; ++i) {
    bool isNew = i == 0 || parts.compare(order[i - 1], order[i]) != 0;
    if (isNew)
      result.firsts.push_back(order[i]);
    firstOf[order[i]] = result.firsts.back();
  }
  // Each kind gets a number, which its first part has until then.
  if (!isSorted)
    llvm::sort(result.firsts);
  for (auto [i, first] : llvm::enumerate(result.firsts))
    number[first] = i;
  result.counts.assign(result.firsts.size(), 0);
  for (int64_t first : firstOf) {
    result.inverse.push_back(number[first]);
    ++result.counts[number[first]];
  }
  return result;
}

static LogicalResult importUnique(NodeImporter &node) {
  // The shape of the result depends on the values, so they must be known.
  FailureOr<HostTensor> x = readKnown(node, 0);
  if (failed(x) || !canList(node, x->getNumElements()))
    return failure();
  // Without an axis the elements are the parts.
  SmallVector<int64_t> shape = {x->getNumElements()};
  int64_t axis = 0;
  if (node.hasAttribute("axis")) {
    shape.assign(x->getShape().begin(), x->getShape().end());
    auto given = node.normalizeAxis(node.integer("axis", 0), shape.size());
    if (failed(given))
      return failure();
    axis = *given;
  }
  // A part is all elements at one index of the axis: outer * inner of them, and
  // none in [2^40, 0].
  int64_t count = shape[axis];
  if (!canList(node, count))
    return failure();
  ArrayRef<int64_t> all = shape;
  Parts parts(*x, ShapedType::getNumElements(all.take_front(axis)), count,
              ShapedType::getNumElements(all.drop_front(axis + 1)));
  EqualParts found =
      findEqualParts(parts, count, node.integer("sorted", 1) != 0);
  // The unique parts, read from where each occurs first.
  shape[axis] = found.firsts.size();
  SmallVector<int64_t> whole(all);
  whole[axis] = count;
  HostTensor unique = pick(*x, shape, [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> from(index);
    from[axis] = found.firsts[from[axis]];
    return getPosition(from, whole);
  });
  auto list = [&](ArrayRef<int64_t> values) {
    return HostTensor::fromIntegers(
        node.getContext(), {static_cast<int64_t>(values.size())}, values);
  };
  // Values, first indices, inverse indices and counts.
  if (failed(node.define(0, unique)) ||
      failed(node.define(1, list(found.firsts))) ||
      failed(node.define(2, list(found.inverse))))
    return failure();
  return node.define(3, list(found.counts));
}

//===----------------------------------------------------------------------===//
// NonMaxSuppression
//===----------------------------------------------------------------------===//

namespace {
/// A box between two corners, in float as other runtimes compute.
struct SuppressedBox {
  float low[2], high[2];

  float area() const { return (high[0] - low[0]) * (high[1] - low[1]); }

  /// Whether the part of the union that is in both is above a share.
  bool overlaps(const SuppressedBox &other, float share) const {
    float both = 1.0f;
    for (int d : {0, 1}) {
      float extent =
          std::min(high[d], other.high[d]) - std::max(low[d], other.low[d]);
      if (!(extent > 0))
        return false;
      both *= extent;
    }
    float either = area() + other.area() - both;
    return area() > 0 && other.area() > 0 && either > 0 &&
           both / either > share;
  }
};

/// Limits, inputs 2 to 4.
struct Suppression {
  int64_t mostBoxes = 0;
  float overlap = 0.0f;
  std::optional<float> score;
};
} // namespace

static FailureOr<Suppression> readSuppression(NodeImporter &node) {
  Suppression limits;
  // Three numbers that may be absent.
  for (unsigned input : {2, 3, 4}) {
    if (!node.hasInput(input))
      continue;
    FailureOr<HostTensor> value = readKnown(node, input);
    if (failed(value))
      return failure();
    if (value->getNumElements() != 1 || value->isFloat() != (input != 2))
      return node.invalid("expected a number as input '" +
                          node.getInputName(input) + "'");
    if (input == 2)
      limits.mostBoxes = std::max<int64_t>(value->getInteger(0), 0);
    else if (input == 3)
      limits.overlap = static_cast<float>(value->getDouble(0));
    else
      limits.score = static_cast<float>(value->getDouble(0));
  }
  // NaN is no share either.
  if (!(limits.overlap >= 0 && limits.overlap <= 1))
    return node.invalid("expected an iou_threshold from 0 to 1");
  return limits;
}

static SmallVector<SuppressedBox> readBoxes(const HostTensor &tensor,
                                            bool isCentered) {
  SmallVector<SuppressedBox> boxes;
  for (int64_t i = 0; i < tensor.getNumElements(); i += 4) {
    auto value = [&](int64_t k) {
      return static_cast<float>(tensor.getDouble(i + k));
    };
    SuppressedBox &box = boxes.emplace_back();
    for (int d : {0, 1}) {
      float a = value(d), b = value(d + 2);
      box.low[d] = isCentered ? a - b / 2 : std::min(a, b);
      box.high[d] = isCentered ? a + b / 2 : std::max(a, b);
    }
  }
  return boxes;
}

// Non-maximum suppression among the boxes of one class: takes boxes by falling
// score and leaves out each that overlaps a taken one. Nothing if that takes
// more than `comparisons`, from which it subtracts those it makes.
static std::optional<SmallVector<int64_t>>
suppress(ArrayRef<SuppressedBox> boxes, ArrayRef<float> scores,
         const Suppression &limits, int64_t &comparisons) {
  // Boxes above the threshold, best first.
  SmallVector<int64_t> candidates, taken;
  for (auto [box, score] : llvm::enumerate(scores))
    if (!std::isnan(score) && (!limits.score || score > *limits.score))
      candidates.push_back(box);
  llvm::stable_sort(
      candidates, [&](int64_t a, int64_t b) { return scores[a] > scores[b]; });
  // Each is compared with all that were taken.
  for (int64_t box : candidates) {
    if (static_cast<int64_t>(taken.size()) >= limits.mostBoxes)
      break;
    comparisons -= taken.size();
    if (comparisons < 0)
      return std::nullopt;
    if (llvm::none_of(taken, [&](int64_t other) {
          return boxes[box].overlaps(boxes[other], limits.overlap);
        }))
      taken.push_back(box);
  }
  return taken;
}

static LogicalResult importNonMaxSuppression(NodeImporter &node) {
  // A box by two corners, or by its center and size.
  bool isCentered = node.integer("center_point_box", 0) != 0;
  FailureOr<HostTensor> boxes = readKnown(node, 0);
  FailureOr<HostTensor> scores = readKnown(node, 1);
  FailureOr<Suppression> limits = readSuppression(node);
  if (failed(boxes) || failed(scores) || failed(limits))
    return failure();
  ArrayRef<int64_t> shape = boxes->getShape(), classes = scores->getShape();
  if (!boxes->isFloat() || !scores->isFloat() || shape.size() != 3 ||
      shape[2] != 4 || classes.size() != 3 || classes[0] != shape[0] ||
      classes[2] != shape[1])
    return node.invalid("expected boxes of floats of shape (N, boxes, 4) and "
                        "scores of shape (N, classes, boxes)");
  // Comparisons are in float, as in ONNX Runtime: an overlap that equals the
  // threshold must equal it there.
  if (!canList(node, boxes->getNumElements()) ||
      !canList(node, scores->getNumElements()))
    return failure();
  SmallVector<SuppressedBox> all = readBoxes(*boxes, isCentered);
  SmallVector<float> values;
  for (int64_t i = 0; i < scores->getNumElements(); ++i)
    values.push_back(static_cast<float>(scores->getDouble(i)));
  SmallVector<int64_t> selected;
  constexpr int64_t kMostComparisons = int64_t(1) << 32; // some seconds
  int64_t count = shape[1], left = kMostComparisons;
  // Class by class the boxes with the highest scores, without those that
  // overlap them.
  for (int64_t sample = 0; sample < shape[0]; ++sample)
    for (int64_t each = 0; each < classes[1]; ++each) {
      auto taken = suppress(
          ArrayRef(all).slice(sample * count, count),
          ArrayRef(values).slice((sample * classes[1] + each) * count, count),
          *limits, left);
      if (!taken)
        return node.unsupported("the boxes are too many to be compared");
      for (int64_t box : *taken)
        selected.append({sample, each, box});
    }
  // A row (sample, class, box) for each.
  return node.define(0, HostTensor::fromIntegers(
                            node.getContext(),
                            {static_cast<int64_t>(selected.size()) / 3, 3},
                            selected));
}

ArrayRef<OpEntry> mpc::onnx_frontend::getSelectedOps() {
  static const OpEntry entries[] = {
      {"", "NonMaxSuppression", 10, kNoEnd, 2, 5, 1, importNonMaxSuppression},
      {"", "Unique", 11, kNoEnd, 1, 1, 4, importUnique},
  };
  return entries;
}
