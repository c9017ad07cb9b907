// The parts of a training step around forward and backward.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_OPTIMIZERGRAPH_H
#define MPC_FRONTENDS_ONNX_TRAINING_OPTIMIZERGRAPH_H

#include "frontends/ONNX/Ops/Importer.h"

namespace mpc::onnx_frontend {

/// A parameter and the buffer its gradients are summed in.
struct Accumulation {
  std::string name;     ///< of the parameter
  std::string gradient; ///< the ONNX value that is added
  std::string node;     ///< the accumulator's name
  VariableOp parameter, buffer;
};

/// Imports an optimizer graph over sequences of tensors as @update. The
/// sequences are the parameters, their sums of gradients and their moments, in
/// the order of `accumulations`.
llvm::Error importOptimizerGraph(ModuleImporter &module, const Graph &graph,
                                 llvm::ArrayRef<Accumulation> accumulations);

/// Adds outputs: the loss has role "loss", others "output".
void addTrainingOutputs(FunctionImporter &function,
                        llvm::ArrayRef<llvm::StringRef> names);

/// Adds to an evaluation what measures need: per-sample losses and the scores
/// of a loss over class labels.
void addEvaluationOutputs(FunctionImporter &function);

/// The counter of that name, plus one; it is updated.
mlir::Value addIncrement(FunctionImporter &function, llvm::StringRef counter);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_OPTIMIZERGRAPH_H
