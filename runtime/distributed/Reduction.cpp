// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/Reduction.h"

#include "runtime/FloatBits.h"
#include "runtime/Tensor.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>

namespace mpc::runtime {

namespace {

/// The storage of an element, and the type in which elements are added.
template <typename T>
struct Plain {
  using Stored = T;
  using Sum = T;
  static Sum load(Stored value) { return value; }
  static Stored store(Sum value) { return value; }
};

struct Half {
  using Stored = uint16_t;
  using Sum = float;
  static Sum load(Stored bits) { return f16ToFloat(bits); }
  static Stored store(Sum value) { return floatToF16(value); }
};

struct BHalf {
  using Stored = uint16_t;
  using Sum = float;
  static Sum load(Stored bits) { return bf16ToFloat(bits); }
  static Stored store(Sum value) { return floatToBF16(value); }
};

/// The elements of a pass over all parts. The sums stay in the first-level
/// cache.
constexpr size_t kBlock = 1024;

/// Adds two elements. Integers wrap around.
struct Add {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(std::make_unsigned_t<T>(a) +
                            std::make_unsigned_t<T>(b));
    else
      return a + b;
  }
};

struct Larger {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return b > a || std::isnan(b) ? b : a;
    else
      return std::max(a, b);
  }
};

/// The arguments of reduceParts, of one element type.
template <typename Type>
struct PartReduction {
  using Stored = typename Type::Stored;
  using Sum = typename Type::Sum;

  const std::byte *data;
  size_t stride, parts;
  Stored *result;
  size_t count;

  /// Divides each element by `before`, and each sum by `after`.
  template <typename Op>
  void run(Sum before, Sum after) const {
    Sum sums[kBlock];
    for (size_t begin = 0; begin < count; begin += kBlock) {
      const size_t size = std::min(kBlock, count - begin);
      for (size_t part = 0; part < parts; ++part) {
        const Stored *values =
            reinterpret_cast<const Stored *>(data + part * stride) + begin;
        if (part == 0)
          for (size_t i = 0; i < size; ++i)
            sums[i] = Type::load(values[i]) / before;
        else
          for (size_t i = 0; i < size; ++i)
            sums[i] = Op::apply(
                sums[i], static_cast<Sum>(Type::load(values[i]) / before));
      }
      for (size_t i = 0; i < size; ++i)
        result[begin + i] = Type::store(static_cast<Sum>(sums[i] / after));
    }
  }

  void run(Reduce kind) const {
    constexpr bool isNarrow = sizeof(Stored) < sizeof(Sum);
    const Sum divisor =
        kind == Reduce::Mean ? static_cast<Sum>(parts) : static_cast<Sum>(1);
    if (kind == Reduce::Max)
      run<Larger>(1, 1);
    else if (isNarrow)
      run<Add>(divisor, 1);
    else
      run<Add>(1, divisor);
  }
};

template <typename Type>
void reduceAs(const void *data, size_t stride, size_t parts, void *result,
              size_t count, Reduce kind) {
  PartReduction<Type>{static_cast<const std::byte *>(data), stride, parts,
                      static_cast<typename Type::Stored *>(result), count}
      .run(kind);
}

} // namespace

Status checkReduction(DType type, Reduce kind) {
  if (isFloat(type) || kind == Reduce::Max ||
      (kind == Reduce::Sum && type != DType::I1))
    return Status();
  return Status(StatusCode::Internal,
                "ranks cannot reduce " + std::string(stringify(type)) +
                    " elements to their " + std::string(stringify(kind)));
}

void reduceParts(const void *data, size_t stride, size_t parts, void *result,
                 size_t count, DType type, Reduce kind) {
  const auto reduce = [&](auto element) {
    reduceAs<decltype(element)>(data, stride, parts, result, count, kind);
  };
  switch (type) {
  case DType::F16:
    return reduce(Half());
  case DType::BF16:
    return reduce(BHalf());
  case DType::F32:
    return reduce(Plain<float>());
  case DType::F64:
    return reduce(Plain<double>());
  case DType::I32:
    return reduce(Plain<int32_t>());
  case DType::I64:
    return reduce(Plain<int64_t>());
  case DType::I1:
  case DType::U8:
    return reduce(Plain<uint8_t>());
  case DType::I8:
    return reduce(Plain<int8_t>());
  case DType::U16:
    return reduce(Plain<uint16_t>());
  case DType::I16:
    return reduce(Plain<int16_t>());
  case DType::U32:
    return reduce(Plain<uint32_t>());
  case DType::U64:
    return reduce(Plain<uint64_t>());
  }
}

} // namespace mpc::runtime
