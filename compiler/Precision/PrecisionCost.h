// Estimates the time of an op in either type from its shapes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_PRECISION_PRECISIONCOST_H
#define MPC_COMPILER_PRECISION_PRECISIONCOST_H

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Precision/ModelTypes.h"
#include "compiler/Target/TargetInfo.h"

namespace mpc {

/// Nanoseconds on one core of a CPU, or on a GPU (MachineRates.h).
struct PrecisionCost {
  int64_t low = 0, high = 0, cast = 0;
};

/// Estimates three times: of `op` with its float32 tensors in `low`, of `op` in
/// the types of the model, and of a cast of the results.
PrecisionCost estimateCost(PrecisionOpInterface op, mlir::FloatType low,
                           const TargetInfo &target, const ModelTypes &types);

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_PRECISIONCOST_H
