// Layers of the program, and parts of its loss, that an exporter has left out
// of the file.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_LOSTLAYERS_H
#define MPC_FRONTENDS_ONNX_TRAINING_LOSTLAYERS_H

#include "frontends/ONNX/Model/Graph.h"

namespace mpc::onnx_frontend {

/// Warns of layers that training needs and that the file has no more, as far as
/// it shows: PyTorch's exporters and tf2onnx fold BatchNormalization into the
/// product before it, and leave out Dropout of a model in evaluation mode and
/// the smoothing of labels, and what an embedding does to gradients. Says how
/// to export instead, where there is a way.
void warnLost(const Graph &graph,
              llvm::ArrayRef<const proto::NodeProto *> nodes);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_LOSTLAYERS_H
