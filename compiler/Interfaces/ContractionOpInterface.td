// The interface of matrix products and convolutions, which presents both as one
// matrix product.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_CONTRACTIONOPINTERFACE_TD
#define MPC_COMPILER_INTERFACES_CONTRACTIONOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def ContractionOpInterface : OpInterface<"ContractionOpInterface"> {
  let cppNamespace = "::mpc";
  let description = [{
    An op of role Contraction: its result as a matrix, and the axis of the
    result that counts the columns. For example, 32 x 64 times 64 x 10 has 32
    rows, 10 columns and depth 64, and the last axis counts the columns.
  }];
  let methods = [
    InterfaceMethod<[{
      Returns the result as a matrix, and the number of products per element.
    }], "::mpc::ContractionSpace", "getContractionSpace", (ins)>,
    InterfaceMethod<[{
      Returns the axis of the result that counts columns; nullopt if the result
      is produced whole, so that no epilogue can follow in the same kernel.
    }], "std::optional<size_t>", "getColumnAxis", (ins), [{}], [{
                      return ::llvm::cast<::mlir::ShapedType>(
                                 $_op->getResult(0).getType())
                                 .getRank() -
                             1;
                    }]>,
  ];
}

#endif // MPC_COMPILER_INTERFACES_CONTRACTIONOPINTERFACE_TD
