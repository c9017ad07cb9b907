// Finds matrices that one step divides, such as causal masks: an element
// depends only on the distance of its column from its row.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_RECOGNITION_STAIRCASE_H
#define MPC_PASSES_RECOGNITION_STAIRCASE_H

#include "compiler/Dialect/MPC/MPC.h"

#include <optional>

namespace mpc {

/// A matrix that is `near` in row i up to column i + offset, and `far` after
/// it. All elements are `near` if there is no offset.
struct Staircase {
  std::optional<int64_t> offset;
  mlir::Attribute near, far;
};

/// Finds the staircase in the last two axes of `value`, equal in all matrices.
/// Follows ops back to known elements, and folds each op for two elements only,
/// so the size of the value does not matter. nullopt if there is no staircase,
/// or if the value depends on an input.
std::optional<Staircase> findStaircase(mlir::Value value);

} // namespace mpc

#endif // MPC_PASSES_RECOGNITION_STAIRCASE_H
