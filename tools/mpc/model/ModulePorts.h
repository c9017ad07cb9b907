// Describes a module as the artifact that it will become.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_MODULEPORTS_H
#define MPC_TOOLS_MPC_MODEL_MODULEPORTS_H

#include "runtime/train/trainee/Trainee.h"

#include "mlir/IR/BuiltinOps.h"

namespace mpc::tools {

/// Describes the module's state and the functions' inputs and outputs, under
/// the names in the artifact. Data, labels and weights can be checked against
/// the result before compiling. State that later stages add, like low copies of
/// parameters, is missing.
runtime::train::TraineeInfo describeModule(mlir::ModuleOp module);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_MODULEPORTS_H
