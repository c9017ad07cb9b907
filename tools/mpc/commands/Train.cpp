// mpc train: compiles a model, or opens an artifact, and trains it.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Model/TrainingRecord.h"
#include "frontends/ONNX/Summary.h"
#include "passes/Differentiation/LossSpec.h"
#include "runtime/train/RunStatistics.h"
#include "runtime/train/StepRunner.h"
#include "runtime/train/checkpoint/Checkpoint.h"
#include "runtime/train/data/ArrayFile.h"
#include "runtime/train/record/TraceRecorder.h"
#include "runtime/train/support/FileSystem.h"
#include "runtime/train/support/Ranks.h"
#include "tools/mpc/commands/Commands.h"
#include "tools/mpc/commands/PreparedRun.h"
#include "tools/mpc/commands/TrainFlags.h"
#include "tools/mpc/commands/TrainRanks.h"
#include "tools/mpc/flags/CommandLine.h"
#include "tools/mpc/flags/LossFlags.h"
#include "tools/mpc/flags/RecordedFlags.h"
#include "tools/mpc/model/Driver.h"
#include "tools/mpc/model/Interruption.h"
#include "tools/mpc/model/LabelAxes.h"
#include "tools/mpc/model/LabelData.h"
#include "tools/mpc/model/MeasuredInputs.h"
#include "tools/mpc/model/Overwriting.h"
#include "tools/mpc/model/ReleasedMemory.h"
#include "tools/mpc/model/SampleBatch.h"
#include "tools/mpc/print/Notes.h"
#include "tools/mpc/print/PrintableStream.h"
#include "tools/mpc/print/Progress.h"
#include "tools/mpc/print/TrainReport.h"

#include "llvm/Support/Format.h"

#include <csignal>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;
using namespace mpc::runtime::train;

namespace {
struct TrainingData {
  std::optional<Dataset> train, evaluation;
  std::string preparation; ///< the result of describePreparation
};
} // namespace

//===----------------------------------------------------------------------===//
// Data
//===----------------------------------------------------------------------===//

static Status openData(const TrainCommand &command, const TraineeInfo &info,
                       std::vector<Array> arrays, std::vector<Array> heldArrays,
                       TrainingData &data) {
  StatusOr<DatasetOptions> options = datasetOptionsOf(
      command.data, info,
      findCommonTarget(command.compile.pipeline.recipe.targets),
      command.train.seed);
  if (!options.ok())
    return options.status();
  data.preparation = describePreparation(options->preparation.text);
  StatusOr<FunctionPorts> ports = trainingInputs(info);
  if (!ports.ok())
    return ports.status();
  StatusOr<Dataset> all = createDataset(std::move(arrays), *ports, *options);
  if (!all.ok())
    return all.status();
  data.train = std::move(*all);
  // Samples for evaluation come from --val-data, or are split off the training
  // samples.
  const FunctionPorts *eval = info.function(kEvalFunction);
  if (command.valData.empty() && command.valSplit == 0)
    return Status();
  if (!eval)
    return Status(StatusCode::Unsupported,
                  "the model has no function to evaluate with; leave out "
                  "--val-data and --val-split");
  if (!command.valData.empty()) {
    StatusOr<Dataset> held =
        createDataset(std::move(heldArrays), *eval, *options);
    if (!held.ok())
      return held.status();
    data.evaluation = std::move(*held);
    return Status();
  }
  auto parts = data.train->split(command.valSplit, command.train.seed);
  if (!parts.ok())
    return parts.status();
  data.train = std::move(parts->first);
  data.evaluation = std::move(parts->second);
  return Status();
}

//===----------------------------------------------------------------------===//
// The command
//===----------------------------------------------------------------------===//

namespace {
/// One training run, from parsing flags to the trained model. `runTrain` calls
/// the public methods in order. Each method prints errors and returns the exit
/// code.
class TrainRun {
public:
  explicit TrainRun(TrainCommand &command)
      : command(command), writer(command.trained) {}

  ExitCode check();
  ExitCode readData();
  ExitCode compile();
  /// Before the run, prints the trained parameters, the precision decisions and
  /// the memory.
  void announce();
  /// Releases the memory of the compiler, opens a session of the artifact, and
  /// prepares everything for step 0.
  ExitCode open();
  /// Trains until the end or a signal; returns the exit code of the process.
  int train();
  /// The run before its first step, for a command that does not train.
  PreparedRun prepared() {
    return {artifact, opened, *data.train,
            data.evaluation ? &*data.evaluation : nullptr};
  }

private:
  ExitCode bindShapes(Driver &driver);
  /// Checks, before machine code is generated, that the model can be trained,
  /// that data and output fit the model, and that a checkpoint can be resumed.
  ExitCode checkFit(const TraineeInfo &info,
                    std::shared_ptr<onnx_frontend::Model> compiled);
  ExitCode record();
  int finish(const TrainResult &result, const TraceRecorder *trace);
  ExitCode reportEnd(const Status &failure);
  int agreeOnEnd(int code);
  bool isFirst() const {
    return !command.train.communicator || command.train.communicator->isFirst();
  }

  TrainCommand &command;
  std::vector<Array> arrays, heldArrays;
  /// The facts about the run that the trained model records.
  ModelRecord recorded;
  /// Names of the inputs whose values the driver may compile in as constants.
  std::vector<std::string> offered;
  std::shared_ptr<const Artifact> artifact;
  /// The model that was compiled; null if the run uses an artifact.
  std::shared_ptr<onnx_frontend::Model> model;
  /// A summary of the precision decisions in one line; empty if the run uses an
  /// artifact.
  std::string decisions;
  TrainedModelWriter writer;
  OpenSession opened;
  TrainingData data;
};
} // namespace

ExitCode TrainRun::check() {
  if (ExitCode code = resolve(command); code != ExitCode::Done)
    return code;
  // The ranks may share a folder, so only the first one writes.
  if (!isFirst()) {
    command.trained.output.clear();
    command.trace.clear();
  }
  if (ExitCode code = checkDestination("--trace", command.trace);
      code != ExitCode::Done)
    return code;
  if (!isArtifact(command.compile.model.model))
    if (ExitCode code = checkLossFlags(command.compile); code != ExitCode::Done)
      return code;
  return checkFiles(command);
}

ExitCode TrainRun::readData() {
  // Read the data before compiling the model, because the shapes of labels are
  // compiled in.
  const std::string target =
      findCommonTarget(command.compile.pipeline.recipe.targets);
  StatusOr<std::vector<Array>> read =
      readSamples(command.data.data, command.data, target);
  if (!read.ok())
    return reportError(read.status());
  arrays = std::move(*read);
  StatusOr<std::vector<Array>> held =
      readSamples(command.valData, command.data, target);
  if (!held.ok())
    return reportError(held.status());
  heldArrays = std::move(*held);
  if (Status status = checkSameLabels(arrays, heldArrays); !status.ok())
    return reportError(status);
  for (const Array &array : arrays)
    if (recorded.classes.empty())
      recorded.classes = array.classes;
  if (!isArtifact(command.compile.model.model))
    chooseTargets(command.compile, arrays);
  findLabelShapes(arrays, command.compile.pipeline.recipe);
  chooseIgnoreIndex(command.compile, arrays);
  chooseIgnoreIndex(command.compile, heldArrays);
  return balanceClasses(command.compile, arrays);
}

// Names folders of samples after inputs. Fixes open dimensions to the extents
// of the data, and an open batch size to the default.
ExitCode TrainRun::bindShapes(Driver &driver) {
  ModelOptions &options = command.compile.model;
  if (isArtifact(options.model))
    return ExitCode::Done;
  if (llvm::Error error = driver.readModel(options))
    return reportError(std::move(error));
  const bool isOpen = leavesBatchOpen(driver.getModel(), options);
  if (ExitCode code = chooseShapes(driver, arrays, command.data, options);
      code != ExitCode::Done)
    return code;
  if (isOpen)
    noteBatch(options);
  if (ExitCode code = nameSamples(driver.getModel(), heldArrays);
      code != ExitCode::Done)
    return code;
  // Labels of --val-data are transposed like those of the training data.
  const auto inputs = readDeclaredInputs(driver.getModel());
  LabelAxes axes =
      takeLabelAxes(inputs, command.compile.pipeline.recipe, options);
  for (auto *files : {&arrays, &heldArrays})
    if (ExitCode code = moveLabelSamples(inputs, command.compile, *files, axes);
        code != ExitCode::Done)
      return code;
  findLabelShapes(arrays, command.compile.pipeline.recipe);
  offered = offerScalars(driver, arrays, heldArrays);
  return ExitCode::Done;
}

// Refuses flags for the learning rate if the model is a training graph with a
// fixed rate.
static ExitCode checkRate(const TrainCommand &command,
                          const TraineeInfo &info) {
  if (command.rateFlags.empty() || takesLearningRate(info))
    return ExitCode::Done;
  return reportError(ExitCode::Usage,
                     command.rateFlags.front() +
                         " has no effect: " + command.compile.model.model +
                         " has its own optimizer with a fixed learning rate; "
                         "leave the flag out");
}

ExitCode TrainRun::checkFit(const TraineeInfo &info,
                            std::shared_ptr<onnx_frontend::Model> compiled) {
  const std::string optimizer =
      compiled ? onnx_frontend::describeOptimizerGraph(*compiled) : "";
  if (!optimizer.empty())
    return reportError(ExitCode::Usage,
                       command.compile.model.model + ": " + optimizer);
  if (info.function(kAccumulateFunction) && !info.function(kUpdateFunction))
    return reportError(
        ExitCode::Usage,
        command.compile.model.model +
            ": the training graph adds up gradients, and the optimizer graph "
            "that uses them is missing; name it with --optimizer-model FILE, "
            "or "
            "train the model that the graph was made from, with --loss");
  if (const FunctionPorts *forward = info.function(kForwardFunction))
    return reportError(ExitCode::Usage,
                       command.compile.model.model +
                           ": a forward model needs a loss to train, such as " +
                           suggestLoss(*forward));
  if (ExitCode code = checkRate(command, info); code != ExitCode::Done)
    return code;
  // Check now that the weights can be written, not after hours of training.
  if (ExitCode code = writer.prepare(info, std::move(compiled));
      code != ExitCode::Done)
    return code;
  if (!command.train.checkpointDir.empty()) {
    std::vector<std::string> names;
    for (const Port &port : info.state)
      names.push_back(port.name);
    Status status = checkArrayNames(
        command.train.checkpointDir + "/state.safetensors", names);
    if (!status.ok())
      return reportError(status);
  }
  if (StatusOr<FunctionPorts> ports = trainingInputs(info); ports.ok()) {
    dropCompiledIn(*ports, offered, arrays);
    dropCompiledIn(*ports, offered, heldArrays);
  }
  Status status =
      openData(command, info, std::move(arrays), std::move(heldArrays), data);
  if (status.ok())
    status =
        checkRun(info, *data.train,
                 data.evaluation ? &*data.evaluation : nullptr, command.train);
  return reportError(status);
}

ExitCode TrainRun::compile() {
  ExitCode code;
  {
    Driver driver;
    driver.checkEarly([&](const TraineeInfo &info) {
      const ExitCode code = checkFit(info, driver.shareModel());
      return code == ExitCode::Done
                 ? measureInputs(command.compile, info, *data.train, driver)
                 : code;
    });
    driver.checkDecided([&](const TraineeInfo &info) {
      return reportError(checkResumed(info, *data.train, command.train));
    });
    code = bindShapes(driver);
    if (code == ExitCode::Done)
      code = loadArtifact(driver, command.compile, artifact);
    decisions = driver.getPrecisionSummary();
    if (command.isVerbose)
      driver.getCompileTimes().print(llvm::errs());
    model = driver.takeModel();
  }
  if (code != ExitCode::Done || model)
    return code;
  // For an artifact, name arrays without a name after the artifact's inputs.
  StatusOr<TraineeInfo> info = describeArtifact(*artifact);
  if (!info.ok())
    return reportError(info.status());
  if (StatusOr<FunctionPorts> ports = trainingInputs(*info); ports.ok())
    for (auto *files : {&arrays, &heldArrays}) {
      if (code = nameSamples(*ports, *files); code != ExitCode::Done)
        return code;
      if (code = moveLabelSamples(*ports, *files); code != ExitCode::Done)
        return code;
    }
  return checkFit(*info, nullptr);
}

void TrainRun::announce() {
  if (command.isQuiet)
    return;
  const Plan &plan = artifact->plan();
  PrintableStream os(llvm::errs());
  const Recipe &recipe = command.compile.pipeline.recipe;
  TrainablesList list;
  list.notesOthers = recipe.train.empty() && recipe.freeze.empty();
  list.isWhole = command.isVerbose;
  printTrainables(os, plan, list);
  printNormalizations(os, plan);
  llvm::errs() << (decisions.empty() ? plan.precision + ", as compiled"
                                     : decisions)
               << "\n";
  printResources(llvm::errs(), plan, command.session.device,
                 command.session.threads);
  if (const Communicator *communicator = command.train.communicator)
    llvm::errs() << communicator->size() << " ranks, connected by "
                 << communicator->backend()
                 << (plan.target.isGPU() ? " and nccl" : "") << "\n";
  if (const Communicator *ranks = command.train.communicator)
    if (const int64_t held =
            StateShares(plan, ranks->rank(), ranks->size()).bytes();
        held < plan.stateBytes())
      llvm::errs() << "sharded optimizer: this rank holds "
                   << formatBytes(double(held)) << " of the state\n";
  if (command.isVerbose)
    printFunctions(os, plan);
}

// Warns if the model was trained before, on samples prepared differently, for
// example without --normalize. Its weights then fit other values.
static void checkPreparation(const TrainCommand &command,
                             const TrainingData &data) {
  const std::string &model = command.compile.model.model;
  const auto record = isArtifact(model)
                          ? RecordEntries()
                          : onnx_frontend::readTrainingRecord(model).entries;
  const auto trained = record.find(onnx_frontend::kPreparation.str());
  if (trained != record.end())
    comparePreparation(model, trained->second, data.preparation, "now trained");
}

// Collects what the trained model and the checkpoints record about the run.
ExitCode TrainRun::record() {
  if (ExitCode code = recordFlags(*command.app, command.compile, recorded);
      code != ExitCode::Done)
    return code;
  const RecordEntries entries = printRecord(recorded, data.preparation);
  command.train.record = entries;
  writer.setRecord(entries);
  return ExitCode::Done;
}

ExitCode TrainRun::open() {
  if (ExitCode code = writer.takeModel(std::move(model));
      code != ExitCode::Done)
    return code;
  // Compiler and model held copies of the weights. Both are gone now, so return
  // the memory to the system.
  model.reset();
  releaseUnusedMemory();
  resetPeakMemory();
  checkPreparation(command, data);
  if (ExitCode code = record(); code != ExitCode::Done)
    return code;
  if (command.trained.output.empty() && command.train.checkpointDir.empty() &&
      !command.isTrial)
    warn("without --output or --checkpoint-dir the trained weights are lost");
  command.session.seed = command.train.seed;
  for (const std::optional<Dataset> *samples : {&data.train, &data.evaluation})
    if (*samples)
      printDataNotes(**samples);
  if (ExitCode code = openSession(artifact, command.session, opened);
      code != ExitCode::Done)
    return code;
  warnOfProbabilities(opened.trainee->info(), *data.train,
                      command.compile.pipeline.recipe);
  return ExitCode::Done;
}

// Prints the share of each part of the run in the time of all parts.
static void printParts(llvm::raw_ostream &os, const TraceRecorder &trace) {
  const double data = trace.total(RunPart::Data).seconds;
  const std::pair<const char *, double> parts[] = {
      {"steps", trace.total(RunPart::Step).seconds - data},
      {"data", data},
      {"evaluations", trace.total(RunPart::Evaluation).seconds},
      {"checkpoints", trace.total(RunPart::Checkpoint).seconds}};
  double all = 0;
  for (const auto &[name, seconds] : parts)
    all += seconds;
  const char *separator = "time: ";
  for (const auto &[name, seconds] : parts) {
    os << separator << name
       << llvm::format(" %.1f %%", all > 0 ? 100 * seconds / all : 0);
    separator = ", ";
  }
  os << "\n";
}

int TrainRun::finish(const TrainResult &result, const TraceRecorder *trace) {
  if (!isFirst())
    return 0;
  ExitCode written = writer.write(*opened.trainee);
  if (written != ExitCode::Done)
    return static_cast<int>(written);
  // If the model or the metrics go to stdout, print the summary on stderr, to
  // keep the stream clean.
  const bool isStream = command.trained.output == "-" ||
                        llvm::is_contained(command.train.metrics, "-");
  llvm::raw_ostream &os = isStream ? llvm::errs() : llvm::outs();
  printSummary(os, result);
  if (trace)
    printParts(os, *trace);
  if (!command.trained.output.empty() && command.trained.output != "-")
    os << "wrote " << command.trained.output << "\n";
  if (!result.deferred.ok())
    return static_cast<int>(reportError(result.deferred));
  return result.exitCode;
}

// Returns the exit code of the first rank, so that all ranks end with one code:
// a launcher ends with the code of any rank. Waits until the first rank has
// written all results: a launcher ends all ranks once a rank ends with a code
// other than 0.
int TrainRun::agreeOnEnd(int code) {
  llvm::outs().flush();
  Status shared = Ranks(command.train.communicator).share(&code, sizeof(code));
  return shared.ok() ? code : static_cast<int>(reportError(shared));
}

// Reports the end of a run that failed on all ranks, or on another rank. All
// ranks know a failure of all, so rank 0 prints it.
ExitCode TrainRun::reportEnd(const Status &failure) {
  Communicator *communicator = command.train.communicator;
  const bool isLoss = communicator && failure.getCode() == ExitCode::Rank;
  if (!communicator || communicator->isFirst() || isLoss)
    static_cast<void>(reportError(failure));
  if (communicator && !isLoss)
    waitForPrinter(*communicator);
  return isLoss ? communicator->failureCode() : failure.getCode();
}

int TrainRun::train() {
  holdErrors(false);
  const std::atomic<int> &stop = installStopHandlers();
  std::optional<TraceRecorder> trace;
  if (!command.trace.empty()) {
    trace.emplace(artifact->plan(), command.tracedSteps);
    command.train.recorder = &*trace;
  }
  bool wasReported = false;
  command.train.reportFailure = [&](const Status &status) {
    wasReported = true;
    static_cast<void>(reportError(status));
  };
  StatusOr<TrainResult> result = [&] {
    ProgressPrinter progress(command.logEvery, command.verbosity());
    return train::train(*opened.trainee, *data.train,
                        data.evaluation ? &*data.evaluation : nullptr,
                        command.train, &progress, &stop);
  }();
  // The trace of a failed run may show the reason. Without the trace, the
  // trained model is still written.
  ExitCode traced = ExitCode::Done;
  if (trace)
    traced =
        reportError(replaceFile(command.trace, {trace->text("mpc train")}));
  // `reportFailure` has printed a failure that ended the other ranks.
  if (!result.ok())
    return static_cast<int>(wasReported ? result.status().getCode()
                                        : reportEnd(result.status()));
  const int code = finish(*result, trace ? &*trace : nullptr);
  return agreeOnEnd(code != 0 ? code : static_cast<int>(traced));
}

int mpc::tools::prepareRun(TrainCommand &command,
                           llvm::function_ref<int(const PreparedRun &)> then) {
  TrainRun run(command);
  for (auto step : {&TrainRun::check, &TrainRun::readData, &TrainRun::compile,
                    &TrainRun::open})
    if (ExitCode code = (run.*step)(); code != ExitCode::Done)
      return static_cast<int>(code);
  return then(run.prepared());
}

static int runTrain(TrainCommand &command) {
  // Ignore SIGPIPE: training must continue if the reader of its output exits.
  std::signal(SIGPIPE, SIG_IGN);
  setVerbosity(command.verbosity());
  TrainRun run(command);
  for (auto step : {&TrainRun::check, &TrainRun::readData, &TrainRun::compile})
    if (ExitCode code = agreeOn((run.*step)(), command.train.communicator);
        code != ExitCode::Done)
      return static_cast<int>(code);
  run.announce();
  if (ExitCode code = agreeOn(run.open(), command.train.communicator);
      code != ExitCode::Done)
    return static_cast<int>(code);
  return run.train();
}

// Chooses the target for the device, or the reverse. The other ranks learn of
// an error by its code.
static ExitCode matchDevice(TrainCommand &command) {
  try {
    return matchSession(*command.app, command.compile, command.session);
  } catch (const CLI::Error &error) {
    return reportError(ExitCode::Usage,
                       describe(*command.app->get_parent(), error));
  }
}

// Connects this process with the other ranks, if any, and trains.
static int trainOnRanks(TrainCommand &command,
                        std::unique_ptr<Communicator> &communicator) {
  ExitCode code = connectRanks(command, communicator);
  if (code == ExitCode::Done)
    code = agreeOn(matchDevice(command), communicator.get());
  if (code == ExitCode::Done)
    code =
        agreeOn(chooseDevice(command, communicator.get()), communicator.get());
  return code == ExitCode::Done ? runTrain(command) : static_cast<int>(code);
}

void mpc::tools::addTrainCommand(CLI::App &program, int &exitCode) {
  auto command = std::make_shared<TrainCommand>();
  CLI::App *app = program.add_subcommand(
      "train", "compile and train; write the trained model");
  addTrainFlags(*app, *command);
  app->callback([app, command, &exitCode] {
    // Note which of these flags are given. They are an error if the model is a
    // training graph with a fixed rate.
    for (const char *flag :
         {"--lr", "--lr-scheduler", "--min-lr", "--warmup-steps"})
      if (app->count(flag) > 0)
        command->rateFlags.push_back(flag);
    command->app = app;
    // Install these handlers first: both signals would end the process while it
    // waits for other ranks or compiles.
    command->train.saveNow = &installSaveHandler();
    if (const int signal = command->loop.requeueNumber())
      installRequeueHandler(signal);
    std::unique_ptr<Communicator> communicator;
    // An exception must not reach the destructor of the communicator, which
    // would wait for the other ranks.
    try {
      exitCode = trainOnRanks(*command, communicator);
    } catch (const std::bad_alloc &) {
      if (!communicator)
        throw;
      exitCode = static_cast<int>(
          endRanks(*communicator, Status(ExitCode::IO, "out of memory")));
    } catch (const std::exception &error) {
      if (!communicator)
        throw;
      exitCode = static_cast<int>(
          endRanks(*communicator,
                   Status(ExitCode::Internal,
                          "internal error: " + std::string(error.what()))));
    }
  });
}
