// Imports the parts of a training step besides forward and backward.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_OPTIMIZERGRAPH_H
#define MPC_FRONTENDS_ONNX_TRAINING_OPTIMIZERGRAPH_H

#include "frontends/ONNX/Importer/Importer.h"

namespace mpc::onnx_frontend {

/// A parameter, and the buffer that sums its gradients.
struct Accumulation {
  std::string name;     ///< the parameter's name
  std::string gradient; ///< the ONNX value of the gradient
  std::string node;     ///< the name of the accumulator node
  VariableOp parameter, buffer;
};

/// Creates the parameter's buffer, and adds the gradient to it. Reports a
/// gradient whose type differs from the parameter's.
void addAccumulation(FunctionImporter &function, Accumulation &accumulation);

/// Sets the buffers to zero in @update. Fails if a parameter is not updated.
llvm::Error resetAccumulators(FunctionImporter &function,
                              llvm::ArrayRef<Accumulation> accumulations);

/// Imports an optimizer graph as @update. The graph has one of two forms:
///   - Over sequences of tensors: the inputs are the parameters, the sums of
///     gradients and the moments, in the order of `accumulations`.
///   - Over single tensors: inputs have the names of parameters and gradients
///     (`w` and `w_grad`). The optimizer node that reads another input decides
///     its role: state that starts at zero, learning rate or count of updates.
llvm::Error importOptimizerGraph(ModuleImporter &module, const Graph &graph,
                                 llvm::ArrayRef<Accumulation> accumulations);

/// Imports the optimizer graph in the file at `path`, which goes with `model`.
llvm::Error importOptimizerFile(ModuleImporter &module, const Model &model,
                                llvm::StringRef path,
                                llvm::ArrayRef<Accumulation> accumulations);

/// Adds the outputs `names`. The loss gets role loss, the others role output.
void addTrainingOutputs(FunctionImporter &function,
                        llvm::ArrayRef<llvm::StringRef> names);

/// Adds outputs for metrics to an evaluation: loss per sample, the scores that
/// a loss reads, and a 1 for each label with the greatest score (0 for others).
void addEvaluationOutputs(FunctionImporter &function);

/// Adds one to the variable `counter` in every step; returns the new value.
mlir::Value addIncrement(FunctionImporter &function, llvm::StringRef counter);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_OPTIMIZERGRAPH_H
