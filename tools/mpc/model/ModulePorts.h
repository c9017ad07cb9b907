// Describes a module as if it were an artifact already, for checks before
// compiling.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_MODULEPORTS_H
#define MPC_TOOLS_MPC_MODEL_MODULEPORTS_H

#include "runtime/train/trainee/Trainee.h"

#include "mlir/IR/BuiltinOps.h"

namespace mpc::tools {

/// Returns the module's state, and the inputs and outputs of its functions,
/// under the names that the artifact will have. Data, labels and weights can be
/// checked against the result before machine code is generated. State that
/// later stages add, like low-precision copies of parameters, is missing.
runtime::train::TraineeInfo describeModule(mlir::ModuleOp module);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_MODULEPORTS_H
