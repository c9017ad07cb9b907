// Where the samples of a batch are in the values of a forward function.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_DIFFERENTIATION_SAMPLEAXIS_H
#define MPC_PASSES_DIFFERENTIATION_SAMPLEAXIS_H

#include "compiler/Dialect/MPC/MPC.h"

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

/// Follows the samples from the function's inputs to its values.
class SampleAxes {
public:
  /// Each of `inputs` has `batch` samples on the axis beside it.
  SampleAxes(mlir::Block &block,
             llvm::ArrayRef<std::pair<mlir::Value, int64_t>> inputs,
             int64_t batch);

  /// Nothing where a value has no samples, or where that was not followed:
  /// behind ops that are none of the common ones, or with a batch of 1.
  std::optional<SampleAxis> find(mlir::Value value) const;

private:
  std::optional<SampleAxis> follow(mlir::Operation *op) const;
  std::optional<SampleAxis> followView(mlir::Value from,
                                       llvm::ArrayRef<int64_t> to) const;
  std::optional<SampleAxis> followBroadcast(mlir::Operation *op) const;
  std::optional<SampleAxis> followAttention(AttentionOp attention) const;
  std::optional<SampleAxis> followGather(GatherOp gather) const;

  int64_t batch;
  llvm::DenseMap<mlir::Value, SampleAxis> axes;
};

} // namespace mpc

#endif // MPC_PASSES_DIFFERENTIATION_SAMPLEAXIS_H
