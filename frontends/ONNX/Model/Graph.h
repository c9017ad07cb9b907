// A checked graph: every name defined once, every input defined, no cycles, and
// the nodes in an order in which they can run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_MODEL_GRAPH_H
#define MPC_FRONTENDS_ONNX_MODEL_GRAPH_H

#include "frontends/ONNX/Model/Model.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <vector>

namespace mpc::onnx_frontend {

/// The name a node has in messages and locations: its own, or
/// OpType_firstOutput.
std::string getNodeName(const proto::NodeProto &node);

/// "com.microsoft.ReluGrad", "Conv".
std::string getOpName(const proto::NodeProto &node);

/// The graphs in a node's attributes: the bodies of loops and branches.
std::vector<const proto::GraphProto *> getBodies(const proto::NodeProto &node);

/// `graph`, followed by the bodies of its nodes (If, Loop, Scan) at any depth.
std::vector<const proto::GraphProto *>
findGraphs(const proto::GraphProto &graph);
std::vector<proto::GraphProto *> findGraphs(proto::GraphProto &graph);

/// All graphs of a file: the model's, those of training_info, and the bodies in
/// them and in the model's functions.
std::vector<proto::GraphProto *> findGraphs(proto::ModelProto &model);

/// The names of values that bodies of the graph's nodes define. Within the body
/// such a name hides a value of the graph.
llvm::StringSet<> findBodyNames(const proto::GraphProto &graph);

/// The tensor of floats that a Constant node gives, or null.
const proto::TensorProto *findConstantTensor(const proto::NodeProto &node);

/// The values a node reads: its inputs, what a Gradient names in its
/// attributes, and what the graphs in its attributes read from around them.
/// Absent inputs are left out.
std::vector<llvm::StringRef> getReadValues(const proto::NodeProto &node);

class Graph {
public:
  /// Checks the concatenation of `parts` (one graph, or an inference graph and
  /// a training algorithm) and sorts its nodes.
  static llvm::Expected<Graph>
  check(const Model &model, llvm::ArrayRef<const proto::GraphProto *> parts);
  /// The same for the graph in a node's attribute, which may read what
  /// `isDefinedOutside` knows.
  static llvm::Expected<Graph>
  checkBody(const Model &model, const proto::GraphProto &body,
            llvm::function_ref<bool(llvm::StringRef)> isDefinedOutside);

  const Model &getModel() const { return *model; }
  /// Inputs that have no initializer.
  llvm::ArrayRef<const proto::ValueInfoProto *> getInputs() const {
    return inputs;
  }
  llvm::ArrayRef<const proto::ValueInfoProto *> getOutputs() const {
    return outputs;
  }
  /// Topologically sorted: producers before readers, otherwise in the order of
  /// the file.
  llvm::ArrayRef<const proto::NodeProto *> getNodes() const { return nodes; }

  bool defines(llvm::StringRef name) const {
    return definitions.contains(name);
  }
  /// The initializer of that name, or null.
  const proto::TensorProto *getInitializer(llvm::StringRef name) const {
    return initializers.lookup(name);
  }
  /// The node that makes that value, or null.
  const proto::NodeProto *getProducer(llvm::StringRef value) const {
    return producers.lookup(value);
  }

  /// The nodes that `values` depend on, in order.
  std::vector<const proto::NodeProto *>
  getNodesFor(llvm::ArrayRef<llvm::StringRef> values) const;

private:
  explicit Graph(const Model &model) : model(&model) {}

  llvm::Error addPart(const proto::GraphProto &part);
  void addOutputs(const proto::GraphProto &part);
  llvm::Error define(llvm::StringRef name, const llvm::Twine &by);
  llvm::Error
  checkUses(llvm::function_ref<bool(llvm::StringRef)> isDefinedOutside) const;
  llvm::Error sortNodes();
  std::string describeCycle(llvm::ArrayRef<unsigned> pending) const;
  std::string suggestName(llvm::StringRef name) const;

  const Model *model;
  std::vector<const proto::ValueInfoProto *> inputs, outputs;
  llvm::StringSet<> outputNames;
  std::vector<const proto::NodeProto *> nodes;
  llvm::StringMap<const proto::TensorProto *> initializers;
  llvm::StringMap<const proto::NodeProto *> producers;
  /// Every defined name, with what defines it.
  llvm::StringMap<std::string> definitions;
};

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_GRAPH_H
