// The amp dialect: attributes and ops of mixed precision.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_AMP_AMP_TD
#define MPC_COMPILER_DIALECT_AMP_AMP_TD

include "compiler/Interfaces/PrecisionOpInterface.td"
include "compiler/Interfaces/RegionOpInterface.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def AMP_Dialect : Dialect {
  let name = "amp";
  let cppNamespace = "::mpc::amp";
  let summary = "precision: casts, loss scaling, finiteness, master copies";
  let description = [{
    The attributes and ops that the Precision stage adds to a training graph. A
    cast is an observable rounding. The state of loss scaling consists of
    tensors on the device, so nothing here needs the host.

    | discardable attribute | on | meaning |
    |---|---|---|
    | `amp.decision` | ops of the training graph | the decision record |
    | `amp.id` | ops of the training graph that have no name, or a name of several ops | the op's id, such as `conv1~2`; the name of other ops is the id |
    | `amp.followers` | ops with a flag that flips the decision | the ids of the other ops that get other types with the flag, if `amp-assign-precision` was asked to list them |
    | `amp.tf32` | contractions decided as tf32 | a GPU's library rounds the operands to tf32 |
    | `amp.rounded` | constants that the stage has rounded | the smallest element, the largest and the root mean square in the model, `array<f64: -1.0, 1.0, 0.5>` |
    | `amp.seed` | constants | the constant replaces the seed of a backward pass without a loss scale |
    | `amp.mode` | the module | the `--precision` it was decided for, `#amp.mode<"16-mixed">` |
    | `amp.loss_scale` | the module | `#amp.loss_scale<dynamic>`, `<static>` or `<none>`, once the scale has been inserted; absent from modules without a gradient and an update |
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
}

def AMP_FloatTensor : StaticShapeTensorOf<[F16, BF16, F32, F64]>;
def AMP_WideTensor : StaticShapeTensorOf<[F32, F64]>;

class AMP_ScalarOf<list<Type> types, string name>
    : ConfinedType<StaticShapeTensorOf<types>, [HasAnyRankOfPred<[0]>], name>;
def AMP_Scalar : AMP_ScalarOf<[F32, F64], "f32 or f64 scalar">;
def AMP_Counter : AMP_ScalarOf<[I32, I64], "i32 or i64 scalar">;
def AMP_Flag : AMP_ScalarOf<[I1], "i1 scalar">;

class AMP_Op<string mnemonic, string role, list<Trait> traits = []>
    : Op<AMP_Dialect, mnemonic, !listconcat(traits,
          [Pure, DeclareOpInterfaceMethods<RegionOpInterface>])> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let extraClassDefinition = [{
    ::mpc::RegionRole $cppClass::getRegionRole() {
      return ::mpc::RegionRole::}] # role # [{;
    }
  }];
}

#endif // MPC_COMPILER_DIALECT_AMP_AMP_TD
