// mpc export: writes the weights of a checkpoint, or of files, into a copy of
// an ONNX model, or as arrays. Needs no data, and compiles nothing.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Export/Export.h"

#include "compiler/Support/NearestNames.h"
#include "frontends/ONNX/Model/Model.h"
#include "frontends/ONNX/Model/Names.h"
#include "frontends/ONNX/Model/TrainingRecord.h"
#include "frontends/ONNX/Model/Weights.h"
#include "runtime/BoundedJSON.h"
#include "runtime/train/checkpoint/CheckpointFiles.h"
#include "runtime/train/data/ArrayFile.h"
#include "tools/mpc/commands/Commands.h"
#include "tools/mpc/flags/DataFlags.h"
#include "tools/mpc/model/AdapterFiles.h"
#include "tools/mpc/model/Driver.h"
#include "tools/mpc/model/Overwriting.h"
#include "tools/mpc/model/TrainedModel.h"
#include "tools/mpc/model/WeightFiles.h"
#include "tools/mpc/print/Notes.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include <CLI/CLI.hpp>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;
using onnx_frontend::HostTensor;
using onnx_frontend::StoredType;

namespace {
struct ExportCommand {
  ModelOptions model;
  std::string checkpoint, output, weightsType;
  bool usesParameters = false;
};

/// One export, from parsing flags to the written file. `runExport` calls the
/// public methods in order. Each prints errors and returns the exit code.
class ExportRun {
public:
  explicit ExportRun(ExportCommand &command) : command(command) {}

  ExitCode check();
  ExitCode readCheckpoint();
  /// Reads the model, and the values that replace the model's.
  ExitCode readWeights();
  ExitCode write();

private:
  bool isOfArrays() const;
  StoredType storedType() const;
  void noteUse(const onnx_frontend::ImportOptions &options);
  ExitCode mergeAdapters(const onnx_frontend::TensorMap &parts);
  void setRecord(onnx_frontend::ExportModel &model) const;
  ExitCode writeModel();
  ExitCode writeArrays();

  ExportCommand &command;
  /// The checkpoint, without its arrays; empty without --checkpoint.
  std::string checkpointPath;
  train::CheckpointContents checkpoint;
  /// True if the checkpoint's run trained another file than MODEL.
  bool isOtherModel = false;
  Driver driver;
  /// The values that replace the model's, by the names that the repaired model
  /// has.
  onnx_frontend::TensorMap values;
};
} // namespace

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

bool ExportRun::isOfArrays() const {
  llvm::StringRef output = command.output;
  return output.ends_with(".npz") || output.ends_with(".safetensors");
}

StoredType ExportRun::storedType() const {
  return command.weightsType == "f16"    ? StoredType::F16
         : command.weightsType == "bf16" ? StoredType::BF16
                                         : StoredType::AsInFile;
}

ExitCode ExportRun::check() {
  const std::string &model = command.model.model;
  if (StatusOr<std::string> found = train::findCheckpoint(model); found.ok())
    return reportError(ExitCode::Usage,
                       model +
                           ": expected a model, found checkpoints; name "
                           "the model, and the checkpoint with "
                           "--checkpoint " +
                           *found);
  StatusOr<train::FileKind> kind = train::kindOf(model);
  if (kind.ok() && *kind == train::FileKind::Directory)
    return reportError(ExitCode::Usage,
                       model + ": expected an ONNX model, found a folder; of "
                               "training artifacts, name the model that they "
                               "were made from");
  if (isArtifact(model))
    return reportError(ExitCode::Usage,
                       model + ": expected an ONNX model, found an artifact; "
                               "name the model that it was compiled from");
  if (command.checkpoint.empty() && command.model.weights.empty() &&
      command.weightsType.empty())
    return reportError(ExitCode::Usage,
                       "nothing to export: name a checkpoint with "
                       "--checkpoint, a file with --weights, or another type "
                       "with --weights-type");
  if (llvm::StringRef(command.output).ends_with(".onnx_adapter"))
    return reportError(ExitCode::Usage,
                       "--output " + command.output +
                           ": mpc export merges adapters; mpc train "
                           "--trained-only writes them alone");
  if (command.usesParameters && command.checkpoint.empty() &&
      command.model.weights.empty())
    return reportError(ExitCode::Usage, "--no-ema has no effect without "
                                        "--checkpoint or --weights");
  TrainedModelOptions options;
  options.output = command.output;
  if (ExitCode code = resolve(options, model); code != ExitCode::Done)
    return code;
  return refuseOverwriting("--output", command.output, command.model.weights);
}

// Takes the repairs that the run skipped, so that names agree, unless the user
// names some.
static void takeRepairs(const train::RunIdentity &identity,
                        std::vector<std::string> &noRepair) {
  const auto recipe = identity.find("recipe");
  if (recipe == identity.end() || !noRepair.empty())
    return;
  const BoundedDocument document(recipe->second);
  if (!document.json.is_object() || !document.json.contains("no_repair"))
    return;
  const nlohmann::json &names = document.json["no_repair"];
  if (!names.is_array())
    return;
  for (const nlohmann::json &name : names)
    if (name.is_string())
      noRepair.push_back(name.get<std::string>());
}

ExitCode ExportRun::readCheckpoint() {
  if (command.checkpoint.empty())
    return ExitCode::Done;
  StatusOr<std::string> path = train::findCheckpoint(command.checkpoint);
  if (!path.ok())
    return reportError(path.status());
  // Reading verifies all digests. The arrays are read again below, by the same
  // code as files of --weights.
  StatusOr<train::CheckpointContents> contents =
      train::readCheckpointFiles(*path);
  if (!contents.ok())
    return reportError(contents.status());
  checkpointPath = *path;
  checkpoint = std::move(*contents);
  checkpoint.arrays.clear();
  const std::string state = checkpointPath + "/state.safetensors";
  if (ExitCode code = refuseOverwriting("--output", command.output, {state});
      code != ExitCode::Done)
    return code;
  takeRepairs(checkpoint.identity, command.model.noRepair);
  command.model.weights.push_back(state);
  return ExitCode::Done;
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

// True if `name` is the state of an optimizer: a parameter's name, a dot, and a
// word. `names` has all names of the file, sorted.
static bool isOptimizerState(llvm::StringRef name,
                             const std::vector<std::string> &names) {
  const size_t dot = name.rfind('.');
  return dot != llvm::StringRef::npos &&
         llvm::binary_search(names, name.take_front(dot).str());
}

// Notes how many values each file gave, and the values that the model does not
// have.
void ExportRun::noteUse(const onnx_frontend::ImportOptions &options) {
  for (const auto &[file, names] : options.weightFiles) {
    std::vector<std::string> others;
    size_t used = 0;
    for (const std::string &name : names)
      if (values.contains(name))
        ++used;
      else if (checkpointPath.empty() || !isOptimizerState(name, names))
        others.push_back(name);
    // A run has a few values beside parameters, such as its step.
    const bool isCheckpoint =
        !checkpointPath.empty() && file == command.model.weights.back();
    note(llvm::Twine(used) + " values from " + file +
         (others.empty() || (isCheckpoint && !isOtherModel)
              ? ""
              : "; the model has no " + listNearestNames("", others)));
  }
  // A checkpoint of the model has all that training can change.
  if (options.weightFiles.empty() || (!checkpointPath.empty() && !isOtherModel))
    return;
  const std::vector<std::string> kept =
      onnx_frontend::listKeptWeights(driver.getModel(), values);
  if (!kept.empty())
    note(llvm::Twine(kept.size()) + (kept.size() == 1 ? " value" : " values") +
         " of " + command.model.model +
         " stay, as no file has them: " + listNearestNames("", kept));
}

ExitCode ExportRun::readWeights() {
  if (llvm::Error error = driver.readModel(command.model))
    return reportError(std::move(error));
  const std::shared_ptr<onnx_frontend::Model> shared = driver.shareModel();
  const onnx_frontend::Model &model = *shared;
  if (ExitCode code = refuseReplacingData("--output", command.output, *shared);
      code != ExitCode::Done)
    return code;
  if (const auto hash = checkpoint.identity.find("model");
      hash != checkpoint.identity.end() && hash->second != model.getHash()) {
    isOtherModel = true;
    note(checkpointPath + ": the run trained another file than " +
         command.model.model + "; weights go to equal names");
  }
  onnx_frontend::ImportOptions options;
  if (!command.model.weights.empty())
    if (llvm::Error error = readWeightFiles(
            command.model, model, options, &driver.getContext(),
            command.usesParameters ? Averages::Leave : Averages::Take))
      return reportError(std::move(error));
  auto parts = takeAdapterValues(model, options, /*hasAdapters=*/true);
  if (!parts)
    return reportError(parts.takeError());
  if (llvm::Error error = onnx_frontend::checkWeights(model, options))
    return reportError(std::move(error));
  for (llvm::StringRef name : onnx_frontend::getTakenNames(model))
    if (auto found = options.weights.find(name); found != options.weights.end())
      values[name] = found->second;
  noteUse(options);
  return mergeAdapters(*parts);
}

static train::Array makeArray(llvm::StringRef name, const HostTensor &value) {
  mlir::Type type = value.type.getElementType();
  train::Array array;
  array.name = name.str();
  array.type = type.isF16()    ? train::ElementType::F16
               : type.isBF16() ? train::ElementType::BF16
               : type.isF32()  ? train::ElementType::F32
                               : train::ElementType::F64;
  array.shape.assign(value.getShape().begin(), value.getShape().end());
  array.data = reinterpret_cast<const std::byte *>(value.data.data());
  array.owner = value.owner;
  return array;
}

// Adds adapters, whose matrices are `parts`, to the weights that they adapt, as
// mpc train --lora does at the end of a run.
ExitCode ExportRun::mergeAdapters(const onnx_frontend::TensorMap &parts) {
  const auto recipe = checkpoint.identity.find("recipe");
  std::vector<Adapter> adapters;
  if (recipe != checkpoint.identity.end())
    adapters = readAdapters(recipe->second);
  llvm::StringSet<> known;
  for (Adapter &adapter : adapters) {
    for (std::string *name : {&adapter.weight, &adapter.a, &adapter.b})
      *name = onnx_frontend::getONNXName(*name).str();
    known.insert(adapter.a);
    known.insert(adapter.b);
  }
  for (llvm::StringRef name : parts.keys())
    if (!known.contains(name))
      return reportError(
          ExitCode::Unsupported,
          "cannot merge the adapter '" + name.str() +
              "': only a checkpoint says how adapters are scaled; name the "
              "checkpoint of the run with --checkpoint, or write the merged "
              "model with mpc train --lora and --output");
  // A model with the adapters as nodes has their matrices as own values.
  if (parts.empty())
    return ExitCode::Done;
  for (const Adapter &adapter : adapters)
    if (adapter.weight.empty())
      return reportError(ExitCode::Unsupported,
                         "the weights of '" + adapter.module +
                             "' are computed or quantized, and cannot receive "
                             "their adapter; write the model by mpc train with "
                             "--unmerged, --resume " +
                             checkpointPath + " and the flags of the run");
  std::vector<train::Array> state;
  for (const auto &entry : parts)
    state.push_back(makeArray(entry.first(), entry.second));
  for (const Adapter &adapter : adapters)
    if (auto weight = values.find(adapter.weight); weight != values.end())
      state.push_back(makeArray(weight->first(), weight->second));
  if (Status status = tools::mergeAdapters(state, adapters); !status.ok())
    return reportError(status);
  for (const train::Array &array : state)
    values[array.name] = toHostTensor(array, &driver.getContext());
  note(llvm::Twine(adapters.size()) + " adapters are merged into weights");
  return ExitCode::Done;
}

//===----------------------------------------------------------------------===//
// Output
//===----------------------------------------------------------------------===//

// Gives the model the record of the run that made the weights: of the
// checkpoint, or of the last ONNX file of --weights. Another model may have
// other outputs, so it gets no loss and no metrics.
void ExportRun::setRecord(onnx_frontend::ExportModel &model) const {
  auto record = checkpoint.progress.record;
  bool isOther = isOtherModel;
  if (checkpointPath.empty()) {
    const auto source = llvm::find_if(
        llvm::reverse(command.model.weights),
        [](llvm::StringRef file) { return file.ends_with(".onnx"); });
    if (source == command.model.weights.rend())
      return;
    record = onnx_frontend::readTrainingRecord(*source).entries;
    isOther = true;
  } else if (record.empty()) {
    return;
  }
  if (isOther)
    for (llvm::StringRef key :
         {onnx_frontend::kRecordLoss, onnx_frontend::kRecordMetrics})
      record.erase(key.str());
  model.setRecord(record);
}

static void noteStored(const onnx_frontend::StoredWeights &stored,
                       const std::string &type) {
  note(llvm::Twine(stored.lowered) + " weights are stored in " + type +
       (stored.flushed == 0
            ? ""
            : "; " + llvm::Twine(stored.flushed) + " tiny values became 0"));
  if (!stored.overflowing.empty())
    note("these weights stay float32, since a value is too large for " + type +
         ": " + llvm::join(stored.overflowing, ", "));
}

ExitCode ExportRun::writeModel() {
  onnx_frontend::ShapeMap shapes;
  for (auto &entry : values)
    if (entry.second.isFloat())
      shapes[entry.first().str()] =
          llvm::SmallVector<int64_t>(entry.second.getShape());
  // Integers are no state of a run. They replace the model's right away.
  std::shared_ptr<onnx_frontend::Model> taken = driver.takeModel();
  onnx_frontend::replaceIntegers(*taken, values);
  auto model = onnx_frontend::ExportModel::create(std::move(taken), shapes,
                                                  &driver.getContext());
  if (!model)
    return reportError(model.takeError());
  setRecord(**model);
  if (storedType() != StoredType::AsInFile) {
    auto stored = (*model)->storeWeights(storedType(), values);
    if (!stored)
      return reportError(stored.takeError());
    noteStored(*stored, command.weightsType);
  }
  if (llvm::Error error = (*model)->write(command.output, values))
    return reportError(std::move(error));
  return ExitCode::Done;
}

ExitCode ExportRun::writeArrays() {
  onnx_frontend::StoredWeights stored;
  std::vector<train::Array> arrays;
  for (auto &entry : values) {
    HostTensor &value = entry.second;
    if (!value.isFloat())
      continue;
    if (storedType() != StoredType::AsInFile)
      value = onnx_frontend::storeWeight(entry.first(), value, storedType(),
                                         stored);
    arrays.push_back(makeArray(entry.first(), value));
  }
  if (storedType() != StoredType::AsInFile)
    noteStored(stored, command.weightsType);
  return reportError(train::writeArrays(command.output, arrays));
}

ExitCode ExportRun::write() {
  if (isOfArrays() && values.empty())
    return reportError(ExitCode::Usage,
                       "--output " + command.output +
                           ": a file of arrays has the values of --checkpoint "
                           "or --weights, and neither is given");
  if (ExitCode code = isOfArrays() ? writeArrays() : writeModel();
      code != ExitCode::Done || command.output == "-")
    return code;
  llvm::outs() << "wrote " << command.output;
  if (!checkpointPath.empty())
    llvm::outs() << " with the weights of step " << checkpoint.progress.step;
  llvm::outs() << "\n";
  return ExitCode::Done;
}

//===----------------------------------------------------------------------===//
// The command
//===----------------------------------------------------------------------===//

static ExitCode runExport(ExportCommand &command) {
  ExportRun run(command);
  for (auto step : {&ExportRun::check, &ExportRun::readCheckpoint,
                    &ExportRun::readWeights, &ExportRun::write})
    if (ExitCode code = (run.*step)(); code != ExitCode::Done)
      return code;
  return ExitCode::Done;
}

void mpc::tools::addExportCommand(CLI::App &program, int &exitCode) {
  auto command = std::make_shared<ExportCommand>();
  CLI::App *app = program.add_subcommand(
      "export", "write the weights of a checkpoint or of files as a model, "
                "without data");
  app->add_option("model", command->model.model,
                  "ONNX model that receives the weights, - for stdin")
      ->required()
      ->type_name("MODEL");
  app->add_option("--checkpoint", command->checkpoint,
                  "weights of a checkpoint of mpc train: RUN/step-800, "
                  "RUN/best, or RUN or RUN/last for the newest")
      ->type_name("FOLDER");
  app->add_option("--weights", command->model.weights,
                  "values that replace the model's, by name: safetensors, npz "
                  "or ONNX; a checkpoint comes after all files (repeatable)")
      ->allow_extra_args(false)
      ->type_name("FILE");
  app->add_option("--weights-prefix", command->model.weightsPrefixes,
                  "replace the prefix FROM of names in --weights by TO; "
                  "either may be empty (repeatable)")
      ->allow_extra_args(false)
      ->type_name("FROM=TO");
  app->add_option("-o,--output", command->output,
                  "trained model (.onnx, - for stdout) or weights "
                  "(.safetensors, .npz)")
      ->required()
      ->type_name("FILE");
  app->add_option("--weights-type", command->weightsType,
                  "store weights in this type; a model gets Casts to float32 "
                  "behind them; biases, scales of normalizations and weights "
                  "that would overflow stay float32")
      ->check(CLI::IsMember({"f16", "bf16"}));
  app->add_flag("--no-ema", command->usesParameters,
                "write the parameters themselves, not their averages, of a "
                "run with --ema");
  addRepairOption(*app, command->model.noRepair);
  addQuietFlag(*app);
  app->callback([command, &exitCode] {
    exitCode = static_cast<int>(runExport(*command));
  });
}
