// mpc run: a function on given inputs, in batches where it takes fewer samples
// than they have; outputs printed or saved.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/LossSpec.h"
#include "runtime/train/ArrayFile.h"
#include "runtime/train/Dataset.h"
#include "tools/mpc/Arrays.h"
#include "tools/mpc/Batches.h"
#include "tools/mpc/Commands.h"
#include "tools/mpc/DataFlags.h"
#include "tools/mpc/DeclaredShapes.h"
#include "tools/mpc/Driver.h"
#include "tools/mpc/LabelData.h"
#include "tools/mpc/Overwriting.h"
#include "tools/mpc/PrintableStream.h"
#include "tools/mpc/RunSamples.h"
#include "tools/mpc/SampleBatch.h"
#include "tools/mpc/Validators.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"

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
};

/// What is run on.
struct Inputs {
  const train::Array *find(llvm::StringRef name) const;

  std::vector<train::Array> arrays;
  /// Names of those from files of data, which may hold more than the model
  /// takes.
  llvm::StringSet<> ofData;
  /// Whether samples are found and prepared as those of a data set: inputs do
  /// not take the arrays as they are.
  bool arePrepared = false;
};

/// How many samples are run at once, and of which inputs they are.
struct Batch {
  int64_t size = 0; ///< 0: as many as there are
  int64_t samples = 0;
  std::map<std::string, int64_t> axes;
};
} // namespace

const train::Array *Inputs::find(llvm::StringRef name) const {
  auto found = llvm::find_if(
      arrays, [&](const train::Array &array) { return array.name == name; });
  return found == arrays.end() ? nullptr : &*found;
}

//===----------------------------------------------------------------------===//
// What a model is compiled for
//===----------------------------------------------------------------------===//

static bool isScalar(const DeclaredShape &declared) {
  return declared.dimensions && declared.dimensions->empty();
}

static bool isScalarOrOne(const DeclaredShape &declared) {
  return isScalar(declared) ||
         (declared.dimensions && declared.dimensions->size() == 1 &&
          declared.extent(0) == 1);
}

// Inputs that may decide shapes (Reshape's shape, Resize's scales, the boxes of
// NonMaxSuppression) offer their value when compiling: integers, booleans, and
// floats that are not too many to be copied. They stay inputs where it need not
// be known.
static bool isOffered(const DeclaredShape &declared, const Shape &shape) {
  constexpr int64_t kMostFloats = int64_t(1) << 22;
  bool isScalar = isScalarOrOne(declared);
  int64_t count = 1;
  for (int64_t extent : shape)
    if (llvm::MulOverflow(count, extent, count))
      return false;
  bool isList = !shape.empty() && count <= kMostFloats;
  return !declared.type.empty() &&
         (!llvm::StringRef(declared.type).contains('f') || isScalar || isList);
}

// Chooses the batch where it is not to be all samples: --batch-size, or what
// the model fixes. The first input that has samples decides; others of the same
// dimension have as many, and of another open one where they do.
static ExitCode chooseBatch(const std::vector<DeclaredShape> &declared,
                            const Inputs &inputs, const ModelOptions &model,
                            Batch &batch) {
  const train::Array *first = nullptr;
  std::string dimension;
  int64_t samples = 0, size = 0;
  for (const DeclaredShape &input : declared) {
    const train::Array *array = inputs.find(input.name);
    auto axis = array ? findBatchAxis(input, array->shape, model.batchAxes)
                      : std::nullopt;
    if (!axis)
      continue;
    int64_t extent = array->shape[size_t(*axis)];
    std::string own =
        input.dimensions ? (*input.dimensions)[size_t(*axis)] : "?";
    // The first input with samples says how many a batch has.
    if (!first) {
      first = array;
      dimension = own;
      samples = extent;
      auto fixed = input.extent(size_t(*axis));
      size = model.batchSize > 0 ? model.batchSize : fixed.value_or(samples);
      if (size != fixed)
        size = std::min(size, samples);
    }
    // Others share its dimension, by name or by size.
    bool isSame = own == dimension && own != "?";
    bool isOpen = input.isOpen(size_t(*axis)) && extent == samples;
    if (isSame && extent != samples && size != samples)
      return reportError(
          ExitCode::InvalidInput,
          train::locate(*array) + ": has " + llvm::Twine(extent) +
              " samples, " + train::locate(*first) + " has " +
              llvm::Twine(samples) + "; --batch-axis " + input.name +
              "=none says that it is the same for every batch");
    if (isSame || isOpen)
      batch.axes[input.name] = *axis;
  }
  // All at once needs no batches.
  batch.size = size == samples ? 0 : size;
  batch.samples = samples;
  return ExitCode::Done;
}

// Binds the batch of a model that runs in batches.
static void bindBatch(const Batch &batch,
                      const std::vector<DeclaredShape> &declared,
                      CompileOptions &options) {
  options.findsSamples = true;
  for (const DeclaredShape &input : declared) {
    auto axis = batch.axes.find(input.name);
    bool isGiven =
        llvm::any_of(options.model.batchAxes, [&](llvm::StringRef text) {
          return text.rsplit('=').first == input.name;
        });
    bool hasRank = input.dimensions && !input.dimensions->empty();
    if (axis == batch.axes.end() && !isGiven && hasRank)
      options.model.batchAxes.push_back(input.name + "=none");
    if (axis != batch.axes.end() &&
        input.extent(size_t(axis->second)) != batch.size)
      options.model.batchSize = batch.size;
  }
}

// The shape of an input, and its value where it may have to be known when
// compiling.
static ExitCode bindInput(const train::Array &input,
                          const DeclaredShape &declared, const Batch &batch,
                          CompileOptions &options, Driver &driver) {
  auto type = parseDType(declared.type);
  auto axis = batch.axes.find(input.name);
  bool isPart = batch.size > 0 && axis != batch.axes.end();
  Shape shape = input.shape;
  if (isPart)
    shape[size_t(axis->second)] = batch.size;
  if (!shape.empty() && !isScalar(declared))
    options.model.shapes.push_back(input.name + "=" + toString(shape));
  // Of samples that differ from batch to batch, no value is known.
  if (isPart)
    return ExitCode::Done;
  if (!type.ok() || !isOffered(declared, shape)) {
    if (shape.empty() && type.ok())
      return reportError(ExitCode::Usage,
                         "--input " + input.name +
                             ": found a scalar, expected " + declared.type +
                             "[" +
                             llvm::join(declared.dimensions.value_or(
                                            std::vector<std::string>{"..."}),
                                        ",") +
                             "]");
    return ExitCode::Done; // Compiling says which types there are.
  }
  StatusOr<Tensor> value = train::toTensor(input, *type);
  if (!value.ok())
    return reportError(value.status());
  // Many tools write a scalar as an array of one element.
  if (value->size() == 1 && isScalarOrOne(declared))
    value->shape = isScalar(declared) ? Shape() : Shape{1};
  driver.offerValue(input.name, *value);
  return ExitCode::Done;
}

// Training adds inputs to those of the model.
static bool isTraining(const CompileOptions &options) {
  return !options.pipeline.recipe.losses.empty() ||
         llvm::sys::fs::is_directory(options.model.model);
}

// What is no input of the model is a mistake; better said here than as what it
// leaves open.
static ExitCode checkDeclared(const std::vector<DeclaredShape> &declared,
                              const Inputs &inputs,
                              const CompileOptions &options,
                              const onnx_frontend::Model &model) {
  // Arrays that are no inputs: those of --input are wrong, those of --data may
  // be more than the model takes.
  std::vector<std::string> unknown, ofData;
  for (const train::Array &input : inputs.arrays)
    if (llvm::none_of(declared, [&](const DeclaredShape &other) {
          return other.name == input.name;
        }))
      (inputs.ofData.contains(input.name) ? ofData : unknown)
          .push_back(input.name);
  llvm::erase(unknown, "learning_rate");
  std::string problem;
  if (!unknown.empty())
    problem = "--input " + unknown.front() + ": ";
  else if (!inputs.arrays.empty() && ofData.size() == inputs.arrays.size())
    problem = "--data: none of its arrays ('" + llvm::join(ofData, "', '") +
              "') is an input; ";
  if (problem.empty() || isTraining(options))
    return ExitCode::Done;
  // The message lists what the model does take.
  auto summary = onnx_frontend::summarizeModel(model);
  if (!summary)
    return reportError(summary.takeError());
  return reportError(ExitCode::Usage, problem + options.model.model +
                                          " has the inputs " +
                                          llvm::join(summary->inputs, ", "));
}

// What a model may need to be compiled for samples of a data set: a batch.
static ExitCode bindSamples(const Inputs &inputs, const DataFlags &flags,
                            CompileOptions &options, Driver &driver) {
  if (isTraining(options))
    return reportError(ExitCode::Usage,
                       "a function of training takes arrays as they are, "
                       "without --csv-columns, --normalize and --input-layout; "
                       "evaluate a data set with mpc eval");
  options.findsSamples = true;
  return chooseShapes(driver, inputs.arrays, flags, options.model);
}

// What a model may need to be compiled that its inputs tell: the shapes of all,
// and the values of some. `known` receives the names the model declares.
static ExitCode bindInputs(Inputs &inputs, const DataFlags &flags,
                           CompileOptions &options, Driver &driver,
                           std::vector<std::string> &known) {
  if (llvm::Error error = driver.readModel(options.model.model))
    return reportError(std::move(error));
  std::vector<DeclaredShape> declared = readDeclaredInputs(driver.getModel());
  // What is turned on its way is no array that an input takes as it is.
  for (const DeclaredShape &input : declared)
    if (const train::Array *array = inputs.find(input.name))
      inputs.arePrepared |= inputs.ofData.contains(input.name) &&
                            isTurned(input, array->shape) &&
                            !isTraining(options);
  if (inputs.arePrepared)
    return bindSamples(inputs, flags, options, driver);
  if (ExitCode code =
          checkDeclared(declared, inputs, options, driver.getModel());
      code != ExitCode::Done)
    return code;
  Batch batch;
  if (ExitCode code = chooseBatch(declared, inputs, options.model, batch);
      code != ExitCode::Done)
    return code;
  if (batch.size > 0 && isTraining(options))
    return reportError(ExitCode::Usage,
                       "a function of training runs once, on one batch: give "
                       "as many samples, or evaluate a data set with mpc eval");
  if (batch.size > 0)
    bindBatch(batch, declared, options);
  else if (!batch.axes.empty()) // no more than there are
    options.model.batchSize = std::min(options.model.batchSize, batch.samples);
  for (const DeclaredShape &input : declared) {
    const train::Array *array = inputs.find(input.name);
    if (!array)
      continue;
    known.push_back(input.name);
    if (ExitCode code = bindInput(*array, input, batch, options, driver);
        code != ExitCode::Done)
      return code;
  }
  return ExitCode::Done;
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

// The function to run: the one named, the forward function, or one step.
static ExitCode chooseFunction(const Plan &plan, const std::string &asked,
                               const Function *&function) {
  std::vector<std::string> names;
  for (const auto &[name, unused] : plan.functions)
    names.push_back(name);
  for (const std::string &name :
       asked.empty() ? std::vector<std::string>{"forward", "step"}
                     : std::vector<std::string>{asked})
    if ((function = plan.findFunction(name)))
      return ExitCode::Done;
  return reportError(ExitCode::Usage, "expected --function to be one of " +
                                          llvm::join(names, ", ") +
                                          ", found '" + asked + "'");
}

// One batch, or all there is.
static Status setInputs(Session &session, const Function &function,
                        const Inputs &inputs, const Batching *batching,
                        int64_t begin, Filling filling) {
  for (const FunctionValue &port : function.inputs) {
    const train::Array *given = inputs.find(port.name);
    if (!given)
      return Status(StatusCode::InvalidInput, "input '" + port.name +
                                                  "' is missing; give it with "
                                                  "--input " +
                                                  port.name +
                                                  "=FILE or --data FILE");
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
    // Many tools write a scalar as an array of one element.
    if (value->size() == 1 && numElements(buffer.shape) == 1)
      value->shape = buffer.shape;
    if (Status status = session.setInput(function.name, port.name, *value);
        !status.ok())
      return status;
  }
  return Status();
}

// Runs once; gives what comes out.
static StatusOr<std::vector<NamedTensor>>
runOnce(Session &session, const Function &function, const Inputs &inputs) {
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

// Runs the batch from `begin` on, and gives what comes out of it.
static Status
runBatch(Session &session, const Function &function, const Inputs &inputs,
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

// Runs a last batch that is filled up once more, beside other samples: what
// fills it must change nothing.
static Status checkFilled(Session &session, const Function &function,
                          const Inputs &inputs, const Batching &batching,
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

// Runs batch by batch; gives what comes out of all.
static StatusOr<std::vector<NamedTensor>> runBatches(Session &session,
                                                     const Function &function,
                                                     const Inputs &inputs,
                                                     const Batching &batching) {
  // Outputs grow by a batch at a time.
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

// Prints what came out, or saves it.
static ExitCode writeOutputs(const StatusOr<std::vector<NamedTensor>> &outputs,
                             const std::string &file) {
  if (!outputs.ok())
    return reportError(outputs.status());
  if (file.empty()) {
    PrintableStream os(llvm::outs());
    for (const auto &[name, value] : *outputs)
      printTensor(os, name, value);
    return ExitCode::Done;
  }
  std::vector<train::Array> arrays;
  for (const auto &[name, value] : *outputs)
    arrays.push_back(train::toArray(name, value));
  return reportError(train::writeArrays(file, arrays));
}

// An input that is neither the function's nor the model's is a mistake; the
// model may declare one that nothing reads.
static ExitCode checkNames(const Inputs &inputs, const Function &function,
                           const std::vector<std::string> &known) {
  for (const train::Array &input : inputs.arrays) {
    if (function.findInput(input.name) ||
        llvm::is_contained(known, input.name) ||
        inputs.ofData.contains(input.name))
      continue;
    std::vector<std::string> names;
    for (const FunctionValue &port : function.inputs)
      names.push_back(port.name);
    return reportError(ExitCode::Usage, "--input " + input.name +
                                            ": function '" + function.name +
                                            "' has the inputs " +
                                            llvm::join(names, ", "));
  }
  return ExitCode::Done;
}

// Tables and folders of images have labels beside the samples.
static void dropTargets(const CompileOptions &options, Inputs &inputs) {
  std::string target = findCommonTarget(options.pipeline.recipe.targetArrays);
  llvm::erase_if(inputs.arrays, [&](const train::Array &array) {
    return array.name == target;
  });
}

static ExitCode readInputs(const RunCommand &command, Inputs &inputs) {
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
  StatusOr<std::vector<train::Array>> data = readSamples(
      flags.data, flags,
      findCommonTarget(command.compile.pipeline.recipe.targetArrays));
  if (!data.ok())
    return reportError(data.status());
  inputs.arrays = std::move(*data);
  for (const train::Array &array : inputs.arrays)
    inputs.arePrepared |=
        array.images != nullptr || !inputs.ofData.insert(array.name).second;
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
  if (Status status = command.output.empty()
                          ? Status()
                          : train::checkArrayNames(command.output, {});
      !status.ok())
    return reportError(status);
  return refuseOverwriting("-o", command.output, read);
}

// On samples that are prepared.
static ExitCode runPrepared(const RunCommand &command,
                            std::shared_ptr<const Artifact> artifact,
                            const Function &function, const Inputs &inputs) {
  StatusOr<train::Preparation> preparation =
      preparationOf(command.data, command.session.seed);
  if (!preparation.ok())
    return reportError(preparation.status());
  return writeOutputs(runSamples(std::move(artifact), function, inputs.arrays,
                                 std::move(*preparation), command.session),
                      command.output);
}

// In batches, or at once.
static ExitCode runFunction(const RunCommand &command, const Driver &driver,
                            std::shared_ptr<const Artifact> artifact,
                            const Function &function, const Inputs &inputs) {
  const auto refuseUnknown = [&] {
    return reportError(ExitCode::Unsupported,
                       "where outputs have samples is not known: " +
                           driver.getSamplesFinding());
  };
  if (inputs.arePrepared && !driver.getSamplesFinding().empty())
    return refuseUnknown();
  if (inputs.arePrepared)
    return runPrepared(command, std::move(artifact), function, inputs);
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
                      command.output);
}

static ExitCode runRun(RunCommand &command) {
  // Before anything takes time: whether there is something to write to.
  if (ExitCode code = checkOutput(command); code != ExitCode::Done)
    return code;
  Inputs inputs;
  if (ExitCode code = readInputs(command, inputs); code != ExitCode::Done)
    return code;
  // A model is compiled for the inputs it is given; an artifact is as it is.
  Driver driver;
  std::vector<std::string> known;
  if (!isArtifact(command.compile.model.model))
    if (ExitCode code =
            inputs.arePrepared
                ? bindSamples(inputs, command.data, command.compile, driver)
                : bindInputs(inputs, command.data, command.compile, driver,
                             known);
        code != ExitCode::Done)
      return code;
  findLabelShapes(inputs.arrays, command.compile.pipeline.recipe);
  std::shared_ptr<const Artifact> artifact;
  if (ExitCode code = loadArtifact(driver, command.compile, artifact);
      code != ExitCode::Done)
    return code;
  // The function, whose inputs must be the ones given.
  const Function *function = nullptr;
  if (ExitCode code =
          chooseFunction(artifact->plan(), command.function, function);
      code != ExitCode::Done)
    return code;
  if (!inputs.arePrepared)
    if (ExitCode code = checkNames(inputs, *function, known);
        code != ExitCode::Done)
      return code;
  return runFunction(command, driver, artifact, *function, inputs);
}

void mpc::tools::addRunCommand(CLI::App &program, int &exitCode) {
  auto command = std::make_shared<RunCommand>();
  CLI::App *app = program.add_subcommand(
      "run", "run a model or an artifact on given inputs, in batches where "
             "there are more samples than --batch-size, or than the model or "
             "the artifact takes");
  addCompileOptions(*app, command->compile);
  app->add_option("--input", command->inputs,
                  "NAME=FILE, NAME=@FILE or NAME=VALUE (repeatable)")
      ->type_name("INPUT")
      ->allow_extra_args(false);
  app->add_option("--data", command->data.data,
                  "arrays named as the model's inputs, tables and folders of "
                  "images, as mpc train takes them; others are left out "
                  "(repeatable)")
      ->type_name("FILE")
      ->allow_extra_args(false);
  addPreparationFlags(*app, command->data);
  app->add_option("--function", command->function,
                  "function to run; default: forward, or else step")
      ->type_name("NAME");
  app->add_option("-o,--output", command->output,
                  "file for the outputs (.npz, .safetensors); default: print "
                  "them")
      ->type_name("FILE");
  app->add_option("--seed", command->session.seed,
                  "of dropout and random numbers")
      ->transform(wholeNumber(uint64_t(0)))
      ->capture_default_str();
  addSessionOptions(*app, command->session);
  addKernelCacheOption(*app, command->compile);
  app->callback([app, command, &exitCode] {
    command->compile.threads = command->session.threads;
    command->compile.wantsOutputs = command->function.empty();
    exitCode = static_cast<int>(
        matchTargetAndDevice(*app, command->compile.pipeline.target,
                             command->session.device, WithoutGPU::Fail));
    if (exitCode == 0)
      exitCode = static_cast<int>(runRun(*command));
  });
}
