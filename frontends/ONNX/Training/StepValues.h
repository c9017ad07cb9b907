// Answers questions about values of a graph that may be a training step.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_STEPVALUES_H
#define MPC_FRONTENDS_ONNX_TRAINING_STEPVALUES_H

#include "frontends/ONNX/Model/Graph.h"
#include "frontends/ONNX/Model/ImportOptions.h"

namespace mpc::onnx_frontend {

/// Classifies the values of a graph by their declarations and names.
class StepValues {
public:
  StepValues(const Graph &graph, const ImportOptions &options);

  /// True for an initializer, and for an input with a value in `--weights`.
  bool isState(llvm::StringRef name) const {
    return graph.getInitializer(name) || options.weights.contains(name);
  }
  /// True for an input of the graph, with or without a value.
  bool isInput(llvm::StringRef name) const { return inputs.contains(name); }
  /// Returns the initializer or input that `name` copies through Identities;
  /// otherwise the last value reached.
  llvm::StringRef resolve(llvm::StringRef name) const;
  /// True if the declarations allow `output` to be the next value of `state`.
  /// Unknown extents match any.
  bool fits(const proto::ValueInfoProto &output, llvm::StringRef state) const;
  /// True if `name` is a constant or input of one element.
  bool isSmall(llvm::StringRef name) const;
  /// If `name` is a scalar input of the graph, perhaps reshaped or cast,
  /// returns the name of the input. Otherwise empty.
  llvm::StringRef findScalarInput(llvm::StringRef name) const;
  /// True for an initializer of one element with value 1.
  bool isOne(llvm::StringRef name) const;
  /// Finds the state that `output` updates by name, such as `p` for `p_new`;
  /// nullopt if there is none.
  std::optional<llvm::StringRef> findByName(llvm::StringRef output) const;

private:
  const Graph &graph;
  const ImportOptions &options;
  llvm::StringMap<const proto::ValueInfoProto *> inputs;
};

/// True if an output is declared with one element.
bool isDeclaredScalar(const proto::ValueInfoProto *output);

/// Returns the values that YieldOp nodes pass to the training program. Graphs
/// of ONNX Runtime without a loss have YieldOp.
llvm::SmallVector<llvm::StringRef> getYielded(const Graph &graph);

/// Finds initializers that may start a backward pass. The values, not checked
/// here, must be 1.
llvm::StringSet<> findGradientSeeds(const Graph &graph);

/// True if the op computes a gradient, judged by the op's name.
bool isGradientNode(const proto::NodeProto &node);
/// True if the op computes a loss, judged by the op's name, and output 0 is not
/// absent.
bool isLossNode(const proto::NodeProto &node);
/// True for nodes that ONNX Runtime's trainer inserts between gradients and
/// update, such as MixedPrecisionScale, IsAllFinite and ReduceAllL2.
bool isScalingNode(const proto::NodeProto &node);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_STEPVALUES_H
