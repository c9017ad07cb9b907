// Follows the position of the samples of a batch from operands to results of
// ops.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_SAMPLEAXISOPINTERFACE_H
#define MPC_COMPILER_INTERFACES_SAMPLEAXISOPINTERFACE_H

#include "mlir/IR/OpDefinition.h"

#include <optional>

namespace mpc {

/// The position of the samples in a tensor: index i along `axis` belongs to
/// sample i, or, if all samples are repeated `outer` times, to sample i %
/// batch. Scores of [time, batch, 8] have samples on axis 1. Flattened scores
/// of [time * batch, 8] have samples on axis 0, with `outer` = time.
struct SampleAxis {
  int64_t axis = 0, outer = 1;

  bool operator==(const SampleAxis &other) const {
    return axis == other.axis && outer == other.outer;
  }
};

/// The position of the samples in each operand of an op; nullopt for an operand
/// without samples.
using OperandSamples = llvm::ArrayRef<std::optional<SampleAxis>>;

/// Returns the position of the samples in the result of `op`, to which all
/// operands are broadcast; nullopt if no operand has samples, or if two
/// operands disagree.
std::optional<SampleAxis> followBroadcastSamples(mlir::Operation *op,
                                                 OperandSamples operands);

} // namespace mpc

#include "compiler/Interfaces/SampleAxisOpInterface.h.inc"

namespace mpc {

/// Returns the position of the samples in the first result of any op, from the
/// positions in the operands and the number of samples `batch`; nullopt if
/// unknown.
std::optional<SampleAxis> followSamples(mlir::Operation *op,
                                        OperandSamples operands, int64_t batch);

} // namespace mpc

#endif // MPC_COMPILER_INTERFACES_SAMPLEAXISOPINTERFACE_H
