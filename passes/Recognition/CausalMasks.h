// Finds causal masks, biases and factors: tensors that hide later keys from
// earlier queries.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_RECOGNITION_CAUSALMASKS_H
#define MPC_PASSES_RECOGNITION_CAUSALMASKS_H

#include "compiler/Dialect/MPC/MPC.h"

#include <optional>

namespace mpc {

/// Returns the causal offset of a boolean mask: query i sees the keys up to i +
/// offset. `scores` is [..., queries, keys]. The mask must have the same last
/// two axes, may broadcast along the others, and must be computed from known
/// elements. With `isInverted`, true means hidden. nullopt if the mask has
/// another form.
std::optional<int64_t> findCausalOffset(mlir::Value mask,
                                        llvm::ArrayRef<int64_t> scores,
                                        bool isInverted);

/// Returns the causal offset of a bias that the model adds to the scores: 0 for
/// seen keys, at most `low` for hidden keys. With `isSubtracted`, the model
/// subtracts the bias: at least -`low` for hidden keys. nullopt if the bias has
/// another form.
std::optional<int64_t> findCausalOffsetOfBias(mlir::Value bias,
                                              llvm::ArrayRef<int64_t> scores,
                                              double low,
                                              bool isSubtracted = false);

/// Returns the causal offset of a factor of the scores: 1 for seen keys, 0 for
/// hidden keys. nullopt if the factor has another form.
std::optional<int64_t> findCausalOffsetOfFactor(mlir::Value factor,
                                                llvm::ArrayRef<int64_t> scores);

} // namespace mpc

#endif // MPC_PASSES_RECOGNITION_CAUSALMASKS_H
