// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/TrainedModel.h"

#include "frontends/ONNX/Export/Export.h"
#include "frontends/ONNX/Names.h"
#include "runtime/train/ArrayFile.h"
#include "tools/mpc/Driver.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;

using State = std::vector<std::pair<std::string, Tensor>>;

static llvm::StringRef extensionOf(const std::string &path) {
  return llvm::sys::path::extension(path);
}

// What can be known of writing before there is something to write.
static ExitCode checkDestination(const std::string &file) {
  if (llvm::sys::fs::is_directory(file))
    return reportError(ExitCode::IO,
                       "--output " + file + ": is a folder, expected a file");
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
  if (ExitCode code = checkDestination(options.output); code != ExitCode::Done)
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
static StatusOr<State> readTrainedState(Session &session) {
  State values;
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

static ExitCode writeModel(const std::string &model, const std::string &file,
                           const State &state, llvm::raw_ostream &findings) {
  mlir::MLIRContext context;
  onnx_frontend::TensorMap values;
  for (const auto &[name, tensor] : state)
    values[name] = toHostTensor(tensor, &context);
  if (llvm::Error error =
          onnx_frontend::exportModel(model, file, values, &context))
    return reportError(std::move(error), findings);
  return ExitCode::Done;
}

// Writes `state` to `file` in the format that its extension names.
static ExitCode write(const TrainedModelOptions &options,
                      const std::string &file, const State &state,
                      llvm::raw_ostream &findings) {
  if (extensionOf(file) == ".onnx")
    return writeModel(options.exportModel, file, state, findings);
  std::vector<train::Array> arrays;
  for (const auto &[name, tensor] : state)
    arrays.push_back(
        train::toArray(onnx_frontend::getONNXName(name).str(), tensor));
  Status status = train::writeArrays(file, arrays);
  if (!status.ok())
    findings << "error: " << status.message() << "\n";
  return static_cast<ExitCode>(status.getCode());
}

// Hours of training are worth a second try: the disk may be full, or the folder
// gone.
static void writeElsewhere(const TrainedModelOptions &options,
                           const State &state) {
  llvm::SmallString<128> here, temporary;
  llvm::sys::path::system_temp_directory(/*ErasedOnReboot=*/false, temporary);
  if (llvm::sys::fs::current_path(here))
    here = temporary;
  for (llvm::SmallString<128> &folder : {std::ref(here), std::ref(temporary)}) {
    llvm::SmallString<128> file = folder;
    llvm::sys::path::append(
        file, "mpc-recovered-" +
                  llvm::Twine(llvm::sys::Process::getProcessId()) +
                  extensionOf(options.output));
    if (write(options, file.str().str(), state, llvm::nulls()) !=
        ExitCode::Done)
      continue;
    llvm::errs() << "note: the trained weights are in " << file << " instead\n";
    return;
  }
}

ExitCode mpc::tools::writeTrainedModel(const TrainedModelOptions &options,
                                       Session &session) {
  if (options.output.empty())
    return ExitCode::Done;
  auto state = readTrainedState(session);
  if (!state.ok())
    return reportError(state.status());
  ExitCode code = write(options, options.output, *state, llvm::errs());
  if (code != ExitCode::Done)
    writeElsewhere(options, *state);
  return code;
}
