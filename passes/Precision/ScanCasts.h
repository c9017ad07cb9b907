// Moves casts out of the bodies of loops.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PRECISION_SCANCASTS_H
#define MPC_PASSES_PRECISION_SCANCASTS_H

#include "compiler/Dialect/MPC/MPC.h"

namespace mpc::amp {

/// Moves casts from the body of `scan` to before and after the loop. Each value
/// is rounded as often as before. A weight is cast once instead of in each
/// iteration, and results are stacked in their narrow type. May replace `scan`
/// by a new op. Returns true if any cast has moved.
bool moveCastsOut(mpc::ScanOp scan, mlir::RewriterBase &rewriter);

} // namespace mpc::amp

#endif // MPC_PASSES_PRECISION_SCANCASTS_H
