// Converts between float and the 16-bit formats exactly as IEEE 754 requires.
// Rounds to nearest even, keeps subnormals, and overflows to infinity. NaN
// becomes a quiet NaN with the payload bits that fit. Plain integer code gives
// equal bits on every machine.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_FLOATBITS_H
#define MPC_RUNTIME_FLOATBITS_H

#include <cmath>
#include <cstdint>
#include <cstring>

namespace mpc::runtime {

inline uint32_t bitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

inline float floatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline float bf16ToFloat(uint16_t bits) {
  return floatOf(static_cast<uint32_t>(bits) << 16);
}

inline uint16_t floatToBF16(float value) {
  uint32_t bits = bitsOf(value);
  if ((bits & 0x7fffffff) > 0x7f800000)
    return static_cast<uint16_t>((bits >> 16) | 0x40); // quiet the NaN
  // Add half an ulp less one, plus the last kept bit, so that ties go to even.
  // A carry out of the mantissa increments the exponent, and at the top gives
  // infinity.
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline float f16ToFloat(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  uint32_t exponent = (bits >> 10) & 0x1f;
  uint32_t mantissa = bits & 0x3ff;
  if (exponent == 0x1f) // infinity, or NaN made quiet
    return floatOf(sign | 0x7f800000 | (mantissa << 13) |
                   (mantissa ? 0x400000u : 0u));
  if (exponent != 0)
    return floatOf(sign | ((exponent + 112) << 23) | (mantissa << 13));
  // Zero or subnormal: mantissa * 2^-24 is exact in float.
  float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return floatOf(sign | bitsOf(magnitude));
}

inline uint16_t floatToF16(float value) {
  uint32_t bits = bitsOf(value);
  uint32_t sign = (bits >> 16) & 0x8000;
  uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return static_cast<uint16_t>(sign | 0x7e00 | ((magnitude >> 13) & 0x3ff));
  // 65520 is half way between the largest f16 and the next power of two.
  if (magnitude >= 0x477ff000)
    return static_cast<uint16_t>(sign | 0x7c00);
  uint32_t exponent = magnitude >> 23;
  if (exponent >= 113) { // normal in f16
    uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
    return static_cast<uint16_t>(sign | ((rounded - (112u << 23)) >> 13));
  }
  if (exponent < 102) // below half of the smallest subnormal
    return static_cast<uint16_t>(sign);
  // Subnormal in f16: shift the full mantissa into place and round.
  uint32_t mantissa = (magnitude & 0x7fffff) | 0x800000;
  uint32_t shift = 126 - exponent; // 14..24
  uint32_t half = 1u << (shift - 1);
  uint32_t kept = mantissa >> shift;
  uint32_t rest = mantissa & ((1u << shift) - 1);
  kept += rest > half || (rest == half && (kept & 1));
  return static_cast<uint16_t>(sign | kept);
}

/// Rounds `value` to odd: truncates to float and sets the last bit if any bit
/// was lost. A second rounding, to a format at least two bits shorter, then
/// equals direct rounding of `value`.
inline float doubleToFloatRoundToOdd(double value) {
  float nearest = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(nearest) == value ||
      (bitsOf(nearest) & 1))
    return nearest;
  // The result is inexact and even, so step to the odd neighbour on the side of
  // `value`.
  float towards = static_cast<double>(nearest) < value ? INFINITY : -INFINITY;
  return std::nextafterf(nearest, towards);
}

} // namespace mpc::runtime

#endif // MPC_RUNTIME_FLOATBITS_H
