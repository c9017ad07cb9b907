// What a module is compiled for. Of no stage: it stands in front of those that
// ask.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_TARGET_PASSES_TD
#define MPC_PASSES_TARGET_PASSES_TD

include "mlir/Pass/PassBase.td"

def AttachTargetPass : Pass<"mpc-attach-target", "::mlir::ModuleOp"> {
  let summary = "say in the module what it is compiled for";
  let description = [{
    Sets the module's `mpc.target`, by which every pass that depends on the
    target goes: how much a kernel does at a time, what libraries take, which
    types have instructions. A module without it is for the machine that
    compiles it, `native`.

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
