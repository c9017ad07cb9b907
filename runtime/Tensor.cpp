// Implements element types, shapes, and the conversion of host tensors.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Tensor.h"
#include "runtime/FloatBits.h"

#include <array>
#include <cassert>
#include <cmath>
#include <cstring>

namespace mpc::runtime {
namespace {

enum class Kind { Float, Signed, Unsigned };

struct DTypeInfo {
  DType type;
  int64_t bytes;
  Kind kind;
  /// Bits that hold the value: 1 for I1, although I1 takes a byte.
  int bits;
};

constexpr std::array<DTypeInfo, kDTypes> kTypes = {{
    {DType::F16, 2, Kind::Float, 16},
    {DType::BF16, 2, Kind::Float, 16},
    {DType::F32, 4, Kind::Float, 32},
    {DType::F64, 8, Kind::Float, 64},
    {DType::I32, 4, Kind::Signed, 32},
    {DType::I64, 8, Kind::Signed, 64},
    {DType::I1, 1, Kind::Unsigned, 1},
    {DType::U8, 1, Kind::Unsigned, 8},
    {DType::I8, 1, Kind::Signed, 8},
    {DType::U16, 2, Kind::Unsigned, 16},
    {DType::I16, 2, Kind::Signed, 16},
    {DType::U32, 4, Kind::Unsigned, 32},
    {DType::U64, 8, Kind::Unsigned, 64},
}};

/// An integer as sign and magnitude, which holds every int64 and uint64.
struct Whole {
  bool isNegative;
  uint64_t magnitude;
};

} // namespace

/// True if kTypes lists the types in the order of DType, since infoOf uses the
/// type as index.
static constexpr bool isInOrder() {
  for (size_t i = 0; i < kTypes.size(); ++i)
    if (kTypes[i].type != static_cast<DType>(i))
      return false;
  return true;
}
static_assert(isInOrder());

static const DTypeInfo &infoOf(DType type) {
  assert(size_t(type) < kTypes.size() && "an element type");
  return kTypes[static_cast<size_t>(type)];
}

int64_t sizeOf(DType type) { return infoOf(type).bytes; }

std::string_view nameOf(DType type) { return stringify(type); }

StatusOr<DType> parseDType(std::string_view name) {
  if (std::optional<DType> type = symbolize<DType>(name))
    return *type;
  return Status(StatusCode::InvalidInput,
                "unknown element type '" + std::string(name) + "'");
}

bool isFloat(DType type) { return infoOf(type).kind == Kind::Float; }

int64_t numElements(const Shape &shape) {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  return count;
}

std::optional<int64_t> checkedBytes(DType type, const Shape &shape) {
  int64_t bytes = sizeOf(type);
  for (int64_t extent : shape)
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes))
      return std::nullopt;
  return bytes;
}

std::string toString(const Shape &shape) {
  if (shape.empty())
    return "scalar";
  std::string text;
  for (int64_t extent : shape)
    text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text;
}

Tensor Tensor::zeros(DType type, Shape shape) {
  assert(checkedBytes(type, shape) && "shapes from outside are checked");
  Tensor tensor;
  tensor.type = type;
  tensor.bytes.resize(numElements(shape) * sizeOf(type));
  tensor.shape = std::move(shape);
  return tensor;
}

//===----------------------------------------------------------------------===//
// Conversion
//===----------------------------------------------------------------------===//

// Conversion first widens a float to double and an integer to Whole, without
// loss, and then narrows to the result's type. So it rounds only once.

static double loadFloat(const Tensor &source, int64_t i) {
  switch (source.type) {
  case DType::F16:
    return f16ToFloat(source.as<uint16_t>()[i]);
  case DType::BF16:
    return bf16ToFloat(source.as<uint16_t>()[i]);
  case DType::F32:
    return source.as<float>()[i];
  default:
    return source.as<double>()[i];
  }
}

static Whole loadInteger(const Tensor &source, int64_t i) {
  assert(!isFloat(source.type) && "an integer type");
  const DTypeInfo &info = infoOf(source.type);
  uint64_t bits = 0;
  std::memcpy(&bits, source.bytes.data() + i * info.bytes,
              static_cast<size_t>(info.bytes));
  if (info.kind == Kind::Unsigned)
    return {false, bits};
  const uint64_t sign = uint64_t(1) << (info.bits - 1);
  const uint64_t magnitude = (bits ^ sign) - sign; // sign extension
  const bool isNegative = (bits & sign) != 0;
  return {isNegative, isNegative ? 0 - magnitude : magnitude};
}

static void storeFloat(Tensor &result, int64_t i, double value) {
  switch (result.type) {
  case DType::F16:
    result.as<uint16_t>()[i] = floatToF16(doubleToFloatRoundToOdd(value));
    return;
  case DType::BF16:
    result.as<uint16_t>()[i] = floatToBF16(doubleToFloatRoundToOdd(value));
    return;
  case DType::F32:
    result.as<float>()[i] = static_cast<float>(value);
    return;
  default:
    result.as<double>()[i] = value;
    return;
  }
}

/// Stores `value` as element `i`. False if the type of `result` cannot hold it.
static bool storeInteger(Tensor &result, int64_t i, Whole value) {
  assert(!isFloat(result.type) && "an integer type");
  const DTypeInfo &info = infoOf(result.type);
  const int magnitudeBits = info.bits - (info.kind == Kind::Signed);
  const uint64_t largest = ~uint64_t(0) >> (64 - magnitudeBits);
  const uint64_t smallest = info.kind == Kind::Signed ? largest + 1 : 0;
  const uint64_t bits =
      value.isNegative ? 0 - value.magnitude : value.magnitude;
  std::memcpy(result.bytes.data() + i * info.bytes, &bits,
              static_cast<size_t>(info.bytes));
  return value.magnitude <= (value.isNegative ? smallest : largest);
}

/// Converts an integer to a double for storeFloat. For f16, bf16 and f32, an
/// integer of more than 53 bits is rounded to odd: the last kept bit is 1 if a
/// dropped bit was 1. Then storeFloat rounds as if from the integer itself.
static double integerToDouble(Whole value, DType target) {
  uint64_t magnitude = value.magnitude;
  if (target != DType::F64 && magnitude >> 53)
    magnitude = ((magnitude >> 11) | ((magnitude & 0x7ff) != 0)) << 11;
  double result = static_cast<double>(magnitude);
  return value.isNegative ? -result : result;
}

static std::string toText(Whole value) {
  return (value.isNegative ? "-" : "") + std::to_string(value.magnitude);
}

static Status conversionError(const Tensor &source, DType type, int64_t i) {
  std::string value = isFloat(source.type)
                          ? std::to_string(loadFloat(source, i))
                          : toText(loadInteger(source, i));
  return Status(StatusCode::InvalidInput,
                "element " + std::to_string(i) + " of a " +
                    std::string(nameOf(source.type)) + " tensor is " + value +
                    ", which " + std::string(nameOf(type)) + " cannot hold");
}

StatusOr<Tensor> convert(const Tensor &source, DType type) {
  if (source.type == type)
    return source;
  assert(int64_t(source.bytes.size()) == source.size() * sizeOf(source.type) &&
         "a tensor owns the bytes of its shape");
  Tensor result = Tensor::zeros(type, source.shape);
  for (int64_t i = 0, e = source.size(); i < e; ++i) {
    if (!isFloat(source.type)) {
      Whole value = loadInteger(source, i);
      if (isFloat(type))
        storeFloat(result, i, integerToDouble(value, type));
      else if (!storeInteger(result, i, value))
        return conversionError(source, type, i);
      continue;
    }
    double value = loadFloat(source, i);
    if (isFloat(type)) {
      storeFloat(result, i, value);
      continue;
    }
    // 2^64 is the first double above the range of uint64_t. NaN fails the
    // comparison.
    bool integral = std::abs(value) < 0x1p64 && value == std::trunc(value);
    if (!integral ||
        !storeInteger(result, i,
                      {value < 0, static_cast<uint64_t>(std::abs(value))}))
      return conversionError(source, type, i);
  }
  return result;
}

} // namespace mpc::runtime
