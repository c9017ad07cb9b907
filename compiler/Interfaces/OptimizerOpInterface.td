// The interface of optimizer ops: their common operands, parameter, gradient
// and predicate.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_OPTIMIZEROPINTERFACE_TD
#define MPC_COMPILER_INTERFACES_OPTIMIZEROPINTERFACE_TD

include "mlir/IR/OpBase.td"

def OptimizerOpInterface : OpInterface<"OptimizerOpInterface"> {
  let cppNamespace = "::mpc";
  let description = [{
    A step of an optimizer on one parameter. Operands are `param`, `grad` and an
    optional predicate `apply`. The first result is the new parameter.
  }];
  let methods = [
    InterfaceMethod<"Returns the parameter.", "::mlir::OpOperand &",
                    "getParamOperand", (ins), [{}],
                    [{ return $_op.getParamMutable(); }]>,
    InterfaceMethod<"Returns the gradient.", "::mlir::OpOperand &",
                    "getGradOperand", (ins), [{}],
                    [{ return $_op.getGradMutable(); }]>,
    InterfaceMethod<[{
      True if an element with gradient zero stays unchanged, in the parameter
      and in the state.
    }], "bool", "keepsWithoutGradient", (ins), [{}],
                    [{ return false; }]>,
    InterfaceMethod<"Returns the predicate; empty if there is none.",
                    "::mlir::MutableOperandRange", "getApplyOperand", (ins),
                    [{}], [{ return $_op.getApplyMutable(); }]>,
  ];
}

#endif // MPC_COMPILER_INTERFACES_OPTIMIZEROPINTERFACE_TD
