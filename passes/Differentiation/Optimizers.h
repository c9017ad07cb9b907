// The optimizers: which state each keeps per parameter, and its update.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_DIFFERENTIATION_OPTIMIZERS_H
#define MPC_PASSES_DIFFERENTIATION_OPTIMIZERS_H

#include "mlir/IR/Builders.h"

#include <optional>

namespace mpc {

/// The numbers of a recipe. Epsilon and weight decay have defaults of their own
/// per optimizer.
struct OptimizerSettings {
  double momentum, beta1, beta2, alpha, epsilon, weightDecay;
  bool centered;
};

/// The operands of an update. `step` counts the updates before this one,
/// `nextStep` counts this one too.
struct UpdateInputs {
  mlir::Value param, grad, learningRate, step, nextStep;
  llvm::SmallVector<mlir::Value> state;
};

/// One optimizer, under the name users know it by.
struct Optimizer {
  llvm::StringLiteral name;
  /// Suffixes of the variables it keeps per parameter.
  llvm::ArrayRef<llvm::StringLiteral> state;
  /// PyTorch's defaults.
  double epsilon, weightDecay;
  /// Builds the update; returns the new parameter, then the new state.
  llvm::SmallVector<mlir::Value> (*build)(mlir::OpBuilder &, mlir::Location,
                                          const UpdateInputs &,
                                          const OptimizerSettings &);
  /// True if the optimizer has the state `suffix` with these settings: sgd has
  /// ".m" only with --momentum. Null if it always has all its state.
  bool (*keeps)(llvm::StringRef suffix, const OptimizerSettings &) = nullptr;

  /// The suffixes of what it keeps with these settings.
  llvm::SmallVector<llvm::StringRef>
  getState(const OptimizerSettings &settings) const;
};

/// All optimizers, in the order help lists them.
llvm::ArrayRef<Optimizer> getOptimizers();

/// The optimizer of that name, null if there is none.
const Optimizer *findOptimizer(llvm::StringRef name);

} // namespace mpc

#endif // MPC_PASSES_DIFFERENTIATION_OPTIMIZERS_H
