// A model for inference, whichever mode it was exported in.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_EXPORT_INFERENCEMODE_H
#define MPC_FRONTENDS_ONNX_EXPORT_INFERENCEMODE_H

#include "frontends/ONNX/Model/ONNXProto.h"

namespace mpc::onnx_frontend {

/// Puts every BatchNormalization and Dropout of the model's graph, of its
/// subgraphs and of its functions into inference mode, in the words of the
/// opset that applies: `training_mode`, `is_test` or the number of outputs.
/// Running statistics that something reads are those the node was given. A node
/// of which something reads what it saves for a gradient is left alone, and so
/// is `training_info`, which describes training.
void setInferenceMode(proto::ModelProto &model);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_EXPORT_INFERENCEMODE_H
