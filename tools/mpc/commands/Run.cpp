// mpc run: runs a function of a model on given inputs, and prints or saves the
// outputs. Runs in batches if there are more samples than the function takes at
// once.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/LossSpec.h"
#include "runtime/train/data/ArrayFile.h"
#include "runtime/train/data/Dataset.h"
#include "runtime/train/data/ImageFolder.h"
#include "tools/mpc/commands/Batches.h"
#include "tools/mpc/commands/Commands.h"
#include "tools/mpc/commands/RunInputs.h"
#include "tools/mpc/commands/RunSamples.h"
#include "tools/mpc/flags/DataFlags.h"
#include "tools/mpc/flags/RecordedFlags.h"
#include "tools/mpc/flags/Validators.h"
#include "tools/mpc/model/Driver.h"
#include "tools/mpc/model/LabelData.h"
#include "tools/mpc/model/Overwriting.h"
#include "tools/mpc/model/SampleBatch.h"
#include "tools/mpc/print/Arrays.h"
#include "tools/mpc/print/Notes.h"
#include "tools/mpc/print/OutputFile.h"
#include "tools/mpc/print/OutputTable.h"
#include "tools/mpc/print/Predictions.h"
#include "tools/mpc/print/PrintableStream.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <CLI/CLI.hpp>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;

namespace {
struct RunCommand {
  CompileOptions compile;
  std::vector<std::string> inputs;
  DataFlags data;
  std::string function, output;
  SessionOptions session;
  /// The model's record of its training; empty with --no-metadata.
  ModelRecord record;
};

} // namespace

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

// Chooses the function to run: the value of --function, else `forward` if there
// is one, else `step`.
static ExitCode chooseFunction(const train::TraineeInfo &info,
                               const std::string &asked, std::string &chosen) {
  std::vector<std::string> names;
  for (const auto &[name, unused] : info.functions)
    names.push_back(name);
  for (const std::string &name :
       asked.empty() ? std::vector<std::string>{kForwardFunction, kStepFunction}
                     : std::vector<std::string>{asked})
    if (info.function(name)) {
      chosen = name;
      return ExitCode::Done;
    }
  return reportError(ExitCode::Usage, "expected --function to be one of " +
                                          llvm::join(names, ", ") +
                                          ", found '" + asked + "'");
}

// Sets the inputs of the function to the batch whose first sample is `begin`.
// Sets the whole arrays if `batching` is null.
static Status setInputs(Session &session, const Function &function,
                        const RunInputs &inputs, const Batching *batching,
                        int64_t begin, Filling filling) {
  for (const FunctionValue &port : function.inputs) {
    const train::Array *given = inputs.find(port.name);
    if (!given)
      return missingInput(port.name);
    const Buffer &buffer = function.buffers[port.buffer];
    train::Array part = *given;
    if (batching)
      if (auto axis = batching->inputs.find(port.name);
          axis != batching->inputs.end())
        part =
            takeSamples(*given, axis->second, begin, batching->batch, filling);
    StatusOr<Tensor> value = train::toTensor(part, buffer.type);
    if (!value.ok())
      return value.status();
    // Accept an array of one element for a scalar, since many tools write
    // scalars as [x].
    if (value->size() == 1 && numElements(buffer.shape) == 1)
      value->shape = buffer.shape;
    if (Status status = session.setInput(function.name, port.name, *value);
        !status.ok())
      return status;
  }
  return Status();
}

// Runs the function once, without batches, and returns the outputs.
static StatusOr<std::vector<NamedTensor>>
runOnce(Session &session, const Function &function, const RunInputs &inputs) {
  Status status = setInputs(session, function, inputs, /*batching=*/nullptr,
                            /*begin=*/0, Filling::LastSample);
  if (status.ok())
    status = session.run(function.name);
  if (!status.ok())
    return status;
  std::vector<NamedTensor> outputs;
  for (const FunctionValue &port : function.outputs) {
    StatusOr<Tensor> value = session.output(function.name, port.name);
    if (!value.ok())
      return value.status();
    outputs.emplace_back(port.name, std::move(*value));
  }
  return outputs;
}

// Runs the batch whose first sample is `begin`. Calls `take` with each output.
static Status
runBatch(Session &session, const Function &function, const RunInputs &inputs,
         const Batching &batching, int64_t begin, Filling filling,
         std::vector<JoinedOutput> &outputs,
         llvm::function_ref<Status(JoinedOutput &, const Tensor &)> take) {
  Status status =
      setInputs(session, function, inputs, &batching, begin, filling);
  if (status.ok())
    status = session.run(function.name);
  for (JoinedOutput &output : outputs) {
    if (!status.ok())
      break;
    StatusOr<Tensor> part = session.output(function.name, output.name);
    status = part.ok() ? take(output, *part) : part.status();
  }
  return status;
}

// Checks that the samples of a batch do not depend on each other. Runs the
// last, incomplete batch again, filled up with other samples: an output for its
// own samples must not change.
static Status checkFilled(Session &session, const Function &function,
                          const RunInputs &inputs, const Batching &batching,
                          std::vector<JoinedOutput> &outputs) {
  const int64_t rest = batching.samples % batching.batch;
  if (rest == 0)
    return Status();
  const int64_t begin = batching.samples - rest;
  return runBatch(session, function, inputs, batching, begin,
                  Filling::FirstSamples, outputs,
                  [&](JoinedOutput &output, const Tensor &part) {
                    return output.check(part, begin);
                  });
}

// Runs all batches and returns the joined outputs.
static StatusOr<std::vector<NamedTensor>> runBatches(Session &session,
                                                     const Function &function,
                                                     const RunInputs &inputs,
                                                     const Batching &batching) {
  std::vector<JoinedOutput> joined;
  for (const FunctionValue &port : function.outputs)
    joined.emplace_back(port.name, function.buffers[port.buffer],
                        batching.outputs.at(port.name), batching.samples);
  for (int64_t begin = 0; begin < batching.samples; begin += batching.batch) {
    Status status = runBatch(session, function, inputs, batching, begin,
                             Filling::LastSample, joined,
                             [&](JoinedOutput &output, const Tensor &part) {
                               output.add(part, begin);
                               return Status();
                             });
    if (!status.ok())
      return status;
  }
  if (Status status = checkFilled(session, function, inputs, batching, joined);
      !status.ok())
    return status;
  std::vector<NamedTensor> outputs;
  for (JoinedOutput &output : joined)
    outputs.emplace_back(output.name, std::move(output.whole));
  return outputs;
}

// Returns the texts and the array that go beside the outputs into a file: the
// name of each sample, and the class and its probability. Leaves out a name
// that an output has. `probability` gets the array, if any.
static std::vector<train::TextArray>
describeSamples(const std::vector<NamedTensor> &outputs,
                const std::optional<Predictions> &predictions,
                const std::vector<std::string> &sampleFiles,
                std::optional<train::Array> &probability) {
  const auto isFree = [&](llvm::StringRef name) {
    return llvm::none_of(outputs, [&](const NamedTensor &output) {
      return output.first == name;
    });
  };
  std::vector<train::TextArray> texts;
  if (!sampleFiles.empty() && isFree("file"))
    texts.push_back({"file", sampleFiles});
  if (!predictions || !isFree("class") || !isFree("probability"))
    return texts;
  texts.push_back({"class", predictions->classes});
  Tensor values =
      Tensor::zeros(DType::F32, {int64_t(predictions->probabilities.size())});
  llvm::copy(predictions->probabilities, values.as<float>());
  probability = train::toArray("probability", values);
  return texts;
}

// Prints the outputs, or saves them to `file`. If the model records its
// classes, prints the class of each sample in place of the scores.
static ExitCode writeOutputs(const StatusOr<std::vector<NamedTensor>> &outputs,
                             const std::string &file, const ModelRecord &record,
                             const std::vector<std::string> &sampleFiles = {}) {
  if (!outputs.ok())
    return reportError(outputs.status());
  const std::optional<Predictions> predictions =
      predictClasses(*outputs, record);
  if (file.empty()) {
    PrintableStream os(llvm::outs());
    for (const auto &[name, value] : *outputs)
      if (!predictions || name != predictions->output)
        printTensor(os, name, value);
    if (predictions)
      printPredictions(os, *predictions, sampleFiles);
    return ExitCode::Done;
  }
  std::optional<train::Array> probability;
  std::vector<train::TextArray> texts =
      describeSamples(*outputs, predictions, sampleFiles, probability);
  std::vector<train::Array> arrays;
  if (probability && !llvm::StringRef(file).ends_with(".npy"))
    arrays.push_back(std::move(*probability));
  for (const auto &[name, value] : *outputs)
    arrays.push_back(train::toArray(name, value));
  return reportError(tools::writeOutputs(file, arrays, texts));
}

// Drops the labels: tables and folders of images contain labels beside the
// samples, but a forward function has no input for labels.
static void dropTargets(const CompileOptions &options, RunInputs &inputs) {
  std::string target = findCommonTarget(options.pipeline.recipe.targets);
  llvm::erase_if(inputs.arrays, [&](const train::Array &array) {
    return array.name == target;
  });
}

static ExitCode readInputs(RunCommand &command, RunInputs &inputs) {
  // Flags such as --normalize prepare samples of --data only, not arrays of
  // --input.
  const DataFlags &flags = command.data;
  inputs.arePrepared = !flags.csvColumns.empty() || !flags.normalize.empty() ||
                       !flags.inputLayout.empty();
  for (auto [flag, values] : {std::pair("--normalize", &flags.normalize),
                              {"--input-layout", &flags.inputLayout}})
    if (!values->empty() && flags.data.empty())
      return reportError(ExitCode::Usage,
                         llvm::Twine(flag) + " has no effect without --data");
  if (Status status = checkDataFlags(flags); !status.ok())
    return reportError(status);
  // Arrays of --data are prepared as a data set if they are images or samples
  // in several files, or if a name occurs twice.
  StatusOr<std::vector<train::Array>> data =
      readSamples(flags.data, flags,
                  findCommonTarget(command.compile.pipeline.recipe.targets));
  if (!data.ok())
    return reportError(data.status());
  inputs.arrays = std::move(*data);
  command.compile.leavesOutLabels =
      inputs.find(findCommonTarget(command.compile.pipeline.recipe.targets)) !=
      nullptr;
  for (const train::Array &array : inputs.arrays)
    inputs.arePrepared |= array.images != nullptr || array.isOfSamples ||
                          !inputs.ofData.insert(array.name).second;
  // An --input must not have the name of another array.
  for (const std::string &text : command.inputs) {
    StatusOr<train::Array> input = parseInput(text);
    if (!input.ok())
      return reportError(input.status());
    if (inputs.find(input->name))
      return reportError(ExitCode::Usage,
                         "--input " + input->name + ": given twice");
    inputs.arrays.push_back(std::move(*input));
  }
  if (inputs.arePrepared)
    dropTargets(command.compile, inputs);
  return ExitCode::Done;
}

static ExitCode checkOutput(const RunCommand &command) {
  std::vector<std::string> read = inputFiles(command.compile);
  for (const auto *files : {&command.inputs, &command.data.data})
    read.insert(read.end(), files->begin(), files->end());
  if (Status status = command.output.empty() || isTable(command.output)
                          ? Status()
                          : train::checkArrayNames(command.output, {});
      !status.ok())
    return reportError(ExitCode::Usage,
                       "-o " + command.output +
                           ": expected .npz, .safetensors, .npy or .csv");
  if (ExitCode code = checkDestination("-o", command.output);
      code != ExitCode::Done)
    return code;
  return refuseOverwriting("-o", command.output, read);
}

// Warns if the samples are prepared differently than in training, for example
// without --normalize. The predictions would be wrong, but look plausible.
static ExitCode checkPreparation(const RunCommand &command,
                                 const Driver &driver) {
  const std::string &model = command.compile.model.model;
  if (command.data.data.empty() || isArtifact(model))
    return ExitCode::Done;
  StatusOr<train::Preparation> preparation =
      preparationOf(command.data, command.session.seed);
  if (!preparation.ok())
    return reportError(preparation.status());
  const std::string trained = onnx_frontend::readPreparation(driver.getModel());
  if (!trained.empty())
    comparePreparation(model, trained, describePreparation(preparation->text),
                       "run");
  return ExitCode::Done;
}

// Runs the function on all inputs, in one run or in batches, and writes the
// outputs.
static ExitCode runFunction(const RunCommand &command, const Driver &driver,
                            std::shared_ptr<const Artifact> artifact,
                            const Function &function, RunInputs &inputs) {
  // Prepared samples always run in batches, so outputs without a sample axis
  // cannot be joined.
  const auto refuseUnknown = [&] {
    return reportError(ExitCode::Unsupported,
                       "the batch axis of the outputs is unknown: " +
                           driver.getSamplesFinding());
  };
  if (inputs.arePrepared && !driver.getSamplesFinding().empty())
    return refuseUnknown();
  if (inputs.samples)
    return writeOutputs(runSamples(std::move(artifact), function,
                                   std::move(*inputs.samples), command.session),
                        command.output, command.record, inputs.files);
  // Run arrays of --input at once, or in batches if they have more samples than
  // the function takes.
  for (const FunctionValue &port : function.inputs)
    if (Status status = inputs.unpack(port.name); !status.ok())
      return reportError(status);
  StatusOr<std::optional<Batching>> batching =
      planBatches(artifact->plan(), function, inputs.arrays);
  if (!batching.ok())
    return reportError(batching.status());
  if (!*batching && !driver.getSamplesFinding().empty())
    return refuseUnknown();
  auto session = Session::create(std::move(artifact), command.session);
  if (!session.ok())
    return reportError(session.status());
  return writeOutputs(*batching
                          ? runBatches(**session, function, inputs, **batching)
                          : runOnce(**session, function, inputs),
                      command.output, command.record);
}

// Chooses the function and checks that the inputs fit. Turns prepared arrays
// into a data set, which knows the number of samples.
static ExitCode checkFit(const RunCommand &command,
                         const train::TraineeInfo &info,
                         const std::vector<std::string> &known,
                         RunInputs &inputs) {
  std::string name;
  if (ExitCode code = chooseFunction(info, command.function, name);
      code != ExitCode::Done)
    return code;
  const train::FunctionPorts &ports = *info.function(name);
  if (isTable(command.output))
    if (Status status = checkTable(command.output, ports); !status.ok())
      return reportError(status);
  if (!inputs.arePrepared)
    return checkInputs(inputs, name, ports, known);
  if (ExitCode code = nameSamples(ports, inputs.arrays); code != ExitCode::Done)
    return code;
  StatusOr<train::Preparation> preparation =
      preparationOf(command.data, command.session.seed);
  if (!preparation.ok())
    return reportError(preparation.status());
  train::DatasetOptions options;
  options.preparation = std::move(*preparation);
  for (const train::Array &array : inputs.arrays)
    if (array.images && array.name == ports.inputs.front().name)
      for (int64_t row = 0; row < array.images->size(); ++row)
        inputs.files.push_back(array.images->pathOf(row));
  StatusOr<train::Dataset> samples =
      createDataset(std::move(inputs.arrays), ports, options);
  if (!samples.ok())
    return reportError(samples.status());
  inputs.samples = std::move(*samples);
  return ExitCode::Done;
}

// Loads the artifact, or compiles the model for the shapes of the inputs.
// Checks the inputs before machine code is generated.
static ExitCode compile(RunCommand &command, RunInputs &inputs, Driver &driver,
                        std::shared_ptr<const Artifact> &artifact) {
  std::vector<std::string> known;
  const bool isCompiled = isArtifact(command.compile.model.model);
  if (!isCompiled)
    if (ExitCode code =
            bindInputs(inputs, command.data, command.compile, driver, known);
        code != ExitCode::Done)
      return code;
  findLabelShapes(inputs.arrays, command.compile.pipeline.recipe);
  // Skip the early check for the function that derives low-precision copies of
  // parameters: a later stage adds this function.
  if (command.function != kDeriveFunction)
    driver.checkEarly([&](const train::TraineeInfo &info) {
      return checkFit(command, info, known, inputs);
    });
  if (ExitCode code = loadArtifact(driver, command.compile, artifact);
      code != ExitCode::Done || !isCompiled)
    return code;
  StatusOr<train::TraineeInfo> info = train::describeArtifact(*artifact);
  return info.ok() ? checkFit(command, *info, known, inputs)
                   : reportError(info.status());
}

static ExitCode runRun(RunCommand &command) {
  // First check that the output can be written, before anything takes time.
  if (ExitCode code = checkOutput(command); code != ExitCode::Done)
    return code;
  RunInputs inputs;
  if (ExitCode code = readInputs(command, inputs); code != ExitCode::Done)
    return code;
  Driver driver;
  std::shared_ptr<const Artifact> artifact;
  if (ExitCode code = compile(command, inputs, driver, artifact);
      code != ExitCode::Done)
    return code;
  if (driver.hasModel())
    if (ExitCode code =
            refuseReplacingData("-o", command.output, *driver.shareModel());
        code != ExitCode::Done)
      return code;
  if (ExitCode code = checkPreparation(command, driver); code != ExitCode::Done)
    return code;
  // This cannot fail: `compile` has chosen the same function.
  StatusOr<train::TraineeInfo> info = train::describeArtifact(*artifact);
  if (!info.ok())
    return reportError(info.status());
  std::string name;
  if (ExitCode code = chooseFunction(*info, command.function, name);
      code != ExitCode::Done)
    return code;
  const Function &function = *artifact->plan().findFunction(name);
  return runFunction(command, driver, artifact, function, inputs);
}

void mpc::tools::addRunCommand(CLI::App &program, int &exitCode) {
  auto command = std::make_shared<RunCommand>();
  CLI::App *app = program.add_subcommand(
      "run", "run a model or an artifact on given inputs, in several batches "
             "if the samples do not fit into one");
  addCompileOptions(*app, command->compile);
  app->add_option("--input", command->inputs,
                  "NAME=FILE, NAME=@FILE or NAME=VALUE (repeatable)")
      ->type_name("INPUT")
      ->allow_extra_args(false);
  app->add_option("--data", command->data.data,
                  "data as mpc train takes it: arrays named like the model's "
                  "inputs, tables, folders of images; other arrays are "
                  "ignored (repeatable)")
      ->type_name("FILE")
      ->allow_extra_args(false);
  addPreparationFlags(*app, command->data);
  app->add_option("--function", command->function,
                  "function to run; default: forward, or else step")
      ->type_name("NAME");
  app->add_option("-o,--output", command->output,
                  "file for the outputs: .npz, .safetensors, .npy (of a single "
                  "output), or .csv with a row per sample; default: print "
                  "them, or the class of each sample if the model records its "
                  "classes")
      ->type_name("FILE");
  app->add_option("--seed", command->session.seed,
                  "seed for dropout and random numbers")
      ->transform(wholeNumber(uint64_t(0)))
      ->capture_default_str();
  addMetadataFlag(*app);
  addQuietFlag(*app);
  addSessionOptions(*app, command->session);
  addKernelCacheOption(*app, command->compile);
  // Without --function, the user wants the outputs of the model. So an output
  // that looks like an updated parameter is still an output.
  app->callback([app, command, &exitCode] {
    command->compile.wantsOutputs = command->function.empty();
    if (command->function.empty() && !ignoresMetadata(*app))
      command->record = readModelRecord(command->compile.model.model);
    exitCode = static_cast<int>(
        matchSession(*app, command->compile, command->session));
    if (exitCode == 0)
      exitCode = static_cast<int>(runRun(*command));
  });
}
