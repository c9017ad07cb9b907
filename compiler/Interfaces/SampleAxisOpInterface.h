// Ops through which the samples of a batch can be followed.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_SAMPLEAXISOPINTERFACE_H
#define MPC_COMPILER_INTERFACES_SAMPLEAXISOPINTERFACE_H

#include "mlir/IR/OpDefinition.h"

#include <optional>

namespace mpc {

/// On axis `axis`, and within it `outer` times: scores of [time, batch, 8] have
/// their samples on axis 1, and flattened to [time * batch, 8] on axis 0, where
/// all samples come once for each of `outer` = time steps.
struct SampleAxis {
  int64_t axis = 0, outer = 1;

  bool operator==(const SampleAxis &other) const {
    return axis == other.axis && outer == other.outer;
  }
};

/// Where operands have their samples; nothing for one that has none.
using OperandSamples = llvm::ArrayRef<std::optional<SampleAxis>>;

/// The samples of a result that `operands` are broadcast to: those with samples
/// must agree.
std::optional<SampleAxis> followBroadcastSamples(mlir::Operation *op,
                                                 OperandSamples operands);

} // namespace mpc

#include "compiler/Interfaces/SampleAxisOpInterface.h.inc"

namespace mpc {

/// Where the first result of any op has its samples; nothing where that is not
/// known.
std::optional<SampleAxis> followSamples(mlir::Operation *op,
                                        OperandSamples operands, int64_t batch);

} // namespace mpc

#endif // MPC_COMPILER_INTERFACES_SAMPLEAXISOPINTERFACE_H
