// SPDX-License-Identifier: Apache-2.0
#include "runtime/Indices.h"

#include <cassert>
#include <cstring>

namespace mpc::runtime {

/// The bytes may be anywhere, so an index is copied before it is read.
template <typename T>
static std::optional<StrayIndex> findStray(const void *bytes, int64_t count,
                                           int64_t size) {
  const auto *from = static_cast<const std::byte *>(bytes);
  for (int64_t i = 0; i < count; ++i, from += sizeof(T)) {
    T index;
    std::memcpy(&index, from, sizeof(T));
    if (index < -size || index >= size)
      return StrayIndex{i, index};
  }
  return std::nullopt;
}

std::optional<StrayIndex> findStrayIndex(DType type, const void *bytes,
                                         int64_t count, int64_t size) {
  assert(type == DType::I32 || type == DType::I64);
  return type == DType::I64 ? findStray<int64_t>(bytes, count, size)
                            : findStray<int32_t>(bytes, count, size);
}

} // namespace mpc::runtime
