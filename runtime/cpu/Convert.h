// Conversion of runs of elements between f32 and the 16-bit types, vectorised
// where the CPU has the instructions. The bits are those of FloatBits.h on
// every CPU.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_CONVERT_H
#define MPC_RUNTIME_CPU_CONVERT_H

#include "runtime/Tensor.h"

namespace mpc::runtime {

/// `count` elements of `type` (f32, bf16 or f16) widened to float.
void widen(DType type, const void *source, float *result, int64_t count);

/// `count` floats rounded to nearest even to `type` (f32, bf16 or f16).
void narrow(DType type, const float *source, void *result, int64_t count);

/// Multiplies `count` floats by `factor`.
void scale(float *values, int64_t count, float factor);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_CONVERT_H
