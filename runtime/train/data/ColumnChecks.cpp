// Checks the values of a column against its input: class labels must be below
// the number of classes, indices within their axis, and targets of losses of
// probabilities between 0 and 1.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/data/Column.h"

#include <algorithm>
#include <cstdio>

namespace mpc::runtime::train {

/// The class label that PyTorch ignores by default.
constexpr int64_t kIgnored = -100;

static Status reject(const Array &array, int64_t position, const char *what,
                     int64_t value, int64_t low, int64_t high,
                     const std::string &hint) {
  return invalid(locate(array, position) + ": " + what + " " +
                 std::to_string(value) + " is not in [" + std::to_string(low) +
                 "," + std::to_string(high) + ")" + hint);
}

/// Calls `visit(position, value)` for each element of an array, converted to
/// `type`, which T represents in C++. Stops at the first failure.
template <typename T, typename Visitor>
static Status forEach(const Array &array, DType type, Visitor &&visit) {
  // Convert in chunks: the array may be a mapped file that is larger than
  // memory.
  constexpr int64_t kChunk = 65536;
  std::vector<T> values(kChunk);
  for (int64_t begin = 0; begin < array.size(); begin += kChunk) {
    const int64_t count = std::min(kChunk, array.size() - begin);
    if (auto bad = convertElements(array, begin, count, type, NonFinite::Reject,
                                   values.data()))
      return invalid(describe(array, *bad, type));
    for (int64_t i = 0; i < count; ++i)
      if (Status status = visit(begin + i, values[size_t(i)]); !status.ok())
        return status;
  }
  return Status();
}

template <typename Visitor>
static Status forEachInteger(const Array &array, Visitor &&visit) {
  return forEach<int64_t>(array, DType::I64, visit);
}

/// Checks that each target of `loss` is in [0, 1].
static Status checkProbabilities(const Array &array, const std::string &loss) {
  // A sum of probabilities in float32 may exceed 1 by this much.
  constexpr double slack = 1e-6;
  return forEach<double>(
      array, DType::F64, [&](int64_t position, double target) {
        if (target >= -slack && target <= 1 + slack)
          return Status();
        char value[32];
        std::snprintf(value, sizeof(value), "%g", target);
        return invalid(locate(array, position) + ": target " + value +
                       " is not in [0,1], as " + loss +
                       " needs; help: true is 1 and false is 0; for class "
                       "numbers use cross_entropy, for other numbers mse");
      });
}

/// Checks that each label is in [0, classes) or equals `ignored`. Sets `counts`
/// to true if some label is not ignored.
static Status checkLabels(const Array &array, int64_t classes,
                          std::optional<int64_t> ignored, bool &counts) {
  return forEachInteger(array, [&](int64_t position, int64_t label) {
    // The ignored label may be outside the range.
    if (label == ignored)
      return Status();
    counts = true;
    if (label >= 0 && label < classes)
      return Status();
    // Add a hint for the most frequent mistakes: labels of -100 without
    // --ignore-index, and labels that begin with 1.
    std::string hint;
    if (ignored)
      hint = " and not the ignored " + std::to_string(*ignored);
    else if (label == kIgnored)
      hint = "; help: if these labels are to be ignored, compile with "
             "--ignore-index -100";
    else if (label == classes)
      hint = "; help: labels count from 0; with " + std::to_string(classes) +
             " classes the last is " + std::to_string(classes - 1);
    return reject(array, position, "label", label, 0, classes, hint);
  });
}

/// True if a sample of the array has the shape of the port's samples.
static bool hasSamplesOf(const Port &port, const Array &array) {
  bool result = array.shape.size() == port.shape.size();
  for (size_t i = 0; result && i < port.shape.size(); ++i)
    result = int64_t(i) == port.batchAxis || array.shape[i] == port.shape[i];
  return result;
}

Status checkIndices(const Port &port, const Array &array) {
  if (port.indices.empty() || array.size() == 0 || !hasSamplesOf(port, array))
    return Status();
  const std::vector<IndexRange> ranges =
      sampleRanges(port.indices, port.shape, port.batchAxis);
  int64_t outer = 1;
  for (int64_t axis = 0; axis < port.batchAxis; ++axis)
    outer *= array.shape[size_t(axis)];
  // `ranges` has one entry per element of a sample. In memory, `inner` elements
  // of a sample are contiguous, after the sample axis.
  const int64_t inner = int64_t(ranges.size()) / outer;
  const int64_t row = array.size() / outer;
  return forEachInteger(array, [&](int64_t position, int64_t index) {
    const int64_t place = position / row * inner + position % inner;
    const IndexRange &range = ranges[size_t(place)];
    if (range.holds(index))
      return Status();
    return reject(array, position, range.low == 0 ? "label" : "index", index,
                  range.low, range.high,
                  range.ignored
                      ? " and not the ignored " + std::to_string(*range.ignored)
                      : "");
  });
}

Status Column::check(const LabelRange &range, bool &counts) const {
  // Class labels count unless they are ignored. Values of all other inputs
  // always count.
  const bool hasClasses = input.role == Role::Label &&
                          !runtime::isFloat(input.type) && range.classes;
  counts |= !hasClasses;
  for (const Array &part : parts) {
    if (auto bad = convertElements(
            part, 0, part.size(), input.type,
            prepared.allowsNaN ? NonFinite::Allow : NonFinite::Reject, nullptr))
      return invalid(
          describe(part, *bad, input.type) +
          (bad->fault == ConversionFault::NotFinite && input.role == Role::Data
               ? "; if the model handles it, use --allow-nan"
               : ""));
    Status status;
    if (hasClasses)
      status = checkLabels(part, *range.classes, range.ignoreIndex, counts);
    else if (!input.indices.empty())
      status = checkIndices(input, part);
    else if (input.role == Role::Label && !range.probabilitiesOf.empty())
      status = checkProbabilities(part, range.probabilitiesOf);
    if (!status.ok())
      return status;
  }
  return Status();
}

} // namespace mpc::runtime::train
