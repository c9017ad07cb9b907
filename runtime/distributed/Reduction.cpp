// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/Reduction.h"

#include "runtime/FloatBits.h"
#include "runtime/Tensor.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <immintrin.h>
#include <string>
#include <type_traits>
#include <vector>

namespace mpc::runtime {

namespace {

/// The storage of an element, and the type in which elements are added.
template <typename T>
struct Plain {
  using Stored = T;
  using Sum = T;
};

struct Half {
  using Stored = uint16_t;
  using Sum = float;
  static void widen(const Stored *source, Sum *result, size_t count);
  static void narrow(const Sum *source, Stored *result, size_t count);
};

struct BHalf {
  using Stored = uint16_t;
  using Sum = float;
  static void widen(const Stored *source, Sum *result, size_t count) {
    for (size_t i = 0; i < count; ++i)
      result[i] = bf16ToFloat(source[i]);
  }
  static void narrow(const Sum *source, Stored *result, size_t count) {
    for (size_t i = 0; i < count; ++i)
      result[i] = floatToBF16(source[i]);
  }
};

// The instructions give the bits of FloatBits.h.
__attribute__((target("avx2,f16c"))) size_t
widenByEight(const uint16_t *source, float *result, size_t count) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(result + i,
                     _mm256_cvtph_ps(_mm_loadu_si128(
                         reinterpret_cast<const __m128i *>(source + i))));
  return i;
}

__attribute__((target("avx2,f16c"))) size_t
narrowByEight(const float *source, uint16_t *result, size_t count) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i *>(result + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(source + i),
                                     _MM_FROUND_TO_NEAREST_INT));
  return i;
}

bool hasF16C() {
  static const bool has =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
  return has;
}

void Half::widen(const Stored *source, Sum *result, size_t count) {
  for (size_t i = hasF16C() ? widenByEight(source, result, count) : 0;
       i < count; ++i)
    result[i] = f16ToFloat(source[i]);
}

void Half::narrow(const Sum *source, Stored *result, size_t count) {
  for (size_t i = hasF16C() ? narrowByEight(source, result, count) : 0;
       i < count; ++i)
    result[i] = floatToF16(source[i]);
}

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

/// The divisions of a mean. A product with the inverse of a power of two has
/// the bits of the quotient, and takes a fraction of the time.
struct Keep {
  template <typename T>
  T operator()(T value) const {
    return value;
  }
};

template <typename T>
struct Multiply {
  T factor;
  T operator()(T value) const { return value * factor; }
};

template <typename T>
struct Divide {
  T divisor;
  T operator()(T value) const { return value / divisor; }
};

/// The arguments of reduceParts, of one element type.
template <typename Type>
struct PartReduction {
  using Stored = typename Type::Stored;
  using Sum = typename Type::Sum;

  const std::byte *const *parts;
  size_t numParts;
  Stored *result;
  size_t count;

  const Stored *part(size_t index) const {
    return reinterpret_cast<const Stored *>(parts[index]);
  }

  static constexpr bool isNarrow = sizeof(Stored) < sizeof(Sum);

  /// Returns `size` elements as sums, perhaps in `wide`.
  static const Sum *widen(const Stored *values, Sum *wide, size_t size) {
    if constexpr (isNarrow) {
      Type::widen(values, wide, size);
      return wide;
    } else {
      return values;
    }
  }

  /// Applies `before` to each element, and `after` to each sum.
  template <typename Op, typename Before, typename After>
  void run(Before before, After after) const {
    Sum sums[kBlock], wide[isNarrow ? kBlock : 1];
    for (size_t begin = 0; begin < count; begin += kBlock) {
      const size_t size = std::min(kBlock, count - begin);
      const Sum *values = widen(part(0) + begin, wide, size);
      for (size_t i = 0; i < size; ++i)
        sums[i] = before(values[i]);
      for (size_t index = 1; index < numParts; ++index) {
        values = widen(part(index) + begin, wide, size);
        for (size_t i = 0; i < size; ++i)
          sums[i] = Op::apply(sums[i], before(values[i]));
      }
      if constexpr (isNarrow)
        Type::narrow(sums, result + begin, size);
      else
        for (size_t i = 0; i < size; ++i)
          result[begin + i] = after(sums[i]);
    }
  }

  template <typename Scale>
  void runMean(Scale scale) const {
    if constexpr (isNarrow)
      run<Add>(scale, Keep());
    else
      run<Add>(Keep(), scale);
  }

  void run(Reduce kind) const {
    if (kind == Reduce::Max)
      return run<Larger>(Keep(), Keep());
    if constexpr (std::is_floating_point_v<Sum>)
      if (kind == Reduce::Mean) {
        const Sum divisor = static_cast<Sum>(numParts);
        const bool isPowerOfTwo = (numParts & (numParts - 1)) == 0;
        return isPowerOfTwo ? runMean(Multiply<Sum>{1 / divisor})
                            : runMean(Divide<Sum>{divisor});
      }
    run<Add>(Keep(), Keep());
  }
};

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
  std::vector<const std::byte *> addresses(parts);
  for (size_t part = 0; part < parts; ++part)
    addresses[part] = static_cast<const std::byte *>(data) + part * stride;
  reduceParts(addresses.data(), parts, result, count, type, kind);
}

void reduceParts(const std::byte *const *parts, size_t numParts, void *result,
                 size_t count, DType type, Reduce kind) {
  const auto reduce = [&](auto element) {
    using Type = decltype(element);
    PartReduction<Type>{parts, numParts,
                        static_cast<typename Type::Stored *>(result), count}
        .run(kind);
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
