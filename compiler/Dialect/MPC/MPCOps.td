// Ops for state (mpc.variable), constants, conversions and regions.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_MPCOPS_TD
#define MPC_COMPILER_DIALECT_MPC_MPCOPS_TD

include "compiler/Dialect/MPC/MPCEnums.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

//===----------------------------------------------------------------------===//
// State and constants
//===----------------------------------------------------------------------===//

def MPC_VariableOp : MPC_Op<"variable", [Symbol]> {
  let summary = "a state variable of the module";
  let description = [{
    Declares one piece of state: its type at the boundary (ONNX's layout, master
    precision), its role, and its initial value. Roles:

    - `parameter`: trained
    - `frozen`: a parameter that is not trained
    - `statistic`: running values of BatchNormalization
    - `optimizer_state`
    - `average`: the average of a parameter over the steps
    - `accumulator`, `loss_scale`, `counter`
    - `derived`: recomputed by `@derive` from other state, never saved

    Without `init` all elements start at `fill`, zero by default.

    ```mlir
    mpc.variable @fc1.weight : tensor<10x64xf32> role parameter
        init dense<0.0> : tensor<10x64xf32>
    mpc.variable @mpc.step : tensor<i64> role counter
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttr:$type, MPC_RoleAttr:$role,
                       OptionalAttr<ElementsAttr>:$init,
                       OptionalAttr<F64Attr>:$fill,
                       OptionalAttr<StrAttr>:$sym_visibility);
  let assemblyFormat = [{
    $sym_name `:` $type `role` custom<Word>($role) (`init` $init^)? (`fill` $fill^)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() {
      return ::mlir::cast<::mlir::RankedTensorType>(getType());
    }
  }];
}

def MPC_ConstantOp : MPC_GraphOp<"constant", [ConstantLike, AllTypesMatch<["value", "output"]>]>,
    MPC_Policy<["Constant"], "Fixed", "Fixed", "cast where it is read"> {
  let summary = "a constant tensor";
  let description = [{
    A value known at compile time. Passes fold it, and the artifact stores it.

    ```mlir
    %0 = mpc.constant dense<1.0> : tensor<f32>
    ```
  }];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs MPC_Tensor:$output);
  let assemblyFormat = "attr-dict $value";
  let hasFolder = 1;
  let hasVerifier = 1;
  let extraClassDefinition = [{
    ::mpc::RegionRole $cppClass::getRegionRole() {
      return ::mpc::RegionRole::Constant;
    }
  }];
}

//===----------------------------------------------------------------------===//
// Regions: kernels-to-be
//===----------------------------------------------------------------------===//

def MPC_KeptOp : MPC_Op<"kept", [Pure, SameOperandsAndResultType]> {
  let summary = "a value that kernels load from memory";
  let description = [{
    A value that one kernel stores and others load. An op that reads the kept
    value never shares a kernel with the op that computes it. CSE does not merge
    a recomputed copy that reads kept values with the original op. The op
    disappears once kernels are formed, and generates no code.

    ```mlir
    %k = mpc.kept %h : tensor<32x64xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input);
  let results = (outs AnyRankedTensor:$output);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

def MPC_RegionOp : MPC_Op<"region", [Pure, IsolatedFromAbove,
    SingleBlockImplicitTerminator<"::mpc::YieldOp">]> {
  let summary = "ops that become one kernel";
  let description = [{
    The ops of one kernel, formed by the Fusion stage. Block arguments are the
    tensors that the kernel loads, yielded values the tensors that it stores.
    All values between live in registers, in f32. `kernel` is the name of the
    kernel. `provider` is what computes the contraction, if there is one. `kind`
    names the loop nest:

    | kind | iteration space | may hold |
    |---|---|---|
    | `pointwise` | the results' shape | elementwise ops |
    | `row_reduce` | the hero's input shape, reduced over trailing axes | elementwise ops before and after, several reductions over the same axes |
    | `column_reduce` | the heroes' input shape, reduced over leading axes | elementwise ops before the reductions |
    | `contraction` | the contraction's result | one contraction, elementwise ops after it |
    | `window` | the result | one pooling op |
    | `movement` | the result | one transpose, concat, slice or pad |
    | `scatter` | the result, along the scattered axis | elementwise ops of the updates' shape, then a scatter |
    | `cumulative` | lines along the axis | one cumulative sum |

    ```mlir
    %y = mpc.region pointwise (%x, %b) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32> {
    ^bb0(%0: tensor<4x8xf32>, %1: tensor<8xf32>):
      %2 = mpc.add %0, %1 : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
      %3 = mpc.relu %2 : (tensor<4x8xf32>) -> tensor<4x8xf32>
      mpc.yield %3 : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins MPC_KernelKindAttr:$kind,
                       OptionalAttr<StrAttr>:$kernel,
                       OptionalAttr<MPC_ContractionProviderAttr>:$provider,
                       Variadic<AnyRankedTensor>:$inputs);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    custom<Word>($kind) `(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs) $body
  }];
  let builders = [OpBuilder<(ins "::mlir::TypeRange":$outputs, "KernelKind":$kind,
                                 "::mlir::ValueRange":$inputs), [{
    build($_builder, $_state, outputs, kind, ::mlir::StringAttr(),
          ContractionProviderAttr(), inputs);
  }]>];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Returns the region's input for which block argument `value` stands; null
    /// if `value` is computed in the body.
    ::mlir::Value getTiedInput(::mlir::Value value);
    /// Returns the matrix product or convolution in the body of a region of
    /// kind contraction.
    ::mlir::Operation *getContraction();
  }];
}

def MPC_YieldOp : MPC_Op<"yield", [Pure, Terminator, ReturnLike,
    ParentOneOf<["RegionOp", "ScanOp", "IfOp"]>]> {
  let summary = "returns the results of a region, an iteration or a branch";
  let description = [{
    Ends the body of an `mpc.region`, `mpc.scan` or `mpc.if`, whose results have
    the types of the values.

    ```mlir
    mpc.yield %y : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
  let builders = [OpBuilder<(ins), [{ (void)$_state; }]>];
}

#endif // MPC_COMPILER_DIALECT_MPC_MPCOPS_TD
