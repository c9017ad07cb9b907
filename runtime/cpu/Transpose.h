// A matrix of elements of 16 or 32 bits turned into columns.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_TRANSPOSE_H
#define MPC_RUNTIME_CPU_TRANSPOSE_H

#include <cstdint>

namespace mpc::runtime {

/// Row i of `source` (`rows` x `columns`) becomes column i of `result`. Rows
/// of either lie `sourceLeading` and `resultLeading` elements apart.
void transpose(const uint16_t *source, int64_t sourceLeading, uint16_t *result,
               int64_t resultLeading, int64_t rows, int64_t columns);
void transpose(const uint32_t *source, int64_t sourceLeading, uint32_t *result,
               int64_t resultLeading, int64_t rows, int64_t columns);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_TRANSPOSE_H
