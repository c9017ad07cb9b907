// Reads the order in which a convolution stores its filter in memory.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_SHAPES_FILTERLAYOUT_H
#define MPC_COMPILER_DIALECT_MPC_SHAPES_FILTERLAYOUT_H

#include "compiler/Dialect/MPC/MPC.h"

namespace mpc {

/// True if `op`, of the convolution family, stores the input channels of its
/// filter last.
inline bool hasInputChannelsLast(mlir::Operation *op) {
  auto layout = op->getAttrOfType<FilterLayoutAttr>("filter_layout");
  return layout && layout.getValue() == FilterLayout::OHWI;
}

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_SHAPES_FILTERLAYOUT_H
