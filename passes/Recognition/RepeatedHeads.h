// Finds heads of keys and values that a model repeats for several heads of
// queries.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_RECOGNITION_REPEATEDHEADS_H
#define MPC_PASSES_RECOGNITION_REPEATEDHEADS_H

#include "compiler/Dialect/MPC/MPC.h"

#include <optional>

namespace mpc {

/// A value [..., heads * n, rows, columns] that has each head n times in a row.
struct RepeatedHeads {
  mlir::Value source; ///< the value that has each head once
  int64_t n = 1;
  /// The ops applied to heads after the repetition, the last op first.
  llvm::SmallVector<mlir::Operation *> path;
};

/// Finds repeated heads, as exported from Hugging Face's `repeat_kv` and
/// PyTorch's `repeat_interleave` and `enable_gqa`: an expand of an axis of size
/// 1, and reshapes. For keys, transposes of matrices and a product with the
/// root of the scale may follow. nullopt for other values. `value` must have at
/// least three axes.
std::optional<RepeatedHeads> findRepeatedHeads(mlir::Value value);

/// Rebuilds `value` with each head once: [..., heads, 1, rows, columns].
/// `repeated` is the result of findRepeatedHeads.
mlir::Value takeOnce(mlir::Value value, const RepeatedHeads &repeated,
                     mlir::OpBuilder &builder);

} // namespace mpc

#endif // MPC_PASSES_RECOGNITION_REPEATEDHEADS_H
