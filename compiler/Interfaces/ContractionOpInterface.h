// Declares the interface of matrix products and convolutions, seen as one
// matrix.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_CONTRACTIONOPINTERFACE_H
#define MPC_COMPILER_INTERFACES_CONTRACTIONOPINTERFACE_H

#include "mlir/IR/OpDefinition.h"

#include <optional>

namespace mpc {

/// A contraction seen as a matrix product: its result is `rows` x `columns`,
/// and each element sums `depth` products. Rows are batches and rows of a
/// matrix product, pixels of an NHWC convolution, or output channels of a
/// weight gradient.
struct ContractionSpace {
  int64_t rows = 1, columns = 1, depth = 1;
};

} // namespace mpc

#include "compiler/Interfaces/ContractionOpInterface.h.inc"

#endif // MPC_COMPILER_INTERFACES_CONTRACTIONOPINTERFACE_H
