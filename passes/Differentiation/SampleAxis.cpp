// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/SampleAxis.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mpc;

SampleAxes::SampleAxes(Block &block, ArrayRef<std::pair<Value, int64_t>> inputs,
                       int64_t batch) {
  if (batch < 2)
    return;
  for (auto [input, axis] : inputs)
    axes[input].axis = axis;
  // Operands come before their readers.
  for (Operation &op : block) {
    auto samples = llvm::map_to_vector(
        op.getOperands(), [&](Value operand) { return find(operand); });
    if (std::optional<SampleAxis> found = followSamples(&op, samples, batch))
      axes[op.getResult(0)] = *found;
  }
}

std::optional<SampleAxis> SampleAxes::find(Value value) const {
  auto found = axes.find(value);
  return found == axes.end() ? std::nullopt : std::optional(found->second);
}
