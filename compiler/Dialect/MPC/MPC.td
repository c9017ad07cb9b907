// The mpc dialect: its types, traits and the base classes of its ops.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_MPC_TD
#define MPC_COMPILER_DIALECT_MPC_MPC_TD

include "compiler/Dialect/MPC/MPCPolicy.td"
include "compiler/Interfaces/ContractionOpInterface.td"
include "compiler/Interfaces/IndexedOpInterface.td"
include "compiler/Interfaces/LayoutOpInterface.td"
include "compiler/Interfaces/ReductionOpInterface.td"
include "compiler/Interfaces/RegionOpInterface.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def MPC_Dialect : Dialect {
  let name = "mpc";
  let cppNamespace = "::mpc";
  let useDefaultAttributePrinterParser = 1;
  let summary = "training graphs: forward, gradient and optimizer ops";
  let description = [{
    Value-semantic ops on ranked tensors of static shape, at the level users
    think in: that is the level at which precision is decided and libraries are
    called. Names and attributes are ONNX's where ONNX has the op, PyTorch's
    otherwise.

    A module holds `mpc.variable`s (the state) and a few pure functions over
    them: `@step`, `@accumulate`, `@update`, `@eval`, `@derive`, `@forward`.

    | on a function argument | meaning |
    |---|---|
    | `mpc.state = @w` | the value of variable `@w` |
    | `mpc.input = "x"` | an input, by its ONNX name |
    | `mpc.role = #mpc.role<data>` | `data`, `label` or `scalar`, beside `mpc.input` |
    | `mpc.indices = [{begin = array<i64: 0, 0>, end = array<i64: 1, 8>, size = 20 : i64}, ...]` | the integers in [begin, end) name elements of an axis of that size: they are in [-size, size) |
    | `mpc.batch_axis = 1` | the axis of an input that samples are along, where it is not the first; -1: it is the same for every batch |

    | on a function result | meaning |
    |---|---|
    | `mpc.updates = @w` | the new value of variable `@w` |
    | `mpc.output = "loss"` | an output, by name |
    | `mpc.role = #mpc.role<loss>` | `loss`, `sample_loss`, `sample_weight`, `prediction`, `correct`, `grad_norm`, `finite`, `loss_scale` or `output`, beside `mpc.output` |

    The module's `mpc.target` is the machine that it is compiled for,
    `#mpc.target<"zen5">`; absent: the one that compiles it.

    Every op is located (`NameLoc`) at the id of the ONNX node it comes from;
    ops of the backward pass at `node#dx`, `node#dw`, ... The discardable
    attribute `mpc.phase` of an op is `#mpc.phase<forward>`, `<loss>`,
    `<backward>` or `<optimizer>` (absent: forward).

    **Element types.** The element type of a result may differ from what the
    operands suggest: elementwise ops, reductions and contractions read their
    operands in the types they have, compute in f32 (f64 where any operand or
    result is f64), and round once, to nearest even, to the result's type.

    Integers are signed (`i8` to `i64`, spelled without a sign as in all of
    MLIR) or unsigned (`ui8` to `ui64`); booleans are `i1`. Operands of an op on
    integers have one type, which is the result's, and results wrap around
    modulo 2^n. No op on integers traps: what division by zero gives is said at
    `mpc.div` and `mpc.mod`. Ops whose operands are constant integers or booleans
    fold, by the formula that their kernels are made of
    (IntegerFormulas.def). Integers and booleans carry no gradient, and the
    Precision stage decides nothing about them.
  }];
  let hasConstantMaterializer = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let extraClassDeclaration = [{
    /// Adds the ops; the code that this makes of each is in a source of its
    /// own, MPCRegisterOps.cpp.
    void registerOps();
  }];
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

def MPC_FloatTensor : StaticShapeTensorOf<[F16, BF16, F32, F64]>;
// Counters, seeds, labels.
def MPC_IntTensor : StaticShapeTensorOf<[I32, I64]>;
def MPC_BoolTensor : StaticShapeTensorOf<[I1]>;
defvar MPC_Floats = [F16, BF16, F32, F64];
defvar MPC_Integers = [I8, UI8, I16, UI16, I32, UI32, I64, UI64];
def MPC_IntegerTensor : StaticShapeTensorOf<MPC_Integers>;
// What can be added.
def MPC_NumberTensor : StaticShapeTensorOf<MPC_Floats # MPC_Integers>;
// What has bits: one in a boolean.
def MPC_BitsTensor : StaticShapeTensorOf<MPC_Integers # [I1]>;
def MPC_Tensor : StaticShapeTensorOf<MPC_Floats # MPC_Integers # [I1]>;
// A scalar (rank 0 or one element) float: loss, scale, learning rate.
def MPC_FloatScalar : StaticShapeTensorOf<[F16, BF16, F32, F64]>;

//===----------------------------------------------------------------------===//
// Base classes
//===----------------------------------------------------------------------===//

class MPC_Op<string mnemonic, list<Trait> ownTraits = []>
    : Op<MPC_Dialect, mnemonic, ownTraits> {
  // What a class of MPCPolicy.td adds; nothing where no types are decided, as of
  // mpc.variable.
  list<Trait> policy = [];
  let traits = !listconcat(ownTraits, policy);
}

// An op whose types the Precision stage decides.
class MPC_GraphOp<string mnemonic, list<Trait> traits>
    : MPC_Op<mnemonic, !listconcat(traits, [Pure,
          DeclareOpInterfaceMethods<RegionOpInterface>])> {
  assert !not(!empty(policy)), "mpc." # opName # " does not say how it fares in 16 bits:"
      # " it needs a class of MPCPolicy.td beside its base class";
}

// A pure op whose result shapes follow from operands and attributes. Inference
// is also the verifier: shapes must agree, float element types are free.
class MPC_TensorOp<string mnemonic, string role, list<Trait> traits = []>
    : MPC_GraphOp<mnemonic, !listconcat(traits, [InferTensorTypeAdaptor])> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = [{
    static bool isCompatibleReturnTypes(::mlir::TypeRange inferred,
                                        ::mlir::TypeRange actual) {
      return ::mpc::areCompatibleTypes(inferred, actual);
    }
  }];
  let extraClassDefinition = [{
    ::mpc::RegionRole $cppClass::getRegionRole() {
      return ::mpc::RegionRole::}] # role # [{;
    }
  }];
}

// A pure op whose result shape is given, not inferred (reshape, the gradients
// that restore a shape); it has a verifier of its own.
class MPC_ShapedOp<string mnemonic, string role, list<Trait> traits = []>
    : MPC_GraphOp<mnemonic, traits> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDefinition = [{
    ::mpc::RegionRole $cppClass::getRegionRole() {
      return ::mpc::RegionRole::}] # role # [{;
    }
  }];
}

// An elementwise op whose shapes a function of ShapeInference.h infers.
class MPC_InferredOp<string mnemonic, string inference, list<Trait> traits>
    : MPC_TensorOp<mnemonic, "Elementwise", traits> {
  let extraClassDefinition = [{
    ::mpc::RegionRole $cppClass::getRegionRole() {
      return ::mpc::RegionRole::Elementwise;
    }
    ::llvm::LogicalResult $cppClass::inferReturnTypeComponents(
        ::mlir::MLIRContext *, std::optional<::mlir::Location> location,
        Adaptor adaptor,
        ::llvm::SmallVectorImpl<::mlir::ShapedTypeComponents> &results) {
      return ::mpc::}] # inference # [{;
    }
  }];
}

// One operand, one result of its shape; floats where nothing else is said.
class MPC_UnaryOp<string mnemonic, list<Trait> traits = [], Type type = MPC_FloatTensor>
    : MPC_InferredOp<mnemonic, "inferUnary(adaptor.getInput(), results)", traits> {
  let arguments = (ins type:$input);
  let results = (outs type:$output);
}

// Two operands broadcast together; floats where nothing else is said.
class MPC_BinaryOp<string mnemonic, list<Trait> traits = [], Type type = MPC_FloatTensor>
    : MPC_InferredOp<mnemonic, "inferBinary(location, adaptor.getOperands(), results)",
                     traits> {
  let arguments = (ins type:$lhs, type:$rhs);
  let results = (outs type:$output);
}

#endif // MPC_COMPILER_DIALECT_MPC_MPC_TD
