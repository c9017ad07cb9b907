// The interface that infers ranges of an op's results.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_RANGEOPINTERFACE_TD
#define MPC_COMPILER_INTERFACES_RANGEOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def RangeOpInterface : OpInterface<"RangeOpInterface"> {
  let cppNamespace = "::mpc";
  let description = [{
    An op whose formula limits the range of the result. Nothing is known about
    ops without the interface, unless an op only moves elements. The functions of RangeOpInterface.h answer for every op.
  }];
  let methods = [
    InterfaceMethod<[{
      Returns the smallest interval that holds the result, from the intervals of
      the float operands in order: for x in [0, 1] and y in [2, 3], x - y is in
      [-3, -1]. nullopt if the result may leave any range of the operands.
    }], "std::optional<::mpc::Bounds>", "inferRange",
                    (ins "::llvm::ArrayRef<::mpc::Bounds>":$operands), [{}],
                    [{ return ::mpc::inferMovedRange($_op, operands); }]>,
    InterfaceMethod<[{
      True if the op itself, not an operand, has a constant that a low type may
      not hold: a pad with the least float does, a pad with 0 does not.
    }], "bool", "holdsConstant", (ins), [{}], [{ return false; }]>,
    InterfaceMethod<[{
      Returns an interval that holds the integers of the result. `operand`
      returns the interval of an integer operand by its number. The larger of
      [0, 5] and [3, 9] is in [3, 9]. nullopt on 64-bit overflow.
    }], "std::optional<::mpc::IntegerRange>", "inferIntegerRange",
                    (ins "::mpc::FindIntegerRange":$operand), [{}],
                    [{ return std::nullopt; }]>,
    InterfaceMethod<[{
      Returns the two numbers near which results saturate, because the function
      is flat: -1 and 1 for tanh and sine, 0 and 1 for softmax, -1 and infinity
      for ELU, which does not saturate above. nullopt for a function without
      flat parts.
    }], "std::optional<::mpc::Bounds>", "getSaturation", (ins), [{}],
                    [{ return std::nullopt; }]>,
    InterfaceMethod<[{
      Returns the operands from which the result inherits closeness to a
      constant: operands that are passed on, perhaps negated, and factors of a
      power. In 1 - t * t, which is near 0 for t near 1, the product passes on
      t.
    }], "::llvm::SmallVector<::mlir::Value>", "listHandedOn", (ins), [{}],
                    [{ return ::mpc::listMoved($_op); }]>,
  ];
}

#endif // MPC_COMPILER_INTERFACES_RANGEOPINTERFACE_TD
