// Parameters in place of which PyTorch's exporter has written what it computed
// from them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_FOLDEDPARAMETERS_H
#define MPC_FRONTENDS_ONNX_TRAINING_FOLDEDPARAMETERS_H

#include "frontends/ONNX/Ops/Importer.h"

namespace mpc::onnx_frontend {

/// Says, once `function` has imported the nodes of `graph`, what the optimizer
/// of PyTorch's exporter computed in advance: a transposed parameter has
/// another name in the file, and of what follows from parameters alone only the
/// result is there.
void warnFolded(FunctionImporter &function, const Graph &graph);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_FOLDEDPARAMETERS_H
