// The interface of elementwise ops that use the index of an element or read
// other elements, such as dropout and gather.
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
    one_hot). Or the op reads an operand along other axes: at an index held by
    another operand (gather), or derived from the index (rotary_embedding). The
    functions of IndexedOpInterface.h answer for every op.
  }];
  let methods = [
    InterfaceMethod<[{
      Returns, for each axis of an operand, the corresponding axis of the
      result; kOwnAxis for an axis along which the op itself chooses the
      elements to read.
    }], "::llvm::SmallVector<int64_t>", "getOperandAxes",
                    (ins "unsigned":$operand)>,
    InterfaceMethod<[{
      True if an operand must lie in memory, because the op reads elements at
      other indices than those of the loops in the kernel.
    }], "bool", "readsMemory", (ins "unsigned":$operand), [{}],
                    [{ return false; }]>,
    InterfaceMethod<[{
      Returns the axes of the result whose index, as one number in row-major
      order, the op computes with.
    }], "::llvm::SmallVector<int64_t>", "getIndexedAxes", (ins),
                    [{}], [{ return ::llvm::SmallVector<int64_t>(); }]>,
    InterfaceMethod<[{
      Returns the extents of the indexed axes, for the row-major number: those
      of the result, or of a larger tensor of which the result is a box.
    }], "::llvm::SmallVector<int64_t>", "getIndexedShape", (ins),
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
