// Imports optimizer graphs over single tensors.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_TENSOROPTIMIZER_H
#define MPC_FRONTENDS_ONNX_TRAINING_TENSOROPTIMIZER_H

#include "frontends/ONNX/Training/OptimizerGraph.h"

namespace mpc::onnx_frontend {

/// True if the graph has optimizer nodes that update single tensors.
bool isOverTensors(const Graph &graph);

/// Imports a graph for which `isOverTensors` is true as @update. See
/// importOptimizerGraph.
llvm::Error importTensorOptimizer(ModuleImporter &module, const Graph &graph,
                                  llvm::ArrayRef<Accumulation> accumulations);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_TENSOROPTIMIZER_H
