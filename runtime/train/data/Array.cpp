// Converts between the element types of arrays.
//
// A conversion first widens a value to double, int64 or uint64, which is exact,
// and then narrows it to the destination. So each destination states its range
// only once, and not for each source.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/data/Array.h"

#include "runtime/FloatBits.h"

#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>

namespace mpc::runtime::train {

namespace {

struct TypeInfo {
  std::string_view name;
  int64_t size;
  bool isFloat;
};

} // namespace

static const TypeInfo &infoOf(ElementType type) {
  assert(type <= ElementType::F64 && "an element type");
  static const TypeInfo table[] = {
      {"bool", 1, false}, {"u8", 1, false},  {"i8", 1, false},
      {"u16", 2, false},  {"i16", 2, false}, {"u32", 4, false},
      {"i32", 4, false},  {"u64", 8, false}, {"i64", 8, false},
      {"f16", 2, true},   {"bf16", 2, true}, {"f32", 4, true},
      {"f64", 8, true},
  };
  return table[size_t(type)];
}

int64_t sizeOf(ElementType type) { return infoOf(type).size; }
std::string_view nameOf(ElementType type) { return infoOf(type).name; }
bool isFloat(ElementType type) { return infoOf(type).isFloat; }

ElementType toElementType(DType type) {
  // Booleans take a byte in arrays, as in the buffers of a plan.
  switch (type) {
  case DType::F16:
    return ElementType::F16;
  case DType::BF16:
    return ElementType::BF16;
  case DType::F32:
    return ElementType::F32;
  case DType::F64:
    return ElementType::F64;
  case DType::I32:
    return ElementType::I32;
  case DType::I64:
    return ElementType::I64;
  case DType::I1:
    return ElementType::Bool;
  case DType::U8:
    return ElementType::U8;
  case DType::I8:
    return ElementType::I8;
  case DType::U16:
    return ElementType::U16;
  case DType::I16:
    return ElementType::I16;
  case DType::U32:
    return ElementType::U32;
  case DType::U64:
    return ElementType::U64;
  }
  return ElementType::U8;
}

DType toDType(ElementType type) {
  for (int i = 0; i < kDTypes; ++i)
    if (toElementType(DType(i)) == type)
      return DType(i);
  return DType::U8;
}

Array toArray(std::string name, const Tensor &tensor) {
  auto bytes = std::make_shared<std::vector<std::byte>>(tensor.bytes);
  Array array;
  array.name = std::move(name);
  array.type = toElementType(tensor.type);
  array.shape = tensor.shape;
  array.data = bytes->data();
  array.owner = std::move(bytes);
  return array;
}

//===----------------------------------------------------------------------===//
// Conversion
//===----------------------------------------------------------------------===//

namespace {

/// Loads an element of type T as Wide, which holds every T. Copies the element
/// first, since elements in files may be unaligned.
template <typename T, typename Wide>
struct PlainSource {
  static constexpr size_t size = sizeof(T);
  static Wide load(const std::byte *from) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    return Wide(value);
  }
};

struct BoolSource {
  static constexpr size_t size = 1;
  static int64_t load(const std::byte *from) { return *from != std::byte(0); }
};

template <float (*Widen)(uint16_t)>
struct NarrowSource {
  static constexpr size_t size = 2;
  static double load(const std::byte *from) {
    uint16_t bits;
    std::memcpy(&bits, from, sizeof(bits));
    return Widen(bits);
  }
};

using Fault = std::optional<ConversionFault>;

template <typename T>
struct IntegerTarget {
  using type = T;
  template <typename Wide>
  static Fault store(Wide value, NonFinite, T &out) {
    if constexpr (std::is_floating_point_v<Wide>) {
      if (!std::isfinite(value))
        return ConversionFault::NotFinite;
      if (std::trunc(value) != value)
        return ConversionFault::NotIntegral;
      // The upper bound is a power of two, so it is exact as a double.
      if (value < double(std::numeric_limits<T>::min()) ||
          value >= std::ldexp(1.0, std::numeric_limits<T>::digits))
        return ConversionFault::OutOfRange;
    } else if constexpr (std::is_same_v<T, uint64_t> &&
                         std::is_signed_v<Wide>) {
      if (value < 0)
        return ConversionFault::OutOfRange;
    } else if constexpr (std::is_signed_v<Wide>) {
      if (value < int64_t(std::numeric_limits<T>::min()) ||
          value > int64_t(std::numeric_limits<T>::max()))
        return ConversionFault::OutOfRange;
    } else if (value > uint64_t(std::numeric_limits<T>::max())) {
      return ConversionFault::OutOfRange;
    }
    out = T(value);
    return std::nullopt;
  }
};

struct BoolTarget {
  using type = uint8_t;
  template <typename Wide>
  static Fault store(Wide value, NonFinite, uint8_t &out) {
    if (value != Wide(0) && value != Wide(1))
      return ConversionFault::OutOfRange;
    out = value == Wide(1);
    return std::nullopt;
  }
};

/// Stores values as a floating-point type. `Format` converts from and to
/// double.
template <typename Format>
struct FloatTarget {
  using type = typename Format::type;
  template <typename Wide>
  static Fault store(Wide value, NonFinite nonFinite, type &out) {
    out = Format::narrow(double(value));
    if constexpr (std::is_floating_point_v<Wide>) {
      if (!std::isfinite(value))
        return nonFinite == NonFinite::Allow
                   ? Fault()
                   : Fault(ConversionFault::NotFinite);
      if (!std::isfinite(Format::widen(out)))
        return ConversionFault::OutOfRange;
    } else {
      // Compare as doubles first: converting 2^63 or 2^64 back to an integer
      // would overflow.
      const double back = Format::widen(out);
      if (!std::isfinite(back))
        return ConversionFault::OutOfRange;
      if (back >= std::ldexp(1.0, std::numeric_limits<Wide>::digits) ||
          Wide(back) != value)
        return ConversionFault::Inexact;
    }
    return std::nullopt;
  }
};

template <typename T>
struct PlainFormat {
  using type = T;
  static T narrow(double value) { return T(value); }
  static double widen(T value) { return value; }
};

template <uint16_t (*Narrow)(float), float (*Widen)(uint16_t)>
struct NarrowFormat {
  using type = uint16_t;
  static uint16_t narrow(double value) {
    return Narrow(doubleToFloatRoundToOdd(value));
  }
  static double widen(uint16_t bits) { return Widen(bits); }
};

} // namespace

static std::string toText(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", value);
  return text;
}
static std::string toText(int64_t value) { return std::to_string(value); }
static std::string toText(uint64_t value) { return std::to_string(value); }

template <typename Source, typename Target>
static std::optional<BadElement> convertLoop(const Array &array, int64_t begin,
                                             int64_t count, NonFinite nonFinite,
                                             void *out) {
  const std::byte *from = array.data + begin * int64_t(Source::size);
  auto *to = static_cast<typename Target::type *>(out);
  for (int64_t i = 0; i < count; ++i) {
    const auto value = Source::load(from + i * int64_t(Source::size));
    typename Target::type converted;
    if (Fault fault = Target::store(value, nonFinite, converted))
      return BadElement{begin + i, *fault, toText(value)};
    if (to)
      to[i] = converted;
  }
  return std::nullopt;
}

template <typename Source>
static std::optional<BadElement> convertFrom(const Array &array, int64_t begin,
                                             int64_t count, DType type,
                                             NonFinite nonFinite, void *out) {
  const auto run = [&](auto target) {
    return convertLoop<Source, decltype(target)>(array, begin, count, nonFinite,
                                                 out);
  };
  switch (type) {
  case DType::F16:
    return run(FloatTarget<NarrowFormat<floatToF16, f16ToFloat>>());
  case DType::BF16:
    return run(FloatTarget<NarrowFormat<floatToBF16, bf16ToFloat>>());
  case DType::F32:
    return run(FloatTarget<PlainFormat<float>>());
  case DType::F64:
    return run(FloatTarget<PlainFormat<double>>());
  case DType::I32:
    return run(IntegerTarget<int32_t>());
  case DType::I64:
    return run(IntegerTarget<int64_t>());
  case DType::I1:
    return run(BoolTarget());
  case DType::U8:
    return run(IntegerTarget<uint8_t>());
  case DType::I8:
    return run(IntegerTarget<int8_t>());
  case DType::U16:
    return run(IntegerTarget<uint16_t>());
  case DType::I16:
    return run(IntegerTarget<int16_t>());
  case DType::U32:
    return run(IntegerTarget<uint32_t>());
  case DType::U64:
    return run(IntegerTarget<uint64_t>());
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Checks without conversion
//===----------------------------------------------------------------------===//

namespace {
/// The integers that a type represents exactly: magnitudes of up to `digits`
/// bits, negative numbers too if `isSigned`.
struct ExactIntegers {
  int digits;
  bool isSigned;
};
} // namespace

static ExactIntegers exactIntegersOf(ElementType type) {
  switch (type) {
  case ElementType::Bool:
    return {1, false};
  case ElementType::F16:
    return {11, true};
  case ElementType::BF16:
    return {8, true};
  case ElementType::F32:
    return {24, true};
  case ElementType::F64:
    return {53, true};
  case ElementType::I8:
  case ElementType::I16:
  case ElementType::I32:
  case ElementType::I64:
    return {int(8 * sizeOf(type)) - 1, true};
  default:
    return {int(8 * sizeOf(type)), false};
  }
}

/// True if every element of type `from` has an exact value in `to`, so that no
/// element needs a check.
static bool convertsAlways(ElementType from, ElementType to) {
  if (isFloat(from))
    return false;
  const ExactIntegers given = exactIntegersOf(from), held = exactIntegersOf(to);
  return given.digits <= held.digits && (held.isSigned || !given.isSigned);
}

/// True if every finite element of type `from` has an exact value in `to`.
static bool convertsFinite(ElementType from, ElementType to) {
  const auto isHalf = [](ElementType type) {
    return type == ElementType::F16 || type == ElementType::BF16;
  };
  return isFloat(from) && isFloat(to) &&
         (from == to || to == ElementType::F64 ||
          (to == ElementType::F32 && isHalf(from)));
}

/// True if all `count` elements are finite: none has all bits of `exponent`,
/// the mask of the type's exponent. Has no branch, so the compiler vectorizes
/// the loop.
template <typename Bits>
static bool areFinite(const std::byte *elements, int64_t count, Bits exponent) {
  Bits found = 0;
  for (int64_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, elements + i * int64_t(sizeof(bits)), sizeof(bits));
    found |= Bits((bits & exponent) == exponent);
  }
  return found == 0;
}

static bool areFinite(ElementType type, const std::byte *elements,
                      int64_t count) {
  switch (type) {
  case ElementType::F16:
    return areFinite<uint16_t>(elements, count, 0x7c00);
  case ElementType::BF16:
    return areFinite<uint16_t>(elements, count, 0x7f80);
  case ElementType::F32:
    return areFinite<uint32_t>(elements, count, 0x7f800000);
  case ElementType::F64:
    return areFinite<uint64_t>(elements, count, 0x7ff0000000000000);
  default:
    return true;
  }
}

/// True if the elements are known to convert without looking at each by itself.
static bool areSound(const Array &array, int64_t begin, int64_t count,
                     DType type) {
  const ElementType to = toElementType(type);
  return convertsAlways(array.type, to) ||
         (convertsFinite(array.type, to) &&
          areFinite(array.type, array.data + begin * sizeOf(array.type),
                    count));
}

std::optional<BadElement> convertElements(const Array &array, int64_t begin,
                                          int64_t count, DType type,
                                          NonFinite nonFinite, void *out) {
  assert(!array.packed && "nobody has unpacked it");
  assert(begin >= 0 && count >= 0 && begin + count <= array.size() &&
         "elements of the array");
  // Data sets are checked without a destination, as fast as memory allows.
  if (!out && areSound(array, begin, count, type))
    return std::nullopt;
  // The types are equal and every value is valid, so copy without checks.
  if (array.type == toElementType(type) && array.type != ElementType::Bool &&
      (!isFloat(array.type) || nonFinite == NonFinite::Allow)) {
    const int64_t width = sizeOf(array.type);
    if (out && count)
      std::memcpy(out, array.data + begin * width, size_t(count * width));
    return std::nullopt;
  }
  const auto from = [&](auto source) {
    return convertFrom<decltype(source)>(array, begin, count, type, nonFinite,
                                         out);
  };
  switch (array.type) {
  case ElementType::Bool:
    return from(BoolSource());
  case ElementType::U8:
    return from(PlainSource<uint8_t, int64_t>());
  case ElementType::I8:
    return from(PlainSource<int8_t, int64_t>());
  case ElementType::U16:
    return from(PlainSource<uint16_t, int64_t>());
  case ElementType::I16:
    return from(PlainSource<int16_t, int64_t>());
  case ElementType::U32:
    return from(PlainSource<uint32_t, int64_t>());
  case ElementType::I32:
    return from(PlainSource<int32_t, int64_t>());
  case ElementType::U64:
    return from(PlainSource<uint64_t, uint64_t>());
  case ElementType::I64:
    return from(PlainSource<int64_t, int64_t>());
  case ElementType::F16:
    return from(NarrowSource<f16ToFloat>());
  case ElementType::BF16:
    return from(NarrowSource<bf16ToFloat>());
  case ElementType::F32:
    return from(PlainSource<float, double>());
  case ElementType::F64:
    return from(PlainSource<double, double>());
  }
  return std::nullopt;
}

Status invalid(const std::string &what) {
  return Status(StatusCode::InvalidInput, what);
}

Status invalid(const std::string &where, const std::string &what) {
  return invalid(where + ": " + what);
}

std::string locate(const Array &array) {
  return array.source.empty() ? array.name : array.source + ": " + array.name;
}

/// Names the field of a table: "data.csv: line 5, column 'age'".
static std::string locateField(const Array &array, int64_t index) {
  const TablePlace &table = *array.table;
  const auto columns = static_cast<int64_t>(table.columns.size());
  assert(array.size() == columns * int64_t(table.lines->size()) &&
         "a row of the array is a row of the table");
  return (array.source.empty() ? "" : array.source + ": ") + "line " +
         std::to_string((*table.lines)[size_t(index / columns)]) +
         ", column '" + table.columns[size_t(index % columns)] + "'";
}

std::string locate(const Array &array, int64_t index) {
  if (array.table)
    return locateField(array, index);
  std::string position;
  for (size_t axis = array.shape.size(); axis-- > 0;) {
    const std::string here = std::to_string(index % array.shape[axis]);
    position = position.empty() ? here : here + "," + position;
    index /= array.shape[axis];
  }
  return position.empty() ? locate(array)
                          : locate(array) + "[" + position + "]";
}

std::string describe(const Array &array, const BadElement &bad, DType type) {
  const std::string text = locate(array, bad.index) + ": " + bad.value;
  switch (bad.fault) {
  case ConversionFault::NotFinite:
    return text + " is not a finite number";
  case ConversionFault::OutOfRange:
    return text + " does not fit in " + std::string(runtime::nameOf(type));
  case ConversionFault::NotIntegral:
    return text + " is not an integer";
  case ConversionFault::Inexact:
    return text + " has no exact value in " +
           std::string(runtime::nameOf(type));
  }
  return text;
}

PackedArray::~PackedArray() = default;

std::string_view typeNameOf(const Array &array) {
  return array.unreadType.empty() ? nameOf(array.type) : array.unreadType;
}

Status unpack(Array &array) {
  if (!array.fault.empty())
    return invalid(array.fault);
  if (!array.packed)
    return Status();
  try {
    StatusOr<Array> whole = array.packed->unpack();
    if (!whole.ok())
      return whole.status();
    assert(whole->type == array.type && whole->shape == array.shape &&
           "a packed array knows its type and shape");
    array.data = whole->data;
    array.owner = std::move(whole->owner);
    array.packed = nullptr;
    return Status();
  } catch (const std::bad_alloc &) {
    return Status(StatusCode::IO, locate(array) +
                                      ": does not fit in memory; .npy and "
                                      ".safetensors files are read in place");
  }
}

StatusOr<Tensor> toTensor(const Array &given, DType type) {
  Array array = given;
  if (Status status = unpack(array); !status.ok())
    return status;
  Tensor tensor = Tensor::zeros(type, array.shape);
  if (auto bad = convertElements(array, 0, array.size(), type, NonFinite::Allow,
                                 tensor.bytes.data()))
    return Status(StatusCode::InvalidInput, describe(array, *bad, type));
  return tensor;
}

StatusOr<Tensor> toTensor(const Array &array) {
  return toTensor(array, toDType(array.type));
}

} // namespace mpc::runtime::train
