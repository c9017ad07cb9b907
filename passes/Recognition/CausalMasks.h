// Masks and biases that hide later keys from earlier queries.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_RECOGNITION_CAUSALMASKS_H
#define MPC_PASSES_RECOGNITION_CAUSALMASKS_H

#include "compiler/Dialect/MPC/MPC.h"

#include <optional>

namespace mpc {

/// The offset of a mask, of known elements or computed of these, by which query
/// i sees the keys up to i + offset. Its shape is that of `scores`, [...,
/// queries, keys], or broadcasts to it along the axes in front of the last two,
/// and there it is the same for all. `isInverted`: it is true where a key is
/// hidden.
std::optional<int64_t> findCausalOffset(mlir::Value mask,
                                        llvm::ArrayRef<int64_t> scores,
                                        bool isInverted);

/// The offset of a bias that hides keys as such a mask does: it is 0 where a
/// key is seen and at most `low` elsewhere. `isSubtracted`: it is subtracted,
/// and at least -`low` there.
std::optional<int64_t> findCausalOffsetOfBias(mlir::Value bias,
                                              llvm::ArrayRef<int64_t> scores,
                                              double low,
                                              bool isSubtracted = false);

/// The offset of a factor that is 1 where a key is seen and 0 elsewhere.
std::optional<int64_t> findCausalOffsetOfFactor(mlir::Value factor,
                                                llvm::ArrayRef<int64_t> scores);

} // namespace mpc

#endif // MPC_PASSES_RECOGNITION_CAUSALMASKS_H
