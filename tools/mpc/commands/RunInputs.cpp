// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/commands/RunInputs.h"

#include "runtime/train/support/Text.h"
#include "tools/mpc/flags/DeclaredShapes.h"
#include "tools/mpc/model/SampleBatch.h"
#include "tools/mpc/print/Arrays.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;

namespace {
/// How samples form batches: the batch size, the number of samples, and the
/// sample axis of inputs by name.
struct Batch {
  int64_t size = 0; ///< 0 if a single run takes all samples
  int64_t samples = 0;
  std::map<std::string, int64_t> axes;
};
} // namespace

const train::Array *RunInputs::find(llvm::StringRef name) const {
  auto found = llvm::find_if(
      arrays, [&](const train::Array &array) { return array.name == name; });
  return found == arrays.end() ? nullptr : &*found;
}

Status RunInputs::unpack(llvm::StringRef name) {
  for (train::Array &array : arrays)
    if (array.name == name)
      if (Status status = train::unpack(array); !status.ok())
        return status;
  return Status();
}

//===----------------------------------------------------------------------===//
// Checks of arrays against the inputs of a function
//===----------------------------------------------------------------------===//

Status mpc::tools::missingInput(const std::string &name) {
  return train::invalid("input '" + name +
                        "' is missing; give it with --input " + name +
                        "=FILE or --data FILE");
}

// Refuses an array that is an input of neither the function nor the model. A
// model may declare an input that the function does not have, because nothing
// reads the input.
static ExitCode checkNames(const RunInputs &inputs, const std::string &function,
                           const train::FunctionPorts &ports,
                           const std::vector<std::string> &known) {
  for (const train::Array &input : inputs.arrays) {
    if (ports.inputCalled(input.name) ||
        llvm::is_contained(known, input.name) ||
        inputs.ofData.contains(input.name))
      continue;
    std::vector<std::string> names;
    for (const train::Port &port : ports.inputs)
      names.push_back(port.name);
    return reportError(ExitCode::Usage, "--input " + input.name +
                                            ": function '" + function +
                                            "' has no such input; it has " +
                                            llvm::join(names, ", "));
  }
  return ExitCode::Done;
}

// Checks the type and the values of an array, and if the function runs once
// (`isOne`) also the shape. For batches, planBatches checks shapes.
static Status checkInput(const train::Array &array, const train::Port &port,
                         bool isOne) {
  const bool isScalar = array.size() == 1 && numElements(port.shape) == 1;
  if (isOne && !isScalar && array.shape != port.shape)
    return train::invalid(
        "input '" + port.name + "' is " + std::string(nameOf(port.type)) + " " +
        toString(port.shape) + ", got " +
        std::string(train::nameOf(array.type)) + " " + toString(array.shape));
  const bool isSame = train::toElementType(port.type) == array.type;
  if (isSame)
    return train::checkIndices(port, array);
  const auto bad =
      train::convertElements(array, 0, array.size(), port.type,
                             train::NonFinite::Allow, /*out=*/nullptr);
  return bad ? train::invalid(train::describe(array, *bad, port.type))
             : train::checkIndices(port, array);
}

ExitCode mpc::tools::checkInputs(RunInputs &inputs, const std::string &function,
                                 const train::FunctionPorts &ports,
                                 const std::vector<std::string> &known) {
  if (ExitCode code = checkNames(inputs, function, ports, known);
      code != ExitCode::Done)
    return code;
  for (const train::Port &port : ports.inputs) {
    Status status = inputs.unpack(port.name);
    if (!status.ok())
      return reportError(status);
    const train::Array *array = inputs.find(port.name);
    status = array ? checkInput(*array, port,
                                /*isOne=*/function != kForwardFunction)
                   : missingInput(port.name);
    if (!status.ok())
      return reportError(status);
  }
  return ExitCode::Done;
}

//===----------------------------------------------------------------------===//
// Compile options that follow from the inputs
//===----------------------------------------------------------------------===//

static bool isScalar(const DeclaredShape &declared) {
  return declared.dimensions && declared.dimensions->empty();
}

static bool isScalarOrOne(const DeclaredShape &declared) {
  return isScalar(declared) ||
         (declared.dimensions && declared.dimensions->size() == 1 &&
          declared.extent(0) == 1);
}

// True if the compiler is offered the value of this input as a constant,
// because shapes may depend on it: the shape of a Reshape, the scales of a
// Resize, the boxes of a NonMaxSuppression. Such inputs are integers, booleans,
// or few floats. If the compiler does not need the value, the input remains an
// input.
static bool isOffered(const DeclaredShape &declared, const Shape &shape) {
  constexpr int64_t kMostFloats = int64_t(1) << 22;
  bool isScalar = isScalarOrOne(declared);
  int64_t count = 1;
  for (int64_t extent : shape)
    if (llvm::MulOverflow(count, extent, count))
      return false;
  bool isList = !shape.empty() && count <= kMostFloats;
  return !declared.type.empty() &&
         (!llvm::StringRef(declared.type).contains('f') || isScalar || isList);
}

// Chooses the batch size: --batch-size, or the size that the model fixes. The
// first input with samples determines the number of samples. An input whose
// sample axis has the same dimension name must have as many samples. An input
// with another open dimension is batched only if its number of samples is
// equal.
static ExitCode chooseBatch(const std::vector<DeclaredShape> &declared,
                            const RunInputs &inputs, const ModelOptions &model,
                            Batch &batch) {
  const train::Array *first = nullptr;
  std::string dimension;
  int64_t samples = 0, size = 0;
  for (const DeclaredShape &input : declared) {
    const train::Array *array = inputs.find(input.name);
    auto axis = array ? findBatchAxis(input, array->shape, model.batchAxes)
                      : std::nullopt;
    if (!axis)
      continue;
    int64_t extent = array->shape[size_t(*axis)];
    std::string own =
        input.dimensions ? (*input.dimensions)[size_t(*axis)] : "?";
    if (!first) {
      first = array;
      dimension = own;
      samples = extent;
      auto fixed = input.extent(size_t(*axis));
      size = model.batchSize > 0 ? model.batchSize : fixed.value_or(samples);
      if (size != fixed)
        size = std::min(size, samples);
    }
    // An input is batched too if its dimension has the same name, or is open
    // and has as many samples.
    bool isSame = own == dimension && own != "?";
    bool isOpen = input.isOpen(size_t(*axis)) && extent == samples;
    if (isSame && extent != samples && size != samples)
      return reportError(
          ExitCode::InvalidInput,
          train::locate(*array) + ": has " + llvm::Twine(extent) +
              " samples, " + train::locate(*first) + " has " +
              llvm::Twine(samples) + "; --batch-axis " + input.name +
              "=none if it is the same for every batch");
    if (isSame || isOpen)
      batch.axes[input.name] = *axis;
  }
  batch.size = size == samples ? 0 : size;
  batch.samples = samples;
  return ExitCode::Done;
}

// Sets the batch size of a model that runs in batches, and the sample axes of
// its inputs.
static void bindBatch(const Batch &batch,
                      const std::vector<DeclaredShape> &declared,
                      CompileOptions &options) {
  options.findsSamples = true;
  for (const DeclaredShape &input : declared) {
    auto axis = batch.axes.find(input.name);
    bool isGiven =
        llvm::any_of(options.model.batchAxes, [&](llvm::StringRef text) {
          return text.rsplit('=').first == input.name;
        });
    bool hasRank = input.dimensions && !input.dimensions->empty();
    if (axis == batch.axes.end() && !isGiven && hasRank)
      options.model.batchAxes.push_back(input.name + "=none");
    if (axis != batch.axes.end() &&
        input.extent(size_t(axis->second)) != batch.size)
      options.model.batchSize = batch.size;
  }
}

// Refuses a --shape that differs from the shape of the array.
static ExitCode checkShape(const train::Array &input, const Shape &shape,
                           const ModelOptions &model) {
  for (llvm::StringRef text : model.shapes) {
    auto [name, extents] = text.rsplit('=');
    if (name == input.name && extents != toString(shape))
      return reportError(ExitCode::Usage,
                         train::locate(input) + ": has the shape " +
                             toString(shape) + ", --shape says " + text +
                             "; leave --shape out, and run fewer samples at a "
                             "time with --batch-size");
  }
  return ExitCode::Done;
}

// Fixes the shape of an input to that of its array. Offers the value to the
// compiler if shapes may depend on it.
static ExitCode bindInput(const train::Array &input,
                          const DeclaredShape &declared, const Batch &batch,
                          CompileOptions &options, Driver &driver) {
  auto type = parseDType(declared.type);
  auto axis = batch.axes.find(input.name);
  bool isPart = batch.size > 0 && axis != batch.axes.end();
  Shape shape = input.shape;
  if (isPart)
    shape[size_t(axis->second)] = batch.size;
  if (ExitCode code = checkShape(input, shape, options.model);
      code != ExitCode::Done)
    return code;
  if (!shape.empty() && !isScalar(declared))
    options.model.shapes.push_back(input.name + "=" + toString(shape));
  // The value of a batched input changes from batch to batch, so it is no
  // constant.
  if (isPart)
    return ExitCode::Done;
  if (!type.ok() || !isOffered(declared, shape)) {
    if (shape.empty() && type.ok())
      return reportError(ExitCode::Usage,
                         "--input " + input.name +
                             ": found a scalar, expected " + declared.type +
                             "[" +
                             llvm::join(declared.dimensions.value_or(
                                            std::vector<std::string>{"..."}),
                                        ",") +
                             "]");
    return ExitCode::Done; // compiling reports the type
  }
  StatusOr<Tensor> value = train::toTensor(input, *type);
  if (!value.ok())
    return reportError(value.status());
  // Accept an array of one element for a scalar, since many tools write scalars
  // as [x].
  if (value->size() == 1 && isScalarOrOne(declared))
    value->shape = isScalar(declared) ? Shape() : Shape{1};
  driver.offerValue(input.name, *value);
  return ExitCode::Done;
}

// True if the compiled model will have training functions. Training functions
// have other inputs than the forward function.
static bool isTraining(const CompileOptions &options) {
  return !options.pipeline.recipe.losses.empty() ||
         llvm::sys::fs::is_directory(options.model.model);
}

// Refuses arrays that are no inputs of the model. If, for example, a name is
// misspelt, a later error would be about open dimensions, which does not help.
static ExitCode checkDeclared(const std::vector<DeclaredShape> &declared,
                              const RunInputs &inputs,
                              const CompileOptions &options,
                              const onnx_frontend::Model &model) {
  // Every array of --input must be an input of the model. A file of --data may
  // hold more arrays than the model has inputs.
  std::vector<std::string> unknown, ofData;
  for (const train::Array &input : inputs.arrays)
    if (llvm::none_of(declared, [&](const DeclaredShape &other) {
          return other.name == input.name;
        }))
      (inputs.ofData.contains(input.name) ? ofData : unknown)
          .push_back(input.name);
  llvm::erase(unknown, kLearningRateInput);
  std::string problem;
  if (!unknown.empty())
    problem = "--input " + unknown.front() + ": ";
  else if (!inputs.arrays.empty() && ofData.size() == inputs.arrays.size())
    problem = "--data: none of its arrays ('" + llvm::join(ofData, "', '") +
              "') is an input; ";
  if (problem.empty() || isTraining(options))
    return ExitCode::Done;
  auto summary = onnx_frontend::summarizeModel(model);
  if (!summary)
    return reportError(summary.takeError());
  std::vector<std::string> declaredInputs;
  for (const auto &[name, type] : summary->inputs)
    declaredInputs.push_back(name + ": " + type);
  const bool hasColumns = llvm::any_of(
      inputs.arrays, [](const train::Array &input) { return input.isColumn; });
  return reportError(
      ExitCode::Usage,
      problem + options.model.model + " has the inputs " +
          llvm::join(declaredInputs, ", ") +
          (hasColumns && !declared.empty()
               ? "; say which columns one takes, such as --csv-columns " +
                     declared.front().name + "=" + inputs.arrays.front().name +
                     ":..."
               : ""));
}

// Chooses open dimensions for a model that runs on a data set of prepared
// samples.
static ExitCode bindSamples(RunInputs &inputs, const DataFlags &flags,
                            CompileOptions &options, Driver &driver) {
  if (isTraining(options))
    return reportError(ExitCode::Usage,
                       "training functions take arrays as they are, without "
                       "--csv-columns, --normalize and --input-layout; "
                       "evaluate a data set with mpc eval");
  options.findsSamples = true;
  return chooseShapes(driver, inputs.arrays, flags, options.model);
}

// Reshapes lists from the command line, such as `x=1,2,3`: to one sample of the
// input, or to several if the list is long enough.
static ExitCode shapeValues(const std::vector<DeclaredShape> &declared,
                            RunInputs &inputs) {
  for (train::Array &array : inputs.arrays) {
    const auto input = llvm::find_if(declared, [&](const DeclaredShape &each) {
      return each.name == array.name;
    });
    const bool isList = array.source.empty() && array.shape.size() == 1;
    if (!isList || input == declared.end() || !input->dimensions ||
        input->dimensions->size() < 2)
      continue;
    // A sample has the declared axes after axis 0. `each` is 0 if an extent is
    // open; the list then stays a list.
    Shape shape{1};
    for (size_t axis = 1; axis < input->dimensions->size(); ++axis)
      shape.push_back(input->extent(axis).value_or(0));
    const int64_t each = numElements(shape);
    if (each == 0)
      continue;
    if (array.size() == 0 || array.size() % each != 0)
      return reportError(ExitCode::InvalidInput,
                         "--input " + array.name + ": " +
                             train::counted(array.size(), "number") +
                             " given, but a sample of " + input->type + "[" +
                             llvm::join(*input->dimensions, ",") + "] takes " +
                             llvm::Twine(each));
    shape[0] = array.size() / each;
    array.shape = std::move(shape);
  }
  return ExitCode::Done;
}

ExitCode mpc::tools::bindInputs(RunInputs &inputs, const DataFlags &flags,
                                CompileOptions &options, Driver &driver,
                                std::vector<std::string> &known) {
  if (llvm::Error error = driver.readModel(options.model))
    return reportError(std::move(error));
  std::vector<DeclaredShape> declared = readDeclaredInputs(driver.getModel());
  if (ExitCode code = nameSamples(driver.getModel(), inputs.arrays);
      code != ExitCode::Done)
    return code;
  // An array of --data with channels last, for an input with channels first,
  // must be transposed, so it is prepared as a data set.
  for (const DeclaredShape &input : declared)
    if (const train::Array *array = inputs.find(input.name))
      inputs.arePrepared |= inputs.ofData.contains(input.name) &&
                            isTurned(input, array->shape) &&
                            !isTraining(options);
  if (inputs.arePrepared)
    return bindSamples(inputs, flags, options, driver);
  if (ExitCode code =
          checkDeclared(declared, inputs, options, driver.getModel());
      code != ExitCode::Done)
    return code;
  if (ExitCode code = shapeValues(declared, inputs); code != ExitCode::Done)
    return code;
  Batch batch;
  if (ExitCode code = chooseBatch(declared, inputs, options.model, batch);
      code != ExitCode::Done)
    return code;
  if (batch.size > 0 && isTraining(options))
    return reportError(ExitCode::Usage,
                       "training functions run once, on one batch: give "
                       "exactly one batch of samples, or evaluate a data set "
                       "with mpc eval");
  if (batch.size > 0)
    bindBatch(batch, declared, options);
  else if (!batch.axes.empty()) // at most the given samples
    options.model.batchSize = std::min(options.model.batchSize, batch.samples);
  for (const DeclaredShape &input : declared) {
    const train::Array *array = inputs.find(input.name);
    if (!array)
      continue;
    known.push_back(input.name);
    if (ExitCode code = bindInput(*array, input, batch, options, driver);
        code != ExitCode::Done)
      return code;
  }
  return ExitCode::Done;
}
