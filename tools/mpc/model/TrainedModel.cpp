// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/model/TrainedModel.h"

#include "frontends/ONNX/Export/Export.h"
#include "frontends/ONNX/Import.h"
#include "frontends/ONNX/Model/Names.h"
#include "frontends/ONNX/Model/TrainingRecord.h"
#include "runtime/train/checkpoint/Weights.h"
#include "runtime/train/data/ArrayFile.h"
#include "runtime/train/support/FileSystem.h"
#include "tools/mpc/model/AdapterFiles.h"
#include "tools/mpc/model/Driver.h"
#include "tools/mpc/model/Overwriting.h"
#include "tools/mpc/model/RuntimeAdapter.h"
#include "tools/mpc/print/Notes.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;

using State = std::vector<train::Array>;

static llvm::StringRef extensionOf(const std::string &path) {
  return llvm::sys::path::extension(path);
}

// True if the output is an ONNX model. On stdout, only a model can be written.
static bool isModel(const std::string &output) {
  return output == onnx_frontend::kStandardOutput ||
         extensionOf(output) == ".onnx";
}

// True for the extensions of files that PyTorch itself writes.
static bool isPyTorch(llvm::StringRef extension) {
  return extension == ".pt" || extension == ".pth" || extension == ".ckpt" ||
         extension == ".bin";
}

ExitCode mpc::tools::resolve(TrainedModelOptions &options,
                             const std::string &model) {
  if (options.output.empty())
    return ExitCode::Done;
  if (ExitCode code = checkDestination("--output", options.output);
      code != ExitCode::Done)
    return code;
  // Do not write through a symbolic link, which may lead to a shared file, for
  // example in the cache of a download.
  StatusOr<train::FileKind> kind = train::kindOfLink(options.output);
  if (!kind.ok())
    return reportError(kind.status());
  if (*kind == train::FileKind::Link)
    note("--output " + options.output +
         " is a symbolic link: a file replaces it, and its target stays "
         "unchanged");
  llvm::StringRef extension = extensionOf(options.output);
  const bool isAdapter = extension == kRuntimeAdapterExtension;
  const bool isArrays =
      extension == ".npz" || extension == ".safetensors" || isAdapter;
  if (isArrays && !options.exportModel.empty())
    return reportError(ExitCode::Usage,
                       "--export-model is for an .onnx --output, and has no "
                       "effect on " +
                           extension);
  if (isAdapter && !options.trainedOnly)
    return reportError(ExitCode::Usage,
                       "--output " + options.output +
                           ": the file holds adapters alone; add "
                           "--trained-only");
  if (isArrays && options.unmerged)
    return reportError(ExitCode::Usage,
                       "--unmerged is for an .onnx --output; adapters alone "
                       "are written with --trained-only");
  if (isArrays)
    return ExitCode::Done;
  if (options.trainedOnly)
    return reportError(ExitCode::Usage,
                       "--trained-only is for an --output of .safetensors or "
                       ".npz; a model always has all its weights");
  // The output is a copy of an ONNX model: of the trained model, or of
  // --export-model.
  if (!isModel(options.output))
    return reportError(ExitCode::Usage,
                       "--output " + options.output +
                           ": expected .onnx, .safetensors or .npz" +
                           (isPyTorch(extension)
                                ? "; PyTorch reads .safetensors by "
                                  "safetensors.torch.load_file"
                                : ""));
  if (!options.exportModel.empty()) {
    StatusOr<bool> isThere = train::exists(options.exportModel);
    if (!isThere.ok())
      return reportError(isThere.status());
    if (*isThere)
      return ExitCode::Done;
    return reportError(ExitCode::IO, "--export-model " + options.exportModel +
                                         ": no such file");
  }
  kind = train::kindOf(model);
  if (!kind.ok())
    return reportError(kind.status());
  if (*kind == train::FileKind::Directory || isArtifact(model))
    return reportError(ExitCode::Usage,
                       "--output " + options.output + ": '" + model +
                           "' cannot receive the weights; name an ONNX model "
                           "that can with --export-model, or write "
                           ".safetensors");
  return ExitCode::Done;
}

static Status writeState(const std::string &file, State state,
                         mode_t mode = train::kForAll) {
  for (train::Array &array : state)
    array.name = onnx_frontend::getONNXName(array.name).str();
  return train::writeArrays(file, state, mode);
}

// Writes the weights to another place after a failed write, for example because
// the disk is full, since hours of training would be lost. Only the owner may
// read the file, because the user did not choose the place.
static void writeElsewhere(const TrainedModelOptions &options,
                           const State &state) {
  llvm::SmallString<128> beside(options.output), here, temporary;
  llvm::sys::path::remove_filename(beside);
  llvm::sys::path::system_temp_directory(/*ErasedOnReboot=*/false, temporary);
  if (llvm::sys::fs::current_path(here))
    here = temporary;
  for (const llvm::SmallString<128> &folder : {beside, here, temporary}) {
    llvm::SmallString<128> file = folder;
    llvm::sys::path::append(
        file, "mpc-recovered-" +
                  llvm::Twine(llvm::sys::Process::getProcessId()) +
                  ".safetensors");
    if (!writeState(file.str().str(), state, train::kForOwner).ok())
      continue;
    warn("the trained weights are in " + file + " instead");
    return;
  }
}

//===----------------------------------------------------------------------===//
// TrainedModelWriter
//===----------------------------------------------------------------------===//

TrainedModelWriter::TrainedModelWriter(const TrainedModelOptions &options)
    : options(options) {}

TrainedModelWriter::~TrainedModelWriter() = default;

// Prints why a model cannot receive the weights, and suggests alternatives.
static ExitCode refuseModel(llvm::Error error) {
  ExitCode code = reportError(std::move(error));
  llvm::errs() << "note: name a model that can receive the weights with "
                  "--export-model, or write .safetensors\n";
  return code;
}

static std::vector<std::string> listOutputs(const onnx_frontend::Model &model) {
  std::vector<std::string> names;
  if (auto summary = onnx_frontend::summarizeModel(model))
    for (const auto &[name, type] : summary->outputs)
      names.push_back(name);
  else
    llvm::consumeError(summary.takeError());
  return names;
}

// True for the variables that `adapters` adds to the model.
static bool isPartOf(const std::vector<Adapter> &adapters,
                     const std::string &variable) {
  return llvm::any_of(adapters, [&](const Adapter &adapter) {
    return variable == adapter.a || variable == adapter.b;
  });
}

// Reports an adapter whose weight is no variable, so that no file can receive
// the sum of both.
static ExitCode checkMerged(const std::vector<Adapter> &adapters) {
  for (const Adapter &adapter : adapters)
    if (adapter.weight.empty())
      return reportError(ExitCode::Unsupported,
                         "the weights of '" + adapter.module +
                             "' are computed or quantized, and cannot receive "
                             "their adapter; keep it as nodes of the model "
                             "with --unmerged, or write the adapters alone "
                             "with --trained-only and --output "
                             "adapter_model.safetensors");
  return ExitCode::Done;
}

ExitCode
TrainedModelWriter::prepare(const train::TraineeInfo &info,
                            std::shared_ptr<onnx_frontend::Model> compiled) {
  adapters = readAdapters(info.recipe);
  // A model whose weights are frozen may still update running statistics.
  const bool keepsStatistics =
      !adapters.empty() &&
      info.recipe.find("\"running_variance\"") == std::string::npos;
  std::vector<std::string> names;
  for (const train::Port &variable : info.state)
    if (options.trainedOnly &&
        (variable.role == Role::Frozen ||
         (variable.role == Role::Statistic && keepsStatistics)))
      leftOut.push_back(variable.name);
    else if (isModelRole(variable.role))
      names.push_back(onnx_frontend::getONNXName(variable.name).str());
  if (options.output.empty())
    return ExitCode::Done;
  if (!options.trainedOnly && !options.unmerged)
    if (ExitCode code = checkMerged(adapters); code != ExitCode::Done)
      return code;
  if (extensionOf(options.output) == kRuntimeAdapterExtension)
    return adapters.empty()
               ? reportError(ExitCode::Usage,
                             "--output " + options.output +
                                 ": the file holds adapters, and the model "
                                 "has none; add --lora RANK")
               : ExitCode::Done;
  if (!isModel(options.output) && compiled)
    if (ExitCode code =
            refuseReplacingData("--output", options.output, *compiled);
        code != ExitCode::Done)
      return code;
  if (!isModel(options.output))
    return reportError(train::checkArrayNames(options.output, names));
  if (options.unmerged && adapters.empty())
    return reportError(ExitCode::Usage,
                       "--unmerged is for a model with adapters; add --lora "
                       "RANK, or leave it out");
  for (const train::Port &variable : info.state)
    if (isModelRole(variable.role)) {
      const bool isPart = isPartOf(adapters, variable.name);
      if (!isPart || options.unmerged)
        (isPart ? adapterShapes : shapes)[variable.name] =
            llvm::SmallVector<int64_t>(variable.shape.begin(),
                                       variable.shape.end());
    }
  if (compiled) {
    outputs = listOutputs(*compiled);
    if (ExitCode code =
            refuseReplacingData("--output", options.output, *compiled);
        code != ExitCode::Done)
      return code;
  }
  // Only check the compiled model here: the compiler still needs its weights.
  using onnx_frontend::ExportModel;
  if (options.exportModel.empty()) {
    llvm::Error error = ExportModel::check(std::move(compiled), shapes);
    return error ? refuseModel(std::move(error)) : ExitCode::Done;
  }
  context = std::make_unique<mlir::MLIRContext>(
      mlir::MLIRContext::Threading::DISABLED);
  const auto nodes = listNodes();
  shapes.insert(adapterShapes.begin(), adapterShapes.end());
  auto read = ExportModel::read(options.exportModel, shapes, context.get(),
                                options.noRepair, nodes);
  if (!read)
    return refuseModel(read.takeError());
  model = std::move(*read);
  return ExitCode::Done;
}

ExitCode
TrainedModelWriter::takeModel(std::shared_ptr<onnx_frontend::Model> compiled) {
  if (model || !isModel(options.output))
    return ExitCode::Done;
  context = std::make_unique<mlir::MLIRContext>(
      mlir::MLIRContext::Threading::DISABLED);
  const auto nodes = listNodes();
  shapes.insert(adapterShapes.begin(), adapterShapes.end());
  auto taken = onnx_frontend::ExportModel::create(std::move(compiled), shapes,
                                                  context.get(), nodes);
  if (!taken)
    return refuseModel(taken.takeError());
  model = std::move(*taken);
  return ExitCode::Done;
}

std::vector<onnx_frontend::AdapterNodes> TrainedModelWriter::listNodes() const {
  std::vector<onnx_frontend::AdapterNodes> nodes;
  if (!options.unmerged)
    return nodes;
  using onnx_frontend::getONNXName;
  for (const Adapter &adapter : adapters)
    nodes.push_back({getONNXName(adapter.weight).str(),
                     getONNXName(adapter.module).str(),
                     getONNXName(adapter.a).str(), getONNXName(adapter.b).str(),
                     adapterShapes.at(adapter.a), adapterShapes.at(adapter.b),
                     adapter.scale});
  return nodes;
}

void TrainedModelWriter::setRecord(std::map<std::string, std::string> entries) {
  if (!model)
    return;
  if (!options.exportModel.empty() && model->listOutputs() != outputs)
    for (llvm::StringRef key :
         {onnx_frontend::kRecordLoss, onnx_frontend::kRecordMetrics})
      entries.erase(key.str());
  model->setRecord(entries);
}

ExitCode TrainedModelWriter::write(train::Trainee &trainee) {
  if (options.output.empty())
    return ExitCode::Done;
  StatusOr<State> state = train::readWeights(trainee);
  if (!state.ok())
    return reportError(state.status());
  ExitCode code = write(*state);
  // After a failed write, save the weights elsewhere, so that the training is
  // not lost.
  if (code != ExitCode::Done)
    writeElsewhere(options, *state);
  return code;
}

ExitCode TrainedModelWriter::write(State &state) {
  if (!options.trainedOnly && !options.unmerged)
    if (Status status = mergeAdapters(state, adapters); !status.ok())
      return reportError(status);
  if (model) {
    onnx_frontend::TensorMap values;
    for (const train::Array &array : state)
      values[array.name] = toHostTensor(array, context.get());
    llvm::Error error = model->write(options.output, values);
    return error ? reportError(std::move(error)) : ExitCode::Done;
  }
  llvm::erase_if(state, [&](const train::Array &array) {
    return llvm::is_contained(leftOut, array.name);
  });
  return reportError(options.trainedOnly && !adapters.empty()
                         ? writeAdapters(options.output, state, adapters)
                         : writeState(options.output, state));
}
