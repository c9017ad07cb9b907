// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/TrainedModel.h"

#include "frontends/ONNX/Export/Export.h"
#include "runtime/train/ArrayFile.h"
#include "tools/mpc/Driver.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;

static llvm::StringRef extensionOf(const std::string &path) {
  return llvm::sys::path::extension(path);
}

static ExitCode checkFolder(const std::string &file) {
  llvm::SmallString<128> folder(file);
  llvm::sys::path::remove_filename(folder);
  if (folder.empty())
    folder = ".";
  if (!llvm::sys::fs::is_directory(folder))
    return reportError(ExitCode::IO, "--output " + file + ": folder '" +
                                         folder + "' does not exist");
  if (llvm::sys::fs::access(folder, llvm::sys::fs::AccessMode::Write))
    return reportError(ExitCode::IO, "--output " + file + ": folder '" +
                                         folder + "' is not writable");
  return ExitCode::Done;
}

ExitCode mpc::tools::resolve(TrainedModelOptions &options,
                             const std::string &model) {
  if (options.output.empty())
    return ExitCode::Done;
  if (ExitCode code = checkFolder(options.output); code != ExitCode::Done)
    return code;
  llvm::StringRef extension = extensionOf(options.output);
  if (extension == ".npz" || extension == ".safetensors")
    return ExitCode::Done;
  if (extension != ".onnx")
    return reportError(ExitCode::Usage,
                       "--output " + options.output +
                           ": expected .onnx, .safetensors or .npz");
  if (!options.exportModel.empty())
    return ExitCode::Done;
  if (llvm::sys::fs::is_directory(model) || isArtifact(model))
    return reportError(ExitCode::Usage,
                       "--output " + options.output + ": '" + model +
                           "' cannot receive the weights; name an ONNX model "
                           "that can with --export-model, or write "
                           ".safetensors");
  options.exportModel = model;
  return ExitCode::Done;
}

// The state an exported model carries. What is frozen may have come from
// --weights, so it is written too.
static StatusOr<std::vector<std::pair<std::string, Tensor>>>
readTrainedState(Session &session) {
  std::vector<std::pair<std::string, Tensor>> values;
  for (const StateVariable &variable : session.artifact().plan().state) {
    if (variable.role != "parameter" && variable.role != "frozen" &&
        variable.role != "statistic")
      continue;
    StatusOr<Tensor> value = session.state(variable.name);
    if (!value.ok())
      return value.status();
    values.emplace_back(variable.name, std::move(*value));
  }
  return values;
}

static ExitCode
writeModel(const TrainedModelOptions &options,
           const std::vector<std::pair<std::string, Tensor>> &state) {
  mlir::MLIRContext context;
  onnx_frontend::TensorMap values;
  for (const auto &[name, tensor] : state)
    values[name] = toHostTensor(tensor, &context);
  if (llvm::Error error = onnx_frontend::exportModel(
          options.exportModel, options.output, values, &context))
    return reportError(std::move(error));
  return ExitCode::Done;
}

ExitCode mpc::tools::writeTrainedModel(const TrainedModelOptions &options,
                                       Session &session) {
  if (options.output.empty())
    return ExitCode::Done;
  auto state = readTrainedState(session);
  if (!state.ok())
    return reportError(state.status());
  if (extensionOf(options.output) == ".onnx")
    return writeModel(options, *state);
  std::vector<train::Array> arrays;
  for (const auto &[name, tensor] : *state)
    arrays.push_back(train::toArray(name, tensor));
  return reportError(train::writeArrays(options.output, arrays));
}
