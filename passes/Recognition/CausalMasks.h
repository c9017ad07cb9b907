// Finds masks and biases that hide later keys from earlier queries.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_RECOGNITION_CAUSALMASKS_H
#define MPC_PASSES_RECOGNITION_CAUSALMASKS_H

#include "compiler/Dialect/MPC/MPC.h"

#include <optional>

namespace mpc {

/// Finds the causal offset of a boolean mask: query i sees the keys up to i +
/// offset. The mask must be computed from known elements. Its shape is that of
/// `scores`, [..., queries, keys], or broadcasts to `scores` along the leading
/// axes. With `isInverted`, true means hidden. nullopt if the mask has another
/// form.
std::optional<int64_t> findCausalOffset(mlir::Value mask,
                                        llvm::ArrayRef<int64_t> scores,
                                        bool isInverted);

/// Finds the causal offset of an added bias: 0 for seen keys, at most `low` for
/// hidden keys. With `isSubtracted`, the bias is subtracted, and at least
/// -`low` for hidden keys.
std::optional<int64_t> findCausalOffsetOfBias(mlir::Value bias,
                                              llvm::ArrayRef<int64_t> scores,
                                              double low,
                                              bool isSubtracted = false);

/// Finds the causal offset of a factor: 1 for seen keys, 0 for hidden keys.
std::optional<int64_t> findCausalOffsetOfFactor(mlir::Value factor,
                                                llvm::ArrayRef<int64_t> scores);

} // namespace mpc

#endif // MPC_PASSES_RECOGNITION_CAUSALMASKS_H
