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
      For each operand, the axis along which a part of the result along `axis`
      needs the same part of it, or kWhole: of a matrix product along rows, the
      rows of the left operand and all of the right one. Nothing where the result
      cannot be made in parts, as a softmax along its axis.
    }], "std::optional<::llvm::SmallVector<int64_t>>", "findPartedAxes",
                    (ins "int64_t":$axis)>,
    InterfaceMethod<[{
      Whether the op allows that many parts, whatever divides the extents: a
      dropout draws its numbers in groups of four, which no part may divide.
    }], "bool", "allowsParts", (ins "int64_t":$axis, "int64_t":$count), [{}],
                    [{ return true; }]>,
    InterfaceMethod<[{
      How many groups of four elements of the whole are in front of each further
      part: 200 of a dropout of rows of 100 elements in parts of 8 rows. Nothing
      of an op that does not ask where its elements are.
    }], "std::optional<int64_t>", "getGroupsPerPart",
                    (ins "int64_t":$axis, "int64_t":$count), [{}],
                    [{ return std::nullopt; }]>,
    InterfaceMethod<[{
      The op for one of `count` parts of the result along `axis`, given parts of
      the operands: of a slice one of fewer rows. An op that getGroupsPerPart
      counts groups of has its part behind `group` of them, an i64 scalar.
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
