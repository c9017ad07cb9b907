// Batches whose images are still files, decoded while the step before runs.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_BATCHLOADER_H
#define MPC_RUNTIME_TRAIN_BATCHLOADER_H

#include "runtime/Status.h"
#include "runtime/train/Dataset.h"
#include "runtime/train/Trainee.h"

#include <cstdint>
#include <future>
#include <string>
#include <vector>

namespace mpc::runtime::train {

class BatchLoader {
public:
  /// Binds a batch as Dataset::bind does; takes the batch that `prepare` has
  /// gathered if it is this one. The data must outlive the loader.
  Status bind(const Dataset &data, Trainee &model, const std::string &function,
              const int64_t *positions, int64_t epoch);

  /// Starts to gather a batch in the background, if gathering takes long. If no
  /// thread can be started, `bind` gathers it.
  void prepare(const Dataset &data, const Trainee &model,
               const std::string &function, std::vector<int64_t> positions,
               int64_t epoch);

private:
  std::future<StatusOr<GatheredBatch>> next;
  std::vector<int64_t> nextPositions;
  int64_t nextEpoch = 0;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_BATCHLOADER_H
