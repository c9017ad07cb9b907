// An idx file begins with two zeros, a byte for the type and a byte for the
// rank. Extents follow, in 32 bits, then the elements. All numbers are
// big-endian.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/data/Idx.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <optional>

namespace mpc::runtime::train {

static constexpr size_t kMagicBytes = 4, kExtentBytes = 4;

static std::optional<ElementType> idxTypeOf(std::byte code) {
  switch (int(code)) {
  case 0x08:
    return ElementType::U8;
  case 0x09:
    return ElementType::I8;
  case 0x0b:
    return ElementType::I16;
  case 0x0c:
    return ElementType::I32;
  case 0x0d:
    return ElementType::F32;
  case 0x0e:
    return ElementType::F64;
  default:
    return std::nullopt;
  }
}

bool looksLikeIdx(const std::byte *data, size_t size) {
  return size >= kMagicBytes && data[0] == std::byte(0) &&
         data[1] == std::byte(0) && data[2] >= std::byte(0x08) &&
         data[2] <= std::byte(0x0e) && data[3] != std::byte(0) &&
         data[3] <= std::byte(kMaxRank);
}

StatusOr<Array> parseIdx(const std::byte *data, size_t size,
                         std::shared_ptr<const void> owner,
                         const std::string &where) {
  if (!looksLikeIdx(data, size))
    return invalid(where, "not an idx file");
  const std::optional<ElementType> type = idxTypeOf(data[2]);
  if (!type) {
    char code[8];
    std::snprintf(code, sizeof(code), "0x%02x", unsigned(data[2]));
    return invalid(where, std::string("unknown idx type ") + code +
                              ", expected 0x08 (u8), 0x09 (i8), 0x0b (i16), "
                              "0x0c (i32), 0x0d (f32) or 0x0e (f64)");
  }
  Array array;
  array.type = *type;
  const size_t rank = size_t(data[3]);
  const size_t start = kMagicBytes + rank * kExtentBytes;
  if (size < start)
    return invalid(where, "truncated idx header: " + std::to_string(rank) +
                              " axes take " + std::to_string(start) +
                              " bytes, the file has " + std::to_string(size));
  // Refuse a file whose shape does not account for every byte after the header.
  uint64_t bytes = uint64_t(sizeOf(*type));
  bool overflows = false;
  for (size_t axis = 0; axis < rank; ++axis) {
    uint64_t extent = 0;
    for (size_t i = 0; i < kExtentBytes; ++i)
      extent =
          extent << 8 | uint64_t(data[kMagicBytes + axis * kExtentBytes + i]);
    array.shape.push_back(int64_t(extent));
    overflows |= extent != 0 &&
                 bytes > uint64_t(std::numeric_limits<int64_t>::max()) / extent;
    bytes = overflows ? 0 : bytes * extent;
  }
  if (overflows || bytes != size - start)
    return invalid(where,
                   "shape " + toString(array.shape) + " of " +
                       std::string(nameOf(*type)) + " takes " +
                       (overflows ? "over 2^63" : std::to_string(bytes)) +
                       " bytes, the file has " + std::to_string(size - start));
  // The format knows no channels: grey images are [N,H,W].
  array.isOfSamples = true;
  array.data = data + start;
  array.owner = std::move(owner);
  const size_t width = size_t(sizeOf(*type));
  if (width == 1 || bytes == 0)
    return array;
  std::shared_ptr<std::byte[]> swapped(new std::byte[size_t(bytes)]);
  for (size_t i = 0; i < bytes; i += width)
    std::reverse_copy(array.data + i, array.data + i + width,
                      swapped.get() + i);
  array.data = swapped.get();
  array.owner = std::move(swapped);
  return array;
}

} // namespace mpc::runtime::train
