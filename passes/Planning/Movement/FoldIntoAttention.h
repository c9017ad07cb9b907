// Lets the attention of a library read and write heads where they lie.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PLANNING_MOVEMENT_FOLDINTOATTENTION_H
#define MPC_PASSES_PLANNING_MOVEMENT_FOLDINTOATTENTION_H

#include "mlir/IR/Block.h"

namespace mpc {

/// Makes each mpc.library_attention of `block`, and each gradient, skip the
/// kernels that only move its operands and results. Operands are read through
/// plan.access: heads that are columns of a projection stay there. Results are
/// written through plan.arrange. Leaves kernels without users behind.
void foldMovementIntoAttention(mlir::Block &block);

} // namespace mpc

#endif // MPC_PASSES_PLANNING_MOVEMENT_FOLDINTOATTENTION_H
