// Prepares the next batch while a step runs. A device that accepts inputs early
// gets the batch at once. Otherwise, images of the batch are decoded in the
// background.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_DATA_BATCHLOADER_H
#define MPC_RUNTIME_TRAIN_DATA_BATCHLOADER_H

#include "runtime/Status.h"
#include "runtime/train/data/Dataset.h"
#include "runtime/train/support/RunRecorder.h"
#include "runtime/train/trainee/Trainee.h"

#include <functional>
#include <future>
#include <string>

namespace mpc::runtime::train {

class BatchLoader {
public:
  /// Asks the model for memory to stage a second batch of `function`. Without
  /// such memory, each batch is set only after the step before has ended.
  void open(Trainee &model, const std::string &function);

  /// Reports the time of batches that are staged, or that another thread
  /// prepares; null for no reports.
  void setRecorder(RunRecorder *to) { recorder = to; }

  /// Sets the inputs of `function` to a batch, like Dataset::bind. Uses the
  /// prepared batch if it is this one. `data` must outlive the loader.
  Status bind(const Dataset &data, Trainee &model, const std::string &function,
              const int64_t *positions, AugmentedEpoch epoch);

  /// Returns the batch that follows; no positions if there is none. Called only
  /// if the batch will be prepared.
  using NextBatch = std::function<BatchSamples()>;

  /// Call before the function runs. Starts to gather the next batch in the
  /// background, if its images must be decoded and the model cannot stage
  /// inputs. If no thread can be started, `bind` gathers the batch later.
  void prepare(const Dataset &data, const Trainee &model,
               const std::string &function, const NextBatch &nextBatch);

  /// Call after the function has started. Gathers the next batch in the model's
  /// staging memory, if there is any. If anything fails, `bind` repeats the
  /// work and reports the error.
  void stage(const Dataset &data, Trainee &model, const std::string &function,
             const NextBatch &nextBatch);

private:
  RunRecorder *recorder = nullptr;
  bool isStaging = false;
  bool isStaged = false; ///< true if the model already has the batch `next`
  std::future<StatusOr<GatheredBatch>> gathering;
  BatchSamples next;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_BATCHLOADER_H
