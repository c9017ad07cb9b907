// Parameters that an exporter has made one of several.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_SHAREDPARAMETERS_H
#define MPC_FRONTENDS_ONNX_TRAINING_SHAREDPARAMETERS_H

#include "frontends/ONNX/Importer/Importer.h"

namespace mpc::onnx_frontend {

/// Warns of parameters that stand for several of the model's program, as far as
/// the file shows it, once `function` has imported `nodes`. They start equal,
/// and what the file says is that they stay so.
void warnShared(FunctionImporter &function, const Graph &graph,
                llvm::ArrayRef<const proto::NodeProto *> nodes);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_SHAREDPARAMETERS_H
