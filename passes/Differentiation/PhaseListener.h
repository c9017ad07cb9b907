// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_DIFFERENTIATION_PHASELISTENER_H
#define MPC_PASSES_DIFFERENTIATION_PHASELISTENER_H

#include "compiler/Dialect/MPC/MPC.h"

namespace mpc {

/// Sets `mpc.phase` on every op inserted during its lifetime.
class PhaseListener : public mlir::OpBuilder::Listener {
public:
  explicit PhaseListener(Phase phase) : phase(phase) {}
  void notifyOperationInserted(mlir::Operation *op,
                               mlir::OpBuilder::InsertPoint) override {
    setPhase(op, phase);
  }

private:
  Phase phase;
};

} // namespace mpc

#endif // MPC_PASSES_DIFFERENTIATION_PHASELISTENER_H
