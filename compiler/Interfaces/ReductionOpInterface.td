// The interface of reductions over axes to one element or a few.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_REDUCTIONOPINTERFACE_TD
#define MPC_COMPILER_INTERFACES_REDUCTIONOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def ReductionOpInterface : OpInterface<"ReductionOpInterface"> {
  let cppNamespace = "::mpc";
  let description = [{
    An op of role Reduction: the reduced axes, and a way to create the same kind
    of reduction over other axes, for passes that split or move reductions.
  }];
  let methods = [
    InterfaceMethod<"The axes of the operand that are reduced, in their order.",
                    "::llvm::SmallVector<int64_t>", "getReducedAxes", (ins),
                    [{}], [{
                      return ::llvm::SmallVector<int64_t>($_op.getAxes());
                    }]>,
    InterfaceMethod<"How many parts of the first reduced axis are reduced"
                    " apart; 1 where all of it is reduced to one element.",
                    "int64_t", "getReductionParts", (ins), [{}],
                    [{ return $_op.getParts().value_or(1); }]>,
    InterfaceMethod<"A reduction of this kind of `input` over `axes`, which"
                    " stay, of size 1 or, the first of them, of `parts` (absent:"
                    " 1), as `type` says.",
                    "::mlir::Value", "reduceLike",
                    (ins "::mlir::OpBuilder &":$builder,
                         "::mlir::RankedTensorType":$type,
                         "::mlir::Value":$input,
                         "::llvm::ArrayRef<int64_t>":$axes,
                         "::mlir::IntegerAttr":$parts),
                    [{}], [{
                      return ConcreteOp::create(builder, $_op->getLoc(), type,
                                                input, axes, /*keepdims=*/true,
                                                parts);
                    }]>,
    StaticInterfaceMethod<"Whether a result is one of the elements that it is"
                          " reduced from, as the largest is and the sum is not:"
                          " who looks for it among them must have the very"
                          " elements that were reduced.",
                          "bool", "choosesElement", (ins), [{}],
                          [{ return false; }]>,
  ];
}

#endif // MPC_COMPILER_INTERFACES_REDUCTIONOPINTERFACE_TD
