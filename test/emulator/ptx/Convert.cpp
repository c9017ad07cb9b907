// cvt: converts between integers and floats with the given rounding.
//
// Common pairs have their own handlers. Others convert through double (exact
// for floats) or a 64-bit integer.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/ptx/Decoder.h"
#include "test/emulator/ptx/Lanewise.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

using namespace mpc;
using namespace mpc::emulator::ptx;

namespace {

//===----------------------------------------------------------------------===//
// Common pairs
//===----------------------------------------------------------------------===//

template <class From, class To>
struct Cast {
  static To apply(From a) { return static_cast<To>(a); }
};
template <class H>
struct ToHalf {
  static H apply(float a) { return H::round(a); }
};
template <class H>
struct FromHalf {
  static float apply(H a) { return a.value(); }
};

template <class Op, class From, class To>
void convertAs(Warp &warp, const Inst &i, uint32_t lanes) {
  To *d = warp.lanes<To>(i.slots[0]);
  const From *a = warp.lanes<From>(i.slots[1]);
  forLanes(lanes, [=](unsigned l) { d[l] = Op::apply(a[l]); });
}

/// cvt.rn.bf16x2.f32 d, a, b: a is the upper half.
template <class H>
void packHalves(Warp &warp, const Inst &i, uint32_t lanes) {
  H *d = warp.lanes<H>(i.slots[0]);
  const float *a = warp.lanes<float>(i.slots[1]);
  const float *b = warp.lanes<float>(i.slots[2]);
  forLanes(lanes, [=, relu = i.mode](unsigned l) {
    float high = a[l], low = b[l];
    if (relu) { // a NaN stays NaN
      high = high < 0 ? 0 : high;
      low = low < 0 ? 0 : low;
    }
    d[2 * l] = H::round(low);
    d[2 * l + 1] = H::round(high);
  });
}

//===----------------------------------------------------------------------===//
// All pairs
//===----------------------------------------------------------------------===//

/// The parameters of a general conversion, stored in an instruction's `offset`.
struct Conversion {
  Type from, to;
  Rounding rounding = Rounding::Nearest;
  bool toInteger = false; ///< .rni and so on, between floats too
  bool saturate = false, relu = false, flush = false;

  int64_t encode() const {
    return from.kind | to.kind << 4 | int64_t(from.bits) << 8 |
           int64_t(to.bits) << 16 | int64_t(rounding) << 24 |
           int64_t(toInteger) << 32 | int64_t(saturate) << 33 |
           int64_t(relu) << 34 | int64_t(flush) << 35;
  }
  static Conversion decode(int64_t code) {
    auto field = [code](unsigned at, unsigned bits) {
      return static_cast<unsigned>(code >> at) & ((1u << bits) - 1);
    };
    Conversion how;
    how.from = {static_cast<Type::Kind>(field(0, 4)), field(8, 8)};
    how.to = {static_cast<Type::Kind>(field(4, 4)), field(16, 8)};
    how.rounding = static_cast<Rounding>(field(24, 8));
    how.toInteger = field(32, 1);
    how.saturate = field(33, 1);
    how.relu = field(34, 1);
    how.flush = field(35, 1);
    return how;
  }
};

FloatShape shapeOf(Type type) {
  return type.kind == Type::BFloat ? kBF16Shape
         : type.kind == Type::TF32 ? kTF32Shape
         : type.bits == 16         ? kF16Shape
                                   : kF32Shape;
}

uint64_t loadRaw(const uint8_t *lane, unsigned bytes) {
  uint64_t raw = 0;
  std::memcpy(&raw, lane, bytes);
  return raw;
}

double floatValue(uint64_t raw, Type type) {
  if (type.kind == Type::BFloat)
    return runtime::bf16ToFloat(static_cast<uint16_t>(raw));
  if (type.bits == 16)
    return runtime::f16ToFloat(static_cast<uint16_t>(raw));
  if (type.bits == 32)
    return runtime::floatOf(static_cast<uint32_t>(raw));
  double value;
  std::memcpy(&value, &raw, sizeof(value));
  return value;
}

uint64_t floatBits(double value, Type type) {
  if (type.kind == Type::BFloat)
    return runtime::floatToBF16(static_cast<float>(value));
  if (type.bits == 16)
    return runtime::floatToF16(static_cast<float>(value));
  if (type.bits == 32)
    return runtime::bitsOf(static_cast<float>(value));
  uint64_t raw;
  std::memcpy(&raw, &value, sizeof(raw));
  return raw;
}

/// Extends an integer to 64 bits by its sign.
uint64_t extend(uint64_t raw, Type type) {
  unsigned unused = 64 - type.bits;
  raw <<= unused;
  if (type.kind == Type::Signed)
    return static_cast<uint64_t>(static_cast<int64_t>(raw) >> unused);
  return raw >> unused;
}

double roundInteger(double value, Rounding rounding) {
  switch (rounding) {
  case Rounding::Nearest:
    return std::nearbyint(value);
  case Rounding::Down:
    return std::floor(value);
  case Rounding::Up:
    return std::ceil(value);
  default:
    return std::trunc(value);
  }
}

uint64_t floatToInteger(double value, const Conversion &how) {
  unsigned bits = how.to.bits;
  if (std::isnan(value)) // like devices
    return how.from.bits == 64 || bits == 64 ? 1ull << (bits - 1) : 0;
  value = roundInteger(value, how.rounding);
  bool isSigned = how.to.kind == Type::Signed;
  double limit = std::ldexp(1.0, static_cast<int>(isSigned ? bits - 1 : bits));
  if (value >= limit)
    return isSigned ? (1ull << (bits - 1)) - 1 : ~0ull >> (64 - bits);
  if (isSigned)
    return value < -limit ? 0 - (1ull << (bits - 1))
                          : static_cast<uint64_t>(static_cast<int64_t>(value));
  return value <= 0 ? 0 : static_cast<uint64_t>(value);
}

uint64_t integerToInteger(uint64_t value, const Conversion &how) {
  if (!how.saturate)
    return value;
  bool fromSigned = how.from.kind == Type::Signed;
  unsigned bits = how.to.bits;
  if (how.to.kind == Type::Signed) {
    uint64_t largest = (1ull << (bits - 1)) - 1;
    auto asSigned = static_cast<int64_t>(value);
    if (!fromSigned)
      return std::min(value, largest);
    if (asSigned > static_cast<int64_t>(largest))
      return largest;
    return asSigned < -static_cast<int64_t>(largest) - 1 ? ~largest : value;
  }
  if (fromSigned && static_cast<int64_t>(value) < 0)
    return 0;
  return std::min<uint64_t>(value, ~0ull >> (64 - bits));
}

/// Converts an integer. Hardware rounds 64-bit integers once to f32 and f64.
uint64_t integerToFloat(uint64_t value, const Conversion &how) {
  bool isSigned = how.from.kind == Type::Signed;
  auto asSigned = static_cast<int64_t>(value);
  if (how.to.bits == 64)
    return floatBits(isSigned ? static_cast<double>(asSigned)
                              : static_cast<double>(value),
                     how.to);
  if (how.to.bits == 32 && how.rounding == Rounding::Nearest)
    return runtime::bitsOf(isSigned ? static_cast<float>(asSigned)
                                    : static_cast<float>(value));
  double high = isSigned ? static_cast<double>(asSigned >> 32)
                         : static_cast<double>(value >> 32);
  double odd = addToOdd(high * 0x1p32, static_cast<double>(value & 0xffffffff));
  return floatBits(roundTo(odd, shapeOf(how.to), how.rounding), how.to);
}

uint64_t floatToFloat(double value, const Conversion &how) {
  if (how.flush && std::fabs(value) < std::numeric_limits<float>::min())
    value = std::copysign(0.0, value);
  if (how.toInteger)
    value = roundInteger(value, how.rounding);
  else if (how.to.bits < how.from.bits || how.to.kind == Type::TF32)
    value = roundTo(value, shapeOf(how.to), how.rounding);
  if (how.saturate)
    value = value > 0 ? std::min(value, 1.0) : 0;
  if (how.relu && value < 0)
    value = 0;
  return floatBits(value, how.to);
}

uint64_t convertOne(uint64_t raw, const Conversion &how) {
  if (how.from.isFloat()) {
    double value = floatValue(raw, how.from);
    return how.to.isFloat() ? floatToFloat(value, how)
                            : floatToInteger(value, how);
  }
  uint64_t value = extend(raw, how.from);
  return how.to.isFloat() ? integerToFloat(value, how)
                          : integerToInteger(value, how);
}

void convertAny(Warp &warp, const Inst &i, uint32_t lanes) {
  Conversion how = Conversion::decode(i.offset);
  unsigned fromBytes = i.elementBytes, toBytes = i.registerBytes;
  uint8_t *d = warp.file + i.slots[0];
  const uint8_t *a = warp.file + i.slots[1];
  forLanes(lanes, [&](unsigned l) {
    uint64_t result = convertOne(loadRaw(a + l * fromBytes, fromBytes), how);
    // Extends a narrower integer in a wider register.
    if (!how.to.isFloat())
      result = extend(result, how.to);
    std::memcpy(d + l * toBytes, &result, toBytes);
  });
}

//===----------------------------------------------------------------------===//
// Decoding
//===----------------------------------------------------------------------===//

Handler selectCommon(const Conversion &how) {
  Type from = how.from, to = how.to;
  if (how.saturate || how.relu || how.flush || how.toInteger)
    return nullptr;
  bool nearest = how.rounding == Rounding::Nearest;
  if (from.is(Type::Float, 32)) {
    if (to.is(Type::BFloat, 16) && nearest)
      return &convertAs<ToHalf<BF16>, float, BF16>;
    if (to.is(Type::Float, 16) && nearest)
      return &convertAs<ToHalf<F16>, float, F16>;
    if (to.is(Type::Float, 64))
      return &convertAs<Cast<float, double>, float, double>;
  }
  if (to.is(Type::Float, 32)) {
    if (from.is(Type::BFloat, 16))
      return &convertAs<FromHalf<BF16>, BF16, float>;
    if (from.is(Type::Float, 16))
      return &convertAs<FromHalf<F16>, F16, float>;
    if (from.is(Type::Float, 64) && nearest)
      return &convertAs<Cast<double, float>, double, float>;
    if (from.is(Type::Signed, 32) && nearest)
      return &convertAs<Cast<int32_t, float>, int32_t, float>;
    if (from.is(Type::Unsigned, 32) && nearest)
      return &convertAs<Cast<uint32_t, float>, uint32_t, float>;
  }
  bool intoWide = (to.isInteger() && to.bits == 64);
  if (from.is(Type::Unsigned, 32) && intoWide)
    return &convertAs<Cast<uint32_t, uint64_t>, uint32_t, uint64_t>;
  if (from.is(Type::Signed, 32) && intoWide)
    return &convertAs<Cast<int32_t, int64_t>, int32_t, int64_t>;
  if (from.isInteger() && from.bits == 64 && to.isInteger() && to.bits == 32)
    return &convertAs<Cast<uint64_t, uint32_t>, uint64_t, uint32_t>;
  return nullptr;
}

void decodePack(Decoder &d, Conversion how) {
  if (how.rounding != Rounding::Nearest || how.saturate || how.flush)
    d.fail("no such conversion of two values");
  d.operands(3);
  d.inst->mode = how.relu;
  d.inst->slots[0] = d.destination(d.operand(0), 4);
  d.inst->slots[1] = d.source(d.operand(1), 4);
  d.inst->slots[2] = d.source(d.operand(2), 4);
  d.inst->run =
      how.to.kind == Type::BFloat ? &packHalves<BF16> : &packHalves<F16>;
}

/// .rni, .rzi, .rmi, .rpi: to an integer, or to an integral float.
bool takeIntegerRounding(Decoder &d, Rounding &rounding) {
  static const std::pair<const char *, Rounding> all[] = {
      {"rni", Rounding::Nearest},
      {"rzi", Rounding::Zero},
      {"rmi", Rounding::Down},
      {"rpi", Rounding::Up}};
  for (auto [name, value] : all) {
    if (d.take(name)) {
      rounding = value;
      return true;
    }
  }
  return false;
}

/// PTX requires a rounding exactly if one can take place.
void checkRounding(Decoder &d, const Conversion &how, bool hasRounding) {
  bool narrows =
      how.to.isFloat() && how.from.isFloat() && how.to.bits < how.from.bits;
  bool tf32 = how.to.kind == Type::TF32;
  bool needs = how.from.isFloat() != how.to.isFloat() || narrows || tf32;
  if (needs && !hasRounding)
    d.fail("this conversion needs a rounding");
  if (how.from.isFloat() && !how.to.isFloat() && !how.toInteger)
    d.fail("a float becomes an integer by .rni, .rzi, .rmi or .rpi");
}

void decodeConvert(Decoder &d) {
  Conversion how;
  how.toInteger = takeIntegerRounding(d, how.rounding);
  Rounding none = static_cast<Rounding>(255);
  Rounding taken = how.toInteger ? how.rounding : d.takeRounding(none);
  how.rounding = taken == none ? Rounding::Nearest : taken;
  how.relu = d.take("relu");
  how.flush = d.take("ftz");
  how.saturate = d.take("sat");
  if (!how.saturate && d.take("satfinite"))
    d.fail("unknown modifier .satfinite");
  how.to = d.takeType();
  how.from = d.takeType();
  if (how.to.packed && how.from.is(Type::Float, 32))
    return decodePack(d, how);
  if (how.to.packed || how.from.packed || how.to.kind == Type::Bits ||
      how.from.kind == Type::Bits)
    d.fail("no such conversion");
  checkRounding(d, how, taken != none);
  d.operands(2);
  // Integers narrower than their registers are in the low bits.
  unsigned toBytes = d.registerBytes(d.operand(0), how.to.bytes());
  unsigned fromBytes = d.registerBytes(d.operand(1), how.from.bytes());
  if (toBytes < how.to.bytes() || fromBytes < how.from.bytes() ||
      (how.to.isFloat() && toBytes != how.to.bytes()) ||
      (how.from.isFloat() && fromBytes != how.from.bytes()))
    d.fail("a register does not fit the type");
  d.inst->slots[0] = d.destination(d.operand(0), toBytes);
  d.inst->slots[1] = d.source(d.operand(1), fromBytes);
  bool exactFit = toBytes == how.to.bytes() && fromBytes == how.from.bytes();
  d.inst->run = exactFit ? selectCommon(how) : nullptr;
  if (d.inst->run)
    return;
  d.inst->offset = how.encode();
  d.inst->elementBytes = static_cast<uint8_t>(fromBytes);
  d.inst->registerBytes = static_cast<uint8_t>(toBytes);
  d.inst->run = &convertAny;
}

} // namespace

void mpc::emulator::ptx::addConversions(DecodeTable &table) {
  table["cvt"] = decodeConvert;
}
