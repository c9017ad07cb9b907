// Transposes matrices with elements of 16 or 32 bits.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_TRANSPOSE_H
#define MPC_RUNTIME_CPU_TRANSPOSE_H

#include <cstdint>

namespace mpc::runtime {

/// Transposes `source` (`rows` x `columns`) into `result`: row i becomes column
/// i. `sourceLeading` and `resultLeading` are the leading dimensions in
/// elements.
void transpose(const uint16_t *source, int64_t sourceLeading, uint16_t *result,
               int64_t resultLeading, int64_t rows, int64_t columns);
void transpose(const uint32_t *source, int64_t sourceLeading, uint32_t *result,
               int64_t resultLeading, int64_t rows, int64_t columns);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_TRANSPOSE_H
