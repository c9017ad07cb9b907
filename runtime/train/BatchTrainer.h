// Trains on batches that a calling program supplies. The program decides about
// samples, evaluations and the end; the trainer keeps the
// schedule, the progress and the checkpoints.
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
  /// The members schedule, seed, checkpointDir, keepCheckpoints, resume, best
  /// and earlyStopping.
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
  double loss = 0;
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
  /// failure of the model itself, returns the failure in each later call.
  StatusOr<BatchReport> run(const std::vector<InputBytes> &given);

  /// Writes a checkpoint of the present place, unless there is one.
  Status save();

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
  double learningRate() const { return runner->rateAfter(current); }
  /// Usage if the rate is not possible.
  Status setLearningRate(double rate);

  /// Remarks of the last call of `create`, `run`, `save`, `count` or
  /// `restoreBest`, one per line.
  const std::string &notes() const { return noted; }

private:
  BatchTrainer(std::unique_ptr<Trainee> model, BatchTrainerOptions options)
      : model(std::move(model)), options(std::move(options)) {}
  Status begin();
  Status resume();
  StatusOr<BatchReport> train(const Dataset &batch);
  Status write();
  Status keepBest();
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
  FunctionPorts ports; ///< of the function that takes the batches
  DatasetOptions batchOptions;
  RunData data;
  std::optional<AttemptRunner> runner;
  std::optional<CheckpointStore> checkpoints;
  std::optional<BestModel> best;
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
