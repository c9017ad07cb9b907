// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/model/SampleAxes.h"

#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "compiler/Dialect/MPC/MPC.h"
#include "tools/mpc/flags/DeclaredShapes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::tools;
using namespace mpc::onnx_frontend;

namespace {
/// The inputs whose sample axis has `batch` elements, with that axis by name.
struct BatchedInputs {
  std::map<std::string, int64_t> axes;
  int64_t batch = 0;
};
} // namespace

// Finds the first input with samples, and all inputs with as many.
static BatchedInputs findInputs(func::FuncOp forward) {
  BatchedInputs found;
  for (Value argument : forward.getArguments()) {
    const PortAttrs port = getArgumentPort(argument);
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!port.getInput() || !type)
      continue;
    const int64_t axis = port.getBatchAxis();
    if (axis < 0 || axis >= type.getRank())
      continue;
    if (found.axes.empty())
      found.batch = type.getDimSize(axis);
    if (type.getDimSize(axis) == found.batch)
      found.axes[port.getInput().str()] = axis;
  }
  return found;
}

static std::map<std::string, ArrayRef<int64_t>>
findOutputs(func::FuncOp forward) {
  std::map<std::string, ArrayRef<int64_t>> outputs;
  for (unsigned i = 0; i < forward.getNumResults(); ++i)
    if (StringAttr name = getResultPort(forward, i).getOutput())
      outputs[name.str()] =
          cast<RankedTensorType>(forward.getResultTypes()[i]).getShape();
  return outputs;
}

// Returns `options` with `batch` in place of the batch size, also in the shapes
// of inputs.
static ImportOptions rebatch(const Model &model, ImportOptions options,
                             const BatchedInputs &inputs, int64_t batch) {
  options.batchSize = batch;
  options.readsValues = false;
  auto replace = [&](const std::string &name, size_t axis) {
    auto shape = options.shapes.find(name);
    if (shape != options.shapes.end() && axis < shape->second.size() &&
        shape->second[axis] == inputs.batch)
      shape->second[axis] = batch;
  };
  std::vector<DeclaredShape> declared = readDeclaredInputs(model);
  for (const auto &[name, axis] : inputs.axes) {
    replace(name, size_t(axis));
    for (const DeclaredShape &input : declared)
      if (input.name == name && input.dimensions &&
          size_t(axis) < input.dimensions->size())
        replace((*input.dimensions)[size_t(axis)], 0);
  }
  return options;
}

// Returns the axis on which the two shapes differ, if there is only one such
// axis, with the extents `batch` and `otherBatch`; nullopt otherwise.
static std::optional<int64_t> compare(ArrayRef<int64_t> shape, int64_t batch,
                                      ArrayRef<int64_t> otherShape,
                                      int64_t otherBatch) {
  if (shape.size() != otherShape.size())
    return std::nullopt;
  std::optional<int64_t> axis;
  for (auto [i, extents] : llvm::enumerate(llvm::zip(shape, otherShape))) {
    auto [extent, other] = extents;
    if (extent == other)
      continue;
    if (axis || extent != batch || other != otherBatch)
      return std::nullopt;
    axis = int64_t(i);
  }
  return axis;
}

llvm::Expected<SampleAxes>
mpc::tools::findSampleAxes(const Model &model, const ImportOptions &options,
                           ModuleOp module) {
  SampleAxes axes;
  auto forward = module.lookupSymbol<func::FuncOp>(kForwardFunction);
  if (!forward)
    return axes;
  BatchedInputs inputs = findInputs(forward);
  axes.inputs = inputs.axes;
  if (inputs.axes.empty())
    return axes;
  int64_t otherBatch = inputs.batch + 1;
  // Drop the diagnostics of the second import, since the first has printed them
  // all.
  ScopedDiagnosticHandler quiet(module.getContext(),
                                [](Diagnostic &) { return success(); });
  auto imported =
      importModel(model, rebatch(model, options, inputs, otherBatch));
  if (!imported)
    return imported.takeError();
  auto other = (*imported)->lookupSymbol<func::FuncOp>(kForwardFunction);
  if (!other)
    return axes;
  auto otherOutputs = findOutputs(other);
  for (auto [name, shape] : findOutputs(forward))
    if (auto found = otherOutputs.find(name); found != otherOutputs.end())
      if (auto axis = compare(shape, inputs.batch, found->second, otherBatch))
        axes.outputs[name] = *axis;
  return axes;
}
