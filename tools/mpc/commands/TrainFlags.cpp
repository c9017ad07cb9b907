// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/commands/TrainFlags.h"

#include "runtime/Communicator.h"
#include "runtime/train/checkpoint/Checkpoint.h"
#include "runtime/train/data/ArrayFile.h"
#include "runtime/train/evaluate/EvalMetrics.h"
#include "tools/mpc/flags/Validators.h"
#include "tools/mpc/model/LabelData.h"
#include "tools/mpc/model/Overwriting.h"
#include "tools/mpc/print/Notes.h"

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;
using namespace mpc::runtime::train;

//===----------------------------------------------------------------------===//
// Registration
//===----------------------------------------------------------------------===//

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

void mpc::tools::addRanksOption(CLI::App &app, int &ranks) {
  app.add_option("--ranks", ranks,
                 "ranks that mpirun, srun or torchrun has started; 1: train "
                 "alone; default: as the launcher says")
      ->transform(wholeNumber(1));
}

static void addRankOptions(CLI::App &app, RankFlags &flags,
                           TrainOptions &train) {
  addRanksOption(app, flags.ranks);
  app.add_option("--rank-timeout", flags.timeout,
                 "longest wait for another rank")
      ->type_name("DURATION")
      ->capture_default_str();
  app.add_option("--check-ranks-every", train.checkRanksEvery,
                 "steps between two checks that all ranks have the same bits")
      ->transform(wholeNumber(int64_t(1)))
      ->capture_default_str();
  app.add_option("--global-batch-size", flags.globalBatch,
                 "batch size of all ranks together, in place of --batch-size, "
                 "the size of each rank")
      ->transform(wholeNumber(int64_t(1)))
      ->excludes("--batch-size");
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
                 "seed for shuffling, dropout, adapters and random numbers")
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
                 "trained model (.onnx, - for stdout), weights "
                 "(.safetensors, .npz) or adapters (.onnx_adapter)")
      ->type_name("FILE");
  app.add_option("--export-model", command.trained.exportModel,
                 "ONNX model that receives the weights; default: MODEL")
      ->type_name("FILE");
  app.add_flag("--trained-only", command.trained.trainedOnly,
               "write only trained parameters, such as adapters, and running "
               "statistics to --output (.safetensors or .npz)");
  app.add_flag("--unmerged", command.trained.unmerged,
               "write adapters as nodes of the model, not merged into its "
               "weights; ONNX Runtime can then replace them by an "
               ".onnx_adapter");
  app.add_option("--metric", command.train.evalMetrics,
                 "metric to measure in evaluations besides the loss: " +
                     listEvalMetrics() +
                     "; NAME@OUTPUT for the output of another loss; several "
                     "with commas (repeatable)")
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
  app.add_option("--trace", command.trace,
                 "write the times of the run's parts and of the kernels of "
                 "its first steps as a Chrome trace, which Perfetto opens")
      ->type_name("FILE");
  app.add_option("--trace-steps", command.tracedSteps,
                 "steps that the trace shows")
      ->transform(wholeNumber(int64_t(1)))
      ->capture_default_str();
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

void mpc::tools::addTrainFlags(CLI::App &app, TrainCommand &command) {
  // The order of these calls is the order of flags in --help: model, data,
  // schedule, loop, results, log, device.
  addCompileOptions(app, command.compile);
  addDataOptions(app, command);
  addScheduleFlags(app, command.schedule, command.train.schedule);
  addLoopOptions(app, command.train);
  addLoopFlags(app, command.loop, command.train);
  addRankOptions(app, command.ranks, command.train);
  addOutputOptions(app, command);
  addLogOptions(app, command);
  addSessionOptions(app, command.session);
  addKernelCacheOption(app, command.compile);
}

//===----------------------------------------------------------------------===//
// Options and checks
//===----------------------------------------------------------------------===//

ExitCode mpc::tools::resolve(TrainCommand &command) {
  if (ExitCode code = resolve(command.schedule, command.train.schedule);
      code != ExitCode::Done)
    return code;
  command.train.lastBatch =
      command.lastBatch == "keep" ? LastBatch::Keep : LastBatch::Drop;
  command.train.shuffle = !command.noShuffle;
  command.train.version = MPC_VERSION;
  command.compile.pipeline.recipe.loraSeed =
      static_cast<int64_t>(command.train.seed);
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
  if (ExitCode code = refuseOverwriting("--trace", command.trace, read);
      code != ExitCode::Done)
    return code;
  for (const std::string &metrics : command.train.metrics)
    if (ExitCode code = refuseOverwriting("--metrics", metrics, read);
        code != ExitCode::Done)
      return code;
  // Also check that no two outputs have the same path.
  std::vector<WrittenPlace> written = {
      {"--output", command.trained.output},
      {"--trace", command.trace},
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

ExitCode mpc::tools::checkFiles(TrainCommand &command) {
  if (ExitCode code = checkOverwriting(command); code != ExitCode::Done)
    return code;
  if (Status status = checkDataFlags(command.data, command.valData);
      !status.ok())
    return reportError(status);
  std::string &resume = command.train.resume;
  const bool isFirst =
      !command.train.communicator || command.train.communicator->isFirst();
  if (isFirst && !resume.empty() && resume != "auto") {
    StatusOr<std::string> found = findCheckpoint(resume);
    if (!found.ok())
      return reportError(found.status());
    resume = *found;
  }
  return reportError(checkPaths(command.train));
}
