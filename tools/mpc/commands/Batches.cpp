// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/commands/Batches.h"

#include "runtime/BoundedJSON.h"

#include <algorithm>
#include <cassert>
#include <cstring>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;
using train::Array;

//===----------------------------------------------------------------------===//
// Sample axes
//===----------------------------------------------------------------------===//

namespace {
using Axes = std::map<std::string, int64_t>;
} // namespace

static Axes readAxes(const nlohmann::json &object) {
  Axes axes;
  if (object.is_object())
    for (const auto &[name, axis] : object.items())
      if (axis.is_number_unsigned())
        axes[name] = axis.get<int64_t>();
  return axes;
}

static const Array *findArray(const std::vector<Array> &arrays,
                              const std::string &name) {
  const auto found =
      std::find_if(arrays.begin(), arrays.end(),
                   [&](const Array &array) { return array.name == name; });
  return found == arrays.end() ? nullptr : &*found;
}

// True if both shapes are equal except on `axis`.
static bool fits(const Shape &array, const Shape &buffer, int64_t axis) {
  if (array.size() != buffer.size())
    return false;
  for (size_t i = 0; i < array.size(); ++i)
    if (int64_t(i) != axis && array[i] != buffer[i])
      return false;
  return true;
}

// True if the array can be copied to the buffer unchanged: both shapes are
// equal, or both have a single element, such as [] and [1].
static bool isTaken(const Array &array, const Buffer &buffer) {
  return array.shape == buffer.shape ||
         (array.size() == 1 && numElements(buffer.shape) == 1);
}

// Finds the sample axis of each input and output: reads the axes from the
// artifact's recipe, or guesses if the recipe has none.
static Batching findAxes(const Plan &plan, const Function &function,
                         const std::vector<Array> &arrays) {
  Batching batching;
  // The recipe of an older artifact records no sample axes.
  const nlohmann::json recipe = parseBoundedJSON(plan.recipe);
  const nlohmann::json samples = recipe.is_object()
                                     ? recipe.value("samples", nlohmann::json())
                                     : nlohmann::json();
  if (samples.is_object()) {
    batching.inputs = readAxes(samples.value("inputs", nlohmann::json()));
    batching.outputs = readAxes(samples.value("outputs", nlohmann::json()));
    return batching;
  }
  // Guess that samples are on axis 0 if the input has one element there, and
  // the array has another number.
  const auto isOne = [&](const FunctionValue &value) {
    const Shape &shape = function.buffers[value.buffer].shape;
    return !shape.empty() && shape[0] == 1;
  };
  for (const FunctionValue &port : function.inputs) {
    const Array *array = findArray(arrays, port.name);
    if (array && isOne(port) && !isTaken(*array, function.buffers[port.buffer]))
      batching.inputs[port.name] = 0;
  }
  for (const FunctionValue &port : function.outputs)
    if (isOne(port))
      batching.outputs[port.name] = 0;
  return batching;
}

//===----------------------------------------------------------------------===//
// The plan
//===----------------------------------------------------------------------===//

// Sets the number of samples and the batch size of `batching`. Returns false if
// an array differs from its input in more than the number of samples.
static StatusOr<bool> countSamples(const Function &function,
                                   const std::vector<Array> &arrays,
                                   Batching &batching) {
  const Array *first = nullptr;
  for (const FunctionValue &port : function.inputs) {
    const auto axis = batching.inputs.find(port.name);
    const Array *array = findArray(arrays, port.name);
    const Shape &shape = function.buffers[port.buffer].shape;
    // An input without a sample axis has the same value in every batch.
    if (axis == batching.inputs.end() || !array)
      continue;
    if (axis->second >= int64_t(shape.size()) ||
        !fits(array->shape, shape, axis->second))
      return false;
    // The first input with samples determines their number. Other inputs must
    // have as many.
    const int64_t samples = array->shape[size_t(axis->second)];
    if (!first) {
      first = array;
      batching.samples = samples;
      batching.batch = shape[size_t(axis->second)];
    }
    if (samples != batching.samples)
      return train::invalid(train::locate(*array),
                            "has " + std::to_string(samples) + " samples, " +
                                train::locate(*first) + " has " +
                                std::to_string(batching.samples));
    if (shape[size_t(axis->second)] != batching.batch)
      return false;
  }
  return first != nullptr && batching.batch > 0;
}

// Returns an error that names the outputs without a sample axis, which cannot
// be joined; success if there are none.
static Status checkOutputs(const Function &function, const Batching &batching) {
  // Each batch would overwrite the previous result of an output without a
  // sample axis.
  std::string names;
  for (const FunctionValue &port : function.outputs) {
    const Shape &shape = function.buffers[port.buffer].shape;
    const auto axis = batching.outputs.find(port.name);
    const bool isJoined = axis != batching.outputs.end() &&
                          axis->second < int64_t(shape.size()) &&
                          shape[size_t(axis->second)] == batching.batch;
    if (!isJoined)
      names += (names.empty() ? "'" : ", '") + port.name + "' (" +
               toString(shape) + ")";
  }
  if (names.empty())
    return Status();
  return Status(StatusCode::Unsupported,
                "found " + std::to_string(batching.samples) +
                    " samples for batches of " +
                    std::to_string(batching.batch) +
                    ", but these outputs have no batch axis to join the "
                    "batches along: " +
                    names + "; run exactly one batch of samples");
}

// Refuses an incomplete last batch with --as-exported. BatchNormalization then
// computes statistics of the batch, which depend on the samples added to fill
// up the batch.
static Status checkLast(const Plan &plan, const Batching &batching) {
  const nlohmann::json recipe = parseBoundedJSON(plan.recipe);
  const bool asExported = recipe.is_object() &&
                          recipe.value("as_exported", nlohmann::json()) == true;
  if (!asExported || batching.samples % batching.batch == 0)
    return Status();
  return Status(StatusCode::Usage,
                std::to_string(batching.samples) +
                    " samples do not fill batches of " +
                    std::to_string(batching.batch) +
                    "; with --as-exported each result may depend on all "
                    "samples of its batch, so every batch must be full; "
                    "choose a --batch-size that divides the number of samples");
}

StatusOr<std::optional<Batching>>
mpc::tools::planBatches(const Plan &plan, const Function &function,
                        const std::vector<Array> &arrays) {
  const std::optional<Batching> one;
  // Return nullopt if every array can be copied to its input unchanged: one run
  // is enough.
  const bool isOne = std::all_of(
      function.inputs.begin(), function.inputs.end(),
      [&](const FunctionValue &port) {
        const Array *array = findArray(arrays, port.name);
        return !array || isTaken(*array, function.buffers[port.buffer]);
      });
  if (isOne || function.name != kForwardFunction)
    return one;
  // Batches can be formed only if arrays differ from the inputs in nothing but
  // the number of samples.
  Batching batching = findAxes(plan, function, arrays);
  StatusOr<bool> counted = countSamples(function, arrays, batching);
  if (!counted.ok())
    return counted.status();
  if (!*counted || batching.samples == batching.batch)
    return one;
  if (batching.samples == 0)
    return train::invalid("expected inputs with at least 1 sample, found 0");
  Status status = checkOutputs(function, batching);
  if (status.ok())
    status = checkLast(plan, batching);
  if (!status.ok())
    return status;
  return std::optional<Batching>(std::move(batching));
}

//===----------------------------------------------------------------------===//
// In and out
//===----------------------------------------------------------------------===//

// Returns the bytes of one sample in one block. A block is one index of the
// axes before the sample axis: [time, batch, feature] with samples on axis 1
// has `time` blocks of `batch` rows.
static size_t rowBytes(const Shape &shape, size_t axis, int64_t elementBytes) {
  assert(axis < shape.size() && "an axis of the shape");
  return size_t(numElements(Shape(shape.begin() + std::ptrdiff_t(axis) + 1,
                                  shape.end())) *
                elementBytes);
}

static int64_t countBlocks(const Shape &shape, size_t axis) {
  return numElements(
      Shape(shape.begin(), shape.begin() + std::ptrdiff_t(axis)));
}

Array mpc::tools::takeSamples(const Array &array, int64_t axis, int64_t begin,
                              int64_t batch, Filling filling) {
  const size_t at = size_t(axis);
  assert(at < array.shape.size() && "an axis of the array");
  const int64_t samples = array.shape[at];
  assert(begin >= 0 && begin < samples && batch > 0 &&
         "a batch of the samples");
  const size_t row = rowBytes(array.shape, at, train::sizeOf(array.type));
  // Samples along axis 0 are contiguous, so return a view of the array.
  Array part = array;
  part.shape[at] = batch;
  if (axis == 0 && begin + batch <= samples) {
    part.data = array.data + size_t(begin) * row;
    return part;
  }
  // Otherwise copy sample by sample, and fill up an incomplete batch as
  // `filling` says.
  auto bytes = std::make_shared<std::vector<std::byte>>(size_t(part.bytes()));
  std::byte *to = bytes->data();
  for (int64_t block = 0; block < countBlocks(array.shape, at); ++block)
    for (int64_t i = 0; i < batch; ++i, to += row) {
      const int64_t sample = filling == Filling::LastSample
                                 ? std::min(begin + i, samples - 1)
                                 : (begin + i) % samples;
      std::memcpy(to, array.data + size_t(block * samples + sample) * row, row);
    }
  part.data = bytes->data();
  part.owner = std::move(bytes);
  return part;
}

static Shape withSamples(Shape shape, int64_t axis, int64_t samples) {
  shape[size_t(axis)] = samples;
  return shape;
}

JoinedOutput::JoinedOutput(std::string name, const Buffer &buffer, int64_t axis,
                           int64_t samples)
    : name(std::move(name)),
      whole(
          Tensor::zeros(buffer.type, withSamples(buffer.shape, axis, samples))),
      axis(size_t(axis)) {}

template <typename Visit>
void JoinedOutput::zip(const Tensor &part, int64_t begin, Visit visit) const {
  const int64_t samples = whole.shape[axis], batch = part.shape[axis];
  assert(part.type == whole.type && begin >= 0 && begin < samples &&
         withSamples(part.shape, int64_t(axis), samples) == whole.shape &&
         "a batch of the whole");
  const size_t row = rowBytes(part.shape, axis, sizeOf(part.type));
  const size_t size = size_t(std::min(batch, samples - begin)) * row;
  for (int64_t block = 0; block < countBlocks(part.shape, axis); ++block)
    visit(size_t(block * samples + begin) * row,
          part.bytes.data() + size_t(block * batch) * row, size);
}

void JoinedOutput::add(const Tensor &part, int64_t begin) {
  zip(part, begin, [&](size_t at, const std::byte *from, size_t size) {
    std::memcpy(whole.bytes.data() + at, from, size);
  });
}

Status JoinedOutput::check(const Tensor &part, int64_t begin) const {
  bool isSame = true;
  zip(part, begin, [&](size_t at, const std::byte *from, size_t size) {
    isSame = isSame && std::memcmp(whole.bytes.data() + at, from, size) == 0;
  });
  if (isSame)
    return Status();
  const int64_t samples = whole.shape[axis], batch = part.shape[axis];
  return Status(StatusCode::Unsupported,
                "output '" + name +
                    "': the samples of a batch depend on each other, and of " +
                    std::to_string(samples) + " samples " +
                    std::to_string(samples - begin) + " fill no batch of " +
                    std::to_string(batch) +
                    "; choose a --batch-size that divides them");
}
