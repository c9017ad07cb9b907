// The search for weights among the initializers of a forward model: facts about
// values, and the roles of operands.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_TRAINABLESEARCH_H
#define MPC_FRONTENDS_ONNX_TRAINING_TRAINABLESEARCH_H

#include "frontends/ONNX/Training/Trainable.h"

#include <optional>
#include <vector>

namespace mpc::onnx_frontend {

/// The facts about a value of the graph.
struct Facts {
  /// True if the value depends only on initializers and shapes, not on inputs
  /// of the model.
  bool isFixed = false;
  /// True if an added value is a bias: for a product with weights, a
  /// normalization or an embedded row, perhaps reshaped or summed with others.
  bool takesBias = false;
  /// True for a normalized value. A scale and a bias may follow as separate
  /// ops.
  bool isNormalized = false;
  /// True for a root of data, such as the standard deviation in a normalization
  /// of single ops; and for the reciprocal of a root.
  bool isRoot = false, isInverseRoot = false;
  /// True for rows of a table at indices that depend on no input.
  bool isLookup = false;
};

class TrainableSearch {
public:
  TrainableSearch(const Graph &graph, const TensorMap &given);

  /// Returns the names of all weights: operands of layers, and values that
  /// modules have named.
  llvm::StringSet<> run();
  /// Adds the floats that are not in `found.parameters` to the other lists of
  /// `found`.
  void listOthers(const llvm::StringMap<std::string> &origins,
                  Trainables &found);

private:
  using Node = proto::NodeProto;

  /// The way a layer reads a weight: as an operand, as a bias added to the
  /// result, or as a value joined to the result or looked up.
  enum class Use { Operand, Bias, Joined };

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
  llvm::StringRef findEvidence(llvm::StringRef name);
  bool isBuffer(llvm::StringRef name);
  bool isStoredVector(llvm::StringRef value);
  bool isIntegerInput(llvm::StringRef value);
  bool isAngles(const Node &product);
  bool readsRows(const Node &gather);
  llvm::StringRef skipViews(llvm::StringRef value);

  const Graph &graph;
  const TensorMap &given;
  /// All nodes; the nodes in a body come before the node with the body.
  std::vector<const Node *> nodes;
  llvm::StringMap<Facts> facts;
  llvm::StringMap<llvm::SmallVector<const Node *, 1>> readers;
  llvm::StringSet<> weights;
  /// Values that an op reads as a statistic, a scale of integers or class
  /// weights.
  llvm::StringSet<> buffers;
  /// Values that would be weights if their products with positions were read by
  /// other ops than sines and cosines.
  llvm::StringSet<> frequencies;
  /// Values already visited while looking for the sources of weights. A value
  /// in `searched` may itself be a weight; a value in `searchedWithin` is an
  /// input of ops that compute a weight.
  llvm::StringSet<> searched, searchedWithin;
};

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_TRAINABLESEARCH_H
