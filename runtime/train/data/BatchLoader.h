// Batches made ready while the step before runs: handed to the device where it
// takes them meanwhile, else decoded where their images are still files.
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
  /// Lets the model make room for a batch of `function` beside the one that it
  /// runs on. Where it has none, batches are bound one after the other.
  void open(Trainee &model, const std::string &function);

  /// Binds a batch as Dataset::bind does; takes the batch that was made ready
  /// if it is this one. The data must outlive the loader.
  Status bind(const Dataset &data, Trainee &model, const std::string &function,
              const int64_t *positions, AugmentedEpoch epoch);

  /// Says which batch comes next; one without positions where none does. Asked
  /// only where the batch is made ready.
  using NextBatch = std::function<BatchSamples()>;

  /// To be called before the function runs: starts to gather the batch after it
  /// in the background, where the model runs while the caller waits and
  /// gathering takes long. If no thread can be started, `bind` gathers it.
  void prepare(const Dataset &data, const Trainee &model,
               const std::string &function, const NextBatch &nextBatch);

  /// To be called after the function was started: gathers the batch after it
  /// and hands it to the model, where that is possible. If anything fails,
  /// `bind` does it again and says so.
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
