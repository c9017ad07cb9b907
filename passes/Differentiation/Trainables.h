// Chooses the parameters to train, and adapts layers: a BatchNormalization with
// a frozen scale and bias keeps its running statistics.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_DIFFERENTIATION_TRAINABLES_H
#define MPC_PASSES_DIFFERENTIATION_TRAINABLES_H

#include "compiler/Dialect/MPC/FunctionPorts.h"

#include <string>

namespace mpc {

/// The patterns of --train and --freeze.
struct TrainablePatterns {
  llvm::ArrayRef<std::string> train, freeze;
};

/// Returns the variables to train, in the order of the module. Only variables
/// that the loss depends on can be trained: `sources` holds the values with a
/// gradient. If `train` has patterns, chooses the variables that match (of any
/// role except statistic); otherwise all variables of role parameter. A module
/// with adapters trains the adapters, and else only matches of `train`. Removes
/// variables that match a pattern of `freeze`. Afterwards the trained variables
/// have the role parameter, and all others the role frozen. Reports an error
/// for a pattern without a match.
///
/// A BatchNormalization in `step` whose scale and bias are both frozen by
/// patterns changes to inference mode, and keeps its running statistics. If
/// scale and bias are no parameters, the names of the statistics decide.
mlir::FailureOr<llvm::SmallVector<VariableOp>>
selectTrainables(mlir::ModuleOp module, FunctionEditor &step,
                 const llvm::DenseSet<mlir::Value> &sources,
                 const TrainablePatterns &patterns);

} // namespace mpc

#endif // MPC_PASSES_DIFFERENTIATION_TRAINABLES_H
