// The interface of ops whose activations have a layout.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_LAYOUTOPINTERFACE_TD
#define MPC_COMPILER_INTERFACES_LAYOUTOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def LayoutOpInterface : OpInterface<"LayoutOpInterface"> {
  let cppNamespace = "::mpc";
  let description = [{
    An op whose `layout` is the position of channels in its activations: NCHW as
    imported, NHWC after ConvertLayout. The first operands and the first results
    are activations. Other operands and results (statistics, a bias) have no
    layout.
  }];
  let methods = [
    InterfaceMethod<"Where activations keep their channels.", "::mpc::Layout",
                    "getActivationLayout", (ins), [{}],
                    [{ return $_op.getLayout(); }]>,
    StaticInterfaceMethod<"How many of the first operands are activations.",
                          "unsigned", "countActivationOperands", (ins), [{}],
                          [{ return 1; }]>,
    StaticInterfaceMethod<"How many of the first results are activations.",
                          "unsigned", "countActivationResults", (ins), [{}],
                          [{ return 1; }]>,
    InterfaceMethod<"The operand or result that is a filter, whose order of axes"
                    " `filter_layout` says; null where the op has none.",
                    "::mlir::Value", "getFilter", (ins), [{}],
                    [{ return nullptr; }]>,
  ];
}

#endif // MPC_COMPILER_INTERFACES_LAYOUTOPINTERFACE_TD
