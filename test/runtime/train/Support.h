// Helpers of runtime/train's tests: temporary directories, hand-made arrays,
// and a small model whose every bit is known.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_RUNTIME_TRAIN_SUPPORT_H
#define MPC_TEST_RUNTIME_TRAIN_SUPPORT_H

#include "runtime/train/Trainer.h"
#include "runtime/train/data/Array.h"
#include "runtime/train/data/Dataset.h"
#include "runtime/train/trainee/Trainee.h"

#include <functional>
#include <gtest/gtest.h>
#include <set>
#include <string>
#include <unistd.h>
#include <vector>

namespace mpc::runtime::train {

/// A directory that is removed with its contents.
class TemporaryDirectory {
public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  std::string operator/(const std::string &name) const {
    return path + "/" + name;
  }
  std::string path;
};

std::string readFile(const std::string &path);
void writeFile(const std::string &path, const std::string &bytes);

/// An array over a copy of `values`.
template <typename T>
Array makeArray(std::string name, ElementType type, Shape shape,
                const std::vector<T> &values) {
  auto owner = std::make_shared<std::vector<T>>(values);
  Array array;
  array.name = std::move(name);
  array.type = type;
  array.shape = std::move(shape);
  array.data = reinterpret_cast<const std::byte *>(owner->data());
  array.owner = std::move(owner);
  return array;
}

inline const std::byte *bytesOf(const std::string &text) {
  return reinterpret_cast<const std::byte *>(text.data());
}

/// Expects a failure of `code` whose message contains `text`.
void expectFailure(const Status &status, StatusCode code,
                   const std::string &text);
void expectInvalid(const StatusOr<Dataset> &data, const std::string &text);

/// Thrown by fault hooks in place of the process's death.
struct Killed {};

/// A linear classifier over 3 features and 4 classes with momentum, batch 4. It
/// has the functions step, accumulate, update and eval, and state of every role
/// that matters to a checkpoint.
class ToyModel : public Trainee {
public:
  static constexpr int64_t kBatch = 4, kFeatures = 3, kClasses = 4;

  explicit ToyModel(int64_t accumulate = 1);

  const TraineeInfo &info() const override { return description; }
  Status setInput(std::string_view function, std::string_view name,
                  const void *bytes, size_t size) override;
  Status run(std::string_view function) override;
  StatusOr<Tensor> output(std::string_view function,
                          std::string_view name) override;
  StatusOr<Tensor> state(std::string_view name) override;
  StatusOr<const std::byte *> stateInPlace(std::string_view name) override;
  Status setState(std::string_view name, const Tensor &value) override;
  Status derive() override;
  StatusOr<std::optional<NonFiniteOrigin>>
  trace(std::string_view function) override;
  Status reset() override;
  size_t memoryBytes() const override { return 1234; }

  /// Lets a test change the report of attempt number n (from 1): the loss, and
  /// the flag that all gradients were finite.
  std::function<void(int64_t attempt, double &loss, bool &finite)> disturb;
  /// Replaces the gradient by its mean over the ranks, before each update.
  std::function<Status(float *gradient, size_t count)> reduce;
  /// True if state can be read in place. The counter is the number of copies.
  bool readsInPlace = false;
  int64_t copies = 0;
  TraineeInfo description;
  std::set<std::string> outputsRead; ///< since the model was made
  std::vector<float> learningRates;  ///< of every attempt, as received
  std::vector<float> firstFeatures;  ///< feature 0 of every sample trained on

private:
  void accumulate();
  void update();
  void evaluate();

  std::map<std::string, Tensor, std::less<>> variables;
  std::map<std::string, Tensor, std::less<>> inputs;
  std::map<std::string, Tensor, std::less<>> outputs;
  int64_t attempts = 0;
};

/// `count` samples from which ToyModel can learn.
std::vector<Array> toyArrays(int64_t count);
Dataset toyData(const Trainee &model, int64_t count);

/// Trains in a forked process and kills it after `microseconds`. Returns true
/// if the training ended first.
bool trainAndKill(const std::function<StatusOr<TrainResult>()> &train,
                  useconds_t microseconds);

} // namespace mpc::runtime::train

#endif // MPC_TEST_RUNTIME_TRAIN_SUPPORT_H
