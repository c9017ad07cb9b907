// Finds random masks in the nodes of a graph, and the results that programs
// compute with them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_RANDOMCHOICES_H
#define MPC_FRONTENDS_ONNX_REPAIR_RANDOMCHOICES_H

#include "frontends/ONNX/Model/Model.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

#include <array>

namespace mpc::onnx_frontend {

/// A list of nodes to search: of the model's graph, a body or a function.
struct DrawingScope {
  google::protobuf::RepeatedPtrField<proto::NodeProto> *nodes;
  /// The graphs whose initializers the nodes may read.
  std::vector<const proto::GraphProto *> graphs;
  std::vector<std::string> outputs;
  int64_t opset;
};

/// Follows random numbers through the nodes of a scope to the choices they
/// make.
class RandomChoices {
public:
  using Chain = llvm::SmallSetVector<const proto::NodeProto *, 8>;

  /// A random choice: scale[b] * base + bias[b], where b is 1 with probability
  /// p, else 0. A mask has no base. A value that is not random has no chain.
  /// `chain` are the nodes that compute the choice.
  struct Choice {
    std::string base;
    std::array<double, 2> scale = {0, 0}, bias = {0, 0};
    double p = 0;
    Chain chain;
    /// The node that computes b.
    const proto::NodeProto *mask = nullptr;

    bool isMask() const { return base.empty() && !chain.empty(); }
  };

  /// A node whose result must become its base in evaluation. For a block, a
  /// mask that must become 0.
  struct Found {
    const proto::NodeProto *root;
    Choice choice;
    bool isBlock = false;
  };

  RandomChoices(Model &model, const DrawingScope &scope);

  /// Visits a node. Call in topological order.
  void visit(const proto::NodeProto &node);
  /// Returns the choices. Call once, after all nodes are visited.
  std::vector<Found> takeFound();

private:
  /// Uniform random numbers in [low, high), and the nodes that compute them.
  struct Uniform {
    double low = 0, high = 1;
    Chain chain;
  };
  /// A mask whose ones a max-pool spreads to blocks.
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
  /// `unscaled`: choices that drop whole samples, unless a later node scales
  /// them.
  std::vector<Found> found, unscaled;
};

/// Returns the attribute `name` of `node`, or null.
const proto::AttributeProto *findNodeAttribute(const proto::NodeProto &node,
                                               llvm::StringRef name);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_RANDOMCHOICES_H
