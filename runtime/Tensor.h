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

/// How many element types there are.
inline constexpr int kDTypes = static_cast<int>(DType::U64) + 1;

/// Bytes of one element.
int64_t sizeOf(DType type);
/// The name used in artifacts, metrics and messages.
std::string_view nameOf(DType type);
/// The type of that name.
StatusOr<DType> parseDType(std::string_view name);
bool isFloat(DType type);

using Shape = std::vector<int64_t>;

/// Number of elements (1 for a scalar). Shapes are checked for overflow where
/// they enter the program.
int64_t numElements(const Shape &shape);
/// Bytes of a dense tensor; nothing where an extent is negative or the product
/// overflows.
std::optional<int64_t> checkedBytes(DType type, const Shape &shape);
/// "32x1x8x8", or "scalar".
std::string toString(const Shape &shape);

/// A dense row-major tensor in host memory that owns its bytes.
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

/// `source` converted element by element to `type`, rounding to nearest even.
/// Float to integer conversion is an error unless every value is integral.
StatusOr<Tensor> convert(const Tensor &source, DType type);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_TENSOR_H
