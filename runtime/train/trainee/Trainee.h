// What the training loop needs of a model: its functions' inputs and outputs,
// its state, and a way to run it.
//
// A Session over an artifact is the one real implementation; the interface is
// here so that the loop, evaluation and checkpoints can be tested with a model
// whose every bit is known.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_TRAINEE_TRAINEE_H
#define MPC_RUNTIME_TRAIN_TRAINEE_TRAINEE_H

#include "runtime/Session.h"
#include "runtime/Status.h"
#include "runtime/Tensor.h"

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mpc::runtime::train {

/// An input, an output or a state variable; roles as in Names.h.
struct Port {
  std::string name;
  Role role;
  DType type = DType::F32;
  Shape shape;
  /// Of an input of integers: which of them name elements of an axis.
  std::vector<IndexBox> indices = {};
  /// Of an input: the axis that samples are along; -1 where it has none and is
  /// the same for every batch.
  int64_t batchAxis = 0;
};

struct FunctionPorts {
  std::vector<Port> inputs;
  std::vector<Port> outputs;

  /// The first port of that role; null if there is none.
  const Port *output(Role role) const;
  const Port *input(Role role) const;
  /// The input of that name; null if there is none.
  const Port *inputCalled(std::string_view name) const;
};

struct TraineeInfo {
  std::string producer;  ///< compiler and version
  std::string modelHash; ///< of the ONNX model
  std::string planHash;  ///< of the artifact
  std::string precision;
  std::string target; ///< CPU the code is for
  std::string recipe; ///< the plan's "recipe" object, JSON text
  std::string loss;   ///< recipe's "loss"
  /// Of several losses, the labels of the first; recipe's "target".
  std::string lossTarget;
  /// Whether that is a sum, by the recipe's "reduction".
  bool sumsLoss = false;
  int64_t accumulate = 1;
  bool dynamicLossScale = false; ///< recipe's "loss_scale"
  int64_t stateBytes = 0, activationBytes = 0;
  std::map<std::string, FunctionPorts, std::less<>> functions;
  std::vector<Port> state;

  const FunctionPorts *function(std::string_view name) const;
};

/// Reads the artifact's model, recipe, precision and target. InvalidInput if
/// the recipe is malformed.
StatusOr<TraineeInfo> describeArtifact(const Artifact &artifact);

/// Fills in what `recipe` says of the loss and of accumulation. InvalidInput
/// where it is malformed.
Status readRecipe(TraineeInfo &info);

class Trainee {
public:
  virtual ~Trainee() = default;
  virtual const TraineeInfo &info() const = 0;
  virtual Status setInput(std::string_view function, std::string_view name,
                          const void *bytes, size_t size) = 0;
  /// Session::stagingMemory, stage and endStaging; by default there is no such
  /// way.
  virtual StatusOr<std::byte *> stagingMemory(std::string_view function,
                                              std::string_view name) {
    return static_cast<std::byte *>(nullptr);
  }
  virtual Status stage(std::string_view function, std::string_view name);
  virtual void endStaging(std::string_view function) {}
  virtual Status run(std::string_view function) = 0;
  virtual StatusOr<Tensor> output(std::string_view function,
                                  std::string_view name) = 0;
  /// Several outputs of one function; with one wait for all where there is one
  /// for each.
  virtual StatusOr<std::vector<Tensor>>
  outputs(std::string_view function,
          const std::vector<std::string_view> &names);
  virtual StatusOr<Tensor> state(std::string_view name) = 0;
  /// The same without a copy, until the next run; null where there is no such
  /// way.
  virtual StatusOr<const std::byte *> stateInPlace(std::string_view name) {
    return nullptr;
  }
  virtual Status setState(std::string_view name, const Tensor &value) = 0;
  virtual Status derive() = 0;
  /// Session::trace and Session::reset.
  virtual StatusOr<std::optional<NonFiniteOrigin>>
  trace(std::string_view function) = 0;
  virtual Status reset() = 0;
  virtual size_t memoryBytes() const = 0;
};

/// The session as a trainee; it must outlive the result.
StatusOr<std::unique_ptr<Trainee>> makeTrainee(Session &session);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_TRAINEE_TRAINEE_H
