// Imports @step and @eval of a model that describes its own training step.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_STEPFUNCTIONS_H
#define MPC_FRONTENDS_ONNX_TRAINING_STEPFUNCTIONS_H

#include "frontends/ONNX/Training/OptimizerGraph.h"

namespace mpc::onnx_frontend {

/// A state, and the value of the graph that replaces the state.
struct StateUpdate {
  std::string state; ///< an initializer, or an input in `--weights`
  std::string value;
};

/// The training step that a graph describes, by names of values.
struct TrainingStep {
  std::vector<StateUpdate> updates;
  /// Parameters and gradients, if the graph has gradients but no update. The
  /// caller must add an optimizer.
  std::vector<StateUpdate> gradients;
  /// The results of @step and @eval. The first float scalar is the loss.
  std::vector<llvm::StringRef> outputs, evalOutputs;
  /// The states that are trained; the others belong to the optimizer.
  llvm::StringSet<> parameters;
  /// Inputs set by the caller's schedule.
  llvm::StringSet<> learningRates;
  /// Inputs that scale the loss. mpc sets these inputs to 1.
  llvm::StringSet<> lossScales;
  /// Inputs that count updates, with the value at the first update.
  llvm::StringMap<int64_t> stepCounts;
  /// Initializers that start the backward pass.
  llvm::StringSet<> seeds;
  /// Nodes of the update, in a graph whose backward pass consists of nodes.
  llvm::DenseSet<const proto::NodeProto *> optimizerNodes;
  /// True if the backward pass consists of nodes, not only of Gradient.
  bool hasBackwardNodes = false;
};

/// Builds the functions of a step over the variables of `module`.
class StepImporter {
public:
  /// `options` are those of `module`. Importing a function changes their mode.
  StepImporter(ModuleImporter &module, ImportOptions &options,
               const Graph &graph, const TrainingStep &step)
      : module(module), options(options), graph(graph), step(step) {}

  /// Imports the graph as @step, in the exported mode.
  llvm::Error importStep();
  /// Imports the graph as @accumulate, which adds gradients to buffers.
  /// `accumulations` receives the buffers.
  llvm::Error importAccumulate(std::vector<Accumulation> &accumulations);
  /// Imports the nodes that the outputs of @eval need, in `mode`.
  llvm::Error importEval(ImportMode mode);

private:
  llvm::Error importBody(FunctionImporter &function);
  llvm::Error addInputs(FunctionImporter &function,
                        llvm::ArrayRef<const proto::NodeProto *> nodes);
  void addInput(FunctionImporter &function, llvm::StringRef name,
                mlir::RankedTensorType type);
  void bindGiven(FunctionImporter &function, llvm::StringRef name,
                 mlir::RankedTensorType type);
  void bindState(FunctionImporter &function, llvm::StringRef state);
  void markPhases(FunctionImporter &function,
                  llvm::ArrayRef<const proto::NodeProto *> nodes);
  void addUpdates(FunctionImporter &function);
  void addGradients(FunctionImporter &function);

  ModuleImporter &module;
  ImportOptions &options;
  const Graph &graph;
  const TrainingStep &step;
  /// The learning rate input of the current function, shared by all optimizers;
  /// null until a node needs the rate.
  mlir::Value learningRate;
};

/// Imports a graph with a training step: as @step, or as @accumulate and
/// @update if there is an optimizer graph; and as @eval.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
importTrainingStep(const Graph &graph, const TrainingStep &step,
                   const ImportOptions &options);

/// Binds the initializer `name` to an mpc.gradient_seed, which starts a
/// backward pass, if all elements are 1. Returns false otherwise.
bool bindGradientSeed(FunctionImporter &function, llvm::StringRef name);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_STEPFUNCTIONS_H
