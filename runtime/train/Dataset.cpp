// Matching arrays to inputs, checking them once, gathering batches.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/Dataset.h"

#include "runtime/BoundedJSON.h"
#include "runtime/train/ArrayFile.h"
#include "runtime/train/Permutation.h"
#include "runtime/train/Text.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <unistd.h>
#include <xxhash.h>

namespace mpc::runtime::train {

static bool isSampled(const Port &port) {
  return port.role == "data" || port.role == "label";
}

static bool isInteger(DType type) { return !isFloat(toElementType(type)); }

static bool isBatched(const Port &port) { return port.batchAxis >= 0; }

/// "[N,1,28,28] f32", with N for the axis of samples; -1: there is none.
static std::string brackets(const Shape &shape, int64_t batchAxis,
                            std::string_view type) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? "," : "") +
            (int64_t(i) == batchAxis ? "N" : std::to_string(shape[i]));
  return text + "] " + std::string(type);
}

/// How many samples an array for `port` has.
static int64_t countSamples(const Port &port, const Array &array) {
  return array.shape[size_t(port.batchAxis)];
}

static int64_t rowSize(const Shape &shape) {
  return numElements(Shape(shape.begin() + 1, shape.end()));
}

static std::optional<int64_t> integerOf(const nlohmann::json &object,
                                        const char *key) {
  if (!object.is_object() || !object.contains(key) ||
      !object[key].is_number_integer())
    return std::nullopt;
  return object[key].get<int64_t>();
}

std::string targetOf(const TraineeInfo &info) {
  if (!info.lossTarget.empty())
    return info.lossTarget;
  const FunctionPorts *ports = info.function("eval");
  const Port *label = ports ? ports->input("label") : nullptr;
  return label ? label->name : "";
}

DatasetOptions datasetOptionsFor(const TraineeInfo &info) {
  DatasetOptions options;
  const nlohmann::json recipe = parseBoundedJSON(info.recipe);
  options.classes = integerOf(recipe, "classes");
  options.ignoreIndex = integerOf(recipe, "ignore_index");
  if (recipe.is_object() && recipe.contains("labels") &&
      recipe["labels"].is_object())
    for (const auto &[name, range] : recipe["labels"].items())
      options.ranges[name] = {integerOf(range, "classes"),
                              integerOf(range, "ignore_index")};
  if (options.classes || !options.ranges.empty() ||
      (info.loss != "softmax_cross_entropy" && info.loss != "nll"))
    return options;
  for (const char *name : {"eval", "step", "accumulate"}) {
    const FunctionPorts *ports = info.function(name);
    const Port *prediction = ports ? ports->output("prediction") : nullptr;
    if (prediction && prediction->shape.size() >= 2) {
      options.classes = prediction->shape[1];
      break;
    }
  }
  return options;
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

/// Whether the array is what the port takes with its second axis as the last.
static bool isChannelsLast(const Port &port, const Array &array) {
  Shape shape = array.shape;
  if (shape.size() != port.shape.size() || shape.size() < 3)
    return false;
  std::rotate(shape.begin() + 1, shape.end() - 1, shape.end());
  return std::equal(shape.begin() + 1, shape.end(), port.shape.begin() + 1);
}

/// What to do about an array whose shape does not fit.
static std::string shapeHelp(const Port &port, const Array &array) {
  if (port.batchAxis != 0)
    return "";
  if (isChannelsLast(port, array))
    return "; help: channels come before space in ONNX, save numpy.moveaxis(" +
           array.name + ", -1, 1)";
  const bool isClass = port.role == "label" && isInteger(port.type);
  if (isClass && array.shape.size() == port.shape.size() + 1 &&
      array.shape.back() > 1)
    return "; help: labels are class numbers, save " + array.name +
           ".argmax(-1)";
  // Of equal rank, a reshape would mix up what the axes mean.
  if (array.shape.size() == port.shape.size())
    return "";
  const int64_t wanted = rowSize(port.shape);
  if (array.shape.empty() || array.shape[0] == 0 || wanted == 0 ||
      array.size() / array.shape[0] != wanted)
    return "";
  std::string text =
      "; help: the elements fit, save " + array.name + ".reshape(-1";
  for (size_t i = 1; i < port.shape.size(); ++i)
    text += "," + std::to_string(port.shape[i]);
  return text + ")";
}

StatusOr<Dataset::Column> Dataset::makeColumn(const Port &port, Array array) {
  bool fits = array.shape.size() == port.shape.size();
  for (size_t i = 0; fits && i < port.shape.size(); ++i)
    fits = int64_t(i) == port.batchAxis || array.shape[i] == port.shape[i];
  if (!fits)
    return invalid(
        locate(array) + ": got " +
        brackets(array.shape, -1, nameOf(array.type)) + ", the model wants " +
        brackets(port.shape, port.batchAxis, runtime::nameOf(port.type)) +
        " for its input '" + port.name + "'" + shapeHelp(port, array));
  Column column;
  column.port = port;
  if (isBatched(port)) {
    if (countSamples(port, array) == 0)
      return invalid(locate(array) + ": has no samples");
    const auto axis = array.shape.begin() + port.batchAxis;
    column.outer = numElements(Shape(array.shape.begin(), axis));
    column.rowElements = numElements(Shape(axis + 1, array.shape.end()));
  }
  column.array = std::move(array);
  return column;
}

namespace {
/// The integers that an input takes: [low, high), and one that is ignored.
struct IntegerRange {
  const char *what;
  int64_t low, high;
  std::optional<int64_t> ignored;
};
} // namespace

/// What PyTorch ignores of class labels where nothing else is said.
constexpr int64_t kIgnored = -100;

static Status checkIntegers(const Array &array, const IntegerRange &range) {
  constexpr int64_t kChunk = 65536;
  std::vector<int64_t> values(kChunk);
  for (int64_t begin = 0; begin < array.size(); begin += kChunk) {
    const int64_t count = std::min(kChunk, array.size() - begin);
    if (auto bad = convertElements(array, begin, count, DType::I64,
                                   NonFinite::Reject, values.data()))
      return invalid(describe(array, *bad, DType::I64));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t value = values[size_t(i)];
      if ((value >= range.low && value < range.high) || value == range.ignored)
        continue;
      return invalid(
          locate(array, begin + i) + ": " + range.what + " " +
          std::to_string(value) + " is not in [" + std::to_string(range.low) +
          "," + std::to_string(range.high) + ")" +
          (range.ignored
               ? " and not the ignored " + std::to_string(*range.ignored)
               : "") +
          (!range.ignored && value == kIgnored && range.low == 0
               ? "; help: compile with --ignore-index -100 for labels that "
                 "count nowhere"
               : ""));
    }
  }
  return Status();
}

Status Dataset::checkColumn(const Column &column,
                            const DatasetOptions &options) {
  const Array &array = column.array;
  if (auto bad = convertElements(array, 0, array.size(), column.port.type,
                                 NonFinite::Reject, nullptr))
    return invalid(describe(array, *bad, column.port.type));
  const LabelRange &range = options.rangeOf(column.port.name);
  if (column.port.role == "label" && isInteger(column.port.type) &&
      range.classes)
    return checkIntegers(array,
                         {"label", 0, *range.classes, range.ignoreIndex});
  if (const std::optional<int64_t> &size = column.port.indexSize)
    return checkIntegers(array, {"index", -*size, *size, std::nullopt});
  return Status();
}

/// XXH3-64 over the arrays' names, types, shapes and bytes.
static uint64_t digestOf(const Array &array, uint64_t seed) {
  std::string head = array.name + '\0' + std::string(nameOf(array.type));
  for (int64_t extent : array.shape)
    head += ',' + std::to_string(extent);
  const uint64_t digest = XXH3_64bits_withSeed(head.data(), head.size(), seed);
  return XXH3_64bits_withSeed(array.data, size_t(array.bytes()), digest);
}

//===----------------------------------------------------------------------===//
// Creation
//===----------------------------------------------------------------------===//

/// The files of the arrays, each once.
static std::set<std::string> sourcesOf(const std::vector<Array> &arrays) {
  std::set<std::string> sources;
  for (const Array &array : arrays)
    if (!array.source.empty())
      sources.insert(array.source);
  return sources;
}

/// The array that feeds `port`, by the rules of Dataset::create.
static StatusOr<Array> findArray(const std::vector<Array> &arrays,
                                 const Port &port, bool onlyLabel,
                                 const DatasetOptions &options) {
  const auto named = [&](const std::string &name) -> const Array * {
    for (const Array &array : arrays)
      if (array.name == name)
        return &array;
    return nullptr;
  };
  const Array *found = named(port.name);
  const bool byTarget = port.role == "label" && onlyLabel;
  const bool isTarget = port.name == options.targetArray;
  if (!found && byTarget)
    found = named(options.targetArray);
  if (found)
    return *found;
  std::string text;
  for (const std::string &source : sourcesOf(arrays))
    text += (text.empty() ? "" : ", ") + source;
  text += (text.empty() ? "" : ": ");
  text += "no array is called '" + port.name + "'";
  if (byTarget && !isTarget)
    text += " or '" + options.targetArray + "'";
  text += ", which the model takes as " + port.role + "; the data has ";
  if (arrays.empty())
    text += "no arrays";
  for (size_t i = 0; i < arrays.size(); ++i)
    text += (i ? ", '" : "'") + arrays[i].name + "'";
  if (byTarget && !arrays.empty())
    text += "; help: name the labels with --target-array";
  return invalid(text);
}

/// Takes the array that feeds `port`, once it is known to fit the others.
Status Dataset::addColumn(const Port &port, Array array,
                          const DatasetOptions &options) {
  StatusOr<Column> column = makeColumn(port, std::move(array));
  if (!column.ok())
    return column.status();
  if (isBatched(port)) {
    const int64_t samples = countSamples(port, column->array);
    if (first.empty()) {
      first = column->array.name;
      order.resize(size_t(samples));
      std::iota(order.begin(), order.end(), int64_t(0));
    }
    if (samples != size())
      return invalid(locate(column->array) + ": has " +
                     counted(samples, "sample") + ", " + first + " has " +
                     std::to_string(size()));
  }
  if (Status status = checkColumn(*column, options); !status.ok())
    return status;
  digest = digestOf(column->array, digest);
  columns.push_back(std::move(*column));
  return Status();
}

/// The batch size that the inputs were compiled for.
static StatusOr<int64_t> findBatchSize(const FunctionPorts &ports) {
  int64_t batch = 0;
  for (const Port &port : ports.inputs) {
    if (!isSampled(port) || !isBatched(port))
      continue;
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
                        "; help: where samples are along another axis, say "
                        "which with --batch-axis");
  }
  if (batch == 0)
    return Status(StatusCode::Unsupported, "the model takes no data");
  return batch;
}

StatusOr<Dataset> Dataset::create(std::vector<Array> arrays,
                                  const FunctionPorts &ports,
                                  const DatasetOptions &options) {
  std::set<std::string> names;
  for (const Array &array : arrays)
    if (!names.insert(array.name).second)
      return invalid(locate(array) + ": another array has that name");
  const int64_t labels =
      std::count_if(ports.inputs.begin(), ports.inputs.end(),
                    [](const Port &port) { return port.role == "label"; });
  StatusOr<int64_t> batch = findBatchSize(ports);
  if (!batch.ok())
    return batch.status();

  Dataset dataset;
  dataset.batch = *batch;
  for (const Port &port : ports.inputs) {
    if (!isSampled(port))
      continue;
    StatusOr<Array> array = findArray(arrays, port, labels == 1, options);
    if (!array.ok())
      return array.status();
    if (Status status = dataset.addColumn(port, std::move(*array), options);
        !status.ok())
      return status;
  }
  return dataset;
}

/// The name and the path of "NAME=FILE", unless that is itself a file.
static std::pair<std::string, std::string>
splitArgument(const std::string &argument) {
  const size_t equals = argument.find('=');
  std::error_code ignored;
  if (equals == std::string::npos || std::filesystem::exists(argument, ignored))
    return {"", argument};
  return {argument.substr(0, equals), argument.substr(equals + 1)};
}

Status Dataset::checkFiles(const std::vector<std::string> &files) {
  for (const std::string &argument : files) {
    const std::string path = splitArgument(argument).second;
    if (access(path.c_str(), R_OK) != 0)
      return Status(StatusCode::IO,
                    path + ": cannot open: " + std::strerror(errno));
  }
  return Status();
}

StatusOr<std::vector<Array>>
readDataFiles(const std::vector<std::string> &files) {
  std::vector<Array> all;
  for (const std::string &argument : files) {
    const auto [name, path] = splitArgument(argument);
    StatusOr<std::vector<Array>> arrays = readArrays(path);
    if (!arrays.ok())
      return arrays.status();
    if (!name.empty()) {
      if (arrays->size() != 1)
        return invalid(argument +
                       ": a name is for a file of one array, this "
                       "one has " +
                       std::to_string(arrays->size()));
      arrays->front().name = name;
    }
    std::move(arrays->begin(), arrays->end(), std::back_inserter(all));
  }
  return all;
}

StatusOr<Dataset> Dataset::open(const std::vector<std::string> &files,
                                const FunctionPorts &ports,
                                const DatasetOptions &options) {
  StatusOr<std::vector<Array>> all = readDataFiles(files);
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
  const std::vector<int64_t> shuffled =
      permutation(size(), seed, Stream::Split, 0);
  std::pair<Dataset, Dataset> parts(*this, *this);
  const auto take = [&](Dataset &part, auto begin, auto end) {
    part.order.clear();
    for (auto it = begin; it != end; ++it)
      part.order.push_back(order[size_t(*it)]);
    std::sort(part.order.begin(), part.order.end());
  };
  take(parts.first, shuffled.begin() + held, shuffled.end());
  take(parts.second, shuffled.begin(), shuffled.begin() + held);
  return parts;
}

std::string Dataset::source() const {
  const std::string &file = columns[0].array.source;
  return file.empty() ? "the data" : file;
}

std::string Dataset::fingerprint() const {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx",
                static_cast<unsigned long long>(XXH3_64bits_withSeed(
                    order.data(), order.size() * sizeof(order[0]), digest)));
  return text;
}

//===----------------------------------------------------------------------===//
// Batches
//===----------------------------------------------------------------------===//

/// Writes what the input of `column` is for a batch.
Status Dataset::fill(const Column &column, const int64_t *positions,
                     std::byte *to) const {
  const DType type = column.port.type;
  const auto convert = [&](int64_t element, int64_t count) {
    auto bad = convertElements(column.array, element, count, type,
                               NonFinite::Allow, to);
    to += count * runtime::sizeOf(type);
    return bad ? invalid(describe(column.array, *bad, type)) : Status();
  };
  if (!isBatched(column.port))
    return convert(0, column.array.size());
  const int64_t samples = countSamples(column.port, column.array);
  for (int64_t outer = 0; outer < column.outer; ++outer)
    for (int64_t i = 0; i < batch; ++i) {
      const int64_t row = outer * samples + order[size_t(positions[i])];
      if (Status status = convert(row * column.rowElements, column.rowElements);
          !status.ok())
        return status;
    }
  return Status();
}

Status Dataset::bind(Trainee &model, std::string_view function,
                     const int64_t *positions) const {
  const FunctionPorts *ports = model.info().function(function);
  if (!ports)
    return Status(StatusCode::Unsupported, "the artifact has no function '" +
                                               std::string(function) + "'");
  for (const Port &port : ports->inputs) {
    if (!isSampled(port))
      continue;
    const auto column =
        std::find_if(columns.begin(), columns.end(), [&](const Column &c) {
          return c.port.name == port.name && c.port.type == port.type &&
                 c.port.shape == port.shape;
        });
    if (column == columns.end())
      return Status(StatusCode::Unsupported,
                    "function '" + std::string(function) + "' takes '" +
                        port.name +
                        "' in another form than the data was prepared for");
    const size_t size =
        size_t(numElements(port.shape) * runtime::sizeOf(port.type));
    std::unique_ptr<std::byte[]> staging(new std::byte[size]);
    if (Status status = fill(*column, positions, staging.get()); !status.ok())
      return status;
    if (Status status =
            model.setInput(function, port.name, staging.get(), size);
        !status.ok())
      return status;
  }
  return Status();
}

template <typename T>
std::vector<T> Dataset::labelRows(const std::string &input, bool integers,
                                  DType type, const int64_t *positions,
                                  int64_t count) const {
  const auto column =
      std::find_if(columns.begin(), columns.end(), [&](const Column &c) {
        return c.port.role == "label" && c.port.name == input &&
               isInteger(c.port.type) == integers;
      });
  if (column == columns.end())
    return {};
  std::vector<T> values(size_t(count * column->rowElements));
  for (int64_t i = 0; i < count; ++i)
    convertElements(column->array,
                    order[size_t(positions[i])] * column->rowElements,
                    column->rowElements, type, NonFinite::Reject,
                    values.data() + i * column->rowElements);
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
