// The words that several stages agree on. Each stands here once: in C++ it is an
// enumeration, in the IR an attribute such as #mpc.layout<NHWC>, and a word that
// is none of them is refused by whoever parses it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_MPCENUMS_TD
#define MPC_COMPILER_DIALECT_MPC_MPCENUMS_TD

include "compiler/Dialect/MPC/MPC.td"
include "mlir/IR/EnumAttr.td"

class MPC_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::mpc";
  let genSpecializedAttr = 0;
}

class MPC_EnumAttr<EnumAttrInfo info, string mnemonic>
    : EnumAttr<MPC_Dialect, info, mnemonic> {
  let assemblyFormat = "`<` $value `>`";
}

def MPC_KernelKind : MPC_Enum<"KernelKind", "loop nest of a kernel", [
  I32EnumAttrCase<"Pointwise", 0, "pointwise">,
  I32EnumAttrCase<"RowReduce", 1, "row_reduce">,
  I32EnumAttrCase<"ColumnReduce", 2, "column_reduce">,
  I32EnumAttrCase<"Contraction", 3, "contraction">,
  I32EnumAttrCase<"Window", 4, "window">,
  I32EnumAttrCase<"Movement", 5, "movement">,
  // Called per tile of a library's product; no region is of this kind.
  I32EnumAttrCase<"Epilogue", 6, "epilogue">,
  I32EnumAttrCase<"Scatter", 7, "scatter">,
  I32EnumAttrCase<"Cumulative", 8, "cumulative">,
]>;
def MPC_KernelKindAttr : MPC_EnumAttr<MPC_KernelKind, "kernel">;

def MPC_ScatterReduction : MPC_Enum<"ScatterReduction", "what becomes of an element that an update meets", [
  // The update replaces it; of several updates the last one stays.
  I32EnumAttrCase<"None", 0, "none">,
  I32EnumAttrCase<"Add", 1, "add">,
  I32EnumAttrCase<"Mul", 2, "mul">,
  I32EnumAttrCase<"Max", 3, "max">,
  I32EnumAttrCase<"Min", 4, "min">,
]>;
def MPC_ScatterReductionAttr : MPC_EnumAttr<MPC_ScatterReduction, "scatter">;

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

def MPC_FilterLayout : MPC_Enum<"FilterLayout", "where filters keep their input channels", [
  // (out, in / group, spatial...), ONNX's order.
  I32EnumAttrCase<"OIHW", 0>,
  // (out, spatial..., in / group), which GPUs' libraries take.
  I32EnumAttrCase<"OHWI", 1>,
]>;
def MPC_FilterLayoutAttr : MPC_EnumAttr<MPC_FilterLayout, "filter_layout">;

#endif // MPC_COMPILER_DIALECT_MPC_MPCENUMS_TD
