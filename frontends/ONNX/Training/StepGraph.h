// Plain graphs that are a training step: their outputs are the updated
// parameters.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_STEPGRAPH_H
#define MPC_FRONTENDS_ONNX_TRAINING_STEPGRAPH_H

#include "frontends/ONNX/Training/StepFunctions.h"

namespace mpc::onnx_frontend {

/// Reads a graph that is a whole training step: states, updates, loss and rate.
/// Such a graph has optimizer nodes whose parameters are initializers (or
/// inputs with a value in `--weights`), or outputs `p - something` of an
/// initializer p that other nodes read too. Gives nothing for other graphs, and
/// an error where an output could be the update of several states. `notes`
/// receives one sentence for each thing that was recognised.
llvm::Expected<std::optional<TrainingStep>>
findTrainingStep(const Graph &graph, const ImportOptions &options,
                 std::vector<std::string> &notes);

/// What a graph says where it has gradients as outputs, beside a loss: `w_grad`
/// of an initializer `w` (or an input with a value), of its type. Nothing where
/// it is another graph.
std::optional<TrainingStep> findGradientGraph(const Graph &graph,
                                              const ImportOptions &options,
                                              std::vector<std::string> &notes);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_STEPGRAPH_H
