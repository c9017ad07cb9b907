// Checks the values of a column against its input: class labels must be below
// the number of classes, indices within their axis, and targets of losses of
// probabilities between 0 and 1.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/data/Column.h"

#include "runtime/train/data/ImageFolder.h"
#include "runtime/train/data/ReadObserver.h"
#include "runtime/train/support/Threads.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <xxhash.h>

namespace mpc::runtime::train {

static Status reject(const std::string &where, const char *what, int64_t value,
                     int64_t low, int64_t high, const std::string &hint) {
  return invalid(where + ": " + what + " " + std::to_string(value) +
                 " is not in [" + std::to_string(low) + "," +
                 std::to_string(high) + ")" + hint);
}

/// Tests elements [begin, end) of an array, converted to `type`, which T
/// represents in C++. At the first element for which `isValid(position, value)`
/// is false, returns `explain(position, value)`.
template <typename T, typename Valid, typename Explain>
static Status checkEach(const Array &array, int64_t begin, int64_t end,
                        DType type, Valid &&isValid, Explain &&explain) {
  // Convert in chunks: the array may be a mapped file that is larger than
  // memory.
  constexpr int64_t kChunk = 65536;
  std::vector<T> values(size_t(std::min(kChunk, end - begin)));
  for (; begin < end; begin += kChunk) {
    const int64_t count = std::min(kChunk, end - begin);
    if (auto bad = convertElements(array, begin, count, type, NonFinite::Reject,
                                   values.data()))
      return invalid(describe(array, *bad, type));
    for (int64_t i = 0; i < count; ++i)
      if (!isValid(begin + i, values[size_t(i)]))
        return explain(begin + i, values[size_t(i)]);
  }
  return Status();
}

/// Checks that each target of `loss` is in [0, 1].
static Status checkProbabilities(const Array &array, int64_t begin, int64_t end,
                                 const std::string &loss) {
  // A sum of probabilities in float32 may exceed 1 by this much.
  constexpr double slack = 1e-6;
  return checkEach<double>(
      array, begin, end, DType::F64,
      [&](int64_t, double target) {
        return target >= -slack && target <= 1 + slack;
      },
      [&](int64_t position, double target) {
        char value[32];
        std::snprintf(value, sizeof(value), "%g", target);
        return invalid(locate(array, position) + ": target " + value +
                       " is not in [0,1], as " + loss +
                       " needs; help: true is 1 and false is 0; for class "
                       "numbers use cross_entropy, for other numbers mse");
      });
}

/// Explains the most frequent mistakes: labels that are to be ignored, without
/// --ignore-index, and labels that begin with 1.
static std::string labelHelp(int64_t label, int64_t classes,
                             std::optional<int64_t> ignored) {
  // Masks commonly have 255 in pixels without a label.
  constexpr int64_t kVoid = 255;
  if (ignored)
    return " and not the ignored " + std::to_string(*ignored);
  if (label < 0 || label == kVoid)
    return "; help: if labels of " + std::to_string(label) +
           " are to be ignored, compile with --ignore-index " +
           std::to_string(label);
  if (label == classes)
    return "; help: labels count from 0; with " + std::to_string(classes) +
           " classes the last is " + std::to_string(classes - 1);
  return "";
}

Status Column::checkLabels(const Array &array, int64_t begin, int64_t end,
                           int64_t classes, std::optional<int64_t> ignored,
                           std::atomic<bool> &counts) const {
  bool someCount = false;
  Status status = checkEach<int64_t>(
      array, begin, end, DType::I64,
      [&](int64_t, int64_t label) {
        // The ignored label may be outside the range.
        const bool isIgnored = label == ignored;
        someCount |= !isIgnored;
        return isIgnored || (label >= 0 && label < classes);
      },
      [&](int64_t position, int64_t label) {
        if (!array.classes.empty())
          return invalid(array.source,
                         "has " + std::to_string(array.classes.size()) +
                             " folders of labels, from '" +
                             array.classes.front() + "' to '" +
                             array.classes.back() + "'; the model has " +
                             std::to_string(classes) + " classes");
        return reject(locateLabel(array, position), "label", label, 0, classes,
                      labelHelp(label, classes, ignored));
      });
  if (someCount)
    counts = true;
  return status;
}

/// Names the label at `position` of a part. A label of a mask is a pixel of a
/// file.
std::string Column::locateLabel(const Array &array, int64_t position) const {
  const size_t part = size_t(&array - parts.data());
  if (part >= folders.size() || !folders[part])
    return locate(array, position);
  const int64_t row = position / rowElements, pixel = position % rowElements;
  return folders[part]->pathOf(row) + ": pixel [" +
         std::to_string(pixel / layout->width) + "," +
         std::to_string(pixel % layout->width) + "]";
}

/// True if a sample of the array has the shape of the port's samples.
static bool hasSamplesOf(const Port &port, const Array &array) {
  bool result = array.shape.size() == port.shape.size();
  for (size_t i = 0; result && i < port.shape.size(); ++i)
    result = int64_t(i) == port.batchAxis || array.shape[i] == port.shape[i];
  return result;
}

/// Checks the indices at positions [begin, end) of an array.
static Status checkIndexRange(const Port &port, const Array &array,
                              int64_t begin, int64_t end) {
  if (port.indices.empty() || begin == end || !hasSamplesOf(port, array))
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
  const auto rangeOf = [&](int64_t position) -> const IndexRange & {
    return ranges[size_t(position / row * inner + position % inner)];
  };
  return checkEach<int64_t>(
      array, begin, end, DType::I64,
      [&](int64_t position, int64_t index) {
        return rangeOf(position).holds(index);
      },
      [&](int64_t position, int64_t index) {
        const IndexRange &range = rangeOf(position);
        return reject(locate(array, position),
                      range.low == 0 ? "label" : "index", index, range.low,
                      range.high,
                      range.ignored ? " and not the ignored " +
                                          std::to_string(*range.ignored)
                                    : "");
      });
}

Status checkIndices(const Port &port, const Array &array) {
  return checkIndexRange(port, array, 0, array.size());
}

/// Checks elements [begin, end) of a part. Several threads may call this at
/// once.
Status Column::checkRange(const Array &part, int64_t begin, int64_t end,
                          const LabelRange &range,
                          std::atomic<bool> &counts) const {
  const NonFinite nonFinite =
      prepared.allowsNaN ? NonFinite::Allow : NonFinite::Reject;
  if (auto bad = convertElements(part, begin, end - begin, input.type,
                                 nonFinite, nullptr))
    return invalid(
        describe(part, *bad, input.type) +
        (bad->fault == ConversionFault::NotFinite && input.role == Role::Data
             ? "; if the model handles it, use --allow-nan"
             : ""));
  if (hasClasses(range))
    return checkLabels(part, begin, end, *range.classes, range.ignoreIndex,
                       counts);
  if (!input.indices.empty())
    return checkIndexRange(input, part, begin, end);
  if (input.role == Role::Label && !range.probabilitiesOf.empty())
    return checkProbabilities(part, begin, end, range.probabilitiesOf);
  return Status();
}

/// True if the column has class numbers, whose range is known.
bool Column::hasClasses(const LabelRange &range) const {
  return input.role == Role::Label && !runtime::isFloat(input.type) &&
         range.classes;
}

Status Column::inspect(const LabelRange &range, ReadObserver *observer,
                       bool &counts, uint64_t &digest) const {
  // Class labels count unless they are ignored. Values of all other inputs
  // always count.
  counts |= !hasClasses(range);
  digest = digestOfForm(digest);
  if (isDecodedLater()) {
    for (const Array &part : parts)
      digest = part.images->digest(digest);
    return Status();
  }
  int64_t done = 0, total = 0;
  for (const Array &part : parts)
    total += part.bytes();
  // Check and hash block by block: a file that is larger than memory is then
  // read once. The bytes are hashed as if all samples were in one file.
  constexpr int64_t kBlockBytes = int64_t(32) << 20;
  std::atomic<bool> someCount{counts};
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_64bits_reset_withSeed(&state, digest);
  for (int64_t o = 0; o < outer; ++o)
    for (const Array &part : parts) {
      const int64_t width = sizeOf(part.type), count = part.size() / outer;
      const int64_t block = std::max<int64_t>(kBlockBytes / width, 1);
      for (int64_t from = 0; from < count; from += block) {
        const int64_t begin = o * count + from;
        const int64_t size = std::min(block, count - from);
        if (observer)
          observer->reading(part.source, done, total);
        Status status = onRows(size, width, [&](int64_t first, int64_t last) {
          return checkRange(part, begin + first, begin + last, range,
                            someCount);
        });
        if (!status.ok())
          return status;
        XXH3_64bits_update(&state, part.data + begin * width,
                           size_t(size * width));
        done += size * width;
      }
    }
  counts = someCount;
  digest = XXH3_64bits_digest(&state);
  return Status();
}

} // namespace mpc::runtime::train
