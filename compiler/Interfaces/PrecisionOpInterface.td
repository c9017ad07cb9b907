// The interface with the questions that the Precision stage asks an op.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_PRECISIONOPINTERFACE_TD
#define MPC_COMPILER_INTERFACES_PRECISIONOPINTERFACE_TD

include "mlir/IR/OpBase.td"

// True of an op f with f(s * x) = s * f(x) for each s > 0, where x is operand 0
// and the other operands are constants. The loss scale then multiplies the
// results, too.
def LinearInFirstOperand : NativeOpTrait<"LinearInFirstOperand"> {
  let cppNamespace = "::mpc";
}

def PrecisionOpInterface : OpInterface<"PrecisionOpInterface"> {
  let cppNamespace = "::mpc";
  let description = [{
    An op whose types the Precision stage decides. The policy decides the class
    of the op, by the op's key; the op's definition has the default
    (compiler/Dialect/MPC/MPCPolicy.td). This interface has the facts that
    follow from the op's computation.
  }];
  let methods = [
    InterfaceMethod<"Returns the row of the op in the precision policy.",
                    "::llvm::StringRef", "getPolicyKey", (ins), [{}],
                    [{ return $_op->getName().stripDialect(); }]>,
    StaticInterfaceMethod<[{
      Returns the number of leading operands that are multiplied and summed: a
      lower type makes these operands fast. 0 unless the op is a contraction.
    }], "unsigned", "getNumContractedOperands", (ins), [{}], [{
      return ConcreteOp::getRegionRole() == ::mpc::RegionRole::Contraction
                 ? 2 : 0;
    }]>,
    InterfaceMethod<[{
      Counts the multiplications and additions of a contraction. Each of the
      three tensors (two operands, result) is indexed by two of the three loops
      of a matrix product, so the loops have the square root of the product of
      the three sizes. Batches and windows change the count by a factor that all
      types share.
    }], "double", "countFlops", (ins), [{}], [{
      return ::mpc::countFlopsOfProduct($_op);
    }]>,
    StaticInterfaceMethod<[{
      True if the op only moves or reshapes elements, so that results have the
      element type of the operands.
    }], "bool", "movesElements", (ins), [{}], [{
      return ConcreteOp::getRegionRole() == ::mpc::RegionRole::View ||
             ConcreteOp::getRegionRole() == ::mpc::RegionRole::Movement;
    }]>,
  ];
}

#endif // MPC_COMPILER_INTERFACES_PRECISIONOPINTERFACE_TD
