// The interface of scatters: ops that write elements at given indices.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_SCATTEROPINTERFACE_TD
#define MPC_COMPILER_INTERFACES_SCATTEROPINTERFACE_TD

include "mlir/IR/OpBase.td"

def ScatterOpInterface : OpInterface<"ScatterOpInterface"> {
  let cppNamespace = "::mpc";
  let description = [{
    An op that starts from `data` and applies `updates` in row-major order. Each
    update goes to the element of the result whose index along `axis` is in the
    indices. `updates` may have any number of axes in place of `axis`.
  }];
  let methods = [
    InterfaceMethod<"Returns the tensor that the result starts from.",
                    "::mlir::OpOperand &",
                    "getDataOperand", (ins), [{}],
                    [{ return $_op.getDataMutable(); }]>,
    InterfaceMethod<"Returns the indices.", "::mlir::OpOperand &",
                    "getIndicesOperand", (ins), [{}],
                    [{ return $_op.getIndicesMutable(); }]>,
    InterfaceMethod<"Returns the updates.", "::mlir::OpOperand &",
                    "getUpdatesOperand", (ins), [{}],
                    [{ return $_op.getUpdatesMutable(); }]>,
    InterfaceMethod<[{
      Returns the axis of the result along which the indices count.
    }], "int64_t", "getScatteredAxis", (ins), [{}],
                    [{ return $_op.getAxis(); }]>,
    InterfaceMethod<[{
      True if updates are added to or multiplied with present elements, so that
      rounding errors accumulate.
    }], "bool",
                    "accumulates", (ins), [{}], [{
                      auto reduction = $_op.getReduction();
                      using Reduction = decltype(reduction);
                      return reduction == Reduction::Add ||
                             reduction == Reduction::Mul;
                    }]>,
    InterfaceMethod<"True if updates are multiplied with present elements.",
                    "bool",
                    "multiplies", (ins), [{}],
                    [{
                      auto reduction = $_op.getReduction();
                      return reduction == decltype(reduction)::Mul;
                    }]>,
    InterfaceMethod<"True if no two indices are equal.",
                    "bool",
                    "hasUniqueIndices", (ins), [{}], [{ return false; }]>,
    InterfaceMethod<[{
      Returns, for each axis of the indices, the corresponding axis of the
      updates.
    }], "::llvm::SmallVector<int64_t>", "getIndexAxes", (ins)>,
  ];
}

#endif // MPC_COMPILER_INTERFACES_SCATTEROPINTERFACE_TD
