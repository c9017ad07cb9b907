// Warns of layers, and parts of the loss, that an exporter has left out.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_LOSTLAYERS_H
#define MPC_FRONTENDS_ONNX_TRAINING_LOSTLAYERS_H

#include "frontends/ONNX/Model/Graph.h"

namespace mpc::onnx_frontend {

/// Warns of layers needed for training but lost in the file, as far as the file
/// shows. PyTorch's exporters and tf2onnx fold BatchNormalization into the
/// product before it. PyTorch's exporters also drop Dropout (of a model in
/// evaluation mode), label smoothing, and rules for the gradients of
/// embeddings. Suggests a better export if there is one.
void warnLost(const Graph &graph,
              llvm::ArrayRef<const proto::NodeProto *> nodes);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_LOSTLAYERS_H
