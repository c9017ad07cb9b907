// The interface between the training loop and a model: inputs and outputs of
// the functions, state, and a way to run them.
//
// A Session over an artifact is the one real implementation. Tests of the loop,
// of evaluation and of checkpoints use models whose every bit is known.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_TRAINEE_TRAINEE_H
#define MPC_RUNTIME_TRAIN_TRAINEE_TRAINEE_H

#include "runtime/RecipeNames.h"
#include "runtime/Session.h"
#include "runtime/Status.h"
#include "runtime/Tensor.h"

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
  /// For an input of integers: the parts that are indices along an axis.
  std::vector<IndexBox> indices = {};
  /// For an input: the sample axis; -1 if the input is the same for every
  /// batch.
  int64_t batchAxis = 0;
};

struct FunctionPorts {
  std::vector<Port> inputs;
  std::vector<Port> outputs;

  /// The first port with that role; null if there is none.
  const Port *output(Role role) const;
  const Port *input(Role role) const;
  /// The input with that name; null if there is none.
  const Port *inputCalled(std::string_view name) const;
};

struct TraineeInfo {
  std::string producer;  ///< compiler and version
  std::string modelHash; ///< the hash of the ONNX model
  std::string planHash;  ///< the hash of the artifact's plan
  std::string precision;
  std::string target; ///< the CPU that the code is for
  std::string recipe; ///< the plan's "recipe" object, JSON text
  /// The first loss, by the recipe's "loss". Output if the model computes its
  /// own, as training graphs do.
  LossKind loss = LossKind::Output;
  /// The output that is the loss; empty if the loss has another kind, or the
  /// recipe does not tell.
  std::string lossOutput;
  /// The labels of the first loss, if there are several; recipe's "target".
  std::string lossTarget;
  /// True if the loss is a sum, by the recipe's "reduction".
  bool sumsLoss = false;
  int64_t accumulate = 1;
  bool dynamicLossScale = false; ///< recipe's "loss_scale"
  int64_t stateBytes = 0, activationBytes = 0;
  std::map<std::string, FunctionPorts, std::less<>> functions;
  std::vector<Port> state;

  const FunctionPorts *function(std::string_view name) const;
};

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
  /// Like Session::stagingMemory, stage and endStaging. The default supports no
  /// staging.
  virtual StatusOr<std::byte *> stagingMemory(std::string_view function,
                                              std::string_view name) {
    return static_cast<std::byte *>(nullptr);
  }
  virtual Status stage(std::string_view function, std::string_view name);
  virtual void endStaging(std::string_view function) {}
  virtual Status run(std::string_view function) = 0;
  virtual StatusOr<Tensor> output(std::string_view function,
                                  std::string_view name) = 0;
  /// Reads several outputs of one function. May wait for a device once for all
  /// outputs instead of once for each.
  virtual StatusOr<std::vector<Tensor>>
  outputs(std::string_view function,
          const std::vector<std::string_view> &names);
  virtual StatusOr<Tensor> state(std::string_view name) = 0;
  /// The state without a copy, valid until the next run; null if unsupported.
  virtual StatusOr<const std::byte *> stateInPlace(std::string_view name) {
    return nullptr;
  }
  virtual Status setState(std::string_view name, const Tensor &value) = 0;
  virtual Status derive() = 0;
  /// Like Session::trace and Session::reset.
  virtual StatusOr<std::optional<NonFiniteOrigin>>
  trace(std::string_view function) = 0;
  virtual Status reset() = 0;
  virtual size_t memoryBytes() const = 0;
};

/// Adapts a session, which must outlive the result.
StatusOr<std::unique_ptr<Trainee>> makeTrainee(Session &session);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_TRAINEE_TRAINEE_H
