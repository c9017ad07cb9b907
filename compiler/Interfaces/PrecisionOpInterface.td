// The questions of the Precision stage about an op.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_PRECISIONOPINTERFACE_TD
#define MPC_COMPILER_INTERFACES_PRECISIONOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def PrecisionOpInterface : OpInterface<"PrecisionOpInterface"> {
  let cppNamespace = "::mpc";
  let description = [{
    An op whose types the Precision stage decides. The policy decides the class
    of the op, by the op's key; the op's definition has the default
    (compiler/Dialect/MPC/MPCPolicy.td). This interface has the facts that
    follow from the op's computation.
  }];
  let methods = [
    InterfaceMethod<"The op's row in the precision policy.",
                    "::llvm::StringRef", "getPolicyKey", (ins), [{}],
                    [{ return $_op->getName().stripDialect(); }]>,
    StaticInterfaceMethod<[{
      How many leading operands are multiplied with each other and summed: the
      operands a lower type makes fast. Zero unless the op is a contraction.
    }], "unsigned", "getNumContractedOperands", (ins), [{}], [{
      return ConcreteOp::getRegionRole() == ::mpc::RegionRole::Contraction
                 ? 2 : 0;
    }]>,
    InterfaceMethod<[{
      How many multiplications and additions a contraction takes. Each of the
      three tensors' index sets (two operands, result) covers two thirds of the
      loops of a matrix product, so the loops number the square root of the
      product of their sizes; what batches or slides differs by a factor that
      all types share.
    }], "double", "countFlops", (ins), [{}], [{
      return ::mpc::countFlopsOfProduct($_op);
    }]>,
    StaticInterfaceMethod<[{
      Whether the op only moves or reshapes elements, so that its results have
      the element type of its operands.
    }], "bool", "movesElements", (ins), [{}], [{
      return ConcreteOp::getRegionRole() == ::mpc::RegionRole::View ||
             ConcreteOp::getRegionRole() == ::mpc::RegionRole::Movement;
    }]>,
  ];
}

#endif // MPC_COMPILER_INTERFACES_PRECISIONOPINTERFACE_TD
