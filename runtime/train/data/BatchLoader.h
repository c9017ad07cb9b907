// Prepares the next batch while a step runs: passes the batch to a device that
// accepts it early, or else decodes its images in the background.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_DATA_BATCHLOADER_H
#define MPC_RUNTIME_TRAIN_DATA_BATCHLOADER_H

#include "runtime/Status.h"
#include "runtime/train/data/Dataset.h"
#include "runtime/train/trainee/Trainee.h"

#include <functional>
#include <future>
#include <string>

namespace mpc::runtime::train {

class BatchLoader {
public:
  /// Asks the model for memory for a second batch of `function`. Without
  /// memory, batches are bound one after another.
  void open(Trainee &model, const std::string &function);

  /// Binds a batch like Dataset::bind, or uses the prepared batch if it is the
  /// same. `data` must outlive the loader.
  Status bind(const Dataset &data, Trainee &model, const std::string &function,
              const int64_t *positions, AugmentedEpoch epoch);

  /// Returns the next batch; empty positions if there is none. Called only if
  /// the batch is going to be prepared.
  using NextBatch = std::function<BatchSamples()>;

  /// Call before the function runs. Starts to gather the next batch in the
  /// background, if gathering takes long and the caller would only wait for the
  /// model. If no thread can be started, `bind` gathers the batch.
  void prepare(const Dataset &data, const Trainee &model,
               const std::string &function, const NextBatch &nextBatch);

  /// Call after the function has started. Gathers the next batch and passes it
  /// to the model, if possible. If anything fails, `bind` repeats the work and
  /// reports the error.
  void stage(const Dataset &data, Trainee &model, const std::string &function,
             const NextBatch &nextBatch);

private:
  bool isStaging = false;
  bool isStaged = false; ///< the inputs have `next`
  std::future<StatusOr<GatheredBatch>> gathering;
  BatchSamples next;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_BATCHLOADER_H
