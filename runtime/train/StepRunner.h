// One update attempt through the artifact's functions: `step`, or `accumulate`
// for each batch and then `update`.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_STEPRUNNER_H
#define MPC_RUNTIME_TRAIN_STEPRUNNER_H

#include "runtime/Status.h"
#include "runtime/train/Dataset.h"
#include "runtime/train/Trainee.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mpc::runtime::train {

/// What the artifact says of one attempt.
struct StepOutcome {
  double loss = 0; ///< mean over the batches
  std::optional<double> gradNorm;
  std::optional<double> lossScale;
  bool skipped = false;
};

class StepRunner {
public:
  /// Unsupported where the artifact has not the functions or reports no loss.
  static StatusOr<StepRunner> create(Trainee &model);

  /// Batches of one attempt.
  int64_t batches() const { return batchCount; }

  /// Runs one attempt on the samples at `positions`, batches() batches of them.
  StatusOr<StepOutcome> run(const Dataset &data,
                            const std::vector<int64_t> &positions,
                            double learningRate, uint64_t seed);

private:
  explicit StepRunner(Trainee &model) : model(&model) {}
  const std::string &updating() const {
    return updateFunction.empty() ? batchFunction : updateFunction;
  }
  Status bindScalars(const std::string &function, double learningRate,
                     uint64_t seed);
  StatusOr<std::optional<double>> readScalar(const std::string &function,
                                             const Port *port);

  Trainee *model;
  std::string batchFunction;  ///< "step" or "accumulate"
  std::string updateFunction; ///< "update"; empty with "step"
  int64_t batchCount = 1;
  const Port *loss = nullptr;
  const Port *gradNorm = nullptr;
  const Port *finite = nullptr;
  const Port *lossScale = nullptr;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_STEPRUNNER_H
