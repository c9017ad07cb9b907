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
    Pure ops on ranked tensors of static shape, at the level at which users
    think: the level at which precision is decided and libraries are called.
    Names and attributes are ONNX's if ONNX has the op, PyTorch's otherwise.

    A module holds `mpc.variable`s (the state) and a few pure functions over the
    state: `@step`, `@accumulate`, `@update`, `@eval`, `@derive`, `@forward`.

    | on a function argument | meaning |
    |---|---|
    | `mpc.state = @w` | the value of variable `@w` |
    | `mpc.input = "x"` | an input, by its ONNX name |
    | `mpc.role = #mpc.role<data>` | `data`, `label` or `scalar`, beside `mpc.input` |
    | `mpc.indices = [{begin = array<i64: 0, 0>, end = array<i64: 1, 8>, size = 20 : i64}, ...]` | the integers in the box [begin, end) index an axis of `size` elements: their range is [-size, size) |
    | `mpc.batch_axis = 1` | the axis along which an input's samples lie, 0 by default; -1: the input is equal for all batches |

    | on a function result | meaning |
    |---|---|
    | `mpc.updates = @w` | the new value of variable `@w` |
    | `mpc.output = "loss"` | an output, by name |
    | `mpc.role = #mpc.role<loss>` | `loss`, `sample_loss`, `sample_weight`, `prediction`, `correct`, `grad_norm`, `finite`, `loss_scale` or `output`, beside `mpc.output` |

    The module attribute `mpc.target`, for example `#mpc.target<"zen5">`, is the
    machine that the module is compiled for. The default is the machine that
    compiles.

    The location of an op (`NameLoc`) is the id of its ONNX node. Ops of the
    backward pass are located at `node#dx`, `node#dw`, ... The discardable
    attribute `mpc.phase` of an op is `#mpc.phase<forward>` (the default),
    `<loss>`, `<backward>` or `<optimizer>`.

    **Element types.** The element type of a result may differ from the
    operands'. Elementwise ops, reductions and contractions read their operands
    in the types they have, and compute in f32, or in f64 if any operand or
    result is f64. They round once, to nearest even, to the result's type.

    Integers are signed (`i8` to `i64`, spelled without a sign as in all of
    MLIR) or unsigned (`ui8` to `ui64`); booleans are `i1`. All operands of an
    integer op have the type of the result, and results wrap around modulo 2^n.
    No integer op traps: `mpc.div` and `mpc.mod` define the result of division
    by zero. Ops on constant integers or booleans fold, by the formulas of their
    kernels (IntegerFormulas.def). Integers and booleans carry no gradient, and
    the Precision stage ignores them.
  }];
  let hasConstantMaterializer = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let extraClassDeclaration = [{
    /// Adds the ops of the dialect. This function has a source file of its own,
    /// MPCRegisterOps.cpp, since each op adds much code.
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
// Types with addition.
def MPC_NumberTensor : StaticShapeTensorOf<MPC_Floats # MPC_Integers>;
// Element types on which bitwise ops work: integers, and booleans as single
// bits.
def MPC_BitsTensor : StaticShapeTensorOf<MPC_Integers # [I1]>;
def MPC_Tensor : StaticShapeTensorOf<MPC_Floats # MPC_Integers # [I1]>;
// A float tensor used as a scalar, of rank 0 or with one element: a loss, a
// scale, a learning rate.
def MPC_FloatScalar : StaticShapeTensorOf<[F16, BF16, F32, F64]>;

//===----------------------------------------------------------------------===//
// Base classes
//===----------------------------------------------------------------------===//

class MPC_Op<string mnemonic, list<Trait> ownTraits = []>
    : Op<MPC_Dialect, mnemonic, ownTraits> {
  // Traits from the op's precision policy class (MPCPolicy.td). Empty for ops
  // whose types the Precision stage does not decide, such as mpc.variable.
  list<Trait> policy = [];
  // Set by MPC_Linear.
  list<Trait> linearity = [];
  let traits = !listconcat(ownTraits, policy, linearity);
}

// Stands beside the base class of an op that is linear in operand 0, as
// LinearInFirstOperand defines. An op without MPC_Linear must not read a value
// that carries the loss scale, unless passes/Precision/LossScaleAnalysis.cpp
// has a rule for the op's role or kind.
class MPC_Linear {
  list<Trait> linearity = [LinearInFirstOperand];
}

// Base class of ops whose types the Precision stage decides.
class MPC_GraphOp<string mnemonic, list<Trait> traits>
    : MPC_Op<mnemonic, !listconcat(traits, [Pure,
          DeclareOpInterfaceMethods<RegionOpInterface>])> {
  assert !not(!empty(policy)), "mpc." # opName # " does not say how it fares in 16 bits:"
      # " it needs a class of MPCPolicy.td beside its base class";
}

// Base class of ops whose result shapes are inferred from operands and
// attributes. The verifier infers them again: shapes must be equal, and float
// element types may differ.
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

// Base class of ops whose result shape is given, not inferred: mpc.reshape, and
// gradients that restore an operand's shape. Each op has its own verifier.
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

// Base class of elementwise ops. `inference` is a call of a function of
// ShapeInference.h, which infers the result.
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

// Base class of elementwise ops with one operand, whose shape is the result's;
// floats by default.
class MPC_UnaryOp<string mnemonic, list<Trait> traits = [], Type type = MPC_FloatTensor>
    : MPC_InferredOp<mnemonic, "inferUnary(adaptor.getInput(), results)", traits> {
  let arguments = (ins type:$input);
  let results = (outs type:$output);
}

// Base class of elementwise ops with two operands, which broadcast by NumPy's
// rules; floats by default.
class MPC_BinaryOp<string mnemonic, list<Trait> traits = [], Type type = MPC_FloatTensor>
    : MPC_InferredOp<mnemonic, "inferBinary(location, adaptor.getOperands(), results)",
                     traits> {
  let arguments = (ins type:$lhs, type:$rhs);
  let results = (outs type:$output);
}

#endif // MPC_COMPILER_DIALECT_MPC_MPC_TD
