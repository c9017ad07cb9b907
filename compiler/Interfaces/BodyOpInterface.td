// Ops that hold lists of ops.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_BODYOPINTERFACE_TD
#define MPC_COMPILER_INTERFACES_BODYOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def BodyOpInterface : OpInterface<"BodyOpInterface"> {
  let cppNamespace = "::mpc";
  let description = [{
    An op with bodies of one block each: the body of a loop, the branches of a
    condition. Each argument of a body stands for an operand, or for a part of
    one; what a body yields as value i is result i, or a part of it. Nothing
    else goes in or out.
  }];
  let methods = [
    InterfaceMethod<"The operand that an argument of a body starts as, is a"
                    " part of, or is.",
                    "::mlir::OpOperand &", "getTiedOperand",
                    (ins "::mlir::BlockArgument":$argument)>,
    InterfaceMethod<"How many leading arguments of the body are what it yielded"
                    " before, at the same place.",
                    "unsigned", "getNumCarried", (ins), [{}],
                    [{ return 0; }]>,
  ];
}

#endif // MPC_COMPILER_INTERFACES_BODYOPINTERFACE_TD
