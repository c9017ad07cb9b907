// Random masks and what programs compute of them, by the nodes of a graph.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_RANDOMCHOICES_H
#define MPC_FRONTENDS_ONNX_REPAIR_RANDOMCHOICES_H

#include "frontends/ONNX/Model/Model.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

#include <array>

namespace mpc::onnx_frontend {

/// The nodes of the model's graph, of a body or of a function.
struct DrawingScope {
  google::protobuf::RepeatedPtrField<proto::NodeProto> *nodes;
  /// The graphs whose initializers they may read.
  std::vector<const proto::GraphProto *> graphs;
  std::vector<std::string> outputs;
  int64_t opset;
};

/// Facts about values that are computed of random numbers.
class RandomChoices {
public:
  using Chain = llvm::SmallSetVector<const proto::NodeProto *, 8>;

  /// scale[b] * base + bias[b], where b is 1 with probability p and else 0. A
  /// mask has no base; what has no chain is not random.
  struct Choice {
    std::string base;
    std::array<double, 2> scale = {0, 0}, bias = {0, 0};
    double p = 0;
    Chain chain;
    /// The node that decides what b is.
    const proto::NodeProto *mask = nullptr;

    bool isMask() const { return base.empty() && !chain.empty(); }
  };

  /// A node whose result is to be its base in evaluation; or, of a block, a
  /// mask that is to be 0 there.
  struct Found {
    const proto::NodeProto *root;
    Choice choice;
    bool isBlock = false;
  };

  RandomChoices(Model &model, const DrawingScope &scope);

  /// Looks at a node; of those before it all is known.
  void visit(const proto::NodeProto &node);
  /// The choices found, once all nodes are visited.
  std::vector<Found> takeFound();

private:
  /// Random numbers in [low, high), and the nodes that compute them.
  struct Uniform {
    double low = 0, high = 1;
    Chain chain;
  };
  /// A mask whose ones are made larger.
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
  /// `unscaled`: what may be a mask of samples, unless it is scaled later.
  std::vector<Found> found, unscaled;
};

/// The attribute of that name, or null.
const proto::AttributeProto *findNodeAttribute(const proto::NodeProto &node,
                                               llvm::StringRef name);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_RANDOMCHOICES_H
