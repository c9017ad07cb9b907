// The interface of index-dependent elementwise ops.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_INDEXEDOPINTERFACE_TD
#define MPC_COMPILER_INTERFACES_INDEXEDOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def IndexedOpInterface : OpInterface<"IndexedOpInterface"> {
  let cppNamespace = "::mpc";
  let description = [{
    An elementwise op whose result at an index is not just a formula over the
    broadcast operands at that index. Either the op uses the index (dropout,
    one_hot). Or it reads an operand along other axes: at an index that another
    operand holds (gather), or that follows from the index (rotary_embedding).
    The functions of IndexedOpInterface.h answer for every op.
  }];
  let methods = [
    InterfaceMethod<"The axis of the result along which each axis of an operand"
                    " runs; kOwnAxis for one along which the op itself says"
                    " which element it reads.",
                    "::llvm::SmallVector<int64_t>", "getOperandAxes",
                    (ins "unsigned":$operand)>,
    InterfaceMethod<"Whether an operand must lie in memory, since elements of it"
                    " are read that no loop of the kernel is at.",
                    "bool", "readsMemory", (ins "unsigned":$operand), [{}],
                    [{ return false; }]>,
    InterfaceMethod<"The axes of the result whose index, as one number in"
                    " row-major order, the op computes with.",
                    "::llvm::SmallVector<int64_t>", "getIndexedAxes", (ins),
                    [{}], [{ return ::llvm::SmallVector<int64_t>(); }]>,
    InterfaceMethod<"The extents of these axes, for that number: of the result,"
                    " or of a tensor that it is a box of.",
                    "::llvm::SmallVector<int64_t>", "getIndexedShape", (ins),
                    [{}], [{
                      auto type = ::llvm::cast<::mlir::ShapedType>(
                          $_op->getResult(0).getType());
                      ::llvm::SmallVector<int64_t> shape;
                      for (int64_t axis : $_op.getIndexedAxes())
                        shape.push_back(type.getDimSize(axis));
                      return shape;
                    }]>,
  ];
}

#endif // MPC_COMPILER_INTERFACES_INDEXEDOPINTERFACE_TD
