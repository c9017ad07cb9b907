// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/model/LabelAxes.h"

#include "passes/Differentiation/LossSpec.h"
#include "runtime/train/data/DataFiles.h"
#include "tools/mpc/model/Driver.h"
#include "tools/mpc/print/Notes.h"

#include "llvm/ADT/STLExtras.h"

#include <cassert>
#include <cstring>
#include <set>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;
using namespace mpc::runtime::train;

namespace {
/// An input that has samples, and the axis along which they lie.
struct SampledInput {
  std::string name;
  int64_t axis;
};

/// Facts on the layout of labels that follow from the inputs.
struct SampleCounts {
  /// The number of samples that the inputs have; 0 if unknown.
  int64_t samples = 0;
  /// `hasTimeFirst`: an input has time steps on axis 0 and samples on axis 1.
  /// `hasEqualTime`: in addition, the input has as many steps as samples.
  /// Without `hasTimeFirst`, labels with samples on axis 1 mean a forgotten
  /// flag.
  bool hasTimeFirst = false, hasEqualTime = false;
};
} // namespace

// Returns the names of the label arrays that losses of mpc read.
static std::set<std::string> listLabels(const Recipe &recipe) {
  std::set<std::string> names;
  for (const LossSpec &loss : recipe.losses)
    if (loss.kind != LossKind::Output)
      names.insert(findTarget(recipe.targets, loss.output));
  return names;
}

static bool isInputCalled(const std::vector<DeclaredShape> &inputs,
                          llvm::StringRef name) {
  return llvm::any_of(
      inputs, [&](const DeclaredShape &input) { return input.name == name; });
}

LabelAxes mpc::tools::takeLabelAxes(const std::vector<DeclaredShape> &inputs,
                                    const Recipe &recipe,
                                    ModelOptions &options) {
  LabelAxes axes;
  const std::set<std::string> labels = listLabels(recipe);
  llvm::erase_if(options.batchAxes, [&](const std::string &text) {
    auto [name, word] = llvm::StringRef(text).rsplit('=');
    int64_t axis = 0;
    if (!labels.count(name.str()) || isInputCalled(inputs, name) ||
        word.getAsInteger(10, axis) || axis < 0)
      return false;
    return axes.emplace(name.str(), axis).second;
  });
  return axes;
}

static SampleCounts countInputSamples(llvm::ArrayRef<SampledInput> inputs,
                                      const std::vector<Array> &arrays) {
  SampleCounts counts;
  for (const SampledInput &input : inputs) {
    const int64_t samples =
        countSamples(arrays, input.name, size_t(input.axis));
    // Return early if inputs have different numbers of samples; the data set
    // reports the error later.
    if (counts.samples != 0 && samples != 0 && samples != counts.samples)
      return {};
    if (samples != 0)
      counts.samples = samples;
    if (input.axis != 1 || samples == 0)
      continue;
    counts.hasTimeFirst = true;
    counts.hasEqualTime |=
        countSamples(arrays, input.name, /*axis=*/0) == samples;
  }
  return counts;
}

// Transposes the elements of an array so that axis `from` becomes axis 0.
static Status moveFirst(Array &array, size_t from) {
  if (Status status = unpack(array); !status.ok())
    return status;
  assert(from < array.shape.size() && "an axis of the array");
  int64_t outer = 1, inner = sizeOf(array.type);
  for (size_t i = 0; i < from; ++i)
    outer *= array.shape[i];
  for (size_t i = from + 1; i < array.shape.size(); ++i)
    inner *= array.shape[i];
  const int64_t samples = array.shape[from];
  auto moved = std::make_shared<std::vector<std::byte>>(size_t(array.bytes()));
  for (int64_t i = 0; i < samples; ++i)
    for (int64_t j = 0; j < outer; ++j)
      std::memcpy(moved->data() + (i * outer + j) * inner,
                  array.data + (j * samples + i) * inner, size_t(inner));
  array.shape.erase(array.shape.begin() + ptrdiff_t(from));
  array.shape.insert(array.shape.begin(), samples);
  array.data = moved->data();
  array.owner = moved;
  return Status();
}

// True if the labels have at least two axes, of which one may be samples and
// another time steps.
static bool hasSteps(const Array &array) {
  return !array.images && !array.isColumn && array.fault.empty() &&
         array.shape.size() >= 2;
}

// Returns the axis of the samples in the labels. nullopt if the extents do not
// decide, because there are as many time steps as samples.
static std::optional<int64_t> findAxis(const std::vector<Array> &arrays,
                                       const std::string &label,
                                       const SampleCounts &counts) {
  const bool isFirst = countSamples(arrays, label, 0) == counts.samples;
  const bool isSecond = countSamples(arrays, label, 1) == counts.samples;
  if (isFirst && isSecond && counts.hasEqualTime)
    return std::nullopt;
  return !isFirst && isSecond && counts.hasTimeFirst ? 1 : 0;
}

static std::string describeLayouts(const std::string &label, int64_t count) {
  return "labels '" + label + "' have " + std::to_string(count) +
         " samples and as many steps, and may be [samples, steps] or [steps, "
         "samples]";
}

static ExitCode moveAll(llvm::ArrayRef<SampledInput> inputs,
                        const std::set<std::string> &labels, bool hasFlag,
                        std::vector<Array> &arrays, LabelAxes &axes) {
  const SampleCounts counts = countInputSamples(inputs, arrays);
  for (const std::string &label : labels) {
    const bool isArray = llvm::any_of(arrays, [&](const Array &array) {
      return array.name == label && hasSteps(array);
    });
    if (!isArray || (counts.samples == 0 && !axes.count(label)))
      continue;
    if (!axes.count(label)) {
      std::optional<int64_t> axis = findAxis(arrays, label, counts);
      if (!axis && hasFlag)
        return reportError(ExitCode::Usage,
                           describeLayouts(label, counts.samples) +
                               "; say which with --batch-axis " + label +
                               "=0 or --batch-axis " + label + "=1");
      if (!axis)
        warn(describeLayouts(label, counts.samples) +
             "; they are taken as the former; turn others in the data, as "
             "numpy.moveaxis(" +
             label + ", 1, 0)");
      axes[label] = axis.value_or(0);
      if (axis == 1)
        note("labels '" + label +
             "' have their samples on axis 1, as many as the inputs have");
    }
    const int64_t axis = axes[label];
    for (Array &array : arrays) {
      if (array.name != label || !hasSteps(array) || axis == 0)
        continue;
      if (size_t(axis) >= array.shape.size())
        return reportError(ExitCode::Usage,
                           "--batch-axis " + label + "=" +
                               std::to_string(axis) + ": the labels have " +
                               std::to_string(array.shape.size()) +
                               " axes, counted from 0");
      if (Status status = moveFirst(array, size_t(axis)); !status.ok())
        return reportError(status);
    }
  }
  return ExitCode::Done;
}

ExitCode mpc::tools::moveLabelSamples(const std::vector<DeclaredShape> &inputs,
                                      const CompileOptions &options,
                                      std::vector<Array> &arrays,
                                      LabelAxes &axes) {
  std::vector<SampledInput> sampled;
  for (const DeclaredShape &input : inputs) {
    const Shape shape(input.dimensions ? input.dimensions->size() : 0);
    if (auto axis = findBatchAxis(input, shape, options.model.batchAxes))
      sampled.push_back({input.name, *axis});
  }
  std::set<std::string> labels = listLabels(options.pipeline.recipe);
  for (const DeclaredShape &input : inputs)
    labels.erase(input.name);
  return moveAll(sampled, labels, /*hasFlag=*/true, arrays, axes);
}

ExitCode mpc::tools::moveLabelSamples(const FunctionPorts &function,
                                      std::vector<Array> &arrays) {
  std::vector<SampledInput> sampled;
  std::set<std::string> labels;
  for (const Port &port : function.inputs)
    if (port.role == Role::Data && port.batchAxis >= 0)
      sampled.push_back({port.name, port.batchAxis});
    else if (port.role == Role::Label && port.batchAxis == 0 &&
             port.shape.size() >= 2)
      labels.insert(port.name);
  LabelAxes axes;
  return moveAll(sampled, labels, /*hasFlag=*/false, arrays, axes);
}
