// Finds random choices in the nodes of a graph. A choice is a result computed
// from a random mask, like x * mask / 0.9: each element takes one of two values
// at random, and each value is a multiple of x plus a constant. Many programs
// write their own Dropout in this way.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_RANDOMCHOICES_H
#define MPC_FRONTENDS_ONNX_REPAIR_RANDOMCHOICES_H

#include "frontends/ONNX/Model/Model.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

#include <array>

namespace mpc::onnx_frontend {

/// A scope: a list of nodes to search for choices, which is a graph, a body or
/// a function. `outputs` names the outputs.
struct DrawingScope {
  google::protobuf::RepeatedPtrField<proto::NodeProto> *nodes;
  /// The graphs whose initializers the nodes may read.
  std::vector<const proto::GraphProto *> graphs;
  std::vector<std::string> outputs;
  int64_t opset;
};

/// Follows random numbers through the nodes of a scope, and finds the choices
/// computed from the random numbers.
class RandomChoices {
public:
  using Chain = llvm::SmallSetVector<const proto::NodeProto *, 8>;

  /// A random choice: scale[b] * base + bias[b], where b is 1 with probability
  /// p, else 0. `base` is the name of a value in the graph. `chain` holds the
  /// nodes that compute the choice, from the random numbers on. A mask is a
  /// choice without a base. The chain of a non-random value is empty.
  struct Choice {
    std::string base;
    std::array<double, 2> scale = {0, 0}, bias = {0, 0};
    double p = 0;
    Chain chain;
    /// The node that computes b, like a Less.
    const proto::NodeProto *mask = nullptr;

    bool isMask() const { return base.empty() && !chain.empty(); }
  };

  /// A choice to replace. `root` is the last node of the chain; in evaluation
  /// the result must be the base. If `isBlock`, `root` computes the mask of a
  /// DropBlock, which must be 0 in evaluation.
  struct Found {
    const proto::NodeProto *root;
    Choice choice;
    bool isBlock = false;
  };

  RandomChoices(Model &model, const DrawingScope &scope);

  /// Visits a node. Call for all nodes in topological order.
  void visit(const proto::NodeProto &node);
  /// Returns the choices to replace. Call once, after all nodes are visited.
  std::vector<Found> takeFound();

private:
  /// Uniform random numbers in [low, high), and the nodes that compute the
  /// numbers.
  struct Uniform {
    double low = 0, high = 1;
    Chain chain;
  };
  /// A random mask for a max-pool, which spreads each 1 in the mask to a block
  /// (DropBlock). `isPooled` is true behind the max-pool.
  struct Block {
    Choice choice;
    bool isPooled;
  };

  // Constants.
  const proto::TensorProto *findTensor(llvm::StringRef value) const;
  std::optional<double> readNumber(llvm::StringRef value,
                                   unsigned depth = 0) const;
  std::optional<double> readSplat(llvm::StringRef value) const;

  // From random numbers to choices.
  bool visitSource(const proto::NodeProto &node);
  bool visitUniform(const proto::NodeProto &node);
  void addMask(const proto::NodeProto &node, const Chain &chain, double p,
               double at0, double at1);
  std::optional<Choice> find(llvm::StringRef value, bool isWhole) const;
  std::optional<Choice> compute(const proto::NodeProto &node,
                                bool areWhole) const;
  bool isClosed(const Choice &choice) const;
  bool visitBlock(const proto::NodeProto &node);
  bool isOfSamples(const Choice &choice) const;

  Model &model;
  llvm::StringMap<const proto::NodeProto *> producers;
  llvm::StringMap<const proto::TensorProto *> tensors;
  llvm::StringMap<unsigned> readers;
  llvm::StringMap<Uniform> uniforms;
  llvm::StringMap<Choice> choices;
  llvm::StringMap<Block> blocks;
  /// `found`: choices to replace. `unscaled`: choices that drop whole samples
  /// without a factor; takeFound() adds an unscaled choice unless a later node
  /// scales the result.
  std::vector<Found> found, unscaled;
};

/// Returns the attribute `name` of `node`, or null.
const proto::AttributeProto *findNodeAttribute(const proto::NodeProto &node,
                                               llvm::StringRef name);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_RANDOMCHOICES_H
