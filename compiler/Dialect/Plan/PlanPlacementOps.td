// Ops that determine at which elements of a tensor products and kernels read
// and write, before buffers exist. No op of this file is a step.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_PLAN_PLANPLACEMENTOPS_TD
#define MPC_COMPILER_DIALECT_PLAN_PLANPLACEMENTOPS_TD

include "compiler/Dialect/Plan/Plan.td"

def Plan_AccessOp : Plan_Op<"access", [Pure]> {
  let summary = "a strided view of a tensor that only a product reads";
  let description = [{
    Element (i, j, ...) of the result lies in the source's memory at element
    offset + i * strides[0] + j * strides[1] + ...; nothing is moved. Only
    products and attention of a library read an access, unless the elements are
    adjacent. `plan-fold-movement` creates accesses from transposes, slices and
    reshapes. The heads of an attention, for example:

    ```mlir
    %q = plan.access %qkv {offset = 0 : i64, strides = array<i64: 24576, 64, 2304, 1>}
        : tensor<8x128x2304xf32> to tensor<8x12x128x64xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$source, I64Attr:$offset,
                       DenseI64ArrayAttr:$strides);
  let results = (outs AnyRankedTensor:$output);
  let assemblyFormat = "$source attr-dict `:` type($source) `to` type($output)";
  let extraClassDeclaration = [{
    /// True if the elements are adjacent in memory, in row-major order.
    bool isDense();
  }];
  let hasVerifier = 1;
}

def Plan_ArrangeOp : Plan_Op<"arrange", [Pure]> {
  let summary = "the result of a product that writes permuted axes";
  let description = [{
    Axis i of the result is axis `perm[i]` of the product, or of a result of
    attention of a library. The op is the only user of the product, which writes
    directly in this order. The last axis stays last.

    ```mlir
    %y = plan.arrange %heads {perm = array<i64: 0, 2, 1, 3>}
        : tensor<8x12x128x64xf32> to tensor<8x128x12x64xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$product, DenseI64ArrayAttr:$perm);
  let results = (outs AnyRankedTensor:$output);
  let assemblyFormat = "$product attr-dict `:` type($product) `to` type($output)";
  let hasVerifier = 1;
}

def Plan_PlaceOp : Plan_Op<"place", [Pure]> {
  let summary = "a value as a box of a larger tensor";
  let description = [{
    Element (i, j, ...) of the input is element (offsets[0] + i, offsets[1] + j,
    ...) of the result. Without offsets, the box starts at the first element.
    Nothing reads elements outside the box through this value, and nothing is
    moved: a product, whose only user is the op, or a kernel writes directly
    into the box. Two examples: padded rows of 514 bytes (`plan-pad-rows`), and
    the heads of keys between those of queries and values
    (`plan-assemble-joins`):

    ```mlir
    %y = plan.place %scores : tensor<64x257xbf16> to tensor<64x264xbf16>
    %z = plan.place %keys {offsets = array<i64: 0, 0, 12, 0>}
        : tensor<8x128x12x64xbf16> to tensor<8x128x36x64xbf16>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input,
                       OptionalAttr<DenseI64ArrayAttr>:$offsets);
  let results = (outs AnyRankedTensor:$output);
  let assemblyFormat = "$input attr-dict `:` type($input) `to` type($output)";
  let builders = [OpBuilder<(ins "::mlir::Type":$output, "::mlir::Value":$input), [{
    build($_builder, $_state, output, input, ::mlir::DenseI64ArrayAttr());
  }]>];
  let extraClassDeclaration = [{
    /// Returns the row-major index, in the result, of the box's first element.
    int64_t getFirstElement();
  }];
  let hasVerifier = 1;
}

def Plan_AssembleOp : Plan_Op<"assemble", [Pure]> {
  let summary = "a tensor whose boxes several steps write";
  let description = [{
    Every part is as large as the result, and is the result of a product or
    kernel that writes one box (`plan.place`). The result combines all boxes.
    The op takes no step, because all parts share the result's memory, in
    row-major order. Boxes do not overlap, fill the whole, and have no other
    users.

    ```mlir
    %y = plan.assemble %queries, %keys, %values
        : (tensor<8x128x36x64xbf16>, tensor<8x128x36x64xbf16>, tensor<8x128x36x64xbf16>)
        -> tensor<8x128x2304xbf16>
    ```
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$parts);
  let results = (outs AnyRankedTensor:$output);
  let assemblyFormat = "$parts attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Plan_ShareOp : Plan_Op<"share", [Pure, SameOperandsAndResultType]> {
  let summary = "gives all ranks a value that one rank has";
  let description = [{
    The operand is defined on one rank of a distributed run: the owner of a
    parameter. The result is the operand's value there, on all ranks. Both lie
    in the same memory. Adjacent ops become one `plan.all_gather`.

    ```mlir
    %low = plan.share %next owner @fc1.weight : tensor<128x64xbf16>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, FlatSymbolRefAttr:$owner);
  let results = (outs AnyRankedTensor:$output);
  let assemblyFormat = "$input `owner` $owner attr-dict `:` type($input)";
}

#endif // MPC_COMPILER_DIALECT_PLAN_PLANPLACEMENTOPS_TD
