// The fixture of the training loop's tests.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_RUNTIME_TRAIN_TRAINERFIXTURE_H
#define MPC_TEST_RUNTIME_TRAIN_TRAINERFIXTURE_H

#include "test/runtime/train/Support.h"

#include "runtime/train/Trainer.h"
#include "runtime/train/support/FileSystem.h"

#include <nlohmann/json.hpp>
#include <sstream>

namespace mpc::runtime::train {

struct Recorder : TrainObserver {
  void started(const StartReport &report) override { start = report; }
  void stepped(const StepReport &report) override {
    steps.push_back(report);
    if (onStep)
      onStep(report);
  }
  void evaluated(int64_t, int64_t epoch, const EvalResult &) override {
    evaluations.push_back(epoch);
  }
  void checkpointed(int64_t step, const std::string &) override {
    saves.push_back(step);
  }
  void note(std::string_view text) override { notes.emplace_back(text); }

  StartReport start;
  std::vector<StepReport> steps;
  std::vector<int64_t> evaluations, saves;
  std::vector<std::string> notes;
  std::function<void(const StepReport &)> onStep;
};

inline std::vector<nlohmann::json> readLines(const std::string &path) {
  std::vector<nlohmann::json> lines;
  std::stringstream text(readFile(path));
  for (std::string line; std::getline(text, line);)
    lines.push_back(nlohmann::json::parse(line));
  return lines;
}

/// All state that a run leaves in the model.
inline std::vector<std::vector<std::byte>> stateOf(ToyModel &model) {
  std::vector<std::vector<std::byte>> state;
  for (const Port &port : model.info().state)
    if (port.role != Role::Derived)
      state.push_back(model.state(port.name)->bytes);
  return state;
}

class Trainer : public testing::Test {
protected:
  Trainer() {
    options.schedule.learningRate = 0.05;
    options.seed = 3;
  }
  ~Trainer() override { setFaultHook(nullptr); }

  StatusOr<TrainResult> run(ToyModel &model, int64_t samples = 20,
                            const Dataset *evalData = nullptr) {
    recorder = Recorder();
    return train(model, toyData(model, samples), evalData, options, &recorder,
                 &stop);
  }

  TemporaryDirectory directory;
  TrainOptions options;
  Recorder recorder;
  std::atomic<int> stop{0};
};

} // namespace mpc::runtime::train

#endif // MPC_TEST_RUNTIME_TRAIN_TRAINERFIXTURE_H
