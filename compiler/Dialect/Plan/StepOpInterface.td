// What the runtime carries out, one after the other.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_PLAN_STEPOPINTERFACE_TD
#define MPC_COMPILER_DIALECT_PLAN_STEPOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def Plan_StepOpInterface : OpInterface<"StepOpInterface"> {
  let cppNamespace = "::mpc::plan";
  let description = [{
    A step of a program. All others of its ops declare memory or name an output.
    There is no default: a buffer that is written unseen would be given away.
  }];
  let methods = [
    InterfaceMethod<"The buffers that the step writes itself. Of a loop or a "
                    "branch the steps in it are asked one by one.",
                    "::llvm::SmallVector<::mlir::Value>", "getWrittenBuffers">,
  ];
}

#endif // MPC_COMPILER_DIALECT_PLAN_STEPOPINTERFACE_TD
