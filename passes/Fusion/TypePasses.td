// The passes of the Fusion stage that prove the types of kernels: the first and
// the last pass of the stage.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_FUSION_TYPEPASSES_TD
#define MPC_PASSES_FUSION_TYPEPASSES_TD

include "mlir/Pass/PassBase.td"

def LimitKernelTypesPass : Pass<"mpc-limit-kernel-types", "::mlir::ModuleOp"> {
  let summary = "write the 16-bit types that kernels may load and store into locations";
  let description = [{
    Gives every op limits, as metadata of the op's location. Limits are the
    types of fewer than 32 bits that the op reads and makes now, right after the
    Precision stage. Rewrites give the location of an op to the ops that replace
    it, and so hand the limits on. `mpc-verify-kernel-types` compares the
    kernels with the limits, and removes them.

    | key | meaning |
    |---|---|
    | `op` | a number for the op, shared by all ops that replace it; absent for an op without 16-bit values |
    | `loads`, `stores` | the 16-bit types of operands, and of results |
    | `elements` | the sizes of the 16-bit results, if the op has wide results, too, such as statistics |
    | `factors` | the 16-bit types that an attention multiplies |
    | `carries` | the 16-bit types of values that a loop carries |
    | `copies` | the low copies of parameters that the op reads |
    | `rounds` | present on a cast to a narrower type |
    | `loads_rounded` | present on an op that reads the result of such a cast, but does not multiply |
    | `reason` | the reason of the decision record, for messages |

    Changes nothing unless `amp.mode` of the module is a mixed mode.

    Before:

    ```mlir
    module attributes {amp.mode = #amp.mode<"bf16-mixed">} {
      func.func @forward(%x: tensor<4x8xf32>, %w: tensor<8x2xbf16>) -> tensor<4x2xf32> {
        %0 = amp.cast %x : (tensor<4x8xf32>) -> tensor<4x8xbf16>
        %y = mpc.matmul %0, %w : (tensor<4x8xbf16>, tensor<8x2xbf16>) -> tensor<4x2xf32>
        return %y : tensor<4x2xf32>
      }
    }
    ```

    After, with `report=true`:

    ```text
    ...: remark: limits of types: {op = 0 : i64, rounds, stores = [bf16]}
    ...
    ...: remark: limits of types: {loads = [bf16], op = 1 : i64}
    ```
  }];
  let options = [
    Option<"report", "report", "bool", "false",
           "report the limits of each op as a remark">,
  ];
}

def VerifyKernelTypesPass : Pass<"mpc-verify-kernel-types", "::mlir::ModuleOp"> {
  let summary = "check that Fusion rounds nothing that the Precision stage keeps wide";
  let description = [{
    Compares all ops in kernels with the limits of `mpc-limit-kernel-types`, and
    reports every violation by the name of a rule and the node. A value is
    narrow if it has fewer than 32 bits. Ops that move elements are exempt: the
    op that computed the elements, and the ops that read them, are verified.

    | rule | holds if |
    |---|---|
    | `known-op` | every op with narrow values has limits |
    | `stored-type` | a result is narrow only in a type in which the Precision stage stores a result of the op, and in that size; likewise for variables |
    | `single-rounding` | the ops that replace one op pass on wide values, apart from the factors of products in an attention |
    | `wide-reader` | an op reads a narrow type only if it read this type before Fusion; an optimizer reads none |
    | `rounding-cast` | the result of a cast that rounds is multiplied, moved, or stored as a low copy; other ops read it only if they did before Fusion |
    | `low-copy` | an op reads a low copy of a parameter only if it did before Fusion |
    | `wide-sum` | scatters add in wide types, and loops made of tiled products carry wide sums |

    An op that has lost its limits must not have narrow values. So a rewrite that
    drops a location is refused, not believed. Afterwards, no location has
    limits. Changes nothing unless `amp.mode` of the module is a mixed mode.
    Expects kernels (`mpc-form-regions`).

    Before:

    ```mlir
    module attributes {amp.mode = #amp.mode<"bf16-mixed">} {
      func.func @forward(%x: tensor<4xf32>) -> tensor<4xbf16> {
        %0 = mpc.region pointwise(%x) {kernel = "forward_0_exp"} : (tensor<4xf32>) -> tensor<4xbf16> {
        ^bb0(%a: tensor<4xf32>):
          %1 = mpc.exp %a : (tensor<4xf32>) -> tensor<4xbf16> loc(fused<{reason = "deny_list"}>["e"])
          mpc.yield %1 : tensor<4xbf16>
        }
        return %0 : tensor<4xbf16>
      }
    }
    ```

    After, instead of IR:

    ```text
    ...: error: ...'mpc.exp' op of node 'e': rule stored-type: stores result 0 as 'bf16', but ...
    ```
  }];
}

#endif // MPC_PASSES_FUSION_TYPEPASSES_TD
