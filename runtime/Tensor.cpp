// Element types, shapes and conversion of host tensors.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Tensor.h"
#include "runtime/FloatBits.h"

#include <array>
#include <limits>

namespace mpc::runtime {
namespace {

struct DTypeInfo {
  DType type;
  std::string_view name;
  int64_t bytes;
};

constexpr std::array<DTypeInfo, 8> kTypes = {{{DType::F16, "f16", 2},
                                              {DType::BF16, "bf16", 2},
                                              {DType::F32, "f32", 4},
                                              {DType::F64, "f64", 8},
                                              {DType::I32, "i32", 4},
                                              {DType::I64, "i64", 8},
                                              {DType::I1, "i1", 1},
                                              {DType::U8, "u8", 1}}};

} // namespace

static const DTypeInfo &infoOf(DType type) {
  return kTypes[static_cast<size_t>(type)];
}

int64_t sizeOf(DType type) { return infoOf(type).bytes; }

std::string_view nameOf(DType type) { return infoOf(type).name; }

StatusOr<DType> parseDType(std::string_view name) {
  for (const DTypeInfo &info : kTypes)
    if (info.name == name)
      return info.type;
  return Status(StatusCode::InvalidInput,
                "unknown element type '" + std::string(name) + "'");
}

bool isFloat(DType type) {
  return type == DType::F16 || type == DType::BF16 || type == DType::F32 ||
         type == DType::F64;
}

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
  Tensor tensor;
  tensor.type = type;
  tensor.bytes.resize(numElements(shape) * sizeOf(type));
  tensor.shape = std::move(shape);
  return tensor;
}

//===----------------------------------------------------------------------===//
// Conversion
//===----------------------------------------------------------------------===//

// Every float type widens to double and every integer type to int64_t without
// loss; narrowing from those two rounds once.

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

static int64_t loadInteger(const Tensor &source, int64_t i) {
  switch (source.type) {
  case DType::I32:
    return source.as<int32_t>()[i];
  case DType::I64:
    return source.as<int64_t>()[i];
  default: // I1, U8
    return source.as<uint8_t>()[i];
  }
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

/// False where `value` is outside the range of the result's type.
static bool storeInteger(Tensor &result, int64_t i, int64_t value) {
  switch (result.type) {
  case DType::I32:
    result.as<int32_t>()[i] = static_cast<int32_t>(value);
    return value == static_cast<int32_t>(value);
  case DType::I64:
    result.as<int64_t>()[i] = value;
    return true;
  case DType::I1:
    result.as<uint8_t>()[i] = static_cast<uint8_t>(value);
    return value == 0 || value == 1;
  default: // U8
    result.as<uint8_t>()[i] = static_cast<uint8_t>(value);
    return value == static_cast<uint8_t>(value);
  }
}

/// An integer as a double for storeFloat: where it has more bits than a double
/// the lost ones are kept in the last, so that the final rounding is right.
static double integerToDouble(int64_t value, DType target) {
  if (target == DType::F64)
    return static_cast<double>(value);
  bool negative = value < 0;
  uint64_t magnitude = negative ? 0 - static_cast<uint64_t>(value) : value;
  if (magnitude >> 53)
    magnitude = ((magnitude >> 11) | ((magnitude & 0x7ff) != 0)) << 11;
  double result = static_cast<double>(magnitude);
  return negative ? -result : result;
}

static Status conversionError(const Tensor &source, DType type, int64_t i) {
  std::string value = isFloat(source.type)
                          ? std::to_string(loadFloat(source, i))
                          : std::to_string(loadInteger(source, i));
  return Status(StatusCode::InvalidInput,
                "element " + std::to_string(i) + " of a " +
                    std::string(nameOf(source.type)) + " tensor is " + value +
                    ", which " + std::string(nameOf(type)) + " cannot hold");
}

StatusOr<Tensor> convert(const Tensor &source, DType type) {
  if (source.type == type)
    return source;
  Tensor result = Tensor::zeros(type, source.shape);
  for (int64_t i = 0, e = source.size(); i < e; ++i) {
    if (!isFloat(source.type)) {
      int64_t value = loadInteger(source, i);
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
    // 2^63 is the first double above the range of int64_t; NaN fails both.
    bool integral =
        value >= -0x1p63 && value < 0x1p63 && value == std::trunc(value);
    if (!integral || !storeInteger(result, i, static_cast<int64_t>(value)))
      return conversionError(source, type, i);
  }
  return result;
}

} // namespace mpc::runtime
