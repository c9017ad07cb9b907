// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/SampleAxisAnalysis.h"

#include "compiler/Dialect/MPC/MPC.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mpc;

SampleAxisAnalysis::SampleAxisAnalysis(
    Block &block, ArrayRef<std::pair<Value, int64_t>> inputs, int64_t batch) {
  if (batch < 2)
    return;
  for (auto [input, axis] : inputs)
    axes[input].axis = axis;
  follow(block, batch);
}

// Records the axis of samples for all values of a block. Visits ops in order,
// so the axes of operands are known before their users.
void SampleAxisAnalysis::follow(Block &block, int64_t batch) {
  for (Operation &op : block) {
    if (isa<ScanOp>(op)) {
      followScan(&op, batch);
      continue;
    }
    auto samples = llvm::map_to_vector(
        op.getOperands(), [&](Value operand) { return find(operand); });
    if (std::optional<SampleAxis> found = followSamples(&op, samples, batch))
      axes[op.getResult(0)] = *found;
  }
}

// Records that `value` has `samples`. Returns true if nothing was recorded for
// `value` before.
bool SampleAxisAnalysis::note(Value value, std::optional<SampleAxis> samples) {
  return samples && axes.try_emplace(value, *samples).second;
}

// Follows samples through a loop over another axis, such as time. Initial
// values of carried values may be zeros, which have no samples.
void SampleAxisAnalysis::followScan(Operation *op, int64_t batch) {
  auto scan = cast<ScanOp>(op);
  const unsigned carried = scan.getNumCarried();
  for (auto [argument, value] :
       llvm::zip_equal(scan.getCarriedArguments(), scan.getCarried()))
    note(argument, find(value));
  for (auto [argument, value] :
       llvm::zip_equal(scan.getInvariantArguments(), scan.getInvariant()))
    note(argument, find(value));
  for (auto [argument, value] :
       llvm::zip_equal(scan.getScannedArguments(), scan.getScanned()))
    if (std::optional<SampleAxis> samples = find(value);
        samples && samples->axis > 0)
      note(argument, SampleAxis{samples->axis - 1, samples->outer});
  // A carried value may get samples only in the body. Then visit the body
  // again, since more values may have samples now.
  auto yielded = scan.getYield()->getOperands();
  for (bool isNew = true; isNew;) {
    follow(scan.getBody().front(), batch);
    isNew = false;
    for (auto [argument, value] : llvm::zip_equal(scan.getCarriedArguments(),
                                                  yielded.take_front(carried)))
      isNew |= note(argument, find(value));
  }
  // Give up if a carried value has its samples on another axis after an
  // iteration.
  for (auto [argument, value] :
       llvm::zip_equal(scan.getCarriedArguments(), yielded.take_front(carried)))
    if (!(find(argument) == find(value)))
      return;
  for (auto [value, last] :
       llvm::zip_equal(yielded.take_front(carried), scan.getLast()))
    note(last, find(value));
  for (auto [value, stacked] :
       llvm::zip_equal(yielded.drop_front(carried), scan.getStacked()))
    if (std::optional<SampleAxis> samples = find(value))
      note(stacked, SampleAxis{samples->axis + 1, samples->outer});
}

std::optional<SampleAxis> SampleAxisAnalysis::find(Value value) const {
  auto found = axes.find(value);
  return found == axes.end() ? std::nullopt : std::optional(found->second);
}
