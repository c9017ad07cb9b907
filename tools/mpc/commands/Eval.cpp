// mpc eval: measures loss, accuracy and metrics of a model on a data set. Uses
// the evaluation code of `mpc train`.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Support/NearestNames.h"
#include "passes/Differentiation/LossSpec.h"
#include "runtime/BoundedJSON.h"
#include "runtime/train/AveragedWeights.h"
#include "runtime/train/checkpoint/CheckpointFiles.h"
#include "runtime/train/checkpoint/Weights.h"
#include "runtime/train/data/ArrayFile.h"
#include "runtime/train/data/DataFiles.h"
#include "runtime/train/evaluate/EvalMetrics.h"
#include "runtime/train/evaluate/Evaluator.h"
#include "runtime/train/record/Metrics.h"
#include "runtime/train/support/Text.h"
#include "tools/mpc/commands/Commands.h"
#include "tools/mpc/flags/DataFlags.h"
#include "tools/mpc/flags/DeclaredShapes.h"
#include "tools/mpc/flags/LossFlags.h"
#include "tools/mpc/flags/RecordedFlags.h"
#include "tools/mpc/model/AdapterFiles.h"
#include "tools/mpc/model/Driver.h"
#include "tools/mpc/model/LabelAxes.h"
#include "tools/mpc/model/LabelData.h"
#include "tools/mpc/model/SampleBatch.h"
#include "tools/mpc/model/WeightFiles.h"
#include "tools/mpc/print/ClassTable.h"
#include "tools/mpc/print/Notes.h"
#include "tools/mpc/print/PrintableStream.h"
#include "tools/mpc/print/Progress.h"
#include "tools/mpc/print/TrainReport.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

#include <CLI/CLI.hpp>

#include <cmath>
#include <unistd.h>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;
using namespace mpc::runtime::train;

namespace {
struct EvalCommand {
  CompileOptions compile;
  DataFlags data;
  std::vector<std::string> metrics;
  std::string checkpoint;
  std::string format = "text";
  /// The names of classes that the model records, in the order of the labels;
  /// empty if unknown, and with --no-metadata.
  std::vector<std::string> classes;
  bool perClass = false;
  SessionOptions session;
};

/// Runs one evaluation, from parsing flags to printing results. `runEval` calls
/// the public methods in order. Each method prints errors and returns the exit
/// code.
class EvalRun {
public:
  explicit EvalRun(EvalCommand &command)
      : command(command), isCompiled(isArtifact(command.compile.model.model)) {}

  ExitCode check();
  ExitCode readFiles();
  ExitCode compile();
  ExitCode open();
  ExitCode evaluate();

private:
  ExitCode checkFunctions(const TraineeInfo &info) const;
  ExitCode checkClasses() const;
  /// Checks that the model can be evaluated on the data, before machine code is
  /// generated. Sets `data`.
  ExitCode checkFit(const TraineeInfo &info);
  ExitCode loadCheckpoint();
  ExitCode loadFile(const std::string &file);
  void checkPreparation(const Preparation &preparation) const;
  void print(const EvalResult &result) const;
  std::vector<std::string> namesOf(const ClassReport &report) const;

  EvalCommand &command;
  const bool isCompiled;
  /// Files of weights to load into an artifact. Empty if a model is evaluated,
  /// since the weights are then compiled in.
  std::vector<std::string> weights;
  std::string checkpointPath;
  std::optional<CheckpointContents> checkpoint;
  std::vector<Array> arrays;
  /// Names of the inputs whose values the driver may compile in as constants.
  std::vector<std::string> offered;
  /// The text of describePreparation for the training samples, recorded in the
  /// model.
  std::string trainedPreparation;
  std::shared_ptr<const Artifact> artifact;
  OpenSession opened;
  std::optional<Dataset> data;
  /// The names of classes that the data give, by array of labels.
  ClassNames classNames;
};
} // namespace

//===----------------------------------------------------------------------===//
// Checks and data, before the model is compiled
//===----------------------------------------------------------------------===//

ExitCode EvalRun::check() {
  if (ExitCode code = readMetricFlags(command.metrics); code != ExitCode::Done)
    return code;
  CompileOptions &options = command.compile;
  if (StatusOr<std::string> found = findCheckpoint(options.model.model);
      found.ok())
    return reportError(ExitCode::Usage,
                       options.model.model +
                           ": expected a model, found checkpoints; name the "
                           "model, and the checkpoint with --checkpoint " +
                           *found);
  if (!isCompiled)
    if (ExitCode code = checkLossFlags(options); code != ExitCode::Done)
      return code;
  if (!command.checkpoint.empty() && !options.model.weights.empty())
    return reportError(
        ExitCode::Usage,
        "expected --weights or --checkpoint, found both; leave one out");
  if (isCompiled) {
    weights = std::move(options.model.weights);
    options.model.weights.clear();
  }
  return reportError(checkDataFlags(command.data));
}

ExitCode EvalRun::readFiles() {
  if (!command.checkpoint.empty()) {
    StatusOr<std::string> path = findCheckpoint(command.checkpoint);
    if (!path.ok())
      return reportError(path.status());
    StatusOr<CheckpointContents> contents = readCheckpointFiles(*path);
    if (!contents.ok())
      return reportError(contents.status());
    checkpointPath = *path;
    checkpoint = std::move(*contents);
    // Compile the model with the checkpoint's weights: parameters may be inputs
    // of the model, with values that the compiler needs.
    if (!isCompiled)
      command.compile.model.weights = {checkpointPath + "/state.safetensors"};
  }
  StatusOr<std::vector<Array>> read =
      readSamples(command.data.data, command.data,
                  findCommonTarget(command.compile.pipeline.recipe.targets));
  if (!read.ok())
    return reportError(read.status());
  arrays = std::move(*read);
  if (!isCompiled)
    chooseTargets(command.compile, arrays);
  findLabelShapes(arrays, command.compile.pipeline.recipe);
  chooseIgnoreIndex(command.compile, arrays);
  return ExitCode::Done;
}

//===----------------------------------------------------------------------===//
// The model
//===----------------------------------------------------------------------===//

// Returns words for a message that suggest a value of --loss: the loss that the
// checkpoint was trained with, or else softmax_cross_entropy.
static std::string
hintOfLoss(const std::optional<CheckpointContents> &checkpoint) {
  std::string loss = "softmax_cross_entropy";
  if (!checkpoint)
    return "such as " + loss;
  const auto found = checkpoint->identity.find("recipe");
  if (found != checkpoint->identity.end())
    if (nlohmann::json recipe = parseBoundedJSON(found->second);
        recipe.is_object() && recipe.contains("loss") &&
        recipe["loss"].is_string())
      loss = recipe["loss"].get<std::string>();
  return "such as " + abbreviated(loss) +
         ", which the checkpoint was trained on";
}

ExitCode EvalRun::checkFunctions(const TraineeInfo &info) const {
  const std::string &model = command.compile.model.model;
  if (info.function(kEvalFunction))
    return ExitCode::Done;
  if (info.function(kForwardFunction) && isCompiled)
    return reportError(ExitCode::Usage,
                       model + ": the artifact has no loss; compile the model "
                               "with --loss to evaluate it");
  if (info.function(kForwardFunction))
    return reportError(ExitCode::Usage,
                       model +
                           ": a forward model needs a loss to be evaluated; "
                           "name one with --loss, " +
                           hintOfLoss(checkpoint));
  return reportError(
      ExitCode::Unsupported,
      model + ": the training graph has no evaluation graph beside it; "
              "evaluate the model that it was made from, with --loss, such as "
              "mpc eval forward.onnx --loss cross_entropy --weights FILE");
}

// Refuses folders of labels with other names than the classes of training:
// label 1 would mean another class.
ExitCode EvalRun::checkClasses() const {
  // The record does not say to which of several labels the classes belong.
  if (command.classes.empty() || classNames.size() != 1)
    return ExitCode::Done;
  for (const auto &[array, names] : classNames)
    if (names != command.classes)
      return reportError(
          ExitCode::InvalidInput,
          command.compile.model.model +
              ": the model was trained with the classes " +
              listNearestNames("", command.classes) +
              "; the folders of the data are " + listNearestNames("", names) +
              ", so that their numbers mean other classes; name the folders "
              "as in training, one for each class, or say --no-metadata if "
              "the numbers agree");
  return ExitCode::Done;
}

ExitCode EvalRun::checkFit(const TraineeInfo &info) {
  if (ExitCode code = checkFunctions(info); code != ExitCode::Done)
    return code;
  if (Status status = checkEvalMetrics(info, command.metrics); !status.ok())
    return reportError(status);
  StatusOr<DatasetOptions> options = datasetOptionsOf(
      command.data, info,
      findCommonTarget(command.compile.pipeline.recipe.targets),
      /*seed=*/0);
  if (!options.ok())
    return reportError(options.status());
  checkPreparation(options->preparation);
  dropCompiledIn(*info.function(kEvalFunction), offered, arrays);
  for (const Array &array : arrays)
    if (!array.classes.empty())
      classNames[array.name] = array.classes;
  if (ExitCode code = checkClasses(); code != ExitCode::Done)
    return code;
  StatusOr<Dataset> all =
      createDataset(std::move(arrays), *info.function(kEvalFunction), *options);
  if (!all.ok())
    return reportError(all.status());
  data = std::move(*all);
  return ExitCode::Done;
}

ExitCode EvalRun::compile() {
  // For a model, choose the batch size and other open dimensions by the data.
  // An artifact has fixed shapes.
  Driver driver;
  if (!isCompiled)
    if (ExitCode code =
            chooseShapes(driver, arrays, command.data, command.compile.model);
        code != ExitCode::Done)
      return code;
  if (!isCompiled) {
    const auto inputs = readDeclaredInputs(driver.getModel());
    LabelAxes axes = takeLabelAxes(inputs, command.compile.pipeline.recipe,
                                   command.compile.model);
    if (ExitCode code = moveLabelSamples(inputs, command.compile, arrays, axes);
        code != ExitCode::Done)
      return code;
    findLabelShapes(arrays, command.compile.pipeline.recipe);
    offered = offerScalars(driver, arrays);
  }
  command.compile.pipeline.evaluationAlone = true;
  driver.checkEarly([this](const TraineeInfo &info) { return checkFit(info); });
  if (!isCompiled)
    trainedPreparation = onnx_frontend::readPreparation(driver.getModel());
  if (ExitCode code = loadArtifact(driver, command.compile, artifact);
      code != ExitCode::Done)
    return code;
  // For an artifact, name arrays without a name after the artifact's inputs.
  if (isCompiled) {
    StatusOr<TraineeInfo> info = describeArtifact(*artifact);
    if (!info.ok())
      return reportError(info.status());
    if (const FunctionPorts *ports = info->function(kEvalFunction)) {
      if (ExitCode code = nameSamples(*ports, arrays); code != ExitCode::Done)
        return code;
      if (ExitCode code = moveLabelSamples(*ports, arrays);
          code != ExitCode::Done)
        return code;
    }
    if (ExitCode code = checkFit(*info); code != ExitCode::Done)
      return code;
  }
  if (isQuiet())
    return ExitCode::Done;
  llvm::StringRef decisions = driver.getPrecisionSummary();
  PrintableStream os(llvm::errs());
  if (decisions.empty())
    os << artifact->plan().precision << ", as compiled\n";
  else
    os << decisions << "\n";
  printResources(os, artifact->plan(), command.session.device,
                 command.session.threads);
  return ExitCode::Done;
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

// Returns the names of the variables that evaluation reads: parameters and
// statistics, not the state of an optimizer.
static std::vector<std::string> findWeightNames(const TraineeInfo &info) {
  std::vector<std::string> names;
  for (const Port &port : info.state)
    if (isModelRole(port.role))
      names.push_back(port.name);
  return names;
}

// Loads the checkpoint's weights into the artifact.
// Prints the rank and the alpha of an adapter as a flag: "--lora 4:8".
static std::string printLoRA(const Adapter &adapter) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format(
      "--lora %lld:%g", static_cast<long long>(adapter.rank), adapter.alpha);
  return text;
}

ExitCode EvalRun::loadCheckpoint() {
  const auto said = [&](const char *key) {
    const auto found = checkpoint->identity.find(key);
    return found == checkpoint->identity.end() ? "" : found->second;
  };
  const TraineeInfo &info = opened.trainee->info();
  // The values of adapters do not say how they are scaled.
  const std::vector<Adapter> trained = readAdapters(said("recipe"));
  for (const Adapter &adapter : readAdapters(info.recipe))
    for (const Adapter &other : trained)
      if (other.a == adapter.a && other.scale != adapter.scale)
        return reportError(ExitCode::Checkpoint,
                           checkpointPath + ": the adapter of '" +
                               adapter.module + "' was trained with " +
                               printLoRA(other) + ", and the model has " +
                               printLoRA(adapter) +
                               "; give the --lora of the run");
  Status status = loadCheckpointWeights(*opened.trainee, *checkpoint);
  if (!status.ok())
    return reportError(ExitCode::Checkpoint,
                       checkpointPath + ": " + status.message() +
                           "; to load its "
                           "weights by name instead, use --weights " +
                           checkpointPath + "/state.safetensors");
  if (said("precision") != info.precision)
    note("the checkpoint was trained in " + abbreviated(said("precision")) +
         ", and is evaluated in " + info.precision);
  return ExitCode::Done;
}

// Warns if the samples are prepared differently than in training, for example
// without --normalize. The results would then say little about the weights.
void EvalRun::checkPreparation(const Preparation &preparation) const {
  const std::string now = describePreparation(preparation.text);
  if (!checkpoint) {
    // If the model records no preparation, there is nothing to compare. The
    // stored training samples may have been prepared already.
    if (!trainedPreparation.empty())
      comparePreparation(command.compile.model.model, trainedPreparation, now,
                         "evaluated");
    return;
  }
  const auto found = checkpoint->identity.find("data");
  if (found == checkpoint->identity.end())
    return;
  // The entry is the digest of the data, then ";" and the preparation.
  llvm::StringRef trained = found->second;
  comparePreparation("the checkpoint",
                     describePreparation(trained.substr(trained.find(';'))),
                     now, "evaluated");
}

// Loads the weights in `file` into the opened artifact.
ExitCode EvalRun::loadFile(const std::string &file) {
  if (llvm::StringRef(file).ends_with(".onnx"))
    return reportError(ExitCode::Usage,
                       "--weights " + file +
                           ": an artifact takes .safetensors and .npz; "
                           "evaluate the model itself, or compile it again");
  StatusOr<std::vector<Array>> values = readArrays(file);
  if (!values.ok())
    return reportError(values.status());
  const auto isOwn = [&](llvm::StringRef name) {
    return llvm::any_of(opened.trainee->info().state, [&](const Port &port) {
      return port.name == name && isModelRole(port.role);
    });
  };
  dropPEFTPrefix(
      *values, [](Array &value) -> std::string & { return value.name; }, isOwn);
  takeAveragedWeights(file, *values, isOwn);
  Status status = loadWeights(*opened.trainee, *values);
  if (!status.ok())
    return reportError(
        Status(status.getCode(), file + ": " + status.message()));
  const std::vector<std::string> names =
      findWeightNames(opened.trainee->info());
  const auto given = llvm::count_if(names, [&](const std::string &name) {
    return llvm::any_of(*values,
                        [&](const Array &value) { return value.name == name; });
  });
  note(llvm::Twine(given) + " of " + llvm::Twine(names.size()) +
       " parameters from " + file);
  return ExitCode::Done;
}

ExitCode EvalRun::open() {
  if (ExitCode code = openSession(artifact, command.session, opened);
      code != ExitCode::Done)
    return code;
  if (checkpoint)
    if (ExitCode code = loadCheckpoint(); code != ExitCode::Done)
      return code;
  for (const std::string &file : weights)
    if (ExitCode code = loadFile(file); code != ExitCode::Done)
      return code;
  printDataNotes(*data);
  warnOfProbabilities(opened.trainee->info(), *data,
                      command.compile.pipeline.recipe);
  if (!isQuiet())
    llvm::errs() << "data: " << counted(data->size(), "sample")
                 << " in batches of " << data->batchSize() << "\n";
  return ExitCode::Done;
}

//===----------------------------------------------------------------------===//
// The figures
//===----------------------------------------------------------------------===//

// Prints loss, accuracy and metrics as text, or as an "eval" event like those
// of `mpc train --metrics`. With a checkpoint, also prints the step and the
// epoch.
void EvalRun::print(const EvalResult &result) const {
  if (command.format == "text") {
    llvm::outs() << "evaluation: ";
    printEvaluation(llvm::outs(), result);
    llvm::outs() << "\n";
    for (const ClassReport &report : result.classes)
      printClasses(llvm::outs(), report, namesOf(report));
    return;
  }
  const bool isDouble = opened.trainee->info().precision == "64-true";
  MetricsLine line("eval", isDouble ? Digits::Double : Digits::Single);
  if (checkpoint) {
    const Progress &progress = checkpoint->progress;
    const bool isWithin = progress.stepInEpoch > 0;
    line.add("step", progress.step)
        .add("epoch", isWithin ? progress.epoch : progress.epoch - 1);
  }
  addEvaluation(line, result);
  for (const ClassReport &report : result.classes)
    addClasses(line, report, namesOf(report));
  llvm::outs() << line.text();
}

// Returns the names of the classes of a report; empty if unknown. The only
// label input takes the labels of the data under any name.
std::vector<std::string> EvalRun::namesOf(const ClassReport &report) const {
  if (const auto found = classNames.find(report.label);
      found != classNames.end())
    return found->second;
  const bool isOnly = report.output.empty() && classNames.size() == 1;
  return isOnly ? classNames.begin()->second : std::vector<std::string>();
}

ExitCode EvalRun::evaluate() {
  // Show progress only on a terminal, which can overwrite the line.
  const bool isShown = !isQuiet() && isatty(STDERR_FILENO) != 0;
  const auto show = [&](int64_t samples) {
    llvm::errs() << "\r\033[K" << samples << " of " << data->size();
  };
  StatusOr<EvalResult> result = train::evaluate(
      *opened.trainee, *data, /*stop=*/nullptr, command.metrics,
      isShown ? std::function<void(int64_t)>(show) : nullptr, command.perClass);
  if (isShown)
    llvm::errs() << "\r\033[K";
  if (!result.ok())
    return reportError(result.status());
  print(*result);
  if (command.perClass && result->classes.empty())
    warn("--per-class prints nothing: no loss has class labels or binary "
         "targets with a prediction for each");
  // If the model computes only the mean loss of a batch, an incomplete last
  // batch cannot be evaluated, so its samples are left out.
  if (result->leftOut > 0)
    note("left out " + counted(result->leftOut, "sample") +
         (result->leftOut == 1 ? " that fills" : " that fill") +
         " no batch: " + train::whyLeftOut(*result) +
         "; choose a --batch-size that divides all");
  if (!std::isfinite(result->loss))
    return reportError(ExitCode::Numeric, "the loss is not finite, found " +
                                              std::to_string(result->loss));
  return ExitCode::Done;
}

//===----------------------------------------------------------------------===//
// The command
//===----------------------------------------------------------------------===//

static ExitCode runEval(EvalCommand &command) {
  EvalRun run(command);
  for (auto step : {&EvalRun::check, &EvalRun::readFiles, &EvalRun::compile,
                    &EvalRun::open, &EvalRun::evaluate})
    if (ExitCode code = (run.*step)(); code != ExitCode::Done)
      return code;
  return ExitCode::Done;
}

void mpc::tools::addEvalCommand(CLI::App &program, int &exitCode) {
  auto command = std::make_shared<EvalCommand>();
  CLI::App *app = program.add_subcommand(
      "eval", "loss, accuracy and metrics of a model on a data set");
  addCompileOptions(*app, command->compile);
  addDataFlags(*app, command->data);
  app->add_option("--checkpoint", command->checkpoint,
                  "weights of a checkpoint of mpc train, or of the newest in "
                  "a --checkpoint-dir")
      ->type_name("FOLDER");
  app->add_option("--metric", command->metrics,
                  "metric to measure besides the loss: " + listEvalMetrics() +
                      "; NAME@OUTPUT for the output of another loss; several "
                      "with commas (repeatable)")
      ->allow_extra_args(false)
      ->type_name("NAME");
  app->add_flag("--per-class", command->perClass,
                "also print the confusion matrix, and precision, recall, f1, "
                "iou and support of each class");
  app->add_option("--format", command->format,
                  "jsonl: one line, like the \"eval\" lines of mpc train "
                  "--metrics")
      ->check(CLI::IsMember({"text", "jsonl"}))
      ->capture_default_str();
  addMetadataFlag(*app);
  addQuietFlag(*app);
  addSessionOptions(*app, command->session);
  addKernelCacheOption(*app, command->compile);
  app->callback([app, command, &exitCode] {
    if (!ignoresMetadata(*app))
      command->classes = readModelRecord(command->compile.model.model).classes;
    exitCode = static_cast<int>(
        matchSession(*app, command->compile, command->session));
    if (exitCode == 0)
      exitCode = static_cast<int>(runEval(*command));
  });
}
