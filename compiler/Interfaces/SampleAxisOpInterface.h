// Follows the samples of a batch from operands to results of ops.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_SAMPLEAXISOPINTERFACE_H
#define MPC_COMPILER_INTERFACES_SAMPLEAXISOPINTERFACE_H

#include "mlir/IR/OpDefinition.h"

#include <optional>

namespace mpc {

/// The position of samples: axis `axis`, which repeats all samples `outer`
/// times. Scores of [time, batch, 8] have samples on axis 1. Flattened to [time
/// * batch, 8] they have samples on axis 0, with `outer` = time.
struct SampleAxis {
  int64_t axis = 0, outer = 1;

  bool operator==(const SampleAxis &other) const {
    return axis == other.axis && outer == other.outer;
  }
};

/// The position of samples in each operand; nullopt for an operand without
/// samples.
using OperandSamples = llvm::ArrayRef<std::optional<SampleAxis>>;

/// Returns the position of samples in a result to which `operands` are
/// broadcast; nullopt if operands with samples disagree.
std::optional<SampleAxis> followBroadcastSamples(mlir::Operation *op,
                                                 OperandSamples operands);

} // namespace mpc

#include "compiler/Interfaces/SampleAxisOpInterface.h.inc"

namespace mpc {

/// Returns the position of samples in the first result of any op; nullopt if
/// unknown.
std::optional<SampleAxis> followSamples(mlir::Operation *op,
                                        OperandSamples operands, int64_t batch);

} // namespace mpc

#endif // MPC_COMPILER_INTERFACES_SAMPLEAXISOPINTERFACE_H
