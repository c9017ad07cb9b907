// Declarations of the passes of the Differentiation stage; see Passes.td.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_DIFFERENTIATION_PASSES_H
#define MPC_PASSES_DIFFERENTIATION_PASSES_H

#include "mlir/Pass/Pass.h"

#include <limits>

namespace mpc {

/// The value of `ignore-index` that means none.
constexpr int64_t kNoIgnoreIndex = std::numeric_limits<int64_t>::min();

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Differentiation/Passes.h.inc"

} // namespace mpc

#endif // MPC_PASSES_DIFFERENTIATION_PASSES_H
