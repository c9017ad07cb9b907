// Warns of parameters that an exporter merged.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_SHAREDPARAMETERS_H
#define MPC_FRONTENDS_ONNX_TRAINING_SHAREDPARAMETERS_H

#include "frontends/ONNX/Importer/Importer.h"

namespace mpc::onnx_frontend {

/// Warns of parameters in place of several parameters of the program, as far as
/// the file shows. The parameters start equal, and the merged file keeps them
/// equal. Call after `function` has imported `nodes`.
void warnShared(FunctionImporter &function, const Graph &graph,
                llvm::ArrayRef<const proto::NodeProto *> nodes);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_SHAREDPARAMETERS_H
