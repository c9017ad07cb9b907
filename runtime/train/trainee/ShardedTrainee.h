// Makes the state of a sharded optimizer, which lies on several ranks, look
// whole.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_TRAINEE_SHARDEDTRAINEE_H
#define MPC_RUNTIME_TRAIN_TRAINEE_SHARDEDTRAINEE_H

#include "runtime/Communicator.h"
#include "runtime/train/trainee/Trainee.h"

#include <functional>

namespace mpc::runtime::train {

/// A trainee whose session holds a share of the state. A variable of another
/// rank travels when it is read or set:
///
/// - Usually all ranks make equal calls of `state`, `setState`, `derive` and
///   `reset`, in equal order. The owner of a variable sends it to all.
/// - Within `lead`, the first rank makes calls alone. The other ranks wait for
///   its calls, and take part in each.
/// - After `keepWeights`, calls are local. The first rank has copies of the
///   model's weights.
///
/// If a call fails on one rank, the call ends all ranks.
class ShardedTrainee : public Trainee {
public:
  /// All arguments must outlive the object, except for `own`, a trainee of
  /// `session`. `communicator` connects the ranks of the session.
  ShardedTrainee(std::unique_ptr<Trainee> own, const Session &session,
                 Communicator &communicator)
      : own(std::move(own)), session(session), communicator(communicator) {}

  const TraineeInfo &info() const override { return own->info(); }
  Status setInput(std::string_view function, std::string_view name,
                  const void *bytes, size_t size) override {
    return own->setInput(function, name, bytes, size);
  }
  StatusOr<std::byte *> stagingMemory(std::string_view function,
                                      std::string_view name) override {
    return own->stagingMemory(function, name);
  }
  Status stage(std::string_view function, std::string_view name) override {
    return own->stage(function, name);
  }
  void endStaging(std::string_view function) override {
    own->endStaging(function);
  }
  Status run(std::string_view function) override { return own->run(function); }
  Status runTimed(std::string_view function,
                  std::vector<double> &seconds) override {
    return own->runTimed(function, seconds);
  }
  StatusOr<Tensor> output(std::string_view function,
                          std::string_view name) override {
    return own->output(function, name);
  }
  StatusOr<std::vector<Tensor>>
  outputs(std::string_view function,
          const std::vector<std::string_view> &names) override {
    return own->outputs(function, names);
  }
  StatusOr<std::optional<NonFiniteOrigin>>
  trace(std::string_view function) override {
    return own->trace(function);
  }
  size_t memoryBytes() const override { return own->memoryBytes(); }

  StatusOr<Tensor> state(std::string_view name) override;
  StatusOr<const std::byte *> stateInPlace(std::string_view name) override;
  Status setState(std::string_view name, const Tensor &value) override;
  Status derive() override;
  Status reset() override;
  bool isSharded(std::string_view name) const override;
  Status lead(const std::function<Status()> &body) override;
  Status keepWeights() override;

private:
  enum class Mode { Together, Leading, Alone };
  enum class Command : int64_t { Read, Write, Derive, Reset, End };
  struct Order {
    Command command;
    int64_t variable; ///< index in TraineeInfo::state, for Read and Write
  };

  std::optional<int> ownerOf(std::string_view name) const;
  int64_t indexOf(std::string_view name) const;
  Status give(Command command, int64_t variable = 0);
  Status serve();
  Status follow(const Order &order);
  StatusOr<Tensor> read(int64_t variable);
  Status write(int64_t variable, const Tensor &value);
  Status fail(const Status &status);
  Status refuse(std::string_view name) const;

  std::unique_ptr<Trainee> own;
  const Session &session;
  Communicator &communicator;
  Mode mode = Mode::Together;
  std::map<std::string, Tensor, std::less<>> kept;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_TRAINEE_SHARDEDTRAINEE_H
