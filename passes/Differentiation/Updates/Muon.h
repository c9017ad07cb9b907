// The optimizer Muon: momentum whose steps are orthogonalized matrices.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_DIFFERENTIATION_UPDATES_MUON_H
#define MPC_PASSES_DIFFERENTIATION_UPDATES_MUON_H

#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "passes/Differentiation/Updates/Optimizers.h"

namespace mpc {

/// Builds Muon's update; see Optimizer::build.
llvm::SmallVector<mlir::Value> buildMuon(mlir::OpBuilder &b, mlir::Location loc,
                                         const UpdateInputs &in,
                                         const OptimizerSettings &s);

/// The optimizer of one parameter in a run with Muon.
struct MuonChoice {
  bool isMuon = false; ///< false for AdamW
  /// True if axis 0 of the parameter counts the inputs of its layer.
  bool inputsFirst = false;
};

/// Chooses Muon or AdamW for each parameter in `trainables`, by the patterns of
/// `settings`. Without patterns, Muon trains the matrices that only products
/// read, except the last layer of the model; with `muonFilters`, also filters.
/// Reports a Usage error if Muon trains nothing, or if a pattern matches
/// nothing or a vector.
llvm::FailureOr<llvm::SmallVector<MuonChoice>>
chooseMuon(FunctionEditor &step, llvm::ArrayRef<VariableOp> trainables,
           const OptimizerSettings &settings);

} // namespace mpc

#endif // MPC_PASSES_DIFFERENTIATION_UPDATES_MUON_H
