// Values that one step divides, such as causal masks: what an element is tells
// alone how far its column is from its row.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_RECOGNITION_STAIRCASE_H
#define MPC_PASSES_RECOGNITION_STAIRCASE_H

#include "compiler/Dialect/MPC/MPC.h"

#include <optional>

namespace mpc {

/// The elements of a matrix: `near` in row i up to column i + offset, and `far`
/// behind it. Without an offset all are `near`.
struct Staircase {
  std::optional<int64_t> offset;
  mlir::Attribute near, far;
};

/// The staircase that each matrix of a value's last two axes is. It is found
/// from the constants that a value is computed of, and ops are asked for two
/// elements only, by their own folders: how many elements there are has no part
/// in it. Nothing where a value is no staircase, or depends on an input.
std::optional<Staircase> findStaircase(mlir::Value value);

} // namespace mpc

#endif // MPC_PASSES_RECOGNITION_STAIRCASE_H
