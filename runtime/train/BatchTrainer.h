// Trains on batches that a calling program supplies, one by one. The program
// decides about samples, evaluations and the end; the trainer keeps the
// schedule, the progress and the checkpoints.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_BATCHTRAINER_H
#define MPC_RUNTIME_TRAIN_BATCHTRAINER_H

#include "runtime/Status.h"
#include "runtime/train/Attempts.h"
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
  /// The members schedule, seed, checkpointDir, keepCheckpoints and resume.
  TrainOptions loop;
  RunLength length;
  std::string data; ///< names the data and their order
  bool allowsNaN = false;
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

  const Progress &progress() const { return current; }
  int64_t batchSize() const { return data.batchSize; }
  double learningRate() const { return runner->rateAfter(current); }
  /// Usage if the rate is not possible.
  Status setLearningRate(double rate);

  /// Remarks of the last call of `create`, `run` or `save`, one per line.
  const std::string &notes() const { return noted; }

private:
  BatchTrainer(std::unique_ptr<Trainee> model, BatchTrainerOptions options)
      : model(std::move(model)), options(std::move(options)) {}
  Status begin();
  Status resume();
  StatusOr<BatchReport> train(const Dataset &batch);
  void note(const std::string &text);

  std::unique_ptr<Trainee> model;
  BatchTrainerOptions options;
  FunctionPorts ports; ///< of the function that takes the batches
  DatasetOptions batchOptions;
  RunData data;
  std::optional<AttemptRunner> runner;
  std::optional<CheckpointStore> checkpoints;
  Progress current;
  int64_t lastSaved = -1;
  bool isLossFinite = true; ///< false after an attempt with another loss
  Status failed; ///< the failure after which state may be half written
  std::string noted;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_BATCHTRAINER_H
