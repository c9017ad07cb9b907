// Element types of the emulated libraries, with access to their values. Each
// library has its own names for the types.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_ELEMENT_H
#define MPC_TEST_EMULATOR_ELEMENT_H

#include "runtime/FloatBits.h"

#include <cstddef>

namespace mpc::emulator {

enum class Element { F64, F32, F16, BF16 };

inline size_t sizeOf(Element element) {
  return element == Element::F64 ? 8 : element == Element::F32 ? 4 : 2;
}

/// Element `i` of `memory` as a float or double, which holds every value of the
/// supported types.
template <class T>
T load(const void *memory, uint64_t i, Element element) {
  switch (element) {
  case Element::F64:
    return static_cast<T>(static_cast<const double *>(memory)[i]);
  case Element::F32:
    return static_cast<const float *>(memory)[i];
  case Element::F16:
    return runtime::f16ToFloat(static_cast<const uint16_t *>(memory)[i]);
  case Element::BF16:
    return runtime::bf16ToFloat(static_cast<const uint16_t *>(memory)[i]);
  }
  return 0;
}

/// Rounds `value` to nearest, ties to even.
template <class T>
void store(void *memory, uint64_t i, Element element, T value) {
  switch (element) {
  case Element::F64:
    static_cast<double *>(memory)[i] = value;
    return;
  case Element::F32:
    static_cast<float *>(memory)[i] = static_cast<float>(value);
    return;
  case Element::F16:
    static_cast<uint16_t *>(memory)[i] =
        runtime::floatToF16(static_cast<float>(value));
    return;
  case Element::BF16:
    static_cast<uint16_t *>(memory)[i] =
        runtime::floatToBF16(static_cast<float>(value));
    return;
  }
}

} // namespace mpc::emulator

#endif // MPC_TEST_EMULATOR_ELEMENT_H
