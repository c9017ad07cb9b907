// Element types, shapes and host tensors.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TENSOR_H
#define MPC_RUNTIME_TENSOR_H

#include "runtime/Names.h"
#include "runtime/Status.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mpc::runtime {

/// Number of element types.
inline constexpr int kDTypes = static_cast<int>(DType::U64) + 1;

/// Returns the bytes of one element.
int64_t sizeOf(DType type);
/// Returns the name that artifacts, metrics and messages use.
std::string_view nameOf(DType type);
/// Returns the type called `name`; InvalidInput for an unknown name.
StatusOr<DType> parseDType(std::string_view name);
bool isFloat(DType type);

using Shape = std::vector<int64_t>;

/// Returns the number of elements, 1 for a scalar. Does not check for overflow:
/// check untrusted shapes with checkedBytes.
int64_t numElements(const Shape &shape);
/// Returns the bytes of a dense tensor. nullopt if an extent is negative or the
/// product overflows.
std::optional<int64_t> checkedBytes(DType type, const Shape &shape);
/// Returns "32x1x8x8", or "scalar".
std::string toString(const Shape &shape);

/// A dense row-major tensor that owns its bytes in host memory.
struct Tensor {
  DType type = DType::F32;
  Shape shape;
  std::vector<std::byte> bytes;

  static Tensor zeros(DType type, Shape shape);
  int64_t size() const { return numElements(shape); }
  template <typename T>
  T *as() {
    return reinterpret_cast<T *>(bytes.data());
  }
  template <typename T>
  const T *as() const {
    return reinterpret_cast<const T *>(bytes.data());
  }
};

/// Converts each element of `source` to `type`, rounding to nearest even.
/// Conversion to an integer type is an error unless every value is integral and
/// in range.
StatusOr<Tensor> convert(const Tensor &source, DType type);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_TENSOR_H
