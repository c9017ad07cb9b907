// Casts at the edges of loops.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PRECISION_SCANCASTS_H
#define MPC_PASSES_PRECISION_SCANCASTS_H

#include "compiler/Dialect/MPC/MPC.h"

namespace mpc::amp {

/// Moves casts out of the body of `scan`, rounding as often as before: a weight
/// is cast once and not in each iteration, what is stacked is stacked as it was
/// computed. The scan may be replaced by another. Whether anything moved.
bool moveCastsOut(mpc::ScanOp scan, mlir::RewriterBase &rewriter);

} // namespace mpc::amp

#endif // MPC_PASSES_PRECISION_SCANCASTS_H
