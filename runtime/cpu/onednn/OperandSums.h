// Sums of an operand of a matrix product along the depth: gradients of biases,
// which the product's gradient for the weights reads all of.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_ONEDNN_OPERANDSUMS_H
#define MPC_RUNTIME_CPU_ONEDNN_OPERANDSUMS_H

#include "runtime/cpu/Contraction.h"

#include <memory>

namespace mpc::runtime {

/// result[column] = the sum of a matrix's `rows` rows of `columns` elements of
/// `type` (f32, bf16 or f16), `leading` elements apart. Bands of 32 rows are
/// added up in f32, and totals in f64: a sum depends on its column alone.
void sumRows(DType type, const std::byte *matrix, int64_t leading, int64_t rows,
             int64_t columns, float *result);

/// The operand of `step` that its `fused` says is summed, and where the sums
/// go. It is stored in rows along the depth.
struct OperandSums {
  bool ofLeft = false;
  Operand source, result;
  int64_t offset = 0, leading = 0, depth = 0, columns = 0;

  OperandSums() = default;
  OperandSums(const MatMulStep &step, const MatMulOperands &operands);

  explicit operator bool() const { return result.data != nullptr; }

  /// Sums columns [first, first + count).
  void sum(int64_t first, int64_t count) const;

  /// What a loop of the plan changes.
  void addAddresses(std::vector<void **> &addresses) {
    addresses.push_back(&result.data);
    addresses.push_back(&source.data);
  }
};

/// `contraction`, which multiplies alone, with a phase that sums.
std::unique_ptr<Contraction>
addOperandSums(std::unique_ptr<Contraction> contraction, OperandSums sums);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_ONEDNN_OPERANDSUMS_H
