// Defines the attribute that holds a training recipe. The file is separate from
// MPCEnums.td because few sources need it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_RECIPE_RECIPE_TD
#define MPC_COMPILER_DIALECT_MPC_RECIPE_RECIPE_TD

include "compiler/Dialect/MPC/MPC.td"
include "mlir/IR/AttrTypeBase.td"

def MPC_RecipeAttr : AttrDef<MPC_Dialect, "Recipe"> {
  let summary = "how a module is trained: losses, optimizer, parameters";
  let description = [{
    The fields are those of `mpc::Recipe`, called like the flags of `mpc`. Fields
    with their default are left out:

    ```mlir
    module attributes {mpc.recipe = #mpc.recipe<
        loss = [mse("y"), nll("z") * 5.000000e-01],
        target_array = ["label", "z" = "class"],
        label_shape = {"class" = [7], "label" = [7, 5]},
        optimizer = adamw, weight_decay = 1.000000e-01>} {
    ```
  }];
  let mnemonic = "recipe";
  let parameters = (ins
      AttrOrTypeParameter<"::mpc::Recipe", "the fields",
                          "const ::mpc::Recipe &">:$value);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

#endif // MPC_COMPILER_DIALECT_MPC_RECIPE_RECIPE_TD
