// Everything that lives from the first step of a training run to the last.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_TRAININGRUN_H
#define MPC_RUNTIME_TRAIN_TRAININGRUN_H

#include "runtime/train/Attempts.h"
#include "runtime/train/BestModel.h"
#include "runtime/train/Divergence.h"
#include "runtime/train/EvaluationRules.h"
#include "runtime/train/MetricsLog.h"
#include "runtime/train/RunIdentity.h"
#include "runtime/train/RunStatistics.h"
#include "runtime/train/Trainer.h"
#include "runtime/train/checkpoint/Checkpoint.h"
#include "runtime/train/support/Ranks.h"

#include <optional>
#include <string>
#include <vector>

namespace mpc::runtime::train {

/// A training run. All ranks go through equal events; only the first rank
/// writes files.
class TrainingRun {
public:
  TrainingRun(Trainee &model, const Dataset &data, const Dataset *evalData,
              const TrainOptions &options, TrainObserver &observer,
              const std::atomic<int> *stop)
      : model(model), data(data), evalData(evalData), options(options),
        ranks(options.communicator, options.reportFailure), observer(observer),
        stop(stop),
        digits(model.info().precision == "64-true" ? Digits::Double
                                                   : Digits::Single),
        guard(options, model.info()), rules(options, note) {}

  StatusOr<TrainResult> run();

private:
  Status prepare();
  Status check();
  Status openCheckpoints();
  Status beginGuard();
  Status planSteps();
  Status adopt(Progress &place);
  Status resume();
  Status openMetrics();
  StartReport describeStart() const;
  Status train();
  Status attempt();
  bool isDue(int64_t every) const;
  Status evaluateNow();
  Status heed(const EvalResult &evaluation);
  Status keepBest();
  Status restoreBest();
  bool saveBest();
  bool saves() const { return !options.checkpointDir.empty(); }
  void keepOn(const std::string &what, const Status &status);
  Status save();
  Status write();
  void record(const MetricsLine &line);
  void deferNonFinite();
  void finish(const Status &status);
  Status explain(const Status &failure);
  StatusOr<Progress> restoreGood();
  Status checkRanks();
  Status shareStart();
  Status agreeRequests();
  Requests pollRequests() const;
  std::string goodCheckpoint() const;
  RunIdentity identity() const {
    return identityOf(model.info(), data, options);
  }
  /// True if a signal stops the run. Several ranks must have agreed before.
  bool stopped() const {
    return ranks.isSingle() ? stop && stop->load() != 0 : requests.stop != 0;
  }
  /// True after the deadline, but never before the first step of this process:
  /// otherwise a run whose compilation takes as long as the limit would never
  /// advance.
  bool isTimeOver() const {
    return progress.step > firstStep &&
           (ranks.isSingle() ? isPastDeadline() : requests.isTimeOver);
  }
  bool isPastDeadline() const {
    return options.deadline &&
           std::chrono::steady_clock::now() >= *options.deadline;
  }
  bool done() const {
    return progress.step >= totalSteps || stopped() ||
           rules.isOver(progress.evaluations) || isTimeOver();
  }
  void noteEnd();

  Trainee &model;
  const Dataset &data;
  const Dataset *evalData;
  const TrainOptions &options;
  Ranks ranks;
  TrainObserver &observer;
  const std::atomic<int> *stop;
  const Digits digits;

  const EvaluationRules::Note note = [this](auto &s) { observer.note(s); };
  const EvaluationRules::Note warn = [this](auto &s) { observer.warning(s); };
  DivergenceGuard guard;
  const EvaluationRules rules;
  std::optional<StepRunner> runner; ///< until `attempts` takes it
  std::optional<Attempts> attempts;
  int64_t batchesPerStep = 1;
  bool measuresAccuracy = false;   ///< true if steps report an accuracy
  std::vector<std::string> losses; ///< names of several losses of a step
  EpochSteps epoch;
  int64_t totalSteps = 0;
  Progress progress;
  Progress lastBegin; ///< the place where the last attempt began
  Requests requests;  ///< of all ranks, at the last agreement
  int64_t firstStep = 0;
  int64_t lastSaved = -1;
  int64_t lastEvaluated = -1; ///< step of the last evaluation in this process
  bool interrupted = false;   ///< true if a stop left something undone
  StepTimes stepTimes;
  PeakMemory memory;
  /// The last failure to save a checkpoint. A repeated failure is reported
  /// once.
  Status lastSaveFailure;
  bool lacksMetrics = false; ///< true if the last metrics line was not written
  std::optional<CheckpointStore> checkpoints; ///< only on the first rank
  std::optional<BestModel> best;              ///< only on the first rank
  MetricsLog metrics;
  TrainResult result;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_TRAININGRUN_H
