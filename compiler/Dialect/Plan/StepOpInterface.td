// The interface of steps, which the runtime executes in order.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_PLAN_STEPOPINTERFACE_TD
#define MPC_COMPILER_DIALECT_PLAN_STEPOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def Plan_StepOpInterface : OpInterface<"StepOpInterface"> {
  let cppNamespace = "::mpc::plan";
  let description = [{
    A step of a program. All other ops of a program declare memory or name an
    output. `getWrittenBuffers` has no default, because the memory of an
    unreported buffer would be reused.
  }];
  let methods = [
    InterfaceMethod<"The buffers that the step writes itself. Of a loop or a "
                    "branch the steps in it are asked one by one.",
                    "::llvm::SmallVector<::mlir::Value>", "getWrittenBuffers">,
  ];
}

#endif // MPC_COMPILER_DIALECT_PLAN_STEPOPINTERFACE_TD
