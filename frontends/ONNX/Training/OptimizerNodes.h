// What the nodes of optimizers read and write.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_OPTIMIZERNODES_H
#define MPC_FRONTENDS_ONNX_TRAINING_OPTIMIZERNODES_H

#include "frontends/ONNX/Importer/Importer.h"

namespace mpc::onnx_frontend {

/// The places of a node's inputs and outputs.
struct OptimizerNode {
  /// A state, and its value after the update.
  struct Update {
    int input, output;
  };
  std::vector<Update> parameters, states;
  /// The learning rate, the count of updates and the loss scale; -1 where there
  /// is none.
  int rate = -1, count = -1, lossScale = -1;
  /// What the count is at the first update.
  int64_t firstCount = 0;
};

/// Of a node that is an optimizer of single tensors: Adam, Adagrad and Momentum
/// of ai.onnx.preview.training, SGDOptimizer, AdamOptimizer and LambOptimizer
/// of com.microsoft, SGD of no domain.
std::optional<OptimizerNode> readOptimizerNode(const proto::NodeProto &node);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_OPTIMIZERNODES_H
