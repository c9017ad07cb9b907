// Finds heads of keys and values that a model repeats, so that several heads of
// queries can use each.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_RECOGNITION_REPEATEDHEADS_H
#define MPC_PASSES_RECOGNITION_REPEATEDHEADS_H

#include "compiler/Dialect/MPC/MPC.h"

#include <optional>

namespace mpc {

/// A value [..., heads * n, rows, columns] in which each head occurs n times,
/// one copy after the other.
struct RepeatedHeads {
  mlir::Value source; ///< the value that has each head once
  int64_t n = 1;
  /// Transposes and scaling between the repetition and the value, the last op
  /// first.
  llvm::SmallVector<mlir::Operation *> path;
};

/// Finds repeated heads in `value`, which must have at least three axes.
/// Matches what Hugging Face's `repeat_kv` and PyTorch's `repeat_interleave`
/// and `enable_gqa` export: an expand of an axis of size 1, and reshapes. For
/// keys, a transpose of each head and a product with the square root of the
/// scale may follow. nullopt for other values.
std::optional<RepeatedHeads> findRepeatedHeads(mlir::Value value);

/// Rebuilds `value` with each head once: [..., heads, 1, rows, columns].
/// `repeated` is the result of findRepeatedHeads.
mlir::Value takeOnce(mlir::Value value, const RepeatedHeads &repeated,
                     mlir::OpBuilder &builder);

} // namespace mpc

#endif // MPC_PASSES_RECOGNITION_REPEATEDHEADS_H
