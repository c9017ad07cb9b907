// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/SampleBatch.h"

#include "runtime/train/DataFiles.h"
#include "tools/mpc/DeclaredShapes.h"
#include "tools/mpc/LabelData.h"

#include "llvm/ADT/STLExtras.h"

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;
using namespace mpc::runtime::train;

// The usual batch, or all samples of less, where the model leaves it open.
static int64_t chooseBatch(const std::vector<DeclaredShape> &inputs,
                           const std::vector<Array> &arrays,
                           const ModelOptions &model) {
  constexpr int64_t usual = 32;
  for (const DeclaredShape &input : inputs) {
    auto array = llvm::find_if(
        arrays, [&](const Array &other) { return other.name == input.name; });
    // Images, rows of tables and files of samples are along the first axis.
    std::optional<int64_t> axis = 0;
    if (array != arrays.end() && !array->images && !array->isOfSamples)
      axis = findBatchAxis(input, array->shape, model.batchAxes);
    if (!axis || !input.isOpen(size_t(*axis)) ||
        isBound(input, size_t(*axis), model.shapes))
      continue;
    const int64_t samples = *axis == 0 ? countSamples(arrays, input.name)
                                       : array->shape[size_t(*axis)];
    if (samples != 0)
      return std::min(samples, usual);
  }
  return 0;
}

ExitCode mpc::tools::chooseShapes(Driver &driver,
                                  const std::vector<Array> &arrays,
                                  const DataFlags &flags, ModelOptions &model) {
  if (llvm::Error error = driver.readModel(model.model))
    return reportError(std::move(error));
  const auto inputs = readDeclaredInputs(driver.getModel());
  // What is turned on its way has other shapes.
  const bool isTurned = !flags.inputLayout.empty();
  if (!isTurned)
    bindDataShapes(inputs, arrays, model);
  if (model.batchSize == 0)
    model.batchSize = chooseBatch(inputs, arrays, model);
  if (!isTurned)
    bindNamelessShapes(inputs, arrays, model);
  return ExitCode::Done;
}
