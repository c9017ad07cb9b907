// Plain graphs that are a training step: their outputs are the updated
// parameters.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_STEPGRAPH_H
#define MPC_FRONTENDS_ONNX_TRAINING_STEPGRAPH_H

#include "frontends/ONNX/Training/StepFunctions.h"

namespace mpc::onnx_frontend {

/// What the graph says of its step where it is one: it has nodes of optimizers
/// whose parameters are initializers (or inputs with a value in `--weights`),
/// or outputs of the form `p - something` of such a p that the graph reads
/// elsewhere, too. Nothing where it is another graph; a finding where it is a
/// step of which an output may update several states. `notes` receives what was
/// recognised.
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
