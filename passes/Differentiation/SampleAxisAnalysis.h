// Finds the axis of the samples of a batch in the values of a forward function.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_DIFFERENTIATION_SAMPLEAXISANALYSIS_H
#define MPC_PASSES_DIFFERENTIATION_SAMPLEAXISANALYSIS_H

#include "compiler/Interfaces/SampleAxisOpInterface.h"

#include "mlir/IR/Block.h"
#include "llvm/ADT/DenseMap.h"

namespace mpc {

/// Traces the axis of samples from the inputs of a function to all values.
class SampleAxisAnalysis {
public:
  /// `inputs` pairs each input with the axis of its samples. `batch` is the
  /// number of samples.
  SampleAxisAnalysis(mlir::Block &block,
                     llvm::ArrayRef<std::pair<mlir::Value, int64_t>> inputs,
                     int64_t batch);

  /// Returns the axis of the samples in `value`. nullopt if `value` has no
  /// samples, or if the axis is unknown: after an op that does not tell the
  /// axis of its result, or with a batch of 1.
  std::optional<SampleAxis> find(mlir::Value value) const;

private:
  void follow(mlir::Block &block, int64_t batch);
  void followScan(mlir::Operation *op, int64_t batch);
  bool note(mlir::Value value, std::optional<SampleAxis> samples);

  llvm::DenseMap<mlir::Value, SampleAxis> axes;
};

} // namespace mpc

#endif // MPC_PASSES_DIFFERENTIATION_SAMPLEAXISANALYSIS_H
