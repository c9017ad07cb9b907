// The parts of a training step around forward and backward.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_OPTIMIZERGRAPH_H
#define MPC_FRONTENDS_ONNX_TRAINING_OPTIMIZERGRAPH_H

#include "frontends/ONNX/Importer/Importer.h"

namespace mpc::onnx_frontend {

/// A parameter and the buffer its gradients are summed in.
struct Accumulation {
  std::string name;     ///< of the parameter
  std::string gradient; ///< the ONNX value that is added
  std::string node;     ///< the accumulator's name
  VariableOp parameter, buffer;
};

/// Adds a gradient to the buffer of its parameter, and declares the buffer.
/// Reports a gradient that has another type than the parameter.
void addAccumulation(FunctionImporter &function, Accumulation &accumulation);

/// Sets the buffers to zero in an update. An error where a parameter has none.
llvm::Error resetAccumulators(FunctionImporter &function,
                              llvm::ArrayRef<Accumulation> accumulations);

/// Imports an optimizer graph as @update: over sequences of tensors, which are
/// the parameters, their sums of gradients and their moments, in the order of
/// `accumulations`; or over single tensors, which it has as inputs by the names
/// of parameters and gradients (`w` and `w_grad`). Other inputs are optimizer
/// state that starts at zero, the learning rate or the count of updates, by
/// what the optimizers' nodes read them as.
llvm::Error importOptimizerGraph(ModuleImporter &module, const Graph &graph,
                                 llvm::ArrayRef<Accumulation> accumulations);

/// Imports the optimizer graph in the file at `path`.
llvm::Error importOptimizerFile(ModuleImporter &module, llvm::StringRef path,
                                llvm::ArrayRef<Accumulation> accumulations);

/// Adds outputs: the loss has role loss, others output.
void addTrainingOutputs(FunctionImporter &function,
                        llvm::ArrayRef<llvm::StringRef> names);

/// Adds to an evaluation what measures need: per-sample losses and the scores
/// of a loss over class labels.
void addEvaluationOutputs(FunctionImporter &function);

/// Adds one to the variable `counter` in every step; returns the new value.
mlir::Value addIncrement(FunctionImporter &function, llvm::StringRef counter);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_OPTIMIZERGRAPH_H
