// mpc train: compiles a model, or opens an artifact, and trains it.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Summary.h"
#include "passes/Differentiation/LossSpec.h"
#include "runtime/train/RunStatistics.h"
#include "runtime/train/StepRunner.h"
#include "runtime/train/checkpoint/Checkpoint.h"
#include "runtime/train/data/ArrayFile.h"
#include "runtime/train/evaluate/EvalMetrics.h"
#include "tools/mpc/commands/Commands.h"
#include "tools/mpc/flags/DataFlags.h"
#include "tools/mpc/flags/LoopFlags.h"
#include "tools/mpc/flags/LossFlags.h"
#include "tools/mpc/flags/ScheduleFlags.h"
#include "tools/mpc/flags/Validators.h"
#include "tools/mpc/model/Driver.h"
#include "tools/mpc/model/Interruption.h"
#include "tools/mpc/model/LabelAxes.h"
#include "tools/mpc/model/LabelData.h"
#include "tools/mpc/model/MeasuredInputs.h"
#include "tools/mpc/model/Overwriting.h"
#include "tools/mpc/model/ReleasedMemory.h"
#include "tools/mpc/model/SampleBatch.h"
#include "tools/mpc/model/TrainedModel.h"
#include "tools/mpc/print/Notes.h"
#include "tools/mpc/print/PrintableStream.h"
#include "tools/mpc/print/Progress.h"
#include "tools/mpc/print/TrainReport.h"

#include <csignal>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;
using namespace mpc::runtime::train;

namespace {
struct TrainCommand {
  CompileOptions compile;
  DataFlags data;
  std::vector<std::string> valData;
  double valSplit = 0;
  TrainOptions train;
  LoopFlags loop;
  ScheduleFlags schedule;
  std::string lastBatch = "drop";
  bool noShuffle = false;
  TrainedModelOptions trained;
  SessionOptions session;
  /// Names of the given flags that set the learning rate, for the error if they
  /// have no effect. Values from the environment and from files count too.
  std::vector<std::string> rateFlags;
  /// The seconds between two lines of progress on stderr.
  double logEvery = 30;
  bool isQuiet = false, isVerbose = false;

  Verbosity verbosity() const {
    return isQuiet     ? Verbosity::Quiet
           : isVerbose ? Verbosity::Verbose
                       : Verbosity::Normal;
  }
};

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
  StatusOr<Dataset> all = Dataset::create(std::move(arrays), *ports, *options);
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
        Dataset::create(std::move(heldArrays), *eval, *options);
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

// Translates texts of flags into options of the training loop: "step:10"
// becomes a schedule.
static ExitCode finishOptions(TrainCommand &command) {
  if (ExitCode code = resolve(command.schedule, command.train.schedule);
      code != ExitCode::Done)
    return code;
  command.train.lastBatch =
      command.lastBatch == "keep" ? LastBatch::Keep : LastBatch::Drop;
  command.train.shuffle = !command.noShuffle;
  command.train.version = MPC_VERSION;
  if (ExitCode code = readMetricFlags(command.train.evalMetrics);
      code != ExitCode::Done)
    return code;
  if (!command.train.evalMetrics.empty() && command.valData.empty() &&
      command.valSplit == 0)
    return reportError(ExitCode::Usage,
                       "--metric is measured in evaluations, and has no "
                       "effect without --val-data or --val-split");
  if (!command.valData.empty() && command.valSplit != 0)
    return reportError(
        ExitCode::Usage,
        "expected --val-data or --val-split, found both; leave one out");
  const bool evaluates = !command.valData.empty() || command.valSplit != 0;
  const bool saves =
      !command.trained.output.empty() || !command.train.checkpointDir.empty();
  // `resolve` reads other members of `train`, which must be set above.
  if (ExitCode code = resolve(command.loop, evaluates, saves, command.train);
      code != ExitCode::Done)
    return code;
  command.trained.noRepair = command.compile.model.noRepair;
  return resolve(command.trained, command.compile.model.model);
}

// Checks that no output of the run overwrites an input. The exception is the
// model itself, which may receive the trained weights.
static ExitCode checkOverwriting(const TrainCommand &command) {
  std::vector<std::string> read = command.compile.model.weights;
  for (const auto *files : {&command.data.data, &command.valData})
    if (StatusOr<std::vector<std::string>> all = expandPatterns(*files);
        all.ok())
      read.insert(read.end(), all->begin(), all->end());
  if (ExitCode code =
          refuseOverwriting("--output", command.trained.output, read);
      code != ExitCode::Done)
    return code;
  for (const std::string &file : inputFiles(command.compile))
    read.push_back(file);
  read.push_back(command.trained.exportModel);
  for (const std::string &metrics : command.train.metrics)
    if (ExitCode code = refuseOverwriting("--metrics", metrics, read);
        code != ExitCode::Done)
      return code;
  // Also check that no two outputs have the same path.
  std::vector<WrittenPlace> written = {
      {"--output", command.trained.output},
      {"--checkpoint-dir", command.train.checkpointDir, /*isFolder=*/true},
      {"--tensorboard", command.train.tensorboard, /*isFolder=*/true}};
  // The export of a large ONNX model stores the weights in a second file,
  // NAME.onnx.data.
  const std::string &output = command.trained.output;
  if (llvm::StringRef(output).ends_with(".onnx"))
    written.push_back({"--output", output + ".data", /*isFolder=*/false,
                       "the weights of a model whose file does not hold them"});
  for (const std::string &metrics : command.train.metrics)
    written.push_back({"--metrics", metrics});
  return refuseSharing(written);
}

// Checks all files that flags name, before the model is compiled.
static ExitCode checkFiles(TrainCommand &command) {
  if (ExitCode code = checkOverwriting(command); code != ExitCode::Done)
    return code;
  if (Status status = checkDataFlags(command.data, command.valData);
      !status.ok())
    return reportError(status);
  std::string &resume = command.train.resume;
  if (!resume.empty() && resume != "auto") {
    StatusOr<std::string> found = findCheckpoint(resume);
    if (!found.ok())
      return reportError(found.status());
    resume = *found;
  }
  return reportError(checkPaths(command.train));
}

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

private:
  ExitCode bindShapes(Driver &driver);
  /// Checks, before machine code is generated, that the model can be trained,
  /// that data and output fit the model, and that a checkpoint can be resumed.
  ExitCode checkFit(const TraineeInfo &info,
                    std::shared_ptr<onnx_frontend::Model> compiled);
  int finish(const TrainResult &result);

  TrainCommand &command;
  std::vector<Array> arrays, heldArrays;
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
  if (ExitCode code = finishOptions(command); code != ExitCode::Done)
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
  if (!isArtifact(command.compile.model.model))
    chooseTargets(command.compile, arrays);
  findLabelShapes(arrays, command.compile.pipeline.recipe);
  chooseIgnoreIndex(command.compile, arrays);
  chooseIgnoreIndex(command.compile, heldArrays);
  return ExitCode::Done;
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
  if (ExitCode code = writer.prepare(info.state, std::move(compiled));
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
  if (command.isVerbose)
    printFunctions(os, plan);
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
  writer.setPreparation(data.preparation);
  if (command.trained.output.empty() && command.train.checkpointDir.empty())
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

int TrainRun::finish(const TrainResult &result) {
  ExitCode written = writer.write(*opened.trainee);
  if (written != ExitCode::Done)
    return static_cast<int>(written);
  // If the model or the metrics go to stdout, print the summary on stderr, to
  // keep the stream clean.
  const bool isStream = command.trained.output == "-" ||
                        llvm::is_contained(command.train.metrics, "-");
  llvm::raw_ostream &os = isStream ? llvm::errs() : llvm::outs();
  printSummary(os, result);
  if (!command.trained.output.empty() && command.trained.output != "-")
    os << "wrote " << command.trained.output << "\n";
  if (!result.deferred.ok())
    return static_cast<int>(reportError(result.deferred));
  return result.stopSignal ? 128 + result.stopSignal : 0;
}

int TrainRun::train() {
  const std::atomic<int> &stop = installStopHandlers();
  command.train.saveNow = &installSaveHandler();
  StatusOr<TrainResult> result = [&] {
    ProgressPrinter progress(command.logEvery, command.verbosity());
    return train::train(*opened.trainee, *data.train,
                        data.evaluation ? &*data.evaluation : nullptr,
                        command.train, &progress, &stop);
  }();
  if (!result.ok())
    return static_cast<int>(reportError(result.status()));
  return finish(*result);
}

static int runTrain(TrainCommand &command) {
  // Ignore SIGPIPE: training must continue if the reader of its output exits.
  std::signal(SIGPIPE, SIG_IGN);
  setVerbosity(command.verbosity());
  TrainRun run(command);
  for (auto step : {&TrainRun::check, &TrainRun::readData, &TrainRun::compile})
    if (ExitCode code = (run.*step)(); code != ExitCode::Done)
      return static_cast<int>(code);
  run.announce();
  if (ExitCode code = run.open(); code != ExitCode::Done)
    return static_cast<int>(code);
  return run.train();
}

static void addDataOptions(CLI::App &app, TrainCommand &command) {
  addDataFlags(app, command.data);
  addAugmentFlag(app, command.data);
  app.add_option("--val-data", command.valData,
                 "data to evaluate on after every epoch, in any form of "
                 "--data (repeatable)")
      ->allow_extra_args(false)
      ->type_name("FILE");
  app.add_option("--val-split", command.valSplit,
                 "fraction of the data to hold back and evaluate on; every "
                 "class gives the same share")
      ->check(fraction());
  app.add_flag("--no-shuffle", command.noShuffle, "take samples in file order");
  app.add_option("--last-batch", command.lastBatch,
                 "drop or keep samples that do not fill the last step of an "
                 "epoch")
      ->check(CLI::IsMember({"drop", "keep"}))
      ->capture_default_str();
}

static void addLoopOptions(CLI::App &app, TrainOptions &train) {
  app.add_option("--epochs", train.epochs,
                 "passes over the data; default 1, or no limit with "
                 "--max-steps, --max-time or --early-stopping")
      ->transform(wholeNumber(int64_t(1)));
  app.add_option("--max-steps", train.maxSteps,
                 "end after this many optimizer "
                 "steps")
      ->transform(wholeNumber(int64_t(1)));
  app.add_option("--seed", train.seed,
                 "seed for shuffling, dropout and random numbers")
      ->transform(wholeNumber(uint64_t(0)))
      ->capture_default_str();
  app.add_option("--max-nonfinite", train.maxNonfinite,
                 "end the run after this many steps in a row with a "
                 "non-finite loss; 0: check only at its end")
      ->transform(wholeNumber(int64_t(0)))
      ->capture_default_str();
  app.add_option("--max-skipped", train.maxSkipped,
                 "end the run after this many skipped steps in a row; 0: "
                 "check only at its end")
      ->transform(wholeNumber(int64_t(0)))
      ->capture_default_str();
}

static void addOutputOptions(CLI::App &app, TrainCommand &command) {
  app.add_option("-o,--output", command.trained.output,
                 "trained model (.onnx, - for stdout) or weights "
                 "(.safetensors, .npz)")
      ->type_name("FILE");
  app.add_option("--export-model", command.trained.exportModel,
                 "ONNX model that receives the weights; default: MODEL")
      ->type_name("FILE");
  app.add_flag("--trained-only", command.trained.trainedOnly,
               "write only trained parameters, such as adapters, and running "
               "statistics to --output (.safetensors or .npz)");
  app.add_option("--metric", command.train.evalMetrics,
                 "metric to measure in evaluations besides the loss: " +
                     listEvalMetrics() + "; several with commas (repeatable)")
      ->allow_extra_args(false)
      ->type_name("NAME");
  app.add_option("--checkpoint-dir", command.train.checkpointDir,
                 "folder of checkpoints")
      ->type_name("FOLDER");
  app.add_option("--checkpoint-every", command.train.checkpointEvery,
                 "steps between checkpoints; 0, the default: each epoch's end")
      ->transform(wholeNumber(int64_t(0)));
  app.add_option("--keep-checkpoints", command.train.keepCheckpoints,
                 "number of checkpoints to keep")
      ->transform(wholeNumber(int64_t(1)))
      ->capture_default_str();
  app.add_option("--resume", command.train.resume,
                 "auto (the newest in --checkpoint-dir), a checkpoint, or a "
                 "folder of checkpoints (the newest)")
      ->type_name("PATH");
}

static void addLogOptions(CLI::App &app, TrainCommand &command) {
  app.add_option("--metrics", command.train.metrics,
                 "write a JSON object per step and evaluation, or table rows "
                 "if FILE ends with .csv; -: JSON to standard output "
                 "(repeatable)")
      ->allow_extra_args(false)
      ->type_name("FILE");
  app.add_option("--tensorboard", command.train.tensorboard,
                 "write TensorBoard event files to this folder")
      ->type_name("FOLDER");
  app.add_flag("--overwrite-metrics", command.train.overwriteMetrics,
               "replace the metrics and events of an earlier run");
  CLI::Option *logEvery =
      app.add_option("--log-every", command.logEvery,
                     "seconds between progress lines outside a terminal; 0: a "
                     "line for every step")
          ->check(nonNegativeNumber())
          ->type_name("SECONDS")
          ->capture_default_str();
  CLI::Option *quiet =
      app.add_flag("-q,--quiet", command.isQuiet,
                   "print only warnings, errors and the summary")
          ->excludes(logEvery);
  app.add_flag("-v,--verbose", command.isVerbose,
               "also print compile times and the number of kernels of each "
               "kind")
      ->excludes(quiet);
}

void mpc::tools::addTrainCommand(CLI::App &program, int &exitCode) {
  auto command = std::make_shared<TrainCommand>();
  CLI::App *app = program.add_subcommand(
      "train", "compile and train; write the trained model");
  // The order of these calls is the order of flags in --help: model, data,
  // schedule, loop, results, log, device.
  addCompileOptions(*app, command->compile);
  addDataOptions(*app, *command);
  addScheduleFlags(*app, command->schedule, command->train.schedule);
  addLoopOptions(*app, command->train);
  addLoopFlags(*app, command->loop, command->train);
  addOutputOptions(*app, *command);
  addLogOptions(*app, *command);
  addSessionOptions(*app, command->session);
  addKernelCacheOption(*app, command->compile);
  app->callback([app, command, &exitCode] {
    // Note which of these flags are given. They are an error if the model is a
    // training graph with a fixed rate.
    for (const char *flag :
         {"--lr", "--lr-scheduler", "--min-lr", "--warmup-steps"})
      if (app->count(flag) > 0)
        command->rateFlags.push_back(flag);
    exitCode = static_cast<int>(
        matchSession(*app, command->compile, command->session));
    if (exitCode == 0)
      exitCode = runTrain(*command);
  });
}
