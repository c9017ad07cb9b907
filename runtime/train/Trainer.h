// The training loop: feeds batches, runs steps, and writes metrics and
// checkpoints.
//
// The loop decides only what the artifact leaves open: the order of the
// samples, the learning rate of each step, and when to evaluate, save and stop.
// Forward, backward, update and loss scaling are functions of the artifact. The
// loop never prints, exits or installs signal handlers: progress goes to a
// TrainObserver, and the caller raises the stop flag.
//
// An attempt, or update attempt, is one step of the optimizer over one batch or
// several. An attempt whose gradients are not finite is skipped: it changes no
// weights.
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
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mpc::runtime {
class Communicator;
}

namespace mpc::runtime::train {

class RunRecorder;

/// The treatment of samples that do not fill the last step of an epoch.
enum class LastBatch {
  Drop, ///< leave them out (different ones in each shuffled epoch)
  Keep, ///< fill up the step with the first samples of the same epoch
};

/// The number of steps of a run that no number of steps or epochs limits, for
/// example with --max-time alone.
constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

/// The flags of `mpc train` for the loop. Each member has the name of its flag.
struct TrainOptions {
  /// --epochs. 0 if not given, which means one epoch, or any number of epochs
  /// if `endsOtherwise`.
  int64_t epochs = 0;
  int64_t maxSteps = 0; ///< update attempts, skipped ones included; 0: no limit
  Schedule schedule;    ///< --lr, --lr-scheduler, --warmup-steps
  uint64_t seed = 0;    ///< for shuffling and for the artifact's input "seed"
  bool shuffle = true;
  LastBatch lastBatch = LastBatch::Drop;

  std::vector<std::string> evalMetrics; ///< --metric, for evaluations
  int64_t evalEvery = 0; ///< attempts between two evaluations; 0: an epoch
  std::optional<Monitor> best; ///< metric that decides which weights to keep
  std::optional<EarlyStopping> earlyStopping;
  /// --max-time: no attempt begins after this time.
  std::optional<std::chrono::steady_clock::time_point> deadline;
  int unfinishedCode = 0; ///< --unfinished-code: exit code after `deadline`
  std::vector<std::string> metrics; ///< metrics files; "-" is standard output
  std::string tensorboard;          ///< folder of event files; empty: none
  bool overwriteMetrics = false; ///< true: replace the files of an earlier run
  std::string checkpointDir;     ///< empty: no checkpoints
  /// Attempts between two checkpoints. 0: one at the end of each epoch.
  int64_t checkpointEvery = 0;
  int64_t keepCheckpoints = 3; ///< number of newest checkpoints to keep
  /// If the caller sets this flag, the run writes a checkpoint after the
  /// current attempt and clears the flag.
  std::atomic<bool> *saveNow = nullptr;
  /// "" starts anew. "auto" resumes from the newest valid checkpoint in
  /// checkpointDir, or starts anew if there is none. Otherwise the directory of
  /// a checkpoint.
  std::string resume;

  /// Training ends with StatusCode::Numeric after this many consecutive steps
  /// with a non-finite loss, skipped or not. 0: never before the end.
  int64_t maxNonfinite = 10;
  /// Training ends with StatusCode::Numeric after this many consecutive skipped
  /// steps, or after ten skipped steps with a dynamic loss scale at its floor.
  /// 0: never before the end.
  int64_t maxSkipped = 100;

  /// Receives the times of steps, data, evaluations and checkpoints; null for
  /// none.
  RunRecorder *recorder = nullptr;

  /// Connects the ranks that train together; null for one rank.
  Communicator *communicator = nullptr;
  /// Attempts between two comparisons of the state of all ranks.
  int64_t checkRanksEvery = 1000;
  /// Receives a failure that ends the other ranks, before they end: ending them
  /// may end this process too. May be empty.
  std::function<void(const Status &)> reportFailure;

  std::string version; ///< version of mpc, for the metrics' "start" event
  /// Metadata that checkpoints keep for models made from them, by key.
  std::map<std::string, std::string> record;

  /// True if a flag other than --epochs can end the run.
  bool endsOtherwise() const {
    return maxSteps > 0 || earlyStopping || deadline;
  }
};

/// One update attempt, as in the "train" event of the metrics.
struct StepReport {
  int64_t step = 0;       ///< update attempts so far, including this one
  int64_t microStep = 0;  ///< batches so far
  int64_t epoch = 0;      ///< counted from 0
  int64_t samples = 0;    ///< samples seen so far
  bool endsEpoch = false; ///< true for the last attempt of an epoch
  double loss = 0;        ///< mean over the step before the update, unscaled
  /// The values of several losses by name, without their factors; nullopt if
  /// another process began the attempt. Empty for a single loss.
  std::vector<std::pair<std::string, std::optional<double>>> terms;
  /// nullopt if the model fixes the rate itself.
  std::optional<double> learningRate;
  std::optional<double> accuracy;  ///< before the update, if measured
  std::optional<double> gradNorm;  ///< if the artifact reports it
  std::optional<double> lossScale; ///< if the recipe has one
  bool skipped = false; ///< true if non-finite gradients changed nothing
  int64_t skippedTotal = 0;
  /// The bytes that this rank has sent to others; nullopt for a single rank.
  std::optional<int64_t> wireBytes;
  /// Wall time of the attempt, including the preparation of its input. If the
  /// device accepts inputs while it runs, includes the preparation of the next
  /// batch's input instead.
  double stepMs = 0;
};

/// The facts of a run before its first step.
struct StartReport {
  int64_t samples = 0;
  int64_t evalSamples = 0;
  int64_t batchSize = 0;
  int64_t accumulate = 1;
  int64_t ranks = 1;
  int64_t stepsPerEpoch = 0;
  /// Planned attempts of the whole run, including those before a resume; or
  /// kUnlimited.
  int64_t totalSteps = 0;
  /// Epochs that the whole run begins, or kUnlimited. Epochs before a resume
  /// may have had another number of steps.
  int64_t totalEpochs = 0;
  int64_t firstStep = 0;  ///< attempts made before a resume
  size_t memoryBytes = 0; ///< bytes of memory that the session holds
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

/// The reason for the end of a run. Steps means that all steps are done, or
/// that a signal stopped the run.
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
  std::optional<EvalResult> evaluation; ///< of the last evaluation
  std::optional<BestEvaluation> best;   ///< of the final weights, with --best
  double medianStepMs = 0;
  size_t peakMemoryBytes = 0; ///< PeakMemory::bytes
  RunEnd end = RunEnd::Steps;
  int stopSignal = 0; ///< signal that stopped the run, after a save; else 0
  /// The exit code of the run without failures: 128 + stopSignal after a
  /// signal, TrainOptions::unfinishedCode after the time limit, otherwise 0.
  int exitCode = 0;
  /// A failure that did not end the run, for the caller to report at the end:
  /// the first failure to write a checkpoint or a metrics line. Or the Numeric
  /// failure that ended a run whose best weights were kept.
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
/// does not end the run: the failure is reported to the observer and in
/// `TrainResult::deferred`.
///
/// Numeric also ends a run whose last loss is not finite, or all of whose
/// updates were skipped. The message names the origin of the first non-finite
/// value and the last good checkpoint. The search for the origin changes the
/// model's state. If an evaluation has found best weights, the model gets them,
/// `train` succeeds, and the failure is in `TrainResult::deferred`.
StatusOr<TrainResult> train(Trainee &model, const Dataset &data,
                            const Dataset *evalData,
                            const TrainOptions &options,
                            TrainObserver *observer = nullptr,
                            const std::atomic<int> *stop = nullptr);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_TRAINER_H
