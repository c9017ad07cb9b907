// Heads of keys and values that a model repeats for several heads of queries.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_RECOGNITION_REPEATEDHEADS_H
#define MPC_PASSES_RECOGNITION_REPEATEDHEADS_H

#include "compiler/Dialect/MPC/MPC.h"

#include <optional>

namespace mpc {

/// How a value [..., heads * n, rows, columns] has each head n times in a row.
struct RepeatedHeads {
  mlir::Value source; ///< which has each once
  int64_t n = 1;
  /// What is done to heads that are there n times already, the last first.
  llvm::SmallVector<mlir::Operation *> path;
};

/// Finds them in what Hugging Face's `repeat_kv` and PyTorch's
/// `repeat_interleave` and `enable_gqa` are exported as: an expand of an axis
/// of size 1 and reshapes, and behind it, for keys, transposes of matrices and
/// a product with the root of the scale. Nothing for other values. `value` has
/// at least three axes.
std::optional<RepeatedHeads> findRepeatedHeads(mlir::Value value);

/// `value`, in which `repeated` was found, with each head once: [..., heads, 1,
/// rows, columns].
mlir::Value takeOnce(mlir::Value value, const RepeatedHeads &repeated,
                     mlir::OpBuilder &builder);

} // namespace mpc

#endif // MPC_PASSES_RECOGNITION_REPEATEDHEADS_H
