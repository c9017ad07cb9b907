// A graph that is checked: no name is defined twice, each input of a node is
// defined, there are no cycles, and the nodes are in topological order.
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

/// Returns the name of a node for messages and locations: the node's own name,
/// or else OpType_firstOutput.
std::string getNodeName(const proto::NodeProto &node);

/// Returns the name of the node's op with its domain: "com.microsoft.ReluGrad".
/// Without a domain for ONNX's own ops: "Conv".
std::string getOpName(const proto::NodeProto &node);

/// Returns the graphs in a node's attributes: bodies of loops and branches.
std::vector<const proto::GraphProto *> getBodies(const proto::NodeProto &node);

/// Returns `graph` and the bodies of its nodes (If, Loop, Scan) at any depth.
std::vector<const proto::GraphProto *>
findGraphs(const proto::GraphProto &graph);
std::vector<proto::GraphProto *> findGraphs(proto::GraphProto &graph);

/// Returns all graphs of a file: the main graph, the graphs of training_info,
/// and all bodies, also of nodes in functions.
std::vector<proto::GraphProto *> findGraphs(proto::ModelProto &model);

/// Returns all names that the bodies of nodes in `graph` define. Inside a body
/// such a name may hide a value of the outer graph.
llvm::StringSet<> findBodyNames(const proto::GraphProto &graph);

/// Returns the float tensor of a Constant node; null for other nodes.
const proto::TensorProto *findConstantTensor(const proto::NodeProto &node);

/// Returns the names of all values that a node reads: its inputs, the values
/// that a Gradient names in attributes, and the values of outer graphs that its
/// bodies read.
std::vector<llvm::StringRef> getReadValues(const proto::NodeProto &node);

class Graph {
public:
  /// Checks the concatenation of the graphs in `parts`, and sorts the nodes.
  /// `parts` is one graph, or an inference graph followed by the training
  /// algorithm of training_info.
  static llvm::Expected<Graph>
  check(const Model &model, llvm::ArrayRef<const proto::GraphProto *> parts);
  /// Checks `body`, a graph in an attribute of a node. The body may also read
  /// values of outer graphs: the names for which `isDefinedOutside` is true.
  static llvm::Expected<Graph>
  checkBody(const Model &model, const proto::GraphProto &body,
            llvm::function_ref<bool(llvm::StringRef)> isDefinedOutside);

  const Model &getModel() const { return *model; }
  /// The inputs without an initializer.
  llvm::ArrayRef<const proto::ValueInfoProto *> getInputs() const {
    return inputs;
  }
  llvm::ArrayRef<const proto::ValueInfoProto *> getOutputs() const {
    return outputs;
  }
  /// The nodes, producers before readers, otherwise in the order of the file.
  llvm::ArrayRef<const proto::NodeProto *> getNodes() const { return nodes; }

  bool defines(llvm::StringRef name) const {
    return definitions.contains(name);
  }
  /// Returns the initializer `name`, or null.
  const proto::TensorProto *getInitializer(llvm::StringRef name) const {
    return initializers.lookup(name);
  }
  /// Returns the node that computes `value`, or null.
  const proto::NodeProto *getProducer(llvm::StringRef value) const {
    return producers.lookup(value);
  }

  /// Returns the nodes that `values` depend on, in topological order.
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
  /// The definition of each name, as text for messages: "an initializer",
  /// "node 'fc1'".
  llvm::StringMap<std::string> definitions;
};

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_GRAPH_H
