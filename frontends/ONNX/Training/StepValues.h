// What the values of a graph may be to a training step.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_STEPVALUES_H
#define MPC_FRONTENDS_ONNX_TRAINING_STEPVALUES_H

#include "frontends/ONNX/Model/Graph.h"
#include "frontends/ONNX/Model/ImportOptions.h"

namespace mpc::onnx_frontend {

/// Questions about names of a graph, by what it declares.
class StepValues {
public:
  StepValues(const Graph &graph, const ImportOptions &options);

  /// True for an initializer, and for an input that has a value in `--weights`.
  bool isState(llvm::StringRef name) const {
    return graph.getInitializer(name) || options.weights.contains(name);
  }
  /// True for an input of the graph, with a value or without.
  bool isInput(llvm::StringRef name) const { return inputs.contains(name); }
  /// The initializer or input that `name` is another name for, else itself.
  llvm::StringRef resolve(llvm::StringRef name) const;
  /// Whether an output is declared as what the new value of `state` is: a shape
  /// that is left open may be any.
  bool fits(const proto::ValueInfoProto &output, llvm::StringRef state) const;
  /// Whether `name` is a number of the model: one element.
  bool isSmall(llvm::StringRef name) const;
  /// The input of one element that `name` is, but for its shape and type; empty
  /// where it is none.
  llvm::StringRef findScalarInput(llvm::StringRef name) const;
  /// Whether it is an initializer that holds 1.
  bool isOne(llvm::StringRef name) const;
  /// The state whose next value `output` is by its name: `p_new` of `p`.
  std::optional<llvm::StringRef> findByName(llvm::StringRef output) const;

private:
  const Graph &graph;
  const ImportOptions &options;
  llvm::StringMap<const proto::ValueInfoProto *> inputs;
};

/// Whether an output is declared as one number.
bool isDeclaredScalar(const proto::ValueInfoProto *output);

/// What YieldOp gives to the program that trains, which is where a graph of
/// ONNX Runtime's has no loss of its own.
llvm::SmallVector<llvm::StringRef> getYielded(const Graph &graph);

/// Initializers that a backward pass may start from, if they are ones.
llvm::StringSet<> findGradientSeeds(const Graph &graph);

/// Whether the node computes gradients, by its name.
bool isGradientNode(const proto::NodeProto &node);
/// Whether it computes a loss.
bool isLossNode(const proto::NodeProto &node);
/// True for the nodes that ONNX Runtime's trainer puts between gradients and
/// update: MixedPrecisionScale, IsAllFinite, ReduceAllL2.
bool isScalingNode(const proto::NodeProto &node);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_STEPVALUES_H
