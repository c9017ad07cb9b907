// Recognises plain graphs that are a training step or have gradients as
// outputs.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_STEPGRAPH_H
#define MPC_FRONTENDS_ONNX_TRAINING_STEPGRAPH_H

#include "frontends/ONNX/Training/StepFunctions.h"

namespace mpc::onnx_frontend {

/// Recognises a graph that is a whole training step: states, updates, loss and
/// rate. Such a graph has optimizer nodes whose parameters are initializers (or
/// inputs with a value in `--weights`). Or an output is `p - something`, where
/// p is an initializer that other nodes read too. Returns nullopt for other
/// graphs. Fails if an output may update several states. `notes` receives a
/// sentence about each finding.
llvm::Expected<std::optional<TrainingStep>>
findTrainingStep(const Graph &graph, const ImportOptions &options,
                 std::vector<std::string> &notes);

/// Recognises a graph with a loss and gradients as outputs: `w_grad`, with the
/// type of `w`, for an initializer `w` (or an input with a value). nullopt for
/// other graphs.
std::optional<TrainingStep> findGradientGraph(const Graph &graph,
                                              const ImportOptions &options,
                                              std::vector<std::string> &notes);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_STEPGRAPH_H
