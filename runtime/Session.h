// A loaded artifact with its state: sets inputs, runs functions, reads results.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_SESSION_H
#define MPC_RUNTIME_SESSION_H

#include "runtime/Artifact.h"
#include "runtime/Device.h"
#include "runtime/NonFinite.h"
#include "runtime/Status.h"
#include "runtime/Tensor.h"

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace mpc::runtime {

struct SessionOptions : DeviceOptions {
  /// The seed of the model's random numbers and of dropout: the initial value
  /// of the state `mpc.seed`.
  uint64_t seed = 0;
};

/// An artifact, its state variables, and the memory of its functions. Not
/// thread-safe: only one thread at a time may use a session.
class Session {
public:
  /// Allocates state and arena, gives every state variable its initial value,
  /// and runs `derive` if the artifact has it. If several ranks share the state
  /// (StateShares::isSharded), call `derive` on all ranks together before the
  /// first run.
  static StatusOr<std::unique_ptr<Session>>
  create(std::shared_ptr<const Artifact> artifact, const SessionOptions &);
  ~Session();

  const Artifact &artifact() const;

  /// Copies `value` into an input of `function`. InvalidInput unless the type
  /// and the shape are the declared ones, or if an index is out of range. Usage
  /// for an unknown name.
  Status setInput(std::string_view function, std::string_view name,
                  const Tensor &value);
  /// Like setInput above, from memory of exactly the input's size.
  Status setInput(std::string_view function, std::string_view name,
                  const void *bytes, size_t size);

  /// Returns host memory of the input's size, for the input's next value. Write
  /// the value while a function runs, then call `stage`. Null if the device
  /// does not support staging, or if an output of the function is the input's
  /// own memory.
  StatusOr<std::byte *> stagingMemory(std::string_view function,
                                      std::string_view name);
  /// Sets the input to the content of its staging memory. The copy starts at
  /// once, but the value counts only for later calls of `run`. Usage unless
  /// `stagingMemory` was called before.
  Status stage(std::string_view function, std::string_view name);
  /// Frees the staging memory of all inputs of `function`. `stagingMemory`
  /// allocates it again.
  void endStaging(std::string_view function);

  /// Runs a function with its inputs and the state. Usage if an input was not
  /// set.
  Status run(std::string_view function);

  /// Like run(), but waits. `seconds[i]` becomes the time of the i-th step in
  /// the function's plan; a loop or a condition is one step.
  Status runTimed(std::string_view function, std::vector<double> &seconds);

  /// Like run(), but step by step. Returns the origin of the first non-finite
  /// value that led to a non-finite result; nullopt if there is none. Clears
  /// the arena first. Unsupported on some devices.
  StatusOr<std::optional<NonFiniteOrigin>> trace(std::string_view function);

  /// Returns an output of the last run of `function`. All functions share the
  /// arena: an output in the arena is lost once another function runs, and
  /// reading it is then a Usage error.
  StatusOr<Tensor> output(std::string_view function, std::string_view name);

  /// Returns several outputs in the order of `names`, with a single wait.
  StatusOr<std::vector<Tensor>>
  outputs(std::string_view function,
          const std::vector<std::string_view> &names);

  /// The division of the state among the ranks.
  const StateShares &shares() const;
  /// Connects the ranks; null for one rank without a communicator.
  Communicator *communicator() const;

  /// Reads or replaces a state variable. After replacing a parameter, call
  /// `derive()` before the next run. Usage if only another rank holds it.
  StatusOr<Tensor> state(std::string_view name);
  /// Returns a state variable's bytes in place, valid until the next run. Null
  /// if the host cannot read them in place.
  StatusOr<const std::byte *> stateInPlace(std::string_view name);
  Status setState(std::string_view name, const Tensor &value);

  /// Resets every state variable to its initial value, and runs `derive`. If
  /// the state is sharded, all ranks must call `reset` together.
  Status reset();

  /// Recomputes state of role "derived" from other state. Does nothing if the
  /// artifact has no `derive` function.
  Status derive();

  /// The bytes that the session holds: state, inputs, the arena, device
  /// scratch.
  size_t memoryBytes() const;

private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl>);
  std::unique_ptr<Impl> impl;
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_SESSION_H
