// Parameters that PyTorch's exporter has replaced by something it computed from
// them: transposed, renamed, or multiplied in advance.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_FOLDEDPARAMETERS_H
#define MPC_FRONTENDS_ONNX_TRAINING_FOLDEDPARAMETERS_H

#include "frontends/ONNX/Importer/Importer.h"

namespace mpc::onnx_frontend {

/// Says, once `function` has imported the nodes of `graph`, what the optimizer
/// of PyTorch's exporter computed in advance or left out: a transposed
/// parameter has another name in the file, of what follows from parameters
/// alone only the result is there, and what changes nothing at first is not
/// there at all.
void warnFolded(FunctionImporter &function, const Graph &graph);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_FOLDEDPARAMETERS_H
