// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/model/SampleBatch.h"

#include "frontends/ONNX/Summary.h"
#include "runtime/train/data/DataFiles.h"
#include "tools/mpc/flags/DeclaredShapes.h"
#include "tools/mpc/model/LabelData.h"
#include "tools/mpc/print/Notes.h"

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
  // An array without a name can only be for an input that has no array of its
  // name.
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
  // If there are several arrays without a name, all hold samples of the same
  // input.
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

int64_t mpc::tools::assumeBatch(const onnx_frontend::Model &model,
                                const ModelOptions &options) {
  const llvm::StringSet<> weights = onnx_frontend::listWeightInputs(model);
  std::optional<int64_t> batch;
  for (const DeclaredShape &input : readDeclaredInputs(model)) {
    const size_t rank = input.dimensions ? input.dimensions->size() : 0;
    const auto axis =
        findBatchAxis(input, std::vector<int64_t>(rank), options.batchAxes);
    bool isFixed = rank > 0 && axis == 0 && !weights.contains(input.name);
    for (size_t i = 0; i < rank; ++i)
      isFixed &= !input.isOpen(i);
    if (!isFixed || *input.extent(0) <= 1)
      continue;
    // If fixed inputs have several sizes, none of the sizes is the batch.
    if (batch.value_or(*input.extent(0)) != *input.extent(0))
      return kUsualBatch;
    batch = input.extent(0);
  }
  return batch.value_or(kUsualBatch);
}

void mpc::tools::noteBatch(const ModelOptions &options) {
  note("batches of " + llvm::Twine(options.batchSize) +
       " samples, as the model leaves it open; --batch-size chooses");
}

// Returns the batch size that a fixed input implies for open inputs: the extent
// of axis 0, if the array has more samples. If the array has exactly this
// extent, axis 0 may be no batch: a graph's edges have two rows.
static std::optional<int64_t>
findFixedBatch(const std::vector<DeclaredShape> &inputs,
               const std::vector<Array> &arrays,
               const std::vector<std::string> &batchAxes) {
  for (const DeclaredShape &input : inputs)
    for (const Array &array : arrays) {
      if (array.name != input.name || array.images || array.isColumn ||
          findBatchAxis(input, array.shape, batchAxes) != 0)
        continue;
      const std::optional<int64_t> extent = input.extent(0);
      if (extent && *extent > 1 && array.shape[0] > *extent)
        return extent;
    }
  return std::nullopt;
}

// Returns the batch size for an open dimension: the default, or the number of
// samples if there are fewer. 0 if no batch is open. A later check reports an
// input without an array.
static int64_t chooseBatch(const std::vector<DeclaredShape> &inputs,
                           const std::vector<Array> &arrays,
                           const ModelOptions &model) {
  int64_t batch = 0;
  const std::optional<int64_t> others =
      findFixedBatch(inputs, arrays, model.batchAxes);
  for (const DeclaredShape &input : inputs) {
    auto array = llvm::find_if(
        arrays, [&](const Array &other) { return other.name == input.name; });
    // In images, tables and files of samples, the samples are on axis 0.
    std::optional<int64_t> axis = 0;
    // If the rank of the array is wrong, a later check refuses it and shows the
    // expected shape.
    bool hasRank = true;
    if (array != arrays.end() && !array->images && !array->isOfSamples &&
        !array->isColumn) {
      hasRank =
          !input.dimensions || input.dimensions->size() == array->shape.size();
      axis = findBatchAxis(
          input, hasRank ? array->shape : Shape(input.dimensions->size()),
          model.batchAxes);
    }
    if (!axis || !input.isOpen(size_t(*axis)) ||
        isBound(input, size_t(*axis), model.shapes))
      continue;
    const int64_t samples = !hasRank     ? 0
                            : *axis == 0 ? countSamples(arrays, input.name)
                                         : array->shape[size_t(*axis)];
    if (samples != 0)
      return std::min(samples, others.value_or(kUsualBatch));
    batch = others.value_or(kUsualBatch);
  }
  return batch;
}

// Refuses an array that is one long row of tokens for an input with samples.
// Without this check, the user would see a confusing message later, for example
// about labels.
static ExitCode refuseRows(const std::vector<DeclaredShape> &inputs,
                           const std::vector<Array> &arrays) {
  for (const DeclaredShape &input : inputs)
    for (const Array &array : arrays) {
      const auto type = parseDType(input.type);
      if (array.name != input.name || array.images || array.isColumn ||
          array.isOfSamples || array.shape.size() != 1 || !input.dimensions ||
          input.dimensions->size() != 2 || !input.extent(1) || !type.ok() ||
          train::isFloat(array.type))
        continue;
      const Port port{input.name, Role::Data, *type, {1, *input.extent(1)}};
      return reportError(wrongShape(port, array));
    }
  return ExitCode::Done;
}

ExitCode mpc::tools::chooseShapes(Driver &driver, std::vector<Array> &arrays,
                                  const DataFlags &flags, ModelOptions &model) {
  if (!driver.hasModel())
    if (llvm::Error error = driver.readModel(model))
      return reportError(std::move(error));
  if (ExitCode code = nameSamples(driver.getModel(), arrays);
      code != ExitCode::Done)
    return code;
  const auto inputs = readDeclaredInputs(driver.getModel());
  if (ExitCode code = refuseRows(inputs, arrays); code != ExitCode::Done)
    return code;
  // With --input-layout, arrays are transposed later, so their shapes do not
  // tell the dimensions.
  const bool isTurned = !flags.inputLayout.empty();
  if (!isTurned)
    bindDataShapes(inputs, arrays, model);
  if (model.batchSize == 0)
    model.batchSize = chooseBatch(inputs, arrays, model);
  if (!isTurned)
    bindNamelessShapes(inputs, arrays, model);
  return ExitCode::Done;
}

std::vector<std::string>
mpc::tools::offerScalars(Driver &driver, const std::vector<Array> &arrays,
                         const std::vector<Array> &held) {
  std::vector<std::string> offered;
  for (const DeclaredShape &input : readDeclaredInputs(driver.getModel())) {
    auto isInput = [&](const Array &array) { return array.name == input.name; };
    const auto array = llvm::find_if(arrays, isInput);
    const auto type = runtime::parseDType(input.type);
    if (!type.ok() || !input.dimensions || !input.dimensions->empty() ||
        array == arrays.end() || !array->shape.empty())
      continue;
    auto value = runtime::train::toTensor(*array, *type);
    if (!value.ok())
      continue; // reported when the data are opened
    const auto other = llvm::find_if(held, isInput);
    if (other != held.end()) {
      auto heldValue = runtime::train::toTensor(*other, *type);
      if (other->type != array->type || !heldValue.ok() ||
          heldValue->bytes != value->bytes)
        continue;
    }
    driver.offerValue(input.name, *value);
    offered.push_back(input.name);
  }
  return offered;
}

void mpc::tools::dropCompiledIn(const runtime::train::FunctionPorts &function,
                                const std::vector<std::string> &offered,
                                std::vector<Array> &arrays) {
  for (const std::string &name : offered) {
    const size_t before = arrays.size();
    if (!function.inputCalled(name))
      llvm::erase_if(arrays,
                     [&](const Array &array) { return array.name == name; });
    if (arrays.size() < before)
      note("'" + name +
           "' is a constant of the compiled code, with its value "
           "in the data");
  }
}
