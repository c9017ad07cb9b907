// What an op costs in either type, from its shapes alone.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_PRECISION_PRECISIONCOST_H
#define MPC_COMPILER_PRECISION_PRECISIONCOST_H

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Target/TargetInfo.h"

namespace mpc {

/// Nanoseconds on a nominal machine; the ratios are what counts.
struct PrecisionCost {
  int64_t low = 0, high = 0, cast = 0;
};

/// The cost of `op` with its float tensors in `low` and in the types they have.
/// Operands and results the policy keeps in fp32 count as such.
PrecisionCost estimateCost(PrecisionOpInterface op, mlir::FloatType low,
                           const TargetInfo &target);

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_PRECISIONCOST_H
