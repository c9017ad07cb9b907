// Optimizer graphs over single tensors.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_TENSOROPTIMIZER_H
#define MPC_FRONTENDS_ONNX_TRAINING_TENSOROPTIMIZER_H

#include "frontends/ONNX/Training/OptimizerGraph.h"

namespace mpc::onnx_frontend {

/// Whether the graph has nodes of optimizers that update single tensors.
bool isOverTensors(const Graph &graph);

/// Imports such a graph as @update: importOptimizerGraph.
llvm::Error importTensorOptimizer(ModuleImporter &module, const Graph &graph,
                                  llvm::ArrayRef<Accumulation> accumulations);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_TENSOROPTIMIZER_H
