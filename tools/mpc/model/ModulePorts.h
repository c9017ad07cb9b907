// What a module will say of itself once it is an artifact.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_MODULEPORTS_H
#define MPC_TOOLS_MPC_MODEL_MODULEPORTS_H

#include "runtime/train/trainee/Trainee.h"

#include "mlir/IR/BuiltinOps.h"

namespace mpc::tools {

/// The inputs and outputs of the module's functions and its state, under the
/// names that they get in an artifact. Data, labels and files of weights can be
/// compared with them before anything is compiled. State that is added later,
/// such as the low copies of parameters, is not there yet.
runtime::train::TraineeInfo describeModule(mlir::ModuleOp module);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_MODULEPORTS_H
