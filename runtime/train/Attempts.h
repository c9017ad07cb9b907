// Runs update attempts one after another: chooses the learning rate and, in a
// run over a data set, the samples of each attempt, and counts progress. An
// attempt is one step of the optimizer over one batch or several. An attempt
// whose gradients are not finite is skipped: it changes no weights.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_ATTEMPTS_H
#define MPC_RUNTIME_TRAIN_ATTEMPTS_H

#include "runtime/train/StepRunner.h"
#include "runtime/train/Trainer.h"
#include "runtime/train/checkpoint/Checkpoint.h"

namespace mpc::runtime::train {

/// The length of a run, in attempts. kUnlimited if the number is not known.
struct RunLength {
  int64_t stepsPerEpoch = kUnlimited;
  int64_t totalSteps = kUnlimited;
};

/// Runs attempts batch by batch, on samples that the caller chooses, with the
/// learning rate of the schedule, and counts progress.
class AttemptRunner {
public:
  /// `options`, of which schedule and seed are read, must outlive the object.
  AttemptRunner(StepRunner runner, const TrainOptions &options,
                int64_t batchSize, RunLength length)
      : runner(std::move(runner)), options(options), batchSize(batchSize),
        length(length) {}

  int64_t batches() const { return runner.batches(); }
  bool takesLearningRate() const { return runner.takesLearningRate(); }
  /// Returns the learning rate of the attempt that follows `progress`. The
  /// schedule counts only attempts that were not skipped.
  double rateAfter(const Progress &progress) const;

  /// Runs the next batch of the attempt that follows `progress`, adds it to
  /// `progress`, and returns its loss. See StepRunner::runBatch.
  StatusOr<double> runBatch(Progress &progress, const Dataset &data,
                            const int64_t *positions,
                            const BatchLoader::NextBatch &next);
  /// Ends an attempt whose batches() have run: updates the weights, counts the
  /// attempt in `progress`, and reports it.
  StatusOr<StepReport> finish(Progress &progress);

  void setTrace(std::string *where) { runner.setTrace(where); }
  void forgetScalars() { runner.forgetScalars(); }

private:
  void count(Progress &progress, bool skipped) const;

  StepRunner runner;
  const TrainOptions &options;
  const int64_t batchSize;
  const RunLength length;
};

/// Runs the attempts of a run over a data set.
class Attempts {
public:
  Attempts(StepRunner runner, const Dataset &data, const TrainOptions &options,
           RunLength length)
      : runner(std::move(runner), options, data.batchSize(), length),
        data(data), options(options), length(length) {}

  /// Runs the attempt that follows `progress`, and adds it to `progress`.
  /// nullopt if `stop` becomes nonzero between two batches of the attempt;
  /// `progress` then counts the finished batches.
  StatusOr<std::optional<StepReport>> run(Progress &progress,
                                          const std::atomic<int> *stop);

  /// Runs an attempt like `run`, but step by step. Returns a description of the
  /// origin of the first non-finite value; empty if all values are finite.
  /// Unsupported on some devices.
  StatusOr<std::string> trace(Progress &progress);

private:
  const std::vector<int64_t> &orderOf(int64_t epoch);
  std::vector<int64_t> positionsOf(const Progress &progress);
  BatchSamples samplesAfter(Progress progress);

  AttemptRunner runner;
  const Dataset &data;
  const TrainOptions &options;
  const RunLength length;
  /// The order of the samples in epoch `orderEpoch`, kept until the epoch ends.
  std::vector<int64_t> order;
  int64_t orderEpoch = -1;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_ATTEMPTS_H
