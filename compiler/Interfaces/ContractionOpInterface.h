// Declares the interface of matrix products and convolutions, which presents
// both as one matrix product.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_CONTRACTIONOPINTERFACE_H
#define MPC_COMPILER_INTERFACES_CONTRACTIONOPINTERFACE_H

#include "mlir/IR/OpDefinition.h"

#include <optional>

namespace mpc {

/// A contraction seen as a matrix product. The result is a matrix of `rows` x
/// `columns`, and each element is a sum of `depth` products. Rows are the rows
/// of all batches of a matrix product, the pixels of an NHWC convolution, or
/// the output channels of a weight gradient.
struct ContractionSpace {
  int64_t rows = 1, columns = 1, depth = 1;
};

} // namespace mpc

#include "compiler/Interfaces/ContractionOpInterface.h.inc"

#endif // MPC_COMPILER_INTERFACES_CONTRACTIONOPINTERFACE_H
