// The search for weights among the initializers of a forward model: what is
// known of values, and what nodes say of their operands.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_TRAINABLESEARCH_H
#define MPC_FRONTENDS_ONNX_TRAINING_TRAINABLESEARCH_H

#include "frontends/ONNX/Training/Trainable.h"

#include <optional>
#include <vector>

namespace mpc::onnx_frontend {

/// What is known of a value of the graph.
struct Facts {
  /// It depends on no input of the model: initializers, shapes, and what is
  /// computed from them.
  bool isFixed = false;
  /// A product with weights, a normalization or a looked up row, perhaps
  /// reshaped or summed with other values: what is added to it is a bias.
  bool takesBias = false;
  /// A normalization without scale and bias yet.
  bool isNormalized = false;
  /// A root of data, such as the standard deviation that a normalization spelt
  /// out divides by; and its reciprocal.
  bool isRoot = false, isInverseRoot = false;
  /// Rows of a table at indices that depend on no input.
  bool isLookup = false;
};

class TrainableSearch {
public:
  TrainableSearch(const Graph &graph, const TensorMap &given);

  /// The operands of layers, and what a module's name says is a parameter.
  llvm::StringSet<> run();
  /// Lists the floats that are not in `found.parameters`.
  void listOthers(const llvm::StringMap<std::string> &origins,
                  Trainables &found);

private:
  using Node = proto::NodeProto;

  /// The way a layer reads a weight: as its operand, as a bias that is added to
  /// its result, or as what is joined to it or looked up for it.
  enum class Use { Operand, Bias, Joined };

  /// What to do behind a node that reads a value: nothing, to look at those
  /// that read its results, or to end.
  enum class Walk { Skip, Follow, Stop };
  /// Visits the nodes that read `value`, and those that read what is followed;
  /// each value once. True if a visit ended it.
  bool walkReaders(
      llvm::StringRef value,
      llvm::function_ref<Walk(const Node &reader, llvm::StringRef value)>
          visit);

  const proto::TensorProto *findTensor(llvm::StringRef name) const;
  std::optional<llvm::SmallVector<int64_t>>
  getStoredShape(llvm::StringRef name);
  Facts getFacts(llvm::StringRef value) const { return facts.lookup(value); }
  Facts infer(const Node &node);
  void inferBias(const Node &node, Facts &result);
  void inferNormalization(const Node &node, Facts &result);
  void findBuffers(const Node &node);
  void findWeights(const Node &node);
  void findAddends(const Node &node);
  void findNamed();
  void useFactors(llvm::StringRef value);
  void use(llvm::StringRef value, Use how);
  bool mayBe(llvm::StringRef name, Use how);
  bool isFloat(llvm::StringRef name);
  bool isOneNumber(llvm::StringRef name);
  bool isBuffer(llvm::StringRef name);
  bool isStoredVector(llvm::StringRef value);
  bool isIntegerInput(llvm::StringRef value);
  bool isAngles(const Node &product);
  bool isTable(const Node &gather);
  bool onlyScales(llvm::StringRef value);
  bool isRow(llvm::StringRef value);
  bool isFakeQuantization(const Node &node);
  llvm::StringRef skipQuantization(llvm::StringRef value);
  llvm::StringRef skipViews(llvm::StringRef value);

  const Graph &graph;
  const TensorMap &given;
  /// All nodes, those of a node's bodies before it.
  std::vector<const Node *> nodes;
  llvm::StringMap<Facts> facts;
  llvm::StringMap<llvm::SmallVector<const Node *, 1>> readers;
  llvm::StringSet<> weights;
  /// Values that an op reads as a statistic, as the scale of integers, or as
  /// the weights of a loss.
  llvm::StringSet<> buffers;
  /// Values whose origin has been searched, as weights and as what weights are
  /// computed from.
  llvm::StringSet<> searched, searchedWithin;
};

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_TRAINABLESEARCH_H
