// The 16-bit float types of PTX, and rounding to any float type in any
// direction.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_PTX_HALF_H
#define MPC_TEST_EMULATOR_PTX_HALF_H

#include "runtime/FloatBits.h"

namespace mpc::emulator::ptx {

struct F16 {
  uint16_t bits;
  float value() const { return runtime::f16ToFloat(bits); }
  static F16 round(float value) { return {runtime::floatToF16(value)}; }
};

struct BF16 {
  uint16_t bits;
  float value() const { return runtime::bf16ToFloat(bits); }
  static BF16 round(float value) { return {runtime::floatToBF16(value)}; }
};

enum class Rounding : uint8_t { Nearest, Zero, Down, Up, NearestAway };

/// The shape of a float type: bits of its mantissa (with the leading one),
/// exponents of its smallest and largest powers of two.
struct FloatShape {
  int precision, lowest, highest;
};
inline constexpr FloatShape kF16Shape{11, -14, 15};
inline constexpr FloatShape kBF16Shape{8, -126, 127};
inline constexpr FloatShape kTF32Shape{11, -126, 127};
inline constexpr FloatShape kF32Shape{24, -126, 127};

/// `value` rounded to the type of `shape`, as a double.
double roundTo(double value, FloatShape shape, Rounding rounding);

/// Like `roundTo` for f32, but faster.
inline float roundToFloat(double value, Rounding rounding) {
  auto nearest = static_cast<float>(value);
  bool isAbove = nearest > value, isBelow = nearest < value;
  bool towardsZero = rounding == Rounding::Zero;
  if (isAbove && (rounding == Rounding::Down || (towardsZero && value > 0)))
    return std::nextafterf(nearest, -INFINITY);
  if (isBelow && (rounding == Rounding::Up || (towardsZero && value < 0)))
    return std::nextafterf(nearest, INFINITY);
  return nearest;
}

/// a + b with the last bit set if the sum is inexact. Rounding this once more
/// to a type at least two bits shorter rounds the true sum.
double addToOdd(double a, double b);

} // namespace mpc::emulator::ptx

#endif // MPC_TEST_EMULATOR_PTX_HALF_H
