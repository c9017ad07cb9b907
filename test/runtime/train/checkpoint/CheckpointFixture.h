// Saves and restores checkpoints of a toy model.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_RUNTIME_TRAIN_CHECKPOINT_CHECKPOINTFIXTURE_H
#define MPC_TEST_RUNTIME_TRAIN_CHECKPOINT_CHECKPOINTFIXTURE_H

#include "test/runtime/train/Support.h"

#include "runtime/train/checkpoint/Checkpoint.h"
#include "runtime/train/checkpoint/CheckpointFiles.h"

#include <filesystem>
#include <set>

namespace mpc::runtime::train {

namespace fs = std::filesystem;

inline const RunIdentity kRun{{"model", "aa"},
                              {"recipe", R"({"beta1":0.9,"optimizer":"sgd"})"},
                              {"seed", "1"}};

inline Progress at(int64_t step) {
  Progress progress;
  progress.step = step;
  progress.samples = step * 4;
  return progress;
}

/// Makes the weights encode the step at which they were saved.
inline void mark(ToyModel &model, int64_t step) {
  Tensor w = Tensor::zeros(DType::F32, {4, 3});
  w.as<float>()[0] = float(step);
  ASSERT_TRUE(model.setState("w", w).ok());
}

inline float markOf(ToyModel &model) {
  return model.state("w")->as<float>()[0];
}

inline StatusOr<std::optional<Progress>>
restore(const std::string &directory, ToyModel &model,
        std::vector<std::string> *notes = nullptr,
        const RunIdentity &run = kRun) {
  StatusOr<CheckpointStore> store = CheckpointStore::open(directory);
  if (!store.ok())
    return store.status();
  return store->restoreNewest(model, run, [&](const std::string &text) {
    if (notes)
      notes->push_back(text);
  });
}

inline void saveSteps(const std::string &directory, std::vector<int64_t> steps,
                      int64_t keep = 3) {
  StatusOr<CheckpointStore> store = CheckpointStore::open(directory);
  ASSERT_TRUE(store.ok()) << store.status().message();
  ToyModel model;
  for (int64_t step : steps) {
    mark(model, step);
    Status status = store->save(model, at(step), kRun, keep);
    ASSERT_TRUE(status.ok()) << status.message();
  }
}

inline std::set<std::string> entries(const std::string &directory) {
  std::set<std::string> names;
  for (const auto &entry : fs::directory_iterator(directory))
    names.insert(entry.path().filename());
  return names;
}

class Checkpoint : public testing::Test {
protected:
  ~Checkpoint() override { setFaultHook(nullptr); }
  TemporaryDirectory directory;
  ToyModel model;
};

} // namespace mpc::runtime::train

#endif // MPC_TEST_RUNTIME_TRAIN_CHECKPOINT_CHECKPOINTFIXTURE_H
