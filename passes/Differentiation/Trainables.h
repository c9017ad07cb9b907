// The choice of the parameters that training changes, and its effect on layers:
// a BatchNormalization whose scale is frozen keeps its running statistics.
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

/// The variables to train, in the module's order. Candidates are the variables
/// behind `sources`, the arguments that have a gradient. Chosen are those of
/// role parameter and those that a pattern of `train` matches (of any role but
/// statistic), less those that a pattern of `freeze` matches. Afterwards the
/// chosen have the role parameter and the others frozen. A pattern that matches
/// nothing is an error.
///
/// A BatchNormalization in `step` that patterns froze, scale and bias both, is
/// in inference mode afterwards and keeps its running statistics. One without
/// parameters goes by the names of its statistics.
mlir::FailureOr<llvm::SmallVector<VariableOp>>
selectTrainables(mlir::ModuleOp module, FunctionEditor &step,
                 const llvm::DenseSet<mlir::Value> &sources,
                 const TrainablePatterns &patterns);

} // namespace mpc

#endif // MPC_PASSES_DIFFERENTIATION_TRAINABLES_H
