// The training loop: batches in, steps run, metrics and checkpoints out.
//
// The loop decides only what the artifact leaves open: the order of the
// samples, the learning rate of each step, when to evaluate, to save and to
// stop. Forward, backward, update and loss scaling are the artifact's
// functions. Nothing here prints, exits or installs a signal handler: progress
// goes to a TrainObserver, and the caller raises the stop flag.
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

/// What happens to the samples that do not fill the last step of an epoch.
enum class LastBatch {
  Drop, ///< they are left out (a shuffled epoch leaves out others each time)
  Keep, ///< the step is filled up with the first samples of the same epoch
};

/// The total of a run's steps where it ends by something else.
constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

/// The flags of `mpc train` that concern the loop, under the flags' names.
struct TrainOptions {
  int64_t epochs = 0;   ///< 0: not given; 1 unless `endsOtherwise`
  int64_t maxSteps = 0; ///< update attempts, skipped ones included; 0: no limit
  Schedule schedule;    ///< --lr, --lr-scheduler, --warmup-steps
  uint64_t seed = 0;    ///< shuffling, and the artifact's input "seed"
  bool shuffle = true;
  LastBatch lastBatch = LastBatch::Drop;

  std::vector<std::string> evalMetrics; ///< --metric, of evaluations
  int64_t evalEvery = 0;                ///< attempts between two; 0: an epoch
  std::optional<Monitor> best;          ///< whose weights are kept
  std::optional<EarlyStopping> earlyStopping;
  /// --max-time: no attempt begins after it.
  std::optional<std::chrono::steady_clock::time_point> deadline;
  std::vector<std::string> metrics; ///< files of lines or rows, "-"
  std::string tensorboard;          ///< folder of event files; empty: none
  bool overwriteMetrics = false; ///< another run's, where they are in the way
  std::string checkpointDir;     ///< empty: no checkpoints
  int64_t checkpointEvery = 0;   ///< attempts between two; 0: each epoch's end
  int64_t keepCheckpoints = 3;   ///< how many complete ones stay
  /// Whoever raises it gets a checkpoint after the attempt that is under way;
  /// it is lowered then.
  std::atomic<bool> *saveNow = nullptr;
  std::string resume; ///< "": start anew; "auto": newest valid one in
                      ///< checkpointDir, if any; else a checkpoint directory

  /// Consecutive steps with a non-finite loss, skipped or not, after which
  /// training ends with StatusCode::Numeric. 0: never before its end.
  int64_t maxNonfinite = 10;
  /// Consecutive skipped steps with the same end; a dynamic loss scale that has
  /// been at its floor for ten of them has it too. 0: never before its end.
  int64_t maxSkipped = 100;

  std::string version; ///< of mpc, for the metrics' "start" event

  /// Whether the run ends without a number of epochs.
  bool endsOtherwise() const {
    return maxSteps > 0 || earlyStopping || deadline;
  }
};

/// One update attempt, as the "train" event of the metrics reports it.
struct StepReport {
  int64_t step = 0;      ///< update attempts so far, this one included
  int64_t microStep = 0; ///< batches so far
  int64_t epoch = 0;     ///< counted from 0
  int64_t samples = 0;   ///< samples seen so far
  double loss = 0;       ///< unscaled, before the update; mean over the step
  /// Nothing for a model with an update of its own that contains its rate.
  std::optional<double> learningRate;
  std::optional<double> accuracy;  ///< before the update, where it is measured
  std::optional<double> gradNorm;  ///< where the artifact reports it
  std::optional<double> lossScale; ///< where the recipe has one
  bool skipped = false;            ///< found-inf: nothing was updated
  int64_t skippedTotal = 0;
  /// Wall time of the attempt, input included: where a device takes inputs
  /// while it runs, that of the batch after it.
  double stepMs = 0;
};

/// Before step 0.
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

/// Receives progress, in the caller's thread, between steps.
class TrainObserver {
public:
  virtual ~TrainObserver() = default;
  virtual void started(const StartReport &) {}
  virtual void stepped(const StepReport &) {}
  virtual void evaluated(int64_t step, int64_t epoch, const EvalResult &) {}
  virtual void checkpointed(int64_t step, const std::string &directory) {}
  /// Something to tell the user that does not end the run: a fallback to an
  /// older checkpoint, samples left out.
  virtual void note(std::string_view message) {}
  /// The same of what goes wrong: a checkpoint that could not be written.
  virtual void warning(std::string_view message) { note(message); }
};

/// What ended a run: its last step or a signal, or something before it.
enum class RunEnd { Steps, EarlyStopping, TimeLimit };

/// The best of a run's evaluations, by `--best`.
struct BestEvaluation {
  int64_t step = 0;
  std::string metric;
  double value = 0;
};

struct TrainResult {
  int64_t steps = 0; ///< update attempts, those before a resume included
  int64_t skipped = 0;
  int64_t epochs = 0; ///< epochs completed
  int64_t samples = 0;
  std::optional<double> finalLoss; ///< of the last attempt, if one was made
  std::optional<EvalResult> evaluation; ///< the last one
  std::optional<BestEvaluation> best;   ///< whose weights the model has
  double medianStepMs = 0;
  size_t peakMemoryBytes = 0; ///< of the process, resident (RunStatistics.h)
  RunEnd end = RunEnd::Steps;
  int stopSignal = 0; ///< the flag's value if it stopped the run, after a save
  /// The first failure to write a checkpoint or a metrics line, without which
  /// the run goes on, or what ended a run that has a best evaluation. The
  /// caller reports it in the end.
  Status deferred;
};

/// What the data set of `model`'s training must offer: the inputs of `step`, or
/// of `accumulate` where the recipe accumulates. Unsupported where the artifact
/// has neither.
StatusOr<FunctionPorts> trainingInputs(const TraineeInfo &info);

/// Whether what `options` name can be had: a checkpoint to resume from, a
/// directory for checkpoints that no other run has, a metrics file. For finding
/// out before the model is compiled; `train` checks again.
Status checkPaths(const TrainOptions &options);

/// Whether such a run can begin, as far as it is known before the model is
/// compiled: its data fill a step, its evaluations have the figures that the
/// flags ask for, and the checkpoint it goes on from is of the same model, data
/// and recipe. `info` may lack what compiling adds to the recipe and to the
/// state; `train` checks again.
Status checkRun(const TraineeInfo &info, const Dataset &data,
                const Dataset *evalData, const TrainOptions &options);

/// The last of these alone, which can be told once more when the recipe has
/// what compiling decides.
Status checkResumed(const TraineeInfo &info, const Dataset &data,
                    const TrainOptions &options);

/// Trains `model` on `data`, evaluating on `evalData` (may be null) after each
/// epoch, or every so many attempts, and at the end. With `options.best` the
/// model has the weights of the best evaluation in the end. `stop`, where
/// given, is polled between batches, those of evaluations too: a value other
/// than 0 (a signal number) ends the run after a checkpoint.
///
/// Failures: InvalidInput (data), Numeric, Checkpoint (resume), IO (metrics,
/// checkpoint directory), and what the artifact's functions return. They are
/// in the metrics' "end" event too. A checkpoint that cannot be written does
/// not stop the run; it is noted and in `TrainResult::deferred`.
///
/// Numeric is also the end of a run whose last loss is not finite, or whose
/// every update was skipped. The message says where the first such value comes
/// from, and which checkpoint is the last good one; the model's state then is
/// not the run's any more. Where there is a best evaluation, the model has its
/// weights, and that failure is `TrainResult::deferred`.
StatusOr<TrainResult> train(Trainee &model, const Dataset &data,
                            const Dataset *evalData,
                            const TrainOptions &options,
                            TrainObserver *observer = nullptr,
                            const std::atomic<int> *stop = nullptr);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_TRAINER_H
