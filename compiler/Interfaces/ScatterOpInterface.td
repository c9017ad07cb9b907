// The interface of ops with writes at given indices (scatters).
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
    InterfaceMethod<"What the result starts from.", "::mlir::OpOperand &",
                    "getDataOperand", (ins), [{}],
                    [{ return $_op.getDataMutable(); }]>,
    InterfaceMethod<"The indices.", "::mlir::OpOperand &",
                    "getIndicesOperand", (ins), [{}],
                    [{ return $_op.getIndicesMutable(); }]>,
    InterfaceMethod<"The updates.", "::mlir::OpOperand &", "getUpdatesOperand",
                    (ins), [{}], [{ return $_op.getUpdatesMutable(); }]>,
    InterfaceMethod<"The axis of the result that indices name elements of.",
                    "int64_t", "getScatteredAxis", (ins), [{}],
                    [{ return $_op.getAxis(); }]>,
    InterfaceMethod<"Whether updates are added to or multiplied with what they"
                    " meet, so that roundings add up.", "bool",
                    "accumulates", (ins), [{}], [{
                      auto reduction = $_op.getReduction();
                      using Reduction = decltype(reduction);
                      return reduction == Reduction::Add ||
                             reduction == Reduction::Mul;
                    }]>,
    InterfaceMethod<"Whether updates are factors of what they meet.", "bool",
                    "multiplies", (ins), [{}],
                    [{
                      auto reduction = $_op.getReduction();
                      return reduction == decltype(reduction)::Mul;
                    }]>,
    InterfaceMethod<"Whether no two indices name the same part.", "bool",
                    "hasUniqueIndices", (ins), [{}], [{ return false; }]>,
    InterfaceMethod<"The axis of the updates along which each axis of the"
                    " indices runs.",
                    "::llvm::SmallVector<int64_t>", "getIndexAxes", (ins)>,
  ];
}

#endif // MPC_COMPILER_INTERFACES_SCATTEROPINTERFACE_TD
