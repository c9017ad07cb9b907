// Which decisions lowered something.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_PRECISION_LOWERED_H
#define MPC_COMPILER_PRECISION_LOWERED_H

#include "compiler/Dialect/AMP/AMP.h"

namespace mpc {

/// Whether the decision has something below fp32 that the model has in fp32.
/// What the model itself has in 16 bits was not lowered: the types of such a
/// record are the model's.
inline bool isLowered(amp::DecisionAttr decision) {
  switch (decision.getReason()) {
  case amp::Reason::Mode:
  case amp::Reason::ModelCast:
  case amp::Reason::ModelType:
  case amp::Reason::Constant:
    return false;
  default:
    return decision.isLow();
  }
}

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_LOWERED_H
