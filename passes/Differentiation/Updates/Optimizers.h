// The optimizers: the state variables of each parameter, and the ops of an
// update.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_DIFFERENTIATION_UPDATES_OPTIMIZERS_H
#define MPC_PASSES_DIFFERENTIATION_UPDATES_OPTIMIZERS_H

#include "compiler/Dialect/MPC/Recipe/Recipe.h"

#include "mlir/IR/Builders.h"

#include <optional>

namespace mpc {

/// The operands of an update. `step` is the number of earlier updates,
/// `nextStep` is `step` + 1.
struct UpdateInputs {
  mlir::Value param, grad, learningRate, step, nextStep;
  llvm::SmallVector<mlir::Value> state;
  /// For Muon: true if axis 0 of the parameter counts the inputs of its layer.
  bool inputsFirst = false;
};

/// The defaults of an optimizer's settings: PyTorch's, or the paper's if
/// PyTorch lacks the optimizer.
struct OptimizerDefaults {
  double epsilon = 0.0, weightDecay = 0.0, momentum = 0.9, beta2 = 0.999;
};

/// One optimizer.
struct Optimizer {
  OptimizerKind kind;
  /// Suffixes of the state variables that each parameter has, such as ".m".
  llvm::ArrayRef<llvm::StringLiteral> state;
  OptimizerDefaults defaults;
  /// Builds the update; returns the new parameter, then the new state. All
  /// settings have a value.
  llvm::SmallVector<mlir::Value> (*build)(mlir::OpBuilder &, mlir::Location,
                                          const UpdateInputs &,
                                          const OptimizerSettings &);
  /// True if the optimizer has the state `suffix` with these settings: rmsprop
  /// has ".velocity" only with momentum. Null if the optimizer always has all
  /// state.
  bool (*keeps)(llvm::StringRef suffix, const OptimizerSettings &) = nullptr;

  /// Returns the suffixes of the state kept with these settings.
  llvm::SmallVector<llvm::StringRef>
  getState(const OptimizerSettings &settings) const;
};

const Optimizer &getOptimizer(OptimizerKind kind);

/// Returns `settings` with the defaults of its optimizer for settings without a
/// value.
OptimizerSettings withDefaults(OptimizerSettings settings);

} // namespace mpc

#endif // MPC_PASSES_DIFFERENTIATION_UPDATES_OPTIMIZERS_H
