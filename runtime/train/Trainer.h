// The training loop: feeds batches, runs steps, and writes metrics and
// checkpoints.
//
// The loop decides only what the artifact leaves open: the order of the
// samples, the learning rate of each step, and when to evaluate, save and stop.
// Forward, backward, update and loss scaling are functions of the artifact. The
// loop never prints, exits or installs signal handlers: progress goes to a
// TrainObserver, and the caller raises the stop flag.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_TRAINER_H
#define MPC_RUNTIME_TRAIN_TRAINER_H

#include "runtime/Status.h"
#include "runtime/train/EarlyStopping.h"
#include "runtime/train/Schedule.h"
#include "runtime/train/data/Dataset.h"
#include "runtime/train/evaluate/Evaluator.h"
#include "runtime/train/evaluate/Monitor.h"
#include "runtime/train/trainee/Trainee.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mpc::runtime::train {

/// The treatment of samples that do not fill the last step of an epoch.
enum class LastBatch {
  Drop, ///< leave them out (different ones in each shuffled epoch)
  Keep, ///< fill up the step with the first samples of the same epoch
};

/// The number of steps of a run that ends for another reason.
constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

/// The flags of `mpc train` for the loop, named like the flags.
struct TrainOptions {
  int64_t epochs = 0;   ///< 0: not given; 1 unless `endsOtherwise`
  int64_t maxSteps = 0; ///< update attempts, skipped ones included; 0: no limit
  Schedule schedule;    ///< --lr, --lr-scheduler, --warmup-steps
  uint64_t seed = 0;    ///< shuffling, and the artifact's input "seed"
  bool shuffle = true;
  LastBatch lastBatch = LastBatch::Drop;

  std::vector<std::string> evalMetrics; ///< --metric, for evaluations
  int64_t evalEvery = 0;                ///< attempts between two; 0: an epoch
  std::optional<Monitor> best;          ///< the weights to keep
  std::optional<EarlyStopping> earlyStopping;
  /// --max-time: no attempt begins after this time.
  std::optional<std::chrono::steady_clock::time_point> deadline;
  std::vector<std::string> metrics; ///< files of lines or rows, "-"
  std::string tensorboard;          ///< folder of event files; empty: none
  bool overwriteMetrics = false; ///< true: replace the files of an earlier run
  std::string checkpointDir;     ///< empty: no checkpoints
  int64_t checkpointEvery = 0;   ///< attempts between two; 0: each epoch's end
  int64_t keepCheckpoints = 3;   ///< the number of complete ones to keep
  /// A caller that raises the flag gets a checkpoint after the current attempt.
  /// Saving lowers the flag.
  std::atomic<bool> *saveNow = nullptr;
  std::string resume; ///< "": start anew; "auto": newest valid one in
                      ///< checkpointDir, if any; else a checkpoint directory

  /// Training ends with StatusCode::Numeric after this many consecutive steps
  /// with a non-finite loss, skipped or not. 0: never before the end.
  int64_t maxNonfinite = 10;
  /// Training ends likewise after this many consecutive skipped steps, or after
  /// ten skipped steps with a dynamic loss scale at its floor. 0: never before
  /// the end.
  int64_t maxSkipped = 100;

  std::string version; ///< of mpc, for the metrics' "start" event

  /// True if the run ends without a number of epochs.
  bool endsOtherwise() const {
    return maxSteps > 0 || earlyStopping || deadline;
  }
};

/// One update attempt, as in the "train" event of the metrics.
struct StepReport {
  int64_t step = 0;      ///< update attempts so far, including this one
  int64_t microStep = 0; ///< batches so far
  int64_t epoch = 0;     ///< counted from 0
  int64_t samples = 0;   ///< samples seen so far
  double loss = 0;       ///< unscaled, before the update; mean over the step
  /// nullopt if the model's own update contains the rate.
  std::optional<double> learningRate;
  std::optional<double> accuracy;  ///< before the update, if measured
  std::optional<double> gradNorm;  ///< if the artifact reports it
  std::optional<double> lossScale; ///< if the recipe has one
  bool skipped = false;            ///< found-inf: nothing was updated
  int64_t skippedTotal = 0;
  /// Wall time of the attempt, including its input. If a device accepts inputs
  /// while it runs, the time includes the input of the next batch instead.
  double stepMs = 0;
};

/// The facts of a run before its first step.
struct StartReport {
  int64_t samples = 0;
  int64_t evalSamples = 0;
  int64_t batchSize = 0;
  int64_t accumulate = 1;
  int64_t stepsPerEpoch = 0;
  int64_t totalSteps = 0; ///< attempts the run is planned to make in the end,
                          ///< or kUnlimited
  int64_t firstStep = 0;  ///< attempts already made, on resume
  size_t memoryBytes = 0; ///< what the session holds
};

/// Receives progress between steps, in the caller's thread.
class TrainObserver {
public:
  virtual ~TrainObserver() = default;
  virtual void started(const StartReport &) {}
  virtual void stepped(const StepReport &) {}
  virtual void evaluated(int64_t step, int64_t epoch, const EvalResult &) {}
  virtual void checkpointed(int64_t step, const std::string &directory) {}
  /// Receives a remark for the user that does not end the run, like the use of
  /// an older checkpoint, or samples left out.
  virtual void note(std::string_view message) {}
  /// Receives a problem that does not end the run, like a checkpoint that could
  /// not be written.
  virtual void warning(std::string_view message) { note(message); }
};

/// The reason for the end of a run: Steps for the last step or a signal, or a
/// reason before that.
enum class RunEnd { Steps, EarlyStopping, TimeLimit };

/// The best of a run's evaluations, by `--best`.
struct BestEvaluation {
  int64_t step = 0;
  std::string metric;
  double value = 0;
};

struct TrainResult {
  int64_t steps = 0; ///< update attempts, including those before a resume
  int64_t skipped = 0;
  int64_t epochs = 0; ///< epochs completed
  int64_t samples = 0;
  std::optional<double> finalLoss; ///< of the last attempt, if one was made
  std::optional<EvalResult> evaluation; ///< the last one
  std::optional<BestEvaluation> best;   ///< evaluation of the final weights
  double medianStepMs = 0;
  size_t peakMemoryBytes = 0; ///< of the process, resident (RunStatistics.h)
  RunEnd end = RunEnd::Steps;
  int stopSignal = 0; ///< the flag's value if it stopped the run, after a save
  /// The first failure to write a checkpoint or a metrics line, which does not
  /// end a run; or the failure that ended a run with a best evaluation. The
  /// caller reports the failure in the end.
  Status deferred;
};

/// Returns the inputs that a training data set must have: those of `step`, or
/// of `accumulate` if the recipe accumulates. Unsupported if the artifact has
/// neither function.
StatusOr<FunctionPorts> trainingInputs(const TraineeInfo &info);

/// Checks the paths in `options`: a checkpoint to resume from, a directory for
/// checkpoints that no other run uses, files of metrics. Call before compiling
/// the model; `train` checks again.
Status checkPaths(const TrainOptions &options);

/// Checks before compiling that a run can begin: the data fill a step,
/// evaluations measure the metrics that flags need, and the checkpoint to
/// resume from has the same model, data and recipe. `info` may lack what
/// compiling adds to recipe and state; `train` checks again.
Status checkRun(const TraineeInfo &info, const Dataset &data,
                const Dataset *evalData, const TrainOptions &options);

/// Checks only the checkpoint to resume from. Call again when compiling has
/// completed the recipe.
Status checkResumed(const TraineeInfo &info, const Dataset &data,
                    const TrainOptions &options);

/// Trains `model` on `data`. Evaluates on `evalData` (may be null) after each
/// epoch, or every so many attempts, and at the end. With `options.best`, the
/// model ends with the weights of the best evaluation. `stop`, if not null, is
/// polled between batches, also in evaluations: a value other than 0 (a signal
/// number) ends the run after a checkpoint.
///
/// Failures: InvalidInput (data), Numeric, Checkpoint (resume), IO (metrics,
/// checkpoint directory), and failures of the artifact's functions. The
/// metrics' "end" event records them too. A checkpoint that cannot be written
/// does not stop the run: the failure is noted and in `TrainResult::deferred`.
///
/// Numeric also ends a run whose last loss is not finite, or whose every update
/// was skipped. The message names the origin of the first such value and the
/// last good checkpoint; the model's state is then no longer the run's. With a
/// best evaluation, the model has its weights, and the failure is
/// `TrainResult::deferred`.
StatusOr<TrainResult> train(Trainee &model, const Dataset &data,
                            const Dataset *evalData,
                            const TrainOptions &options,
                            TrainObserver *observer = nullptr,
                            const std::atomic<int> *stop = nullptr);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_TRAINER_H
