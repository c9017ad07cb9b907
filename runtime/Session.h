// A loaded artifact with its state: binds inputs, runs functions, reads
// results.
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
#include <string_view>
#include <vector>

namespace mpc::runtime {

struct SessionOptions : DeviceOptions {
  /// What random numbers of the model and dropout depend on: the initial value
  /// of the state `mpc.seed`.
  uint64_t seed = 0;
};

/// One trainee: an artifact, its state variables and the memory its functions
/// work in. Not thread-safe; one session, one caller.
class Session {
public:
  /// Allocates state and arenas, gives every state variable its initial value,
  /// and runs `derive` where the artifact has it.
  static StatusOr<std::unique_ptr<Session>>
  create(std::shared_ptr<const Artifact> artifact, const SessionOptions &);
  ~Session();

  const Artifact &artifact() const;

  /// Copies `value` into the named input of `function`. Type and shape must be
  /// those the artifact declares.
  Status setInput(std::string_view function, std::string_view name,
                  const Tensor &value);
  /// The same from caller memory of exactly the input's size, without a Tensor.
  Status setInput(std::string_view function, std::string_view name,
                  const void *bytes, size_t size);

  /// Host memory to write an input's next value to while a function runs, as
  /// large as the input; `stage` then makes it the input's value as setInput
  /// does, in order with `run`, though it is copied at once. Null where the
  /// device has no such way, or where an output of the function is the input.
  StatusOr<std::byte *> stagingMemory(std::string_view function,
                                      std::string_view name);
  /// Usage where `stagingMemory` was not asked for it.
  Status stage(std::string_view function, std::string_view name);
  /// Gives back what memory the inputs of `function` have for that; until it is
  /// asked for again they are set by setInput.
  void endStaging(std::string_view function);

  /// Runs a function over the inputs bound and the state.
  Status run(std::string_view function);

  /// The same, and waits. `seconds[i]` becomes the time of the i-th step in the
  /// function's plan; a loop or a condition is one step.
  Status runTimed(std::string_view function, std::vector<double> &seconds);

  /// The same, step by step, and tells where the first value comes from that is
  /// not finite and led to one in a result; nothing where there is none. What
  /// the arena held before is gone. Unsupported on some devices.
  StatusOr<std::optional<NonFiniteOrigin>> trace(std::string_view function);

  /// An output of the last run of `function`. All functions work in the same
  /// memory: an output that is not state is gone once another function runs,
  /// and asking for it then is a Usage error.
  StatusOr<Tensor> output(std::string_view function, std::string_view name);

  /// Several outputs of it, in that order, with one wait for all.
  StatusOr<std::vector<Tensor>>
  outputs(std::string_view function,
          const std::vector<std::string_view> &names);

  /// Reads or replaces a state variable. After replacing a parameter call
  /// `derive()` before the next run.
  StatusOr<Tensor> state(std::string_view name);
  /// The bytes of a state variable where they are, until the next run; null
  /// where the host cannot read them there.
  StatusOr<const std::byte *> stateInPlace(std::string_view name);
  Status setState(std::string_view name, const Tensor &value);

  /// Gives every state variable its initial value again.
  Status reset();

  /// Recomputes state of role "derived" from the masters; nothing to do where
  /// the artifact has no such function.
  Status derive();

  /// Bytes the session holds: state, inputs, largest arena, device scratch.
  size_t memoryBytes() const;

private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl>);
  std::unique_ptr<Impl> impl;
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_SESSION_H
