// Trains on batches that a calling program supplies. The program decides about
// samples, evaluations and the end; the trainer keeps the
// schedule, the progress and the checkpoints.
//
// Over several ranks, all ranks make equal calls, each with its own batches.
// Rank r takes the batches r, r + R, r + 2 R, ... of a single rank. Results are
// equal on all ranks. The first rank reads and writes the checkpoints. If a
// call is refused on one rank, it fails on all: with a Rank error on the
// others.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_BATCHTRAINER_H
#define MPC_RUNTIME_TRAIN_BATCHTRAINER_H

#include "runtime/Status.h"
#include "runtime/train/Attempts.h"
#include "runtime/train/BestModel.h"
#include "runtime/train/EvaluationRules.h"
#include "runtime/train/RunIdentity.h"
#include "runtime/train/Trainer.h"
#include "runtime/train/checkpoint/Checkpoint.h"
#include "runtime/train/data/InputBytes.h"
#include "runtime/train/trainee/Trainee.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mpc::runtime::train {

struct BatchTrainerOptions {
  /// The members schedule, seed, checkpointDir, keepCheckpoints, resume, best,
  /// earlyStopping and communicator.
  TrainOptions loop;
  RunLength length;
  std::string data; ///< names the data and their order
  bool allowsNaN = false;
};

/// The consequences of an evaluation.
struct Verdict {
  bool isBest = false;     ///< true for the best evaluation of --best so far
  bool shouldStop = false; ///< true if --early-stopping ends the run
};

/// The results of one batch.
struct BatchReport {
  double loss = 0; ///< of this rank's batch, or of the attempt
  /// The attempt that the batch completed; nullopt if more batches are needed.
  std::optional<StepReport> step;
};

class BatchTrainer {
public:
  /// Resumes as `options.loop.resume` says. Usage for options that contradict
  /// each other, Unsupported if the model cannot be trained. Failures leave the
  /// model unchanged.
  static StatusOr<std::unique_ptr<BatchTrainer>>
  create(std::unique_ptr<Trainee> model, BatchTrainerOptions options);

  /// Trains on one batch, which must have the model's batch size. After a
  /// failure of the model itself, returns the failure in each later call; other
  /// ranks may wait for this rank until the caller aborts.
  StatusOr<BatchReport> run(const std::vector<InputBytes> &given);

  /// Writes a checkpoint of the present place, unless there is one. Usage
  /// within an attempt of several ranks.
  Status save();

  /// Averages running statistics over the ranks, and checks that all other
  /// state has equal bits on all ranks. A Rank error if not, with the name of
  /// the first different variable.
  Status checkRanks();

  /// Counts an evaluation of the present weights for --best, --early-stopping
  /// and plateau. Keeps the weights of the best: in a checkpoint if there is a
  /// folder, else in memory. Usage if none of the three is in use, if the
  /// evaluation lacks the metric, or within an attempt.
  StatusOr<Verdict> count(const EvalResult &evaluation);

  /// Ends the training: gives the model the weights of the best evaluation, and
  /// returns its step. Usage without --best, Numeric if no evaluation had a
  /// finite value.
  StatusOr<int64_t> restoreBest();

  const Progress &progress() const { return current; }
  int64_t batchSize() const { return data.batchSize; }
  int64_t rankCount() const { return ranks.count(); }
  double learningRate() const { return runner->rateAfter(current); }
  /// Usage if the rate is not possible, or not that of all ranks.
  Status setLearningRate(double rate);

  /// Remarks of the last call of `create`, `run`, `save`, `count` or
  /// `restoreBest`, one per line.
  const std::string &notes() const { return noted; }

private:
  BatchTrainer(std::unique_ptr<Trainee> model, BatchTrainerOptions options)
      : model(std::move(model)), options(std::move(options)),
        ranks(this->options.loop.communicator) {}
  Status begin();
  Status prepare();
  Status checkSameRun();
  Status openCheckpoints();
  Status resume();
  Status shareStart();
  Status findBest();
  bool saves() const { return !options.loop.checkpointDir.empty(); }
  StatusOr<BatchReport> train(const Dataset &batch);
  StatusOr<Dataset> read(const std::vector<InputBytes> &given);
  Status write();
  Status keepBest();
  Status checkSameValues(const std::vector<double> &values, const char *what);
  RunIdentity identity() const {
    return identityOf(model->info(), data, options.loop.seed);
  }
  EvaluationRules rules() {
    return EvaluationRules(options.loop,
                           [this](const std::string &text) { note(text); });
  }
  void note(const std::string &text);

  std::unique_ptr<Trainee> model;
  BatchTrainerOptions options;
  Ranks ranks;
  FunctionPorts ports; ///< of the function that takes the batches
  DatasetOptions batchOptions;
  RunData data;
  std::optional<AttemptRunner> runner;
  std::optional<CheckpointStore> checkpoints; ///< only on the first rank
  std::optional<BestModel> best;              ///< only on the first rank
  Progress current;
  int64_t lastSaved = -1;
  bool isLossFinite = true; ///< false after an attempt with another loss
  /// The failure after which state may be half written, or the reason why the
  /// training is over.
  Status failed;
  std::string noted;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_BATCHTRAINER_H
