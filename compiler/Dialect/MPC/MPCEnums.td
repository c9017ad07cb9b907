// The words that several stages agree on. Each stands here once: in C++ it is an
// enumeration, in the IR an attribute such as #mpc.layout<NHWC>, and a word that
// is none of them is refused by whoever parses it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_MPCENUMS_TD
#define MPC_COMPILER_DIALECT_MPC_MPCENUMS_TD

include "compiler/Dialect/MPC/MPC.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

// An attribute of an enumeration of runtime/Names.h, which the runtime reads too,
// or of KernelKind.h.
class MPC_NamesAttr<Dialect dialect, string enum, string word, string meaning>
    : AttrDef<dialect, enum> {
  let summary = meaning;
  let mnemonic = word;
  let constBuilderCall = cppNamespace # "::" # cppClassName #
                         "::get($_builder.getContext(), $0)";
  let returnType = "::mpc::" # enum;
  let convertFromStorage = "$_self.getValue()";
  let parameters = (ins "::mpc::" # enum:$value);
  let assemblyFormat = "`<` $value `>`";
}

def MPC_RoleAttr : MPC_NamesAttr<MPC_Dialect, "Role", "role",
    "what a state variable, an input or an output is for">;
def MPC_FilterLayoutAttr : MPC_NamesAttr<MPC_Dialect, "FilterLayout",
    "filter_layout", "where filters keep their input channels">;
def MPC_KernelKindAttr : MPC_NamesAttr<MPC_Dialect, "KernelKind", "kernel",
    "loop nest of a kernel">;

def MPC_TargetAttr : AttrDef<MPC_Dialect, "Target"> {
  let summary = "the machine that a module is compiled for";
  let description = [{
    A name that `--target` knows; `native` is what the CPU of the machine that
    compiles has.
  }];
  let mnemonic = "target";
  let parameters = (ins StringRefParameter<"its name">:$name);
  let assemblyFormat = "`<` $name `>`";
  let genVerifyDecl = 1;
}

class MPC_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::mpc";
  let genSpecializedAttr = 0;
}

class MPC_EnumAttr<EnumAttrInfo info, string mnemonic>
    : EnumAttr<MPC_Dialect, info, mnemonic> {
  let assemblyFormat = "`<` $value `>`";
}

def MPC_ScatterReduction : MPC_Enum<"ScatterReduction", "what becomes of an element that an update meets", [
  // The update replaces it; of several updates the last one stays.
  I32EnumAttrCase<"None", 0, "none">,
  I32EnumAttrCase<"Add", 1, "add">,
  I32EnumAttrCase<"Mul", 2, "mul">,
  I32EnumAttrCase<"Max", 3, "max">,
  I32EnumAttrCase<"Min", 4, "min">,
]>;
def MPC_ScatterReductionAttr : MPC_EnumAttr<MPC_ScatterReduction, "scatter">;

def MPC_LossReduction : MPC_Enum<"LossReduction", "what becomes of the losses of samples", [
  I32EnumAttrCase<"None", 0, "none">,
  I32EnumAttrCase<"Mean", 1, "mean">,
  I32EnumAttrCase<"Sum", 2, "sum">,
]>;
def MPC_LossReductionAttr : MPC_EnumAttr<MPC_LossReduction, "reduction">;

// mpc.adam says what each of these computes.
def MPC_DecayMode : MPC_Enum<"DecayMode", "where Adam applies weight decay", [
  I32EnumAttrCase<"L2", 0, "l2">,
  I32EnumAttrCase<"Decoupled", 1, "decoupled">,
  I32EnumAttrCase<"DecoupledAfter", 2, "decoupled_after">,
  I32EnumAttrCase<"Post", 3, "post">,
]>;
def MPC_DecayModeAttr : MPC_EnumAttr<MPC_DecayMode, "decay">;

def MPC_BiasCorrection : MPC_Enum<"BiasCorrection", "how Adam corrects the bias of its moments", [
  I32EnumAttrCase<"Torch", 0, "torch">,
  I32EnumAttrCase<"StepSize", 1, "step_size">,
  I32EnumAttrCase<"None", 2, "none">,
]>;
def MPC_BiasCorrectionAttr : MPC_EnumAttr<MPC_BiasCorrection, "bias_correction">;

def MPC_ContractionProvider : MPC_Enum<"ContractionProvider", "who does a contraction", [
  // oneDNN, cuBLASLt or cuDNN.
  I32EnumAttrCase<"Library", 0, "library">,
  // A kernel of our own.
  I32EnumAttrCase<"Generated", 1, "generated">,
]>;
def MPC_ContractionProviderAttr : MPC_EnumAttr<MPC_ContractionProvider, "provider">;

def MPC_Layout : MPC_Enum<"Layout", "where activations keep their channels", [
  // (batch, channels, spatial...), ONNX's order; also for 1 or 3 spatial axes.
  I32EnumAttrCase<"NCHW", 0>,
  // (batch, spatial..., channels).
  I32EnumAttrCase<"NHWC", 1>,
]>;
def MPC_LayoutAttr : MPC_EnumAttr<MPC_Layout, "layout">;

def MPC_Phase : MPC_Enum<"Phase", "the part of training that an op stands in", [
  I32EnumAttrCase<"Forward", 0, "forward">,
  I32EnumAttrCase<"Loss", 1, "loss">,
  I32EnumAttrCase<"Backward", 2, "backward">,
  I32EnumAttrCase<"Optimizer", 3, "optimizer">,
]>;
def MPC_PhaseAttr : MPC_EnumAttr<MPC_Phase, "phase">;

#endif // MPC_COMPILER_DIALECT_MPC_MPCENUMS_TD
