// The interface of ops with bodies, such as loops.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_BODYOPINTERFACE_TD
#define MPC_COMPILER_INTERFACES_BODYOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def BodyOpInterface : OpInterface<"BodyOpInterface"> {
  let cppNamespace = "::mpc";
  let description = [{
    An op with bodies of one block each: the body of a loop, or the branches of
    a condition. Each argument of a body is an operand, or a part of an operand.
    The yielded value i is result i, or a part of result i. No other values enter
    or leave a body.
  }];
  let methods = [
    InterfaceMethod<[{
      Returns the operand tied to an argument of a body: the argument is equal
      to the operand, starts as the operand, or is a part of it.
    }], "::mlir::OpOperand &", "getTiedOperand",
                    (ins "::mlir::BlockArgument":$argument)>,
    InterfaceMethod<[{
      Returns the number of leading arguments that a loop carries: argument i is
      value i of the previous iteration.
    }], "unsigned", "getNumCarried", (ins), [{}],
                    [{ return 0; }]>,
  ];
}

#endif // MPC_COMPILER_INTERFACES_BODYOPINTERFACE_TD
