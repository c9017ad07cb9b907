// Warns of parameters that PyTorch's exporter has replaced by values computed
// from them: transposed, renamed or multiplied.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_FOLDEDPARAMETERS_H
#define MPC_FRONTENDS_ONNX_TRAINING_FOLDEDPARAMETERS_H

#include "frontends/ONNX/Importer/Importer.h"

namespace mpc::onnx_frontend {

/// Warns of parameters that the exporter's optimizer has changed or dropped. A
/// transposed parameter has another name in the file. Only the result remains
/// of ops on parameters alone. A parameter that changes nothing at first is
/// missing. Call after `function` has imported the nodes of `graph`.
void warnFolded(FunctionImporter &function, const Graph &graph);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_FOLDEDPARAMETERS_H
