// Sums an operand of a matrix product along the depth. Example: a bias gradient
// sums an operand that the weight gradient reads entirely anyway.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_ONEDNN_OPERANDSUMS_H
#define MPC_RUNTIME_CPU_ONEDNN_OPERANDSUMS_H

#include "runtime/cpu/Contraction.h"

#include <memory>

namespace mpc::runtime {

/// Sets result[column] to the sum of a matrix's column. The matrix has `rows`
/// rows of `columns` elements of `type` (f32, bf16 or f16), with leading
/// dimension `leading`. Bands of 32 rows are summed in f32, and the bands in
/// f64, so the sum of a column does not depend on the number of columns or
/// workers.
void sumRows(DType type, const std::byte *matrix, int64_t leading, int64_t rows,
             int64_t columns, float *result);

/// The operand that `fused` of a step sums, and the destination of the sums.
/// The operand is stored in rows along the depth. False if the step sums
/// nothing.
struct OperandSums {
  bool ofLeft = false;
  Operand source, result;
  int64_t offset = 0, leading = 0, depth = 0, columns = 0;

  OperandSums() = default;
  OperandSums(const MatMulStep &step, const MatMulOperands &operands);

  explicit operator bool() const { return result.data != nullptr; }

  /// Sums columns [first, first + count).
  void sum(int64_t first, int64_t count) const;

  /// Adds pointers to the addresses that a loop of the plan changes.
  void addAddresses(std::vector<void **> &addresses) {
    addresses.push_back(&result.data);
    addresses.push_back(&source.data);
  }
};

/// Adds a phase to `contraction` that computes the sums of an operand. Returns
/// `contraction` itself if there are no sums.
std::unique_ptr<Contraction>
addOperandSums(std::unique_ptr<Contraction> contraction, OperandSums sums);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_ONEDNN_OPERANDSUMS_H
