// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/RowReduction.h"

#include "runtime/Tensor.h"
#include "runtime/distributed/Reduction.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace mpc::runtime {

using RowNumber = uint32_t;

/// Rows of so many bytes are first tested together, since most are zero.
static constexpr size_t kScanBytes = 4096;
/// Elements of all types may begin here.
static constexpr size_t kElementAlignment = 8;

static size_t roundUpQuotient(size_t count, size_t by) {
  return (count + by - 1) / by;
}

static size_t alignUp(size_t bytes) {
  return roundUpQuotient(bytes, kElementAlignment) * kElementAlignment;
}

/// True if all bits are zero. So -0.0 is not zero, and keeps its sign.
static bool isZero(const std::byte *data, size_t bytes) {
  return data[0] == std::byte(0) && std::memcmp(data, data + 1, bytes - 1) == 0;
}

RowReduction::RowReduction(size_t rows, size_t rowElements, DType type,
                           Reduce kind, size_t ranks, size_t blockBytes)
    : rows(rows), rowElements(rowElements),
      rowBytes(rowElements * static_cast<size_t>(sizeOf(type))), type(type),
      kind(kind), ranks(ranks),
      sectionRows(
          std::max<size_t>(1, blockBytes / (rowBytes + sizeof(RowNumber)))),
      sections(roundUpQuotient(rows, sectionRows)) {}

bool RowReduction::maySend() const {
  return rows > 0 && rowElements > 0 &&
         rows <= std::numeric_limits<RowNumber>::max();
}

std::vector<uint32_t> RowReduction::findRows(const std::byte *table) const {
  const size_t most =
      2 * rows * rowBytes / (ranks * (rowBytes + sizeof(RowNumber)));
  const size_t group = std::max<size_t>(1, kScanBytes / rowBytes);
  std::vector<uint32_t> found;
  for (size_t begin = 0; begin < rows && found.size() <= most; begin += group) {
    const size_t end = std::min(begin + group, rows);
    if (isZero(table + begin * rowBytes, (end - begin) * rowBytes))
      continue;
    for (size_t row = begin; row < end; ++row)
      if (!isZero(table + row * rowBytes, rowBytes))
        found.push_back(static_cast<RowNumber>(row));
  }
  return found;
}

std::vector<uint32_t> RowReduction::countRows(const std::vector<uint32_t> &own,
                                              size_t rank) const {
  std::vector<uint32_t> counts(ranks * sections);
  for (uint32_t row : own)
    ++counts[rank * sections + row / sectionRows];
  return counts;
}

std::vector<uint32_t>
RowReduction::findLongest(const std::vector<uint32_t> &counts) const {
  std::vector<uint32_t> longest(sections);
  for (size_t i = 0; i < counts.size(); ++i)
    longest[i % sections] = std::max(longest[i % sections], counts[i]);
  return longest;
}

bool RowReduction::sendsLess(const std::vector<uint32_t> &longest) const {
  size_t bytes = 0;
  for (uint32_t room : longest)
    bytes += room ? messageBytes(room) : 0;
  // A rank sends its rows to `ranks - 1` others. In an all-reduce, a rank sends
  // 2 (ranks - 1) / ranks times the bytes of the table.
  return bytes * ranks < 2 * rows * rowBytes;
}

size_t RowReduction::elementsAt(size_t room) const {
  return alignUp(room * sizeof(RowNumber));
}

size_t RowReduction::messageBytes(size_t room) const {
  return alignUp(elementsAt(room) + room * rowBytes);
}

void RowReduction::pack(const std::byte *table, const uint32_t *numbers,
                        size_t count, size_t room, std::byte *message) const {
  std::memset(message, 0, messageBytes(room));
  std::memcpy(message, numbers, count * sizeof(RowNumber));
  std::byte *elements = message + elementsAt(room);
  for (size_t i = 0; i < count; ++i)
    std::memcpy(elements + i * rowBytes, table + numbers[i] * rowBytes,
                rowBytes);
}

namespace {
/// The rows of one rank that are not yet added.
struct RowCursor {
  const RowNumber *next, *end;
  const std::byte *elements; ///< of the row `next`
};
} // namespace

void RowReduction::addRows(const std::byte *messages,
                           const std::vector<uint32_t> &counts, size_t section,
                           size_t room, std::byte *table) const {
  const std::vector<std::byte> zeros(rowBytes);
  std::vector<const std::byte *> parts(ranks);
  std::vector<RowCursor> cursors;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const std::byte *message = messages + rank * messageBytes(room);
    const auto *numbers = reinterpret_cast<const RowNumber *>(message);
    cursors.push_back({numbers, numbers + counts[rank * sections + section],
                       message + elementsAt(room)});
  }
  for (;;) {
    constexpr size_t none = std::numeric_limits<size_t>::max();
    size_t row = none;
    for (const RowCursor &cursor : cursors)
      if (cursor.next != cursor.end)
        row = std::min<size_t>(row, *cursor.next);
    if (row == none)
      return;
    for (size_t rank = 0; rank < ranks; ++rank) {
      RowCursor &cursor = cursors[rank];
      const bool has = cursor.next != cursor.end && *cursor.next == row;
      parts[rank] = has ? cursor.elements : zeros.data();
      if (has) {
        ++cursor.next;
        cursor.elements += rowBytes;
      }
    }
    reduceParts(parts.data(), ranks, table + row * rowBytes, rowElements, type,
                kind);
  }
}

} // namespace mpc::runtime
