// The interface of ops that can run on one part of their operands after the
// other.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_PARTSOPINTERFACE_TD
#define MPC_COMPILER_INTERFACES_PARTSOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def PartsOpInterface : OpInterface<"PartsOpInterface"> {
  let cppNamespace = "::mpc";
  let description = [{
    An op whose parts follow other rules than those of an elementwise op: along
    other axes, or by another op than a clone. A part of a tensor is one of n
    equal runs along an axis, such as rows 0 to 3, and rows 4 to 7, of 8 rows.
    The functions of Regions/Parts.h answer for every op.
  }];
  let methods = [
    InterfaceMethod<[{
      Returns, for each operand, the axis whose part is needed for a part of the
      result along `axis`; kWhole if the whole operand is needed. For rows of a
      matrix product: the rows of the left operand, and the whole right operand.
      nullopt if the result cannot be made in parts, such as a softmax along its
      axis.
    }], "std::optional<::llvm::SmallVector<int64_t>>", "findPartedAxes",
                    (ins "int64_t":$axis)>,
    InterfaceMethod<[{
      True if the op allows `count` parts along `axis`, given that `count`
      divides the extents. A dropout, for example, draws numbers in groups of
      four, which no part may split.
    }], "bool", "allowsParts", (ins "int64_t":$axis, "int64_t":$count), [{}],
                    [{ return true; }]>,
    InterfaceMethod<[{
      Returns the number of groups of four elements per part: a dropout over
      rows of 100 elements, in parts of 8 rows, has 200. nullopt for ops that do
      not depend on the index of an element.
    }], "std::optional<int64_t>", "getGroupsPerPart",
                    (ins "int64_t":$axis, "int64_t":$count), [{}],
                    [{ return std::nullopt; }]>,
    InterfaceMethod<[{
      Creates the op for one of `count` parts of the result along `axis`, given
      parts of the operands. A slice, for example, becomes a slice of fewer
      rows. For an op with getGroupsPerPart, the i64 scalar `group` is the
      number of groups before the part.
    }], "::mlir::Operation *", "createPart",
                    (ins "::mlir::OpBuilder &":$builder,
                         "::mlir::ValueRange":$operands, "int64_t":$axis,
                         "int64_t":$count, "::mlir::Value":$group), [{}], [{
                      return ::mpc::clonePart(builder, $_op, operands, axis,
                                              count);
                    }]>,
  ];
}

#endif // MPC_COMPILER_INTERFACES_PARTSOPINTERFACE_TD
