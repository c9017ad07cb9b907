// Matches arrays to inputs, checks the arrays once, and gathers batches.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/data/Dataset.h"

#include "runtime/BoundedJSON.h"
#include "runtime/train/data/ArrayPool.h"
#include "runtime/train/data/Split.h"
#include "runtime/train/support/Text.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <xxhash.h>

namespace mpc::runtime::train {

bool isSampled(const Port &port) {
  return port.role == Role::Data || port.role == Role::Label;
}

static bool holdsIntegers(DType type) { return !isFloat(toElementType(type)); }

static bool isBatched(const Port &port) { return port.batchAxis >= 0; }

static std::optional<int64_t> integerOf(const nlohmann::json &object,
                                        const char *key) {
  if (!object.is_object() || !object.contains(key) ||
      !object[key].is_number_integer())
    return std::nullopt;
  return object[key].get<int64_t>();
}

std::string labelInputOf(const TraineeInfo &info, const std::string &target) {
  const FunctionPorts *ports = info.function(kEvalFunction);
  const std::string beside = target + kLabelSuffix;
  return ports && ports->inputCalled(beside) ? beside : target;
}

std::string targetOf(const TraineeInfo &info) {
  if (!info.lossTarget.empty())
    return labelInputOf(info, info.lossTarget);
  const FunctionPorts *ports = info.function(kEvalFunction);
  const Port *label = ports ? ports->input(Role::Label) : nullptr;
  return label ? label->name : "";
}

DatasetOptions datasetOptionsFor(const TraineeInfo &info) {
  DatasetOptions options;
  options.target = targetOf(info);
  // The recipe describes the labels of all label inputs at once, or of each by
  // name.
  const BoundedDocument document(info.recipe);
  const nlohmann::json &recipe = document.json;
  options.classes = integerOf(recipe, "classes");
  options.ignoreIndex = integerOf(recipe, "ignore_index");
  if (recipe.is_object() && recipe.contains("labels") &&
      recipe["labels"].is_object())
    for (const auto &[name, range] : recipe["labels"].items())
      options.ranges[name] = {integerOf(range, "classes"),
                              integerOf(range, "ignore_index")};
  if (recipe.is_object() && recipe.contains("probabilities") &&
      recipe["probabilities"].is_object())
    for (const auto &[name, loss] : recipe["probabilities"].items())
      if (loss.is_string()) {
        LabelRange range = options.rangeOf(name);
        range.probabilitiesOf = loss.get<std::string>();
        options.ranges[name] = std::move(range);
      }
  // If the recipe has no number of classes, a loss of classes has as many as
  // the prediction has scores.
  if (options.classes || !options.ranges.empty() || !hasClasses(info.loss))
    return options;
  for (const char *name : {kEvalFunction, kStepFunction, kAccumulateFunction}) {
    const FunctionPorts *ports = info.function(name);
    const Port *prediction = ports ? ports->output(Role::Prediction) : nullptr;
    if (prediction && prediction->shape.size() >= 2) {
      options.classes = prediction->shape[1];
      break;
    }
  }
  return options;
}

//===----------------------------------------------------------------------===//
// Preparation
//===----------------------------------------------------------------------===//

static int64_t countData(const FunctionPorts &ports) {
  return std::count_if(
      ports.inputs.begin(), ports.inputs.end(),
      [](const Port &port) { return port.role == Role::Data; });
}

static bool isImage(const Port &port) {
  return port.role == Role::Data && port.batchAxis == 0 &&
         port.shape.size() == 4;
}

/// Returns the data input whose array is also the array of the labels `label`,
/// as in an autoencoder. Null if the labels have an array of their own.
static const Port *findLabelledInput(const FunctionPorts &ports,
                                     const Port &label) {
  for (const Port &port : ports.inputs)
    if (label.role == Role::Label && port.role == Role::Data &&
        label.name == port.name + kLabelSuffix)
      return &port;
  return nullptr;
}

/// Returns the value of a flag like --normalize for an input: the first value
/// with the input's name or without a name. nullopt for labels and scalars.
template <typename T>
static std::optional<T> valueFor(const std::vector<T> &values,
                                 const Port &port) {
  for (const T &value : values)
    if (port.role == Role::Data &&
        (value.input.empty() || value.input == port.name))
      return value;
  return std::nullopt;
}

/// Returns a usage error if a value of the flag names no data input, or names
/// none although there are several.
template <typename T>
static Status checkInputs(const char *flag, const std::vector<T> &values,
                          const FunctionPorts &ports) {
  // A value without a name is for the only data input.
  for (const T &value : values) {
    const Port *port = ports.inputCalled(value.input);
    if (value.input.empty() ? countData(ports) == 1
                            : port && port->role == Role::Data)
      continue;
    std::string names;
    for (const Port &input : ports.inputs)
      if (input.role == Role::Data)
        names += (names.empty() ? "'" : ", '") + input.name + "'";
    return Status(StatusCode::Usage,
                  std::string(flag) + ": " +
                      (value.input.empty()
                           ? "say for which input, NAME=...: "
                           : "no input is called '" + value.input + "' but ") +
                      names);
  }
  return Status();
}

/// Returns a usage error if --augment has no image to change, or if labels are
/// per pixel: augmentation would move the image, but not its labels.
static Status checkAugmentation(const FunctionPorts &ports) {
  const auto image =
      std::find_if(ports.inputs.begin(), ports.inputs.end(), isImage);
  if (image == ports.inputs.end())
    return Status(StatusCode::Usage, "--augment is for images, and the model "
                                     "has no input [N,C,H,W]");
  const ImageLayout layout =
      ImageLayout::of(Shape(image->shape.begin() + 1, image->shape.end()))
          .value_or(ImageLayout{0, image->shape[2], image->shape[3], false});
  const Shape space{layout.height, layout.width};
  for (const Port &port : ports.inputs)
    if (port.role == Role::Label &&
        std::search(port.shape.begin(), port.shape.end(), space.begin(),
                    space.end()) != port.shape.end())
      return Status(StatusCode::Usage,
                    "--augment would move the images but not the labels '" +
                        port.name + "' of their pixels");
  return Status();
}

static Status checkPreparation(const Preparation &preparation,
                               const FunctionPorts &ports) {
  Status status = checkInputs("--normalize", preparation.normalize, ports);
  if (status.ok())
    status = checkInputs("--input-layout", preparation.layouts, ports);
  if (status.ok() && !preparation.augment.steps.empty())
    status = checkAugmentation(ports);
  return status;
}

static ColumnPreparation preparationFor(const Port &port,
                                        const Preparation &preparation) {
  ColumnPreparation result;
  result.normalization = valueFor(preparation.normalize, port);
  result.layout = valueFor(preparation.layouts, port);
  result.decodedBytes = preparation.decodedBytes;
  result.allowsNaN = preparation.allowsNaN && port.role == Role::Data;
  if (isImage(port))
    result.augmentation = preparation.augment;
  return result;
}

//===----------------------------------------------------------------------===//
// Creation
//===----------------------------------------------------------------------===//

/// Finds the arrays for `port`, by the rules of `create`. Some may be packed.
static StatusOr<std::vector<Array>> findArrays(ArrayPool &pool,
                                               const Port &port,
                                               const FunctionPorts &ports,
                                               const DatasetOptions &options) {
  std::vector<Array> found = pool.take(port.name);
  const bool byTarget =
      port.role == Role::Label &&
      std::count_if(ports.inputs.begin(), ports.inputs.end(),
                    [](const Port &p) { return p.role == Role::Label; }) == 1;
  if (found.empty() && byTarget)
    found = pool.take(options.targetArray);
  if (!found.empty())
    return found;
  const auto isMissing = [&](const Port &other) {
    return other.role == Role::Data && !pool.has(other.name);
  };
  // If several data inputs have no array, mpc cannot know which columns each
  // takes.
  const bool isOnlyMissing =
      port.role == Role::Data &&
      std::count_if(ports.inputs.begin(), ports.inputs.end(), isMissing) == 1;
  if (isOnlyMissing && port.batchAxis == 0 && pool.hasColumns()) {
    std::vector<std::string> others{options.targetArray};
    for (const Port &input : ports.inputs)
      others.push_back(input.name);
    const Shape sample(port.shape.begin() + 1, port.shape.end());
    return pool.takeColumns(port.name, numElements(sample), others);
  }
  return pool.missing(port, byTarget ? std::optional(options.targetArray)
                                     : std::nullopt);
}

/// Adds the column of `port`, after checking that it fits the other columns.
Status Dataset::addColumn(const Port &port, const Port *input,
                          std::vector<Array> parts,
                          const DatasetOptions &options) {
  // Labels that are the array of an input are prepared like the input.
  ColumnPreparation preparation =
      preparationFor(input ? *input : port, options.preparation);
  preparation.isInput = input != nullptr;
  preparation.ignored = options.rangeOf(port.name).ignoreIndex;
  StatusOr<Column> column =
      Column::create(port, std::move(parts), preparation, noted);
  if (!column.ok())
    return column.status();
  // The first column sets the number of samples, which all others must have.
  if (column->isBatched()) {
    const int64_t samples = column->samples();
    if (first.empty()) {
      first = column->array().name;
      order.resize(size_t(samples));
      std::iota(order.begin(), order.end(), int64_t(0));
    }
    if (samples != size())
      return invalid(locate(column->array()) + ": has " +
                     counted(samples, "sample") + ", " + first + " has " +
                     std::to_string(size()));
  }
  // Check all values now, once. The digest covers the checked values.
  bool counts = false;
  if (Status status = column->inspect(options.rangeOf(port.name),
                                      options.observer, counts, digest);
      !status.ok())
    return status;
  if (port.role == Role::Label)
    (counts ? hasTargets : ignoresTargets) = true;
  assert((!column->isBatched() || column->samples() == size()) &&
         "all columns have equally many samples");
  columns.push_back(std::move(*column));
  return Status();
}

StatusOr<int64_t> findBatchSize(const FunctionPorts &ports) {
  int64_t batch = 0;
  for (const Port &port : ports.inputs) {
    if (!isSampled(port) || !isBatched(port))
      continue;
    // All inputs must have the same batch size.
    const size_t axis = size_t(port.batchAxis);
    if (axis >= port.shape.size() || port.shape[axis] <= 0)
      return Status(StatusCode::Unsupported,
                    "input '" + port.name + "' has no batch dimension");
    if (batch == 0)
      batch = port.shape[axis];
    if (port.shape[axis] != batch)
      return Status(StatusCode::Unsupported,
                    "input '" + port.name + "' has a batch of " +
                        std::to_string(port.shape[axis]) + ", the others of " +
                        std::to_string(batch) +
                        (port.role == Role::Label
                             ? "; labels have their samples on the first "
                               "axis; help: if an input has them along "
                               "another axis, name it with --batch-axis"
                             : "; help: if samples are along another axis, "
                               "name it with --batch-axis NAME=AXIS; "
                               "NAME=none if the input is the same for all "
                               "samples"));
  }
  if (batch == 0)
    return Status(StatusCode::Unsupported, "the model takes no data");
  return batch;
}

StatusOr<Dataset> Dataset::create(std::vector<Array> arrays,
                                  const FunctionPorts &ports,
                                  const DatasetOptions &options) {
  // First check what needs no values: names of arrays, batch size and flags.
  StatusOr<ArrayPool> pool = ArrayPool::create(std::move(arrays));
  if (!pool.ok())
    return pool.status();
  StatusOr<int64_t> batch = findBatchSize(ports);
  if (!batch.ok())
    return batch.status();
  if (Status status = checkPreparation(options.preparation, ports);
      !status.ok())
    return status;

  Dataset dataset;
  dataset.batch = *batch;
  dataset.target = options.target;
  dataset.prepared = options.preparation.text;
  for (const Port &port : ports.inputs) {
    if (!isSampled(port))
      continue;
    // If labels are named after an input ("x.target"), they are the array of
    // the input.
    const Port *input = findLabelledInput(ports, port);
    StatusOr<std::vector<Array>> parts =
        findArrays(*pool, input ? *input : port, ports, options);
    if (!parts.ok())
      return parts.status();
    for (Array &part : *parts) {
      if (part.packed && options.observer)
        options.observer->reading(part.source, 0, 0);
      if (Status status = unpack(part); !status.ok())
        return status;
    }
    if (Status status =
            dataset.addColumn(port, input, std::move(*parts), options);
        !status.ok())
      return status;
  }
  // If all labels were ignored, there would be no loss.
  if (dataset.ignoresTargets && !dataset.hasTargets && !options.isPart)
    return invalid(dataset.source() + ": every label is the ignored one, so "
                                      "no sample counts");
  for (const std::string &note : pool->describeUnused())
    dataset.noted.push_back(note);
  return dataset;
}

StatusOr<Dataset> Dataset::open(const std::vector<std::string> &files,
                                const FunctionPorts &ports,
                                const DatasetOptions &options) {
  DataFileOptions fileOptions;
  fileOptions.targetArray = options.targetArray;
  fileOptions.observer = options.observer;
  StatusOr<std::vector<Array>> all = readDataFiles(files, fileOptions);
  if (!all.ok())
    return all.status();
  return create(std::move(*all), ports, options);
}

StatusOr<std::pair<Dataset, Dataset>> Dataset::split(double fraction,
                                                     uint64_t seed) const {
  const int64_t held = std::llround(fraction * double(size()));
  if (!(fraction > 0 && fraction < 1) || held == 0 || held == size())
    return invalid(source() + ": holding back " + std::to_string(fraction) +
                   " of " + counted(size(), "sample") +
                   " leaves nothing to train on or to evaluate");
  std::vector<int64_t> all(static_cast<size_t>(size()));
  std::iota(all.begin(), all.end(), int64_t(0));
  // Keep proportions only if there is one class per sample, not per pixel or
  // token.
  std::vector<int64_t> classes = labels(all.data(), size(), target);
  if (classes.size() != all.size())
    classes.clear();
  const std::vector<bool> isHeld = chooseHeld(size(), held, seed, classes);
  std::pair<Dataset, Dataset> parts(*this, *this);
  assert(int64_t(isHeld.size()) == size() && "a choice per sample");
  parts.first.order.clear();
  parts.second.order.clear();
  for (int64_t position : all)
    (isHeld[size_t(position)] ? parts.second : parts.first)
        .order.push_back(order[size_t(position)]);
  return parts;
}

std::string Dataset::source() const {
  assert(!columns.empty() && "a data set has a column");
  const std::string &file = columns[0].array().source;
  return file.empty() ? "the data" : file;
}

std::string Dataset::fingerprint() const {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx",
                static_cast<unsigned long long>(XXH3_64bits_withSeed(
                    order.data(), order.size() * sizeof(order[0]), digest)));
  return text + prepared;
}

//===----------------------------------------------------------------------===//
// Batches
//===----------------------------------------------------------------------===//

std::vector<int64_t> Dataset::rowsOf(const int64_t *positions,
                                     int64_t count) const {
  std::vector<int64_t> rows(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    assert(positions[i] >= 0 && positions[i] < size() && "a sample");
    rows[size_t(i)] = order[size_t(positions[i])];
  }
  return rows;
}

Status setInputs(Trainee &model, std::string_view function,
                 const GatheredBatch &batch) {
  for (const GatheredInput &input : batch)
    if (Status status =
            model.setInput(function, input.name, input.bytes.get(), input.size);
        !status.ok())
      return status;
  return Status();
}

bool Dataset::isDecodedLater() const {
  return std::any_of(columns.begin(), columns.end(), [](const Column &column) {
    return column.isDecodedLater();
  });
}

Status Dataset::gather(const FunctionPorts &ports, const int64_t *positions,
                       AugmentedEpoch epoch, const MemoryFor &memoryFor) const {
  const std::vector<int64_t> rows = rowsOf(positions, batch);
  // Compare type and shape too: the column was prepared for one form of the
  // input, and another function may have another form.
  for (const Port &port : ports.inputs) {
    if (!isSampled(port))
      continue;
    const auto column =
        std::find_if(columns.begin(), columns.end(), [&](const Column &c) {
          return c.port().name == port.name && c.port().type == port.type &&
                 c.port().shape == port.shape;
        });
    if (column == columns.end())
      return Status(StatusCode::Unsupported,
                    "a function takes '" + port.name +
                        "' in another form than the data was prepared for");
    StatusOr<std::byte *> memory = memoryFor(
        port, size_t(numElements(port.shape) * runtime::sizeOf(port.type)));
    if (!memory.ok())
      return memory.status();
    if (Status status = column->fill(rows.data(), batch, epoch, *memory);
        !status.ok())
      return status;
  }
  return Status();
}

StatusOr<GatheredBatch> Dataset::gather(const FunctionPorts &ports,
                                        const int64_t *positions,
                                        AugmentedEpoch epoch) const {
  GatheredBatch gathered;
  // Allocate new memory for this batch, since another batch may still be in
  // use.
  const auto allocate = [&](const Port &port,
                            size_t size) -> StatusOr<std::byte *> {
    GatheredInput input{port.name, nullptr, size};
    input.bytes.reset(new std::byte[size]);
    gathered.push_back(std::move(input));
    return gathered.back().bytes.get();
  };
  Status status = gather(ports, positions, epoch, allocate);
  if (!status.ok())
    return status;
  return gathered;
}

Status Dataset::bind(Trainee &model, std::string_view function,
                     const int64_t *positions, AugmentedEpoch epoch) const {
  const FunctionPorts *ports = model.info().function(function);
  if (!ports)
    return Status(StatusCode::Unsupported, "the artifact has no function '" +
                                               std::string(function) + "'");
  StatusOr<GatheredBatch> gathered = gather(*ports, positions, epoch);
  return gathered.ok() ? setInputs(model, function, *gathered)
                       : gathered.status();
}

template <typename T>
std::vector<T> Dataset::labelRows(const std::string &input, bool integers,
                                  DType type, const int64_t *positions,
                                  int64_t count) const {
  const auto column =
      std::find_if(columns.begin(), columns.end(), [&](const Column &c) {
        return c.port().role == Role::Label && c.port().name == input &&
               holdsIntegers(c.port().type) == integers;
      });
  if (column == columns.end())
    return {};
  std::vector<T> values(size_t(count * column->elementsOfSample()));
  column->read(rowsOf(positions, count).data(), count, type, values.data());
  return values;
}

std::vector<int64_t> Dataset::labels(const int64_t *positions, int64_t count,
                                     const std::string &input) const {
  return labelRows<int64_t>(input, true, DType::I64, positions, count);
}

std::vector<double> Dataset::targets(const int64_t *positions, int64_t count,
                                     const std::string &input) const {
  return labelRows<double>(input, false, DType::F64, positions, count);
}

} // namespace mpc::runtime::train
