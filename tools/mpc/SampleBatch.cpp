// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/SampleBatch.h"

#include "runtime/train/DataFiles.h"
#include "tools/mpc/DeclaredShapes.h"
#include "tools/mpc/LabelData.h"
#include "tools/mpc/Notes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;
using namespace mpc::runtime::train;

//===----------------------------------------------------------------------===//
// Names of folders
//===----------------------------------------------------------------------===//

static bool hasName(const Array &array) { return !array.name.empty(); }

ExitCode mpc::tools::nameSamples(const std::vector<std::string> &inputs,
                                 std::vector<Array> &arrays) {
  if (llvm::all_of(arrays, hasName))
    return ExitCode::Done;
  // Inputs that have arrays of their names need no other.
  std::vector<std::string> free;
  for (const std::string &input : inputs)
    if (llvm::none_of(arrays,
                      [&](const Array &array) { return array.name == input; }))
      free.push_back(input);
  const auto folder =
      llvm::find_if(arrays, [](const Array &array) { return !hasName(array); });
  if (free.size() != 1)
    return reportError(
        ExitCode::Usage,
        "--data " + folder->source +
            ": a folder of samples is for an input; say which, "
            "such as --data " +
            (inputs.empty() ? "NAME" : inputs.front()) + "=" + folder->source +
            "; there are " +
            (inputs.empty() ? "none" : "'" + llvm::join(inputs, "', '") + "'"));
  // Several folders are parts of one array, as with a name.
  for (Array &array : arrays)
    if (!hasName(array))
      array.name = free.front();
  return ExitCode::Done;
}

ExitCode mpc::tools::nameSamples(const onnx_frontend::Model &model,
                                 std::vector<Array> &arrays) {
  std::vector<std::string> names;
  for (const DeclaredShape &input : readDeclaredInputs(model))
    names.push_back(input.name);
  return nameSamples(names, arrays);
}

ExitCode mpc::tools::nameSamples(const FunctionPorts &function,
                                 std::vector<Array> &arrays) {
  std::vector<std::string> names;
  for (const Port &port : function.inputs)
    if (port.role == Role::Data)
      names.push_back(port.name);
  return nameSamples(names, arrays);
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

bool mpc::tools::leavesBatchOpen(const onnx_frontend::Model &model,
                                 const ModelOptions &options) {
  if (options.batchSize > 0)
    return false;
  for (const DeclaredShape &input : readDeclaredInputs(model)) {
    const size_t rank = input.dimensions ? input.dimensions->size() : 0;
    const auto axis =
        findBatchAxis(input, std::vector<int64_t>(rank), options.batchAxes);
    if (rank > 0 && axis && input.isOpen(size_t(*axis)) &&
        !isBound(input, size_t(*axis), options.shapes))
      return true;
  }
  return false;
}

void mpc::tools::noteBatch(const ModelOptions &options) {
  note("batches of " + llvm::Twine(options.batchSize) +
       " samples, as the model leaves it open; --batch-size chooses");
}

// The usual batch, or all samples of less, where the model leaves it open. That
// no array is the input's is told later, by those who know what it takes.
static int64_t chooseBatch(const std::vector<DeclaredShape> &inputs,
                           const std::vector<Array> &arrays,
                           const ModelOptions &model) {
  int64_t batch = 0;
  for (const DeclaredShape &input : inputs) {
    auto array = llvm::find_if(
        arrays, [&](const Array &other) { return other.name == input.name; });
    // Images, rows of tables and files of samples are along the first axis.
    std::optional<int64_t> axis = 0;
    if (array != arrays.end() && !array->images && !array->isOfSamples &&
        !array->isColumn)
      axis = findBatchAxis(input, array->shape, model.batchAxes);
    if (!axis || !input.isOpen(size_t(*axis)) ||
        isBound(input, size_t(*axis), model.shapes))
      continue;
    const int64_t samples = *axis == 0 ? countSamples(arrays, input.name)
                                       : array->shape[size_t(*axis)];
    if (samples != 0)
      return std::min(samples, kUsualBatch);
    batch = kUsualBatch;
  }
  return batch;
}

ExitCode mpc::tools::chooseShapes(Driver &driver, std::vector<Array> &arrays,
                                  const DataFlags &flags, ModelOptions &model) {
  if (!driver.hasModel())
    if (llvm::Error error = driver.readModel(model.model))
      return reportError(std::move(error));
  if (ExitCode code = nameSamples(driver.getModel(), arrays);
      code != ExitCode::Done)
    return code;
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
