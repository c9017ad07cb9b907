// Imports Unique and NonMaxSuppression, whose data determines the result's
// shape. Shapes are static, so both are computed at import. Their inputs must
// be known: constants of the model, or inputs whose values `mpc run` supplies.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Assemble.h"
#include "frontends/ONNX/Importer/FoldElements.h"

#include <cmath>
#include <numeric>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

// Reads input `index`, which determines the shape of a result and must be
// known. State that training may change counts as unknown.
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
/// The parts of a tensor of shape (outer, count, inner) along the middle axis.
/// Part i has the elements (o, i, j) for all o and j. Parts are ordered by
/// their first different elements.
class Parts {
public:
  Parts(const HostTensor &tensor, int64_t outer, int64_t count, int64_t inner)
      : tensor(tensor), outer(outer), count(count), inner(inner) {
    auto type = dyn_cast<IntegerType>(tensor.type.getElementType());
    isUnsigned = type && type.isUnsigned();
  }

  /// Returns a negative number if part `a` precedes part `b`, 0 if they are
  /// equal.
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

  // NaN follows all numbers and equals itself, as in NumPy.
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

/// The result of Unique: groups of parts along its axis whose elements are
/// equal.
struct EqualParts {
  /// The first part of each group, in the order of the result.
  SmallVector<int64_t> firsts;
  /// The group of each part, and the size of each group.
  SmallVector<int64_t> inverse, counts;
};

// Groups equal parts among parts 0 to count - 1. Groups are sorted by value if
// `isSorted`, otherwise by first occurrence.
static EqualParts findEqualParts(const Parts &parts, int64_t count,
                                 bool isSorted) {
  // A stable sort puts equal parts side by side, the first occurrence first.
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
  // Number the groups in the order of the result.
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
  FailureOr<HostTensor> x = readKnown(node, 0);
  if (failed(x) || !canList(node, x->getNumElements()))
    return failure();
  // Without attribute 'axis', each element of the tensor is a part.
  SmallVector<int64_t> shape = {x->getNumElements()};
  int64_t axis = 0;
  if (node.hasAttribute("axis")) {
    shape.assign(x->getShape().begin(), x->getShape().end());
    auto given = node.normalizeAxis(node.integer("axis", 0), shape.size());
    if (failed(given))
      return failure();
    axis = *given;
  }
  // The number of parts needs a limit of its own: a tensor of [2^40, 0] has no
  // elements, but 2^40 parts.
  int64_t count = shape[axis];
  if (!canList(node, count))
    return failure();
  ArrayRef<int64_t> all = shape;
  Parts parts(*x, ShapedType::getNumElements(all.take_front(axis)), count,
              ShapedType::getNumElements(all.drop_front(axis + 1)));
  EqualParts found =
      findEqualParts(parts, count, node.integer("sorted", 1) != 0);
  // Copy each unique part from its first occurrence.
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
  // The outputs are the unique parts, first indices, inverse indices and
  // counts.
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
/// A box between the corners `low` and `high`. Floats have the precision of
/// other runtimes.
struct SuppressedBox {
  float low[2], high[2];

  float area() const { return (high[0] - low[0]) * (high[1] - low[1]); }

  /// True if the intersection over union of the boxes exceeds `share`.
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

/// The limits in inputs 2 to 4 of NonMaxSuppression.
struct Suppression {
  int64_t mostBoxes = 0;
  float overlap = 0.0f;
  std::optional<float> score;
};
} // namespace

static FailureOr<Suppression> readSuppression(NodeImporter &node) {
  Suppression limits;
  for (unsigned input : {2, 3, 4}) {
    if (!node.hasInput(input))
      continue;
    FailureOr<HostTensor> value = readKnown(node, input);
    if (failed(value))
      return failure();
    if (value->getNumElements() != 1 || value->isFloat() != (input != 2))
      return node.invalid("expected one " +
                          Twine(input == 2 ? "integer" : "float") +
                          node.found({input}));
    if (input == 2)
      limits.mostBoxes = std::max<int64_t>(value->getInteger(0), 0);
    else if (input == 3)
      limits.overlap = static_cast<float>(value->getDouble(0));
    else
      limits.score = static_cast<float>(value->getDouble(0));
  }
  // This form of the comparison refuses NaN, too.
  if (!(limits.overlap >= 0 && limits.overlap <= 1))
    return node.invalid("expected an iou_threshold from 0 to 1, found " +
                        std::to_string(limits.overlap));
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

// Selects boxes of one class: goes through the boxes by falling score, and
// drops each box that overlaps a selected one. Subtracts the number of
// comparisons from `comparisons`; returns nullopt if that becomes negative.
static std::optional<SmallVector<int64_t>>
suppress(ArrayRef<SuppressedBox> boxes, ArrayRef<float> scores,
         const Suppression &limits, int64_t &comparisons) {
  SmallVector<int64_t> candidates, taken;
  for (auto [box, score] : llvm::enumerate(scores))
    if (!std::isnan(score) && (!limits.score || score > *limits.score))
      candidates.push_back(box);
  llvm::stable_sort(
      candidates, [&](int64_t a, int64_t b) { return scores[a] > scores[b]; });
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
    return node.invalid("expected floats: boxes of shape (N, boxes, 4) and "
                        "scores of shape (N, classes, boxes)" +
                        node.found({0, 1}));
  // Boxes and scores are compared in float, as in ONNX Runtime: an overlap that
  // equals the threshold there must equal it here.
  if (!canList(node, boxes->getNumElements()) ||
      !canList(node, scores->getNumElements()))
    return failure();
  SmallVector<SuppressedBox> all = readBoxes(*boxes, isCentered);
  SmallVector<float> values;
  for (int64_t i = 0; i < scores->getNumElements(); ++i)
    values.push_back(static_cast<float>(scores->getDouble(i)));
  SmallVector<int64_t> selected;
  constexpr int64_t kMostComparisons = int64_t(1) << 32; // takes some seconds
  int64_t count = shape[1], left = kMostComparisons;
  // Suppress the boxes of each class of each sample.
  for (int64_t sample = 0; sample < shape[0]; ++sample)
    for (int64_t each = 0; each < classes[1]; ++each) {
      auto taken = suppress(
          ArrayRef(all).slice(sample * count, count),
          ArrayRef(values).slice((sample * classes[1] + each) * count, count),
          *limits, left);
      if (!taken)
        return node.unsupported(
            "the boxes are too many to be compared, found " +
            printShape(shape) + " for " + Twine(classes[1]) + " classes");
      for (int64_t box : *taken)
        selected.append({sample, each, box});
    }
  // Each row of the result is (sample, class, box).
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
