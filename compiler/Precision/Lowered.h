// Tells ops that mpc lowers from ops that are low in the model itself.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_PRECISION_LOWERED_H
#define MPC_COMPILER_PRECISION_LOWERED_H

#include "compiler/Dialect/AMP/AMP.h"

namespace mpc {

/// True if the decision puts a float32 value of the model into a lower type.
/// Values that have 16 bits in the model do not count.
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
