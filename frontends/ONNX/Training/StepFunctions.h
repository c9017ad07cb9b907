// @step and @eval of a model that says itself how it is trained.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_STEPFUNCTIONS_H
#define MPC_FRONTENDS_ONNX_TRAINING_STEPFUNCTIONS_H

#include "frontends/ONNX/Training/OptimizerGraph.h"

namespace mpc::onnx_frontend {

/// A state and the value of the graph that it has after the step.
struct StateUpdate {
  std::string state; ///< an initializer, or an input with a given value
  std::string value;
};

/// What a graph says of its own training step, by the names of its values.
struct TrainingStep {
  std::vector<StateUpdate> updates;
  /// Parameters and their gradients, where the graph has these and no update:
  /// an optimizer is to be added.
  std::vector<StateUpdate> gradients;
  /// What @step gives back, and @eval; the first scalar of floats is the loss.
  std::vector<llvm::StringRef> outputs, evalOutputs;
  /// Of the states, what is trained; the others are the optimizer's.
  llvm::StringSet<> parameters;
  /// Inputs that the caller's schedule sets.
  llvm::StringSet<> learningRates;
  /// Inputs that scale the loss, which are 1.
  llvm::StringSet<> lossScales;
  /// Inputs that count updates, with their value at the first update.
  llvm::StringMap<int64_t> stepCounts;
  /// Initializers that the backward pass starts from.
  llvm::StringSet<> seeds;
  /// Nodes of the update, where the graph has its backward pass as nodes.
  llvm::DenseSet<const proto::NodeProto *> optimizerNodes;
  /// Whether gradients are nodes too, and not those of Gradient alone.
  bool hasBackwardNodes = false;
};

/// Builds both functions over the variables of `module`.
class StepImporter {
public:
  /// `options` are those of `module`; their mode may change between functions.
  StepImporter(ModuleImporter &module, ImportOptions &options,
               const Graph &graph, const TrainingStep &step)
      : module(module), options(options), graph(graph), step(step) {}

  /// Imports the graph as @step, in the mode that it was exported in.
  llvm::Error importStep();
  /// Imports the graph as @accumulate, which adds the step's gradients into
  /// buffers; `accumulations` receives these.
  llvm::Error importAccumulate(std::vector<Accumulation> &accumulations);
  /// Imports what the outputs of @eval need, in `mode`.
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
  /// Of the function at hand: one input for all optimizers.
  mlir::Value learningRate;
};

/// Imports a graph that is such a step: as @step, or as @accumulate and @update
/// where an optimizer graph goes with it; and @eval.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
importTrainingStep(const Graph &graph, const TrainingStep &step,
                   const ImportOptions &options);

/// Binds the initializer `name` to an mpc.gradient_seed where it holds ones
/// alone: a backward pass starts from it. Whether it does.
bool bindGradientSeed(FunctionImporter &function, llvm::StringRef name);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_STEPFUNCTIONS_H
