// Matrix products and convolutions as one matrix.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_CONTRACTIONOPINTERFACE_H
#define MPC_COMPILER_INTERFACES_CONTRACTIONOPINTERFACE_H

#include "mlir/IR/OpDefinition.h"

#include <optional>

namespace mpc {

/// A contraction's result as a matrix and the number of products in each of its
/// elements. Rows are batches and rows of a matrix product, pixels of an NHWC
/// convolution, and output channels of a weight gradient.
struct ContractionSpace {
  int64_t rows = 1, columns = 1, depth = 1;
};

} // namespace mpc

#include "compiler/Interfaces/ContractionOpInterface.h.inc"

#endif // MPC_COMPILER_INTERFACES_CONTRACTIONOPINTERFACE_H
