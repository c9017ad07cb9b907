// The interface of ops whose activations have a layout, NCHW or NHWC.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_LAYOUTOPINTERFACE_TD
#define MPC_COMPILER_INTERFACES_LAYOUTOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def LayoutOpInterface : OpInterface<"LayoutOpInterface"> {
  let cppNamespace = "::mpc";
  let description = [{
    An op whose `layout` is the position of channels in activations: NCHW as
    imported, NHWC after ConvertLayout. The first operands and the first results
    are activations. Other operands and results (statistics, a bias) have no
    layout.
  }];
  let methods = [
    InterfaceMethod<"Returns the layout of the activations.", "::mpc::Layout",
                    "getActivationLayout", (ins), [{}],
                    [{ return $_op.getLayout(); }]>,
    StaticInterfaceMethod<[{
      Returns the number of leading operands that are activations.
    }], "unsigned", "countActivationOperands", (ins), [{}],
                          [{ return 1; }]>,
    StaticInterfaceMethod<[{
      Returns the number of leading results that are activations.
    }], "unsigned", "countActivationResults", (ins), [{}],
                          [{ return 1; }]>,
    InterfaceMethod<[{
      Returns the filter, an operand or result whose order of axes is
      `filter_layout`; null if the op has none.
    }], "::mlir::Value", "getFilter", (ins), [{}],
                    [{ return nullptr; }]>,
  ];
}

#endif // MPC_COMPILER_INTERFACES_LAYOUTOPINTERFACE_TD
