// Defines the plan dialect, which describes a training step as a flat list, and
// the base classes of its attributes and ops.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_PLAN_PLAN_TD
#define MPC_COMPILER_DIALECT_PLAN_PLAN_TD

include "compiler/Dialect/MPC/MPCEnums.td"
include "compiler/Dialect/Plan/StepOpInterface.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Plan_Dialect : Dialect {
  let name = "plan";
  let cppNamespace = "::mpc::plan";
  let dependentDialects = ["::mpc::MPCDialect"];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let summary = "a list of steps over one arena";
  let description = [{
    The plan section of an artifact, as IR. A `plan.program` declares its memory
    (`plan.input`, `plan.state`, `plan.constant`, `plan.arena`, `plan.view`), a
    memref each. The steps follow in order: `plan.launch`, `plan.matmul`,
    `plan.conv`, `plan.attention`, `plan.copy`, `plan.check_indices`,
    `plan.all_reduce`, `plan.reduce_scatter`, `plan.all_gather`, and `plan.if`
    and `plan.for`, which hold lists of steps.

    The attribute `plan.owner` names a parameter, if the optimizer is sharded:
    only the rank that owns the parameter runs the step, or holds the variable.

    Kernels are functions with the attribute `mpc.kernel`, whose results become
    additional buffers; see compiler/Kernels/KernelPartition.h. Every step is
    located at the ONNX node that reports name.
  }];
}

// Enumerations that only the plan dialect uses.
def Plan_ComputeAttr : MPC_NamesAttr<Plan_Dialect, "Compute", "compute",
    "what a GPU's library computes products in">;
def Plan_ConvKindAttr : MPC_NamesAttr<Plan_Dialect, "ConvKind", "conv",
    "which of its operands a convolution writes">;
def Plan_AttentionKindAttr : MPC_NamesAttr<Plan_Dialect, "AttentionKind",
    "attention_kind", "which part of an attention a step computes">;
def Plan_FusedKindAttr : MPC_NamesAttr<Plan_Dialect, "FusedKind", "fused",
    "what a GPU's library does with a product">;

class Plan_RecordParameter<string record> : AttrParameter<record, "the record"> {
  let cppAccessorType = "const " # record # " &";
}

// An attribute that holds a record (struct) of runtime/PlanSchema.h.
// PlanSchema.def lists the record's fields, from which the attribute's printer
// and parser follow.
class Plan_RecordAttr<string record, string word, string meaning>
    : AttrDef<Plan_Dialect, record> {
  let summary = meaning;
  let mnemonic = word;
  let returnType = "const ::mpc::runtime::" # record # " &";
  let convertFromStorage = "$_self.getValue()";
  let parameters = (ins Plan_RecordParameter<"::mpc::runtime::" # record>:$value);
  let assemblyFormat = "`` $value";
}
def Plan_ProductShapeAttr : Plan_RecordAttr<"ProductShape", "product_shape",
    "matrices of a product, and the tiles of the result">;
def Plan_BatchAxesAttr : Plan_RecordAttr<"BatchAxes", "batch_axes",
    "batch of a product, with the strides between the matrices">;
def Plan_AttentionShapeAttr : Plan_RecordAttr<"AttentionShape", "attention_shape",
    "sizes of an attention, with the place of each operand in its buffer">;

class Plan_Op<string mnemonic, list<Trait> traits = []>
    : Op<Plan_Dialect, mnemonic, traits>;

class Plan_StepOp<string mnemonic, list<Trait> traits = []>
    : Plan_Op<mnemonic, !listconcat(traits,
          [DeclareOpInterfaceMethods<Plan_StepOpInterface>])>;

// A contiguous, row-major buffer of static shape.
def Plan_Buffer
    : StaticShapeMemRefOf<[F16, BF16, F32, F64, I1, I8, UI8, I16, UI16, I32,
                           UI32, I64, UI64]>;

#endif // MPC_COMPILER_DIALECT_PLAN_PLAN_TD
