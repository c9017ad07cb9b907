// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/model/LabelData.h"

#include "passes/Differentiation/LossSpec.h"
#include "runtime/BoundedJSON.h"
#include "runtime/train/evaluate/MetricNames.h"
#include "runtime/train/support/Text.h"
#include "tools/mpc/flags/LossFlags.h"
#include "tools/mpc/model/Driver.h"
#include "tools/mpc/print/Notes.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;
using namespace mpc::runtime::train;

void mpc::tools::findLabelShapes(const std::vector<Array> &arrays,
                                 Recipe &recipe) {
  for (const Array &array : arrays)
    if (!array.shape.empty() && !array.images)
      recipe.labelShapes[array.name] = {array.shape.begin() + 1,
                                        array.shape.end()};
}

namespace {
/// An input of the model, and the array whose elements it gets unchanged.
struct TakenArray {
  const DeclaredShape &input;
  const Array &array;
  /// The axis of the samples; nullopt if the input has no samples.
  std::optional<int64_t> batch;
};
} // namespace

// Finds the arrays that can be copied to their inputs unchanged. Leaves out
// images and columns of tables, which get their shape from the input. An array
// with another extent than the model fixes is transposed or refused later.
static std::vector<TakenArray>
findTakenArrays(const std::vector<DeclaredShape> &inputs,
                const std::vector<Array> &arrays,
                const std::vector<std::string> &batchAxes) {
  std::vector<TakenArray> taken;
  for (const DeclaredShape &input : inputs) {
    const auto array = llvm::find_if(
        arrays, [&](const Array &each) { return each.name == input.name; });
    if (array == arrays.end() || array->images || array->isColumn ||
        !input.dimensions || input.dimensions->size() != array->shape.size())
      continue;
    const std::optional<int64_t> batch =
        findBatchAxis(input, array->shape, batchAxes);
    bool fits = true;
    for (size_t axis = 0; axis < array->shape.size(); ++axis)
      fits &=
          int64_t(axis) == batch.value_or(-1) ||
          input.extent(axis).value_or(array->shape[axis]) == array->shape[axis];
    if (fits)
      taken.push_back({input, *array, batch});
  }
  return taken;
}

void mpc::tools::bindDataShapes(const std::vector<DeclaredShape> &inputs,
                                const std::vector<Array> &arrays,
                                ModelOptions &options) {
  const auto taken = findTakenArrays(inputs, arrays, options.batchAxes);
  // If a dimension is the batch in one input, the same name is the batch in all
  // inputs.
  std::set<std::string> batches;
  for (const TakenArray &each : taken)
    if (each.batch)
      batches.insert((*each.input.dimensions)[size_t(*each.batch)]);
  for (const TakenArray &each : taken)
    for (size_t axis = 0; axis < each.array.shape.size(); ++axis) {
      const std::string &symbol = (*each.input.dimensions)[axis];
      if (!each.input.isOpen(axis) || symbol == "?" || batches.count(symbol) ||
          isBound(each.input, axis, options.shapes))
        continue;
      const int64_t extent = each.array.shape[axis];
      options.shapes.push_back(symbol + "=" + std::to_string(extent));
      note("'" + symbol + "' of input '" + each.input.name + "' is " +
           llvm::Twine(extent) + ", as in the data");
    }
}

void mpc::tools::bindNamelessShapes(const std::vector<DeclaredShape> &inputs,
                                    const std::vector<Array> &arrays,
                                    ModelOptions &options) {
  for (const TakenArray &each :
       findTakenArrays(inputs, arrays, options.batchAxes)) {
    // Build a value of --shape, which needs all extents. The extent of the
    // batch is --batch-size, or fixed by the model.
    std::string shape;
    bool isKnown = true, isNameless = false;
    for (size_t axis = 0; axis < each.array.shape.size(); ++axis) {
      const bool isBatch = int64_t(axis) == each.batch.value_or(-1);
      const int64_t extent = !isBatch ? each.array.shape[axis]
                             : options.batchSize > 0
                                 ? options.batchSize
                                 : each.input.extent(axis).value_or(0);
      isKnown &= extent > 0 && !isBound(each.input, axis, options.shapes);
      isNameless |= !isBatch && (*each.input.dimensions)[axis] == "?";
      shape += (axis == 0 ? "" : "x") + std::to_string(extent);
    }
    if (!isKnown || !isNameless)
      continue;
    options.shapes.push_back(each.input.name + "=" + shape);
    note("input '" + each.input.name + "' is " + shape + ", as in the data");
  }
}

void mpc::tools::chooseTargets(CompileOptions &options,
                               const std::vector<Array> &arrays) {
  Recipe &recipe = options.pipeline.recipe;
  const auto isThere = [&](llvm::StringRef name) {
    return llvm::any_of(arrays,
                        [&](const Array &array) { return array.name == name; });
  };
  if (!recipe.targets.empty() || isThere("target"))
    return;
  // Choose labels either for all losses or for none.
  std::vector<TargetSpec> targets;
  std::vector<std::string> names;
  for (const LossSpec &loss : recipe.losses) {
    if (loss.kind == LossKind::Output)
      continue;
    // The output of a loss may end in :AXIS, the axis of classes.
    llvm::StringRef output = loss.output;
    if (!isThere(output))
      output = output.rsplit(':').first;
    // Skip names with '=', which --target-array could not express either.
    if (output.empty() || output.contains('=') || !isThere(output))
      return;
    // If two losses read one output, both have the same labels.
    const TargetSpec target = {output.str(), output.str()};
    if (llvm::is_contained(targets, target))
      continue;
    targets.push_back(target);
    names.push_back(("'" + output + "'").str());
  }
  if (names.empty())
    return;
  recipe.targets = std::move(targets);
  note("the labels of " + llvm::join(names, ", ") + " are the arrays of " +
       (names.size() > 1 ? "those names" : "that name") +
       "; --target-array chooses others");
}

// True if the label array called `targetArray` contains -100, the label that
// PyTorch ignores.
static bool hasIgnoredLabels(const std::vector<Array> &arrays,
                             const std::string &targetArray) {
  constexpr int64_t chunk = 65536;
  std::vector<int64_t> values(chunk);
  for (Array array : arrays) {
    // Skip an array whose type has no such label, or that cannot be read. The
    // data set reports the error later.
    const bool isUnsigned =
        array.type == ElementType::Bool || array.type == ElementType::U8 ||
        array.type == ElementType::U16 || array.type == ElementType::U32 ||
        array.type == ElementType::U64;
    if (array.name != targetArray || isUnsigned || !unpack(array).ok())
      continue;
    for (int64_t begin = 0; begin < array.size(); begin += chunk) {
      const int64_t count = std::min(chunk, array.size() - begin);
      // Give up if a label is no integer; the data set reports the error later.
      if (convertElements(array, begin, count, DType::I64, NonFinite::Reject,
                          values.data()))
        return false;
      if (std::find(values.begin(), values.begin() + count,
                    kPyTorchIgnoreIndex) != values.begin() + count)
        return true;
    }
  }
  return false;
}

void mpc::tools::chooseIgnoreIndex(CompileOptions &options,
                                   const std::vector<Array> &arrays) {
  Recipe &recipe = options.pipeline.recipe;
  if (recipe.ignoreIndex || isArtifact(options.model.model))
    return;
  const bool isAny = llvm::any_of(recipe.losses, [&](const LossSpec &loss) {
    return hasClasses(loss.kind) &&
           hasIgnoredLabels(arrays, findTarget(recipe.targets, loss.output));
  });
  if (!isAny)
    return;
  recipe.ignoreIndex = kPyTorchIgnoreIndex;
  note("labels of " + llvm::Twine(kPyTorchIgnoreIndex) +
       " are ignored, as in PyTorch; --ignore-index sets another");
}

// Adds the labels in `array` to `counts`, by label.
static Status countLabels(Array array, std::optional<int64_t> ignored,
                          std::map<int64_t, int64_t> &counts) {
  constexpr int64_t chunk = 65536;
  std::vector<int64_t> values(chunk);
  if (array.images)
    return invalid(locate(array), "images of labels are not counted");
  if (!array.fault.empty())
    return invalid(array.fault);
  if (Status status = unpack(array); !status.ok())
    return status;
  for (int64_t begin = 0; begin < array.size(); begin += chunk) {
    const int64_t count = std::min(chunk, array.size() - begin);
    if (auto bad = convertElements(array, begin, count, DType::I64,
                                   NonFinite::Reject, values.data()))
      return invalid(train::describe(array, *bad, DType::I64));
    for (int64_t i = 0; i < count; ++i)
      if (values[size_t(i)] != ignored)
        ++counts[values[size_t(i)]];
  }
  return Status();
}

ExitCode mpc::tools::balanceClasses(CompileOptions &options,
                                    const std::vector<Array> &arrays) {
  std::string &weights = options.lossFiles.classWeights;
  if (!isBalanced(weights))
    return ExitCode::Done;
  const Recipe &recipe = options.pipeline.recipe;
  const std::string flag = "--class-weights balanced: ";
  std::set<std::string> targets;
  for (const LossSpec &loss : recipe.losses)
    if (hasClasses(loss.kind))
      targets.insert(findTarget(recipe.targets, loss.output));
  if (targets.size() != 1)
    return reportError(ExitCode::Usage,
                       flag + "expected one array of class labels, found " +
                           llvm::Twine(targets.size()) +
                           "; give numbers or a file");
  std::map<int64_t, int64_t> counts;
  for (const Array &array : arrays)
    if (array.name == *targets.begin())
      if (Status status = countLabels(array, recipe.ignoreIndex, counts);
          !status.ok())
        return reportError(status.getCode(), flag + status.message());
  // The data set reports absent labels and labels below 0 in its own words.
  if (counts.empty() || counts.begin()->first < 0) {
    weights.clear();
    return ExitCode::Done;
  }
  const int64_t classes = counts.rbegin()->first + 1;
  if (classes != int64_t(counts.size())) {
    int64_t absent = 0;
    while (counts.count(absent))
      ++absent;
    return reportError(ExitCode::InvalidInput,
                       flag + "class " + llvm::Twine(absent) +
                           " has no label in '" + *targets.begin() +
                           "', but class " + llvm::Twine(classes - 1) +
                           " has; give numbers or a file");
  }
  int64_t samples = 0;
  for (const auto &[label, count] : counts)
    samples += count;
  std::vector<std::string> numbers, shown;
  for (const auto &[label, count] : counts) {
    const double weight = double(samples) / (double(classes) * double(count));
    numbers.push_back(llvm::formatv("{0:e17}", weight).str());
    shown.push_back(formatFigure(weight));
  }
  // Numbers in this form are never the name of a file.
  weights = llvm::join(numbers, ",");
  note("the weights of " + llvm::Twine(classes) +
       " classes are balanced: " + abbreviated(llvm::join(shown, ",")));
  return ExitCode::Done;
}

// Returns the inputs of floats that cross_entropy reads as probabilities of
// classes. An artifact records only its first loss.
static std::set<std::string> findProbabilities(const TraineeInfo &info,
                                               const Recipe &recipe) {
  std::set<std::string> names;
  if (recipe.losses.empty() && info.loss == LossKind::SoftmaxCrossEntropy)
    names.insert(targetOf(info));
  for (const LossSpec &loss : recipe.losses)
    if (loss.kind == LossKind::SoftmaxCrossEntropy)
      names.insert(findTarget(recipe.targets, loss.output));
  return names;
}

namespace {
/// The sum of the probabilities of all classes at one position, and the sample
/// with this position.
struct ProbabilitySum {
  int64_t sample;
  double sum;
};
} // namespace

static std::string printSum(double value) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%g", value);
  return text;
}

// Adds up `values` along `axis`, the classes, for samples of `shape`. Returns
// the first sum that is not 1; nullopt if all are.
static std::optional<ProbabilitySum> findOtherSum(llvm::ArrayRef<double> values,
                                                  llvm::ArrayRef<int64_t> shape,
                                                  size_t axis) {
  constexpr double tolerance = 0.01;
  int64_t inner = 1, elements = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    elements *= shape[i];
    if (i > axis)
      inner *= shape[i];
  }
  assert(axis < shape.size() && "an axis of a sample");
  assert((elements == 0 ? values.empty()
                        : values.size() % size_t(elements) == 0) &&
         "whole samples");
  const int64_t classes = shape[axis];
  for (int64_t i = 0, n = int64_t(values.size()); i < n; ++i) {
    if (i / inner % classes != 0)
      continue;
    double sum = 0;
    for (int64_t k = 0; k < classes; ++k)
      sum += values[size_t(i + k * inner)];
    if (std::abs(sum - 1) > tolerance)
      return ProbabilitySum{i / elements, sum};
  }
  return std::nullopt;
}

void mpc::tools::warnOfProbabilities(const TraineeInfo &info,
                                     const Dataset &data,
                                     const Recipe &recipe) {
  constexpr int64_t mostSamples = 4096, mostElements = int64_t(1) << 20;
  const FunctionPorts *ports = info.function(kEvalFunction);
  for (const std::string &name : findProbabilities(info, recipe)) {
    const Port *port = ports ? ports->inputCalled(name) : nullptr;
    if (!port || port->role != Role::Label || port->shape.size() < 2 ||
        port->batchAxis != 0)
      continue;
    const auto shape = llvm::ArrayRef(port->shape).drop_front();
    // If samples are large, as with a target per pixel, look at fewer samples,
    // but at least at one.
    int64_t elements = 1;
    for (int64_t extent : shape)
      elements *= std::max<int64_t>(extent, 1);
    const int64_t most =
        std::clamp<int64_t>(mostElements / elements, 1, mostSamples);
    std::vector<int64_t> positions(size_t(std::min(most, data.size())));
    std::iota(positions.begin(), positions.end(), int64_t(0));
    const std::vector<double> values =
        data.targets(positions.data(), int64_t(positions.size()), name);
    // The classes may be on the first or the last axis of a sample. Warn only
    // if neither axis has sums of 1.
    const auto first = findOtherSum(values, shape, 0);
    if (!first || !findOtherSum(values, shape, shape.size() - 1))
      continue;
    warn("cross_entropy takes '" + name +
         "' as probabilities of classes, and "
         "those of sample " +
         llvm::Twine(data.rowOf(first->sample)) + " add up to " +
         printSum(first->sum) +
         ", not to 1; where each class is true or false by itself, say --loss "
         "bce_with_logits");
  }
}

ExitCode mpc::tools::readMetricFlags(std::vector<std::string> &names) {
  StatusOr<std::vector<std::string>> single = parseMetricNames(names);
  if (!single.ok())
    return reportError(single.status());
  names = std::move(*single);
  return ExitCode::Done;
}
