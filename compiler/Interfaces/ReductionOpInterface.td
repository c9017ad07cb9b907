// The interface of reductions: along each reduced axis, one element or a few
// (sums in parts) remain.
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
    InterfaceMethod<"Returns the reduced axes of the operand, in order.",
                    "::llvm::SmallVector<int64_t>", "getReducedAxes", (ins),
                    [{}], [{
                      return ::llvm::SmallVector<int64_t>($_op.getAxes());
                    }]>,
    InterfaceMethod<[{
      Returns the number of parts of the first reduced axis that are reduced
      separately; 1 if the axis is reduced to one element.
    }], "int64_t", "getReductionParts", (ins), [{}],
                    [{ return $_op.getParts().value_or(1); }]>,
    InterfaceMethod<[{
      Creates a reduction of the same kind of `input` over `axes`, with result
      `type`. Reduced axes stay with size 1; the first has size `parts`, if
      given.
    }], "::mlir::Value", "reduceLike",
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
    StaticInterfaceMethod<[{
      True if a result is one of the reduced elements, as for a maximum and
      unlike a sum. A search for the result among the elements then needs
      exactly the elements that were reduced.
    }], "bool", "choosesElement", (ins), [{}],
                          [{ return false; }]>,
  ];
}

#endif // MPC_COMPILER_INTERFACES_REDUCTIONOPINTERFACE_TD
