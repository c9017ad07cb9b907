// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/ptx/Half.h"

#include <algorithm>
#include <cfenv>
#include <limits>

using namespace mpc::emulator::ptx;

/// Rounds `value`, whose fraction is exact, to an integer.
static double roundToInteger(double value, Rounding rounding) {
  switch (rounding) {
  case Rounding::Nearest:
    return std::nearbyint(value); // the thread's mode never changes
  case Rounding::NearestAway:
    return std::round(value);
  case Rounding::Zero:
    return std::trunc(value);
  case Rounding::Down:
    return std::floor(value);
  case Rounding::Up:
    return std::ceil(value);
  }
  return value;
}

double mpc::emulator::ptx::roundTo(double value, FloatShape shape,
                                   Rounding rounding) {
  if (!std::isfinite(value) || value == 0)
    return value;
  int exponent = std::max(std::ilogb(value), shape.lowest);
  int ulp = exponent - shape.precision + 1;
  double rounded =
      std::ldexp(roundToInteger(std::ldexp(value, -ulp), rounding), ulp);
  double largest =
      std::ldexp(2 - std::ldexp(1.0, 1 - shape.precision), shape.highest);
  if (std::fabs(rounded) > largest) {
    bool toInfinity = rounding == Rounding::Nearest ||
                      rounding == Rounding::NearestAway ||
                      (rounding == Rounding::Up && value > 0) ||
                      (rounding == Rounding::Down && value < 0);
    rounded = toInfinity ? std::numeric_limits<double>::infinity() : largest;
  }
  return std::copysign(rounded, value);
}

double mpc::emulator::ptx::addToOdd(double a, double b) {
  double sum = a + b;
  if (!std::isfinite(sum))
    return sum;
  double other = sum - a;
  double error = (a - (sum - other)) + (b - other);
  uint64_t bits;
  std::memcpy(&bits, &sum, sizeof(bits));
  if (error == 0 || (bits & 1))
    return sum;
  return std::nextafter(sum, error > 0 ? INFINITY : -INFINITY);
}
