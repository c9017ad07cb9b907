// Describes the inputs and outputs of optimizer nodes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_OPTIMIZERNODES_H
#define MPC_FRONTENDS_ONNX_TRAINING_OPTIMIZERNODES_H

#include "frontends/ONNX/Importer/Importer.h"

namespace mpc::onnx_frontend {

/// The positions of an optimizer node's inputs and outputs.
struct OptimizerNode {
  /// The position of a parameter or state among the inputs, and of its new
  /// value among the outputs.
  struct Update {
    int input, output;
  };
  std::vector<Update> parameters, states;
  /// The positions of the gradients.
  std::vector<int> gradients;
  /// The positions of learning rate, count of updates and loss scale; -1 if
  /// absent.
  int rate = -1, count = -1, lossScale = -1;
  /// The count at the first update.
  int64_t firstCount = 0;
};

/// Reads an optimizer of single tensors: Adam, Adagrad and Momentum of
/// ai.onnx.preview.training, SGDOptimizer, AdamOptimizer and LambOptimizer of
/// com.microsoft, or SGD without a domain. nullopt for other nodes.
std::optional<OptimizerNode> readOptimizerNode(const proto::NodeProto &node);

/// Returns the input of an optimizer over lists of tensors that holds the
/// gradients, such as 2 for SGDOptimizerV2. nullopt for other nodes.
std::optional<int> findGradientList(const proto::NodeProto &node);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_OPTIMIZERNODES_H
