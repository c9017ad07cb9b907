// Sets a model to inference mode.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_EXPORT_INFERENCEMODE_H
#define MPC_FRONTENDS_ONNX_EXPORT_INFERENCEMODE_H

#include "frontends/ONNX/Model/ONNXProto.h"

namespace mpc::onnx_frontend {

/// Sets every BatchNormalization and Dropout to inference mode, in the graph,
/// in bodies and in functions. The opset decides how: `training_mode`,
/// `is_test` or the number of outputs. Readers of updated running statistics
/// get the old statistics instead. A BatchNormalization stays as it is if
/// outputs that were saved for a gradient have readers. `training_info`, which
/// describes training, stays as well.
void setInferenceMode(proto::ModelProto &model);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_EXPORT_INFERENCEMODE_H
