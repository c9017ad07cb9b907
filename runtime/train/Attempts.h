// Runs update attempts one after another: chooses the learning rate and, in a
// run over a data set, the samples of each attempt, and counts progress. An
// attempt is one step of the optimizer over one batch or several. An attempt
// whose gradients are not finite is skipped: it changes no weights.
//
// With R ranks, an attempt takes R times as many batches. Rank r takes the
// batches r, r + R, r + 2 R, ..., numbered in the order of a single rank.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_ATTEMPTS_H
#define MPC_RUNTIME_TRAIN_ATTEMPTS_H

#include "runtime/train/StepRunner.h"
#include "runtime/train/Trainer.h"
#include "runtime/train/checkpoint/Checkpoint.h"
#include "runtime/train/support/Ranks.h"

#include <functional>

namespace mpc::runtime::train {

/// The length of a run, in attempts. kUnlimited if the number is not known.
struct RunLength {
  int64_t stepsPerEpoch = kUnlimited;
  int64_t totalSteps = kUnlimited;
  /// In a run over a data set: the last place of an epoch at which an attempt
  /// can begin. The epoch then ends by samples, not by attempts.
  std::optional<int64_t> lastBegin;

  /// True if the epoch of `progress` has no further attempt.
  bool endsEpoch(const Progress &progress) const {
    return lastBegin ? progress.sampleInEpoch > *lastBegin
                     : progress.stepInEpoch == stepsPerEpoch;
  }
};

/// The requests of signals and of the clock to a run.
struct Requests {
  int stop = 0;            ///< the signal that stops the run; 0 for none
  bool save = false;       ///< true to write a checkpoint now
  bool isTimeOver = false; ///< true after --max-time
};

/// Runs attempts batch by batch, on samples that the caller chooses, with the
/// learning rate of the schedule, and counts progress. All ranks make equal
/// calls.
class AttemptRunner {
public:
  /// `options`, of which schedule and seed are read, `model` and `ranks` must
  /// outlive the object.
  AttemptRunner(StepRunner runner, Trainee &model, const TrainOptions &options,
                int64_t batchSize, RunLength length, Ranks &ranks)
      : runner(std::move(runner)), model(model), options(options),
        batchSize(batchSize), length(length), ranks(ranks) {}

  /// The number of batches that this rank runs in an attempt.
  int64_t batches() const { return runner.batches(); }
  int64_t samplesPerStep() const {
    return batches() * batchSize * ranks.count();
  }
  bool takesLearningRate() const { return runner.takesLearningRate(); }
  /// Returns the learning rate of the attempt that follows `progress`. The
  /// schedule counts only attempts that were not skipped.
  double rateAfter(const Progress &progress) const;
  /// Returns the number, among the batches of all ranks in an attempt, of this
  /// rank's batch number `batch`.
  int64_t firstOf(int64_t batch) const {
    return batch * ranks.count() + ranks.own();
  }

  /// Runs and counts the next batch of the attempt after `progress`, and
  /// returns the batch's loss. See StepRunner::runBatch.
  StatusOr<double> runBatch(Progress &progress, const Dataset &data,
                            const int64_t *positions,
                            const BatchLoader::NextBatch &next);
  /// Ends an attempt whose batches() have run: updates the weights, counts the
  /// attempt in `progress`, and reports it. Several ranks get the means over
  /// all ranks.
  StatusOr<StepReport> finish(Progress &progress);
  /// Adds an attempt, skipped or not, to `progress`.
  void count(Progress &progress, bool skipped) const;

  /// Makes `finish` call `poll` on several ranks, and collect the requests of
  /// all ranks.
  void setRequests(std::function<Requests()> poll) {
    ownRequests = std::move(poll);
  }
  /// The requests of all ranks after the last attempt.
  const Requests &requests() const { return agreed; }

  void setTrace(StepRunner::FirstNonFinite *first) { runner.setTrace(first); }
  void forgetScalars() { runner.forgetScalars(); }

private:
  Status numberBatch(const Progress &progress, int64_t number);
  Status combine(StepOutcome &outcome);

  StepRunner runner;
  Trainee &model;
  const TrainOptions &options;
  const int64_t batchSize;
  const RunLength length;
  Ranks &ranks;
  std::function<Requests()> ownRequests = [] { return Requests(); };
  Requests agreed;
  /// The difference between the model's count of batches and the count in
  /// `progress`; nullopt before the first batch, or if the model does not
  /// count.
  std::optional<int64_t> numbersAhead;
};

/// Runs the attempts of a run over a data set. All ranks make equal calls, and
/// get equal reports.
class Attempts {
public:
  /// `ranks` must outlive the object.
  Attempts(StepRunner runner, Trainee &model, const Dataset &data,
           const TrainOptions &options, RunLength length, Ranks &ranks)
      : runner(std::move(runner), model, options, data.batchSize(), length,
               ranks),
        data(data), options(options), length(length), ranks(ranks) {}

  /// Runs the attempt that follows `progress`, and adds it to `progress`.
  /// nullopt if `stop` becomes nonzero between two batches of the attempt;
  /// `progress` then counts the finished batches. Several ranks never stop
  /// within an attempt, since each has a part of the gradients.
  StatusOr<std::optional<StepReport>> run(Progress &progress,
                                          const std::atomic<int> *stop);

  /// Runs an attempt like `run`, but step by step. Returns a description of the
  /// origin of the first non-finite value; empty if all values are finite.
  /// Unsupported on some devices.
  StatusOr<std::string> trace(Progress &progress);

  /// Makes `run` call `poll` at the end of each attempt, and collect the
  /// requests of all ranks.
  void setRequests(std::function<Requests()> poll) {
    runner.setRequests(std::move(poll));
  }
  /// The requests of all ranks after the last attempt.
  const Requests &requests() const { return runner.requests(); }

private:
  const std::vector<int64_t> &orderOf(int64_t epoch);
  std::vector<int64_t> positionsOf(const Progress &progress);
  BatchSamples samplesAfter(Progress progress);
  StatusOr<std::optional<StepReport>> runOwn(Progress &progress,
                                             const std::atomic<int> *stop);

  AttemptRunner runner;
  const Dataset &data;
  const TrainOptions &options;
  const RunLength length;
  Ranks &ranks;
  /// The order of the samples in epoch `orderEpoch`, kept until the epoch ends.
  std::vector<int64_t> order;
  int64_t orderEpoch = -1;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_ATTEMPTS_H
