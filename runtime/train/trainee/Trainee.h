// A trainee is a model as the training loop sees it: inputs and outputs of the
// functions, state, and a way to run the functions.
//
// In a real run, a trainee is a Session over an artifact. Tests of the loop, of
// evaluation and of checkpoints use models whose every bit is known.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_TRAINEE_TRAINEE_H
#define MPC_RUNTIME_TRAIN_TRAINEE_TRAINEE_H

#include "runtime/RecipeNames.h"
#include "runtime/Session.h"
#include "runtime/Status.h"
#include "runtime/Tensor.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mpc::runtime::train {

/// An input, an output or a state variable. Names.h describes the roles.
struct Port {
  std::string name;
  Role role;
  DType type = DType::F32;
  Shape shape;
  /// For an input of integers: the boxes of elements whose values are indices
  /// along an axis.
  std::vector<IndexBox> indices = {};
  /// For an input: the sample axis; -1 if the input is the same for every
  /// batch.
  int64_t batchAxis = 0;
};

struct FunctionPorts {
  std::vector<Port> inputs;
  std::vector<Port> outputs;

  /// Returns the first output or input of that role; null if there is none.
  const Port *output(Role role) const;
  const Port *input(Role role) const;
  /// The input with that name; null if there is none.
  const Port *inputCalled(std::string_view name) const;
};

/// One of several losses that training adds up.
struct NamedLoss {
  std::string name; ///< in outputs and metrics, such as "mse@y"
  LossKind kind = LossKind::Output;
  std::string output; ///< as in --loss; empty for the only output
  std::string target; ///< the name of the label input
  double factor = 1;  ///< of the loss in the sum
};

struct TraineeInfo {
  std::string producer;  ///< compiler and version
  std::string modelHash; ///< the hash of the ONNX model
  std::string planHash;  ///< the hash of the artifact's plan
  std::string precision;
  std::string target; ///< CPU or GPU that the code is for, such as "sm_90"
  std::string recipe; ///< the plan's "recipe" object, JSON text
  /// The kind of the first loss, by the recipe's "loss". Output if the model
  /// computes its own loss, as training graphs do.
  LossKind loss = LossKind::Output;
  /// The name of the output that is the loss, if `loss` is Output. Empty
  /// otherwise, or if the recipe does not name the output.
  std::string lossOutput;
  /// The name of the first loss's label input, by the recipe's "target". Empty
  /// unless there are several losses.
  std::string lossTarget;
  /// All losses, by the recipe's "losses" and "targets". Empty unless there are
  /// several.
  std::vector<NamedLoss> losses;
  /// True if the loss is a sum over samples instead of a mean, by the recipe's
  /// "reduction".
  bool sumsLoss = false;
  int64_t accumulate = 1;
  bool dynamicLossScale = false; ///< recipe's "loss_scale"
  int64_t stateBytes = 0;        ///< of this rank
  int64_t activationBytes = 0;
  std::map<std::string, FunctionPorts, std::less<>> functions;
  std::vector<Port> state;

  const FunctionPorts *function(std::string_view name) const;
};

/// Returns the names of several losses; empty for a single loss.
std::vector<std::string> lossNames(const TraineeInfo &info);

/// Returns the loss for messages: "mse", "output:total" or "the model's own".
std::string describeLoss(const TraineeInfo &info);

/// Reads the artifact's model, recipe, precision and target. InvalidInput if
/// the recipe is malformed.
StatusOr<TraineeInfo> describeArtifact(const Artifact &artifact);

/// Sets the members that follow from `recipe`: the loss, the loss scale and
/// accumulation. InvalidInput if the recipe is malformed.
Status readRecipe(TraineeInfo &info);

class Trainee {
public:
  virtual ~Trainee() = default;
  virtual const TraineeInfo &info() const = 0;
  virtual Status setInput(std::string_view function, std::string_view name,
                          const void *bytes, size_t size) = 0;
  /// Set an input while the model runs, like the functions of Session:
  /// `stagingMemory` returns memory for the next value, `stage` makes this
  /// value the input, and `endStaging` frees the memory. By default,
  /// `stagingMemory` returns null, which means that staging is not supported.
  virtual StatusOr<std::byte *> stagingMemory(std::string_view function,
                                              std::string_view name) {
    return static_cast<std::byte *>(nullptr);
  }
  virtual Status stage(std::string_view function, std::string_view name);
  virtual void endStaging(std::string_view function) {}
  virtual Status run(std::string_view function) = 0;
  /// Like `run`, but waits, and measures the seconds of each plan step, as
  /// Session::runTimed does. By default, measures nothing.
  virtual Status runTimed(std::string_view function,
                          std::vector<double> &seconds) {
    seconds.clear();
    return run(function);
  }
  virtual StatusOr<Tensor> output(std::string_view function,
                                  std::string_view name) = 0;
  /// Reads several outputs of one function. May wait for a device once for all
  /// outputs instead of once for each.
  virtual StatusOr<std::vector<Tensor>>
  outputs(std::string_view function,
          const std::vector<std::string_view> &names);
  virtual StatusOr<Tensor> state(std::string_view name) = 0;
  /// Returns the bytes of a state variable without a copy, valid until the next
  /// run; null if unsupported.
  virtual StatusOr<const std::byte *> stateInPlace(std::string_view name) {
    return nullptr;
  }
  virtual Status setState(std::string_view name, const Tensor &value) = 0;
  virtual Status derive() = 0;
  /// `trace` runs a function step by step and returns the origin of a
  /// non-finite result. `reset` gives all state its initial value. See Session.
  virtual StatusOr<std::optional<NonFiniteOrigin>>
  trace(std::string_view function) = 0;
  virtual Status reset() = 0;
  virtual size_t memoryBytes() const = 0;

  /// True if only one of several ranks holds the variable: a sharded optimizer.
  /// If there are such variables, all ranks call `state`, `setState`, `derive`
  /// and `reset` together, in equal order, except within `lead`.
  virtual bool isSharded(std::string_view name) const { return false; }
  /// Runs `body`, in which only the first rank reads and sets state. All ranks
  /// call `lead` together. Returns the failure of `body`.
  virtual Status lead(const std::function<Status()> &body) { return body(); }
  /// Ends a run: gives the first rank copies of the weights of other ranks. All
  /// ranks call `keepWeights` together. Afterwards, ranks read state alone.
  virtual Status keepWeights() { return Status(); }
};

/// Returns a trainee that runs `session`, which must outlive the trainee. A
/// session with a share of the state makes a ShardedTrainee.
StatusOr<std::unique_ptr<Trainee>> makeTrainee(Session &session);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_TRAINEE_TRAINEE_H
