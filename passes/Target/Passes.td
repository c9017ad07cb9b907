// Sets the target of a module. The pass belongs to no stage, and runs before
// all target-dependent passes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_TARGET_PASSES_TD
#define MPC_PASSES_TARGET_PASSES_TD

include "mlir/Pass/PassBase.td"

def AttachTargetPass : Pass<"mpc-attach-target", "::mlir::ModuleOp"> {
  let summary = "set the target that the module is compiled for";
  let description = [{
    Sets the module's `mpc.target`, on which passes depend: the work of a kernel
    at a time, the shapes that libraries take, the types that have instructions.
    A module without the attribute is compiled for the compiling machine,
    `native`.

    Before:

    ```mlir
    module {
    }
    ```

    After, with `name=sm_90`:

    ```mlir
    module attributes {mpc.target = #mpc.target<"sm_90">} {
    }
    ```
  }];
  let dependentDialects = ["::mpc::MPCDialect"];
  let options = [
    Option<"target", "name", "std::string", "\"native\"",
           "the machine to compile for, a name --target knows">,
  ];
}

#endif // MPC_PASSES_TARGET_PASSES_TD
