// The search for weights among the initializers of a forward model: what is
// known of values, and what nodes say of their operands.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_TRAINABLESEARCH_H
#define MPC_FRONTENDS_ONNX_TRAINING_TRAINABLESEARCH_H

#include "frontends/ONNX/Model/Graph.h"

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
  /// Such a value times a number, as embeddings are: what is added to it is a
  /// table of positions.
  bool takesPositions = false;
  /// A normalization without scale and bias yet.
  bool isNormalized = false;
  /// A root of data, such as the standard deviation that a normalization spelt
  /// out divides by; and its reciprocal.
  bool isRoot = false, isInverseRoot = false;
  /// Rows of a table at indices that depend on no input.
  bool isLookup = false;
  /// Computed from data by weights, whatever came after.
  bool isLearned = false;
  /// Random numbers, such as which samples drop a branch.
  bool isRandom = false;
};

/// Whether all elements of the initializer are 0 or 1 and both occur, as of the
/// mask of a layer or a permutation.
bool isMask(const Model &model, const proto::TensorProto &tensor);

class TrainableSearch {
public:
  TrainableSearch(const Graph &graph, const TensorMap &given);

  llvm::StringSet<> run();

private:
  using Node = proto::NodeProto;

  /// What to do behind a node that reads a value: nothing, to look at those
  /// that read its results, or to end.
  enum class Walk { Skip, Follow, Stop };
  /// Visits the nodes that read `value`, and those that read what is followed;
  /// each value once. True if a visit ended it.
  bool walkReaders(
      llvm::StringRef value,
      llvm::function_ref<Walk(const Node &reader, llvm::StringRef value)>
          visit);

  std::optional<llvm::SmallVector<int64_t>>
  getStoredShape(llvm::StringRef name);
  Facts getFacts(llvm::StringRef value) const { return facts.lookup(value); }
  Facts infer(const Node &node);
  void inferBias(const Node &node, Facts &result);
  void inferNormalization(const Node &node, Facts &result);
  void findWeights(const Node &node);
  void findAddends(const Node &node);
  void findScale(const Node &product, llvm::StringRef scale);
  bool onlyScales(llvm::StringRef value);
  bool isRow(llvm::StringRef value);
  bool isFakeQuantization(const Node &node);
  llvm::StringRef skipQuantization(llvm::StringRef value);
  bool isBranch(const Node &product);
  bool isStoredVector(llvm::StringRef value);
  bool isModulesNumber(llvm::StringRef value);
  bool isModulesTensor(llvm::StringRef value);
  bool isModulesVector(llvm::StringRef value);
  bool isOuterProduct(const Node &product, int stored);
  bool isInnerBias(const Node &sum, int stored);
  bool isOfWeights(llvm::StringRef value);
  bool isPassedOn(const Node &reader, llvm::StringRef value);
  bool isSharpened(const Node &product);
  bool isPeriod(const Node &product, llvm::StringRef factor);
  llvm::StringRef findShift(const Node &product, llvm::StringRef scale);
  void findReachingWeights();
  bool isAngles(const Node &product);
  bool isOnlyTurned(const Node &product);
  void useFactors(llvm::StringRef value);
  bool isIntegerInput(llvm::StringRef value);
  llvm::StringRef skipViews(llvm::StringRef value);
  bool isTable(const Node &gather);
  bool isEmbedding(const Node &gather);
  bool isNumber(llvm::StringRef value);
  bool multipliesByOne(const Node &node);
  bool isPositions(llvm::StringRef value);
  void use(llvm::StringRef value, bool orScalar = true);

  const Graph &graph;
  const TensorMap &given;
  /// All nodes, those of a node's bodies before it.
  std::vector<const Node *> nodes;
  llvm::StringMap<Facts> facts;
  llvm::StringMap<llvm::SmallVector<const Node *, 1>> readers;
  llvm::StringSet<> weights;
  /// Running means and variances, which weights may be computed with.
  llvm::StringSet<> statistics;
  /// Values that a product with weights or a normalization depends on.
  llvm::StringSet<> reachingWeights;
  /// Values whose origin has been searched, as weights and as what weights are
  /// computed from.
  llvm::StringSet<> searched, searchedWithin;
};

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_TRAINABLESEARCH_H
