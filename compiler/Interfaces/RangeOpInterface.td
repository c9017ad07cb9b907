// The interface that infers ranges of an op's results.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_RANGEOPINTERFACE_TD
#define MPC_COMPILER_INTERFACES_RANGEOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def RangeOpInterface : OpInterface<"RangeOpInterface"> {
  let cppNamespace = "::mpc";
  let description = [{
    The range of an op's result, as far as its formula determines the range.
    Without this interface nothing is known about an op, unless it only moves
    elements. The functions of RangeOpInterface.h answer for every op.
  }];
  let methods = [
    InterfaceMethod<[{
      The smallest interval that holds the result, from those of the operands
      that are floats, in their order: x - y of x in [0, 1] and y in [2, 3] is in
      [-3, -1]. Nothing where the result may leave any range that operands have.
    }], "std::optional<::mpc::Bounds>", "inferRange",
                    (ins "::llvm::ArrayRef<::mpc::Bounds>":$operands), [{}],
                    [{ return ::mpc::inferMovedRange($_op, operands); }]>,
    InterfaceMethod<[{
      Whether the op itself has a constant that a low type may not hold, beside
      its operands: a pad with the least float has one, a pad with 0 none.
    }], "bool", "holdsConstant", (ins), [{}], [{ return false; }]>,
    InterfaceMethod<[{
      An interval that holds the integers of the result, from those of operands,
      which `operand` finds by number; they must be of integers. The larger of
      [0, 5] and [3, 9] is in [3, 9]. Nothing where 64 bits do not hold the ends.
    }], "std::optional<::mpc::IntegerRange>", "inferIntegerRange",
                    (ins "::mpc::FindIntegerRange":$operand), [{}],
                    [{ return std::nullopt; }]>,
    InterfaceMethod<[{
      Where results gather, since the function is flat there: at -1 and 1 of a
      tanh and a sine, at 0 and 1 of a softmax, at -1 of an ELU, whose other end
      is infinity, where it goes on. Nothing of a function that is flat nowhere.
    }], "std::optional<::mpc::Bounds>", "getSaturation", (ins), [{}],
                    [{ return std::nullopt; }]>,
    InterfaceMethod<[{
      The operands from which the result gets its closeness to a constant: what
      it hands on, but for a sign, and the factors of a power. Of 1 - t * t, for
      example, which is 0 where t is close to 1, the product hands on t.
    }], "::llvm::SmallVector<::mlir::Value>", "listHandedOn", (ins), [{}],
                    [{ return ::mpc::listMoved($_op); }]>,
  ];
}

#endif // MPC_COMPILER_INTERFACES_RANGEOPINTERFACE_TD
