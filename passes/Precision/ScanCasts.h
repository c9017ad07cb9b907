// Moves casts across the edges of loops.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PRECISION_SCANCASTS_H
#define MPC_PASSES_PRECISION_SCANCASTS_H

#include "compiler/Dialect/MPC/MPC.h"

namespace mpc::amp {

/// Moves casts out of the body of `scan`; values are rounded as often as
/// before. A weight is cast once instead of in each iteration, and values are
/// stacked in the type they are computed in. May replace the scan. Returns true
/// if anything moved.
bool moveCastsOut(mpc::ScanOp scan, mlir::RewriterBase &rewriter);

} // namespace mpc::amp

#endif // MPC_PASSES_PRECISION_SCANCASTS_H
