// Reads the order in which a convolution stores its filter in memory.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_SHAPES_FILTERLAYOUT_H
#define MPC_COMPILER_DIALECT_MPC_SHAPES_FILTERLAYOUT_H

#include "compiler/Dialect/MPC/MPC.h"

namespace mpc {

/// True if `op`, a convolution or its gradient, stores the input channels as
/// the last axis of its filter (OHWI).
inline bool hasInputChannelsLast(mlir::Operation *op) {
  auto layout = op->getAttrOfType<FilterLayoutAttr>("filter_layout");
  return layout && layout.getValue() == FilterLayout::OHWI;
}

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_SHAPES_FILTERLAYOUT_H
