// Defines the attribute that holds the precision requested for a module. The
// file is separate from AMPAttrs.td because few sources need it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_AMP_REQUEST_TD
#define MPC_COMPILER_DIALECT_AMP_REQUEST_TD

include "compiler/Dialect/AMP/AMP.td"
include "mlir/IR/AttrTypeBase.td"

def AMP_RequestAttr : AttrDef<AMP_Dialect, "Request"> {
  let summary = "the precision that a module is asked for";
  let description = [{
    The fields are those of `mpc::amp::Request`. Fields with their default are
    left out:

    ```mlir
    module attributes {amp.request = #amp.request<"16-mixed", loss_scale = 1.280000e+02,
        policy = "rules.json", keep_fp32 = ["^fc1"], force_low = ["sum"], tf32 = true>} {
    ```
  }];
  let mnemonic = "request";
  let parameters = (ins
      AttrOrTypeParameter<"::mpc::amp::Request", "the fields",
                          "const ::mpc::amp::Request &">:$value);
  let hasCustomAssemblyFormat = 1;
}

#endif // MPC_COMPILER_DIALECT_AMP_REQUEST_TD
