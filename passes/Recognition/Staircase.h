// Finds staircases, such as causal masks: matrices whose elements have one
// value on one side of a diagonal, and another value on the other side.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_RECOGNITION_STAIRCASE_H
#define MPC_PASSES_RECOGNITION_STAIRCASE_H

#include "compiler/Dialect/MPC/MPC.h"

#include <optional>

namespace mpc {

/// A matrix with the element `near` in row i up to column i + offset, and `far`
/// in later columns. Without an offset, all elements are `near`.
struct Staircase {
  std::optional<int64_t> offset;
  mlir::Attribute near, far;
};

/// Returns the staircase of all matrices (last two axes) of `value`. Follows
/// ops back to known elements, and folds each op for two elements only, so the
/// size of `value` does not matter. nullopt if there is no staircase, if
/// matrices differ, or if `value` depends on an input.
std::optional<Staircase> findStaircase(mlir::Value value);

} // namespace mpc

#endif // MPC_PASSES_RECOGNITION_STAIRCASE_H
