// Converts runs of elements between f32 and the 16-bit types. Uses vector
// instructions if the CPU has them; the bits equal those of FloatBits.h on
// every CPU.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_CONVERT_H
#define MPC_RUNTIME_CPU_CONVERT_H

#include "runtime/Tensor.h"

namespace mpc::runtime {

/// Widens `count` elements of `type` (f32, bf16 or f16) to float.
void widen(DType type, const void *source, float *result, int64_t count);

/// Rounds `count` floats to nearest even in `type` (f32, bf16 or f16).
void narrow(DType type, const float *source, void *result, int64_t count);

/// Multiplies `count` floats by `factor`.
void scale(float *values, int64_t count, float factor);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_CONVERT_H
