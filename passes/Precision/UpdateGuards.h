// Proves that updates replace the right state, that a step with overflowing
// gradients changes no guarded state, that statistics stay finite, and that the
// loss scale advances.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PRECISION_UPDATEGUARDS_H
#define MPC_PASSES_PRECISION_UPDATEGUARDS_H

#include "compiler/Dialect/MPC/Facts/VariableTable.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace mpc::amp {

/// Reports every update in `function` that would happen although one of
/// `gradients`, all gradients that the function unscales, is infinite or NaN:
/// - an optimizer op whose condition is not amp.all_finite of all gradients;
/// - a result for guarded state that keeps its old value neither by such a
/// condition nor by a select.
void verifyUpdateGuards(
    mlir::FunctionOpInterface function, llvm::ArrayRef<mlir::Value> gradients,
    const mpc::VariableTable &variables,
    llvm::function_ref<mlir::InFlightDiagnostic(mlir::Operation *)> report);

/// Reports every result of an optimizer op that replaces the state of one
/// variable but is returned as the new state of another alone, as if two
/// moments had changed places. Two variables may share one new value.
void verifyReplacedState(
    mlir::FunctionOpInterface function, const mpc::VariableTable &variables,
    llvm::function_ref<mlir::InFlightDiagnostic(mlir::Operation *)> report);

/// Reports every new value of a running statistic that `function` returns
/// without a guard: a select of the old value where the new value is infinite
/// or NaN.
void verifyStatisticGuards(
    mlir::FunctionOpInterface function, const mpc::VariableTable &variables,
    llvm::function_ref<mlir::InFlightDiagnostic(mlir::Operation *)> report);

/// Reports every change of a dynamic loss scale that is not amp.update_scale of
/// the present state, every amp.update_scale whose results `function` does not
/// return, and every one that a test of all `gradients` does not drive. Also
/// reports an output `finite` that is not this test: runs count skipped steps.
void verifyScaleUpdate(
    mlir::FunctionOpInterface function, llvm::ArrayRef<mlir::Value> gradients,
    const mpc::VariableTable &variables,
    llvm::function_ref<mlir::InFlightDiagnostic(mlir::Operation *)> report);

} // namespace mpc::amp

#endif // MPC_PASSES_PRECISION_UPDATEGUARDS_H
