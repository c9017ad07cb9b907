// The ops of the plan dialect: memory, products on tensors, and steps.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_PLAN_PLANOPS_TD
#define MPC_COMPILER_DIALECT_PLAN_PLANOPS_TD

include "compiler/Dialect/Plan/PlanAttentionOps.td"
include "compiler/Dialect/Plan/PlanPlacementOps.td"

//===----------------------------------------------------------------------===//
// Programs and their memory
//===----------------------------------------------------------------------===//

def Plan_ProgramOp : Plan_Op<"program", [Symbol, IsolatedFromAbove,
    NoTerminator, SingleBlock]> {
  let summary = "one function of an artifact: its memory and its steps";
  let description = [{
    `arena_bytes` is the size of the arena, once offsets are assigned.

    ```mlir
    plan.program @step attributes {arena_bytes = 1344 : i64} {
      %x = plan.input "x" role data : memref<32x10xf32>
      %y = plan.arena at 64 : memref<32x10xf32>
      plan.launch @step_0_relu ins(%x : memref<32x10xf32>)
          outs(%y : memref<32x10xf32>) extent 320 grain 16384
      plan.output "y" role output %y : memref<32x10xf32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       OptionalAttr<I64Attr>:$arena_bytes,
                       OptionalAttr<StrAttr>:$sym_visibility);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name)>];
}

class Plan_BufferOp<string mnemonic, list<Trait> traits = []>
    : Plan_Op<mnemonic, !listconcat(traits,
          [Pure, ParentOneOf<["ProgramOp", "ForOp", "IfOp"]>])> {
  let results = (outs Plan_Buffer:$buffer);
}

def Plan_InputOp : Plan_BufferOp<"input"> {
  let summary = "the memory of an input, which no step writes";
  let description = [{
    ```mlir
    %x = plan.input "x" role data : memref<32x10xf32>
    ```

    With `indices`, the integers in [begin, end) of each box are indices into an
    axis of the given size, as in `mpc.indices`. The runtime rejects other
    values.

    ```mlir
    %ids = plan.input "ids" role data
        indices [{begin = array<i64: 0, 0>, end = array<i64: 8, 64>, size = 20},
                 {begin = array<i64: 0, 64>, end = array<i64: 8, 128>, size = 9}
                ] : memref<8x128xi64>
    ```

    `batch_axis` is the axis of the samples, 0 by default. With -1, all batches
    share the input.

    ```mlir
    %bags = plan.input "bags" role data batch_axis 1 : memref<26x32x4xi64>
    ```
  }];
  let arguments = (ins StrAttr:$name, MPC_RoleAttr:$role,
                       OptionalAttr<ArrayAttr>:$indices,
                       DefaultValuedAttr<I64Attr, "0">:$batch_axis);
  let assemblyFormat = [{
    $name `role` custom<Word>($role) (`indices` $indices^)?
    (`batch_axis` $batch_axis^)? attr-dict
    `:` type($buffer)
  }];
  let hasVerifier = 1;
}

def Plan_StateOp : Plan_BufferOp<"state",
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the memory of a state variable";
  let description = [{
    Holds the value of an `mpc.variable` from one run to the next. Steps read
    and write the memory in place.

    ```mlir
    %w = plan.state @fc1.weight : memref<10x64xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$variable);
  let assemblyFormat = "$variable attr-dict `:` type($buffer)";
}

def Plan_ConstantOp : Plan_BufferOp<"constant"> {
  let summary = "constant data of the artifact";
  let description = [{
    The artifact stores the bytes, which are loaded once. No step writes them.

    ```mlir
    %c = plan.constant dense<[1.0, 2.0]> : tensor<2xf32> : memref<2xf32>
    ```
  }];
  let arguments = (ins ElementsAttr:$value);
  let assemblyFormat = "$value attr-dict `:` type($buffer)";
  let hasVerifier = 1;
}

def Plan_ArenaOp : Plan_BufferOp<"arena"> {
  let summary = "an allocation in the arena";
  let description = [{
    `offset`, in bytes, is absent until `plan-assign-offsets`.

    ```mlir
    %b = plan.arena at 128 : memref<32x10xf32>
    ```
  }];
  let arguments = (ins OptionalAttr<I64Attr>:$offset);
  let assemblyFormat = "(`at` $offset^)? attr-dict `:` type($buffer)";
  let hasVerifier = 1;
}

def Plan_ViewOp : Plan_BufferOp<"view"> {
  let summary = "the same memory under another shape, or a part of it";
  let description = [{
    Elements keep their order, so no step has to copy. The view shows all
    elements or, with `at`, those from a byte offset on.

    ```mlir
    %v = plan.view %b : memref<32x16x2x2xf32> to memref<32x64xf32>
    %w = plan.view %b at 2048 : memref<32x16x2x2xf32> to memref<16x64xf32>
    ```
  }];
  let arguments = (ins Plan_Buffer:$source, OptionalAttr<I64Attr>:$offset);
  let assemblyFormat = [{
    $source (`at` $offset^)? attr-dict `:` type($source) `to` type($buffer)
  }];
  let builders = [OpBuilder<(ins "::mlir::MemRefType":$type,
                                 "::mlir::Value":$source), [{
    build($_builder, $_state, type, source, ::mlir::IntegerAttr());
  }]>];
  let hasVerifier = 1;
}

def Plan_PartOp : Plan_BufferOp<"part", [HasParent<"ForOp">]> {
  let summary = "a part of a buffer, the next one in each iteration";
  let description = [{
    In iteration i of the enclosing loop, the part starts at byte `from` + i *
    `by`.

    ```mlir
    %x = plan.part %xs from 0 by 5120 : memref<35x20x64xf32> to memref<20x64xf32>
    ```
  }];
  let arguments = (ins Plan_Buffer:$source, I64Attr:$from, I64Attr:$by);
  let assemblyFormat = [{
    $source `from` $from `by` $by attr-dict `:` type($source) `to` type($buffer)
  }];
  let hasVerifier = 1;
}

def Plan_OutputOp : Plan_Op<"output", [HasParent<"ProgramOp">]> {
  let summary = "a named output: valid when the program is done";
  let description = [{
    The role tells the runtime how to use the output: a `loss` is logged, for
    example.

    ```mlir
    plan.output "loss" role loss %loss : memref<f32>
    ```
  }];
  let arguments = (ins StrAttr:$name, MPC_RoleAttr:$role, Plan_Buffer:$buffer);
  let assemblyFormat = "$name `role` custom<Word>($role) $buffer attr-dict `:` type($buffer)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Matrix products on tensors, before buffers exist
//===----------------------------------------------------------------------===//

def Plan_ProductOp : Plan_Op<"product", [Pure, AttrSizedOperandSegments,
    AttrSizedResultSegments]> {
  let summary = "a matrix product with the ops that a GPU's library fuses, on tensors";
  let description = [{
    `plan-place-contractions` makes the op from a product and the ops fused by a
    library. `plan-build-programs` turns the op into a `plan.matmul`, which
    describes `fused` and the operands. The last two axes are the matrix;
    batches are rows. `unfused` computes the result, or the gradient of the
    bias, from the bare product, for libraries without a fused algorithm.
    Products with the mask of a relu have no `unfused`.

    ```mlir
    %y, %mask = plan.product relu_aux_bias %x, %w bias(%b : tensor<10xf32>)
        {transA = false, transB = true, alpha = 1.0 : f64}
        : (tensor<32x64xf32>, tensor<10x64xf32>) -> tensor<32x10xf32> aux tensor<32x16xui8>
    %z = plan.product bias %x, %w bias(%b : tensor<10xf32>)
        {transA = false, transB = true, alpha = 1.0 : f64}
        : (tensor<32x64xf32>, tensor<10x64xf32>) -> tensor<32x10xf32> unfused {
    ^bb0(%p: tensor<32x10xf32>):
      %sum = mpc.add %p, %b : (tensor<32x10xf32>, tensor<10xf32>) -> tensor<32x10xf32>
      plan.yield %sum : tensor<32x10xf32>
    }
    ```
  }];
  let regions = (region MaxSizedRegion<1>:$unfused);
  let arguments = (ins Plan_FusedKindAttr:$fused, AnyRankedTensor:$lhs,
                       AnyRankedTensor:$rhs, Optional<AnyRankedTensor>:$bias,
                       Optional<AnyRankedTensor>:$aux, BoolAttr:$transA,
                       BoolAttr:$transB, F64Attr:$alpha);
  let results = (outs AnyRankedTensor:$output,
                      Optional<AnyRankedTensor>:$new_aux,
                      Optional<AnyRankedTensor>:$bias_grad);
  let assemblyFormat = [{
    custom<Word>($fused) $lhs `,` $rhs (`bias` `(` $bias^ `:` type($bias) `)`)?
    (`aux` `(` $aux^ `:` type($aux) `)`)? attr-dict
    `:` `(` type($lhs) `,` type($rhs) `)` `->` type($output)
    (`aux` type($new_aux)^)? (`bias_grad` type($bias_grad)^)?
    (`unfused` $unfused^)?
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Returns the value that the region `unfused` computes: the gradient of
    /// the bias if there is one, else the output.
    ::mlir::Value getUnfusedResult() {
      return getBiasGrad() ? getBiasGrad() : getOutput();
    }

    /// Returns the type in which the output is stored: the result type of the
    /// plan.place that reads the output, else the output's own type.
    ::mlir::Type getWrittenType();
  }];
}

def Plan_YieldOp : Plan_Op<"yield", [Pure, Terminator, HasParent<"ProductOp">]> {
  let summary = "returns the result of the `unfused` kernels";
  let description = [{
    Ends the `unfused` kernels of a `plan.product`.

    ```mlir
    plan.yield %sum : tensor<32x10xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$value);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

def Plan_LaunchOp : Plan_StepOp<"launch", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a kernel over [0, extent) in slices of grain";
  let description = [{
    A buffer in both `ins` and `outs` is updated in place. On a GPU, a block of
    `threads` threads runs one slice, with `shared_bytes` of dynamic shared
    memory. A launch without `threads` is for a CPU, where every worker has
    `scratch_bytes` of memory for the kernel.

    ```mlir
    plan.launch @step_3_relu ins(%x : memref<32x10xf32>)
        outs(%y : memref<32x10xf32>) extent 320 grain 16384
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel,
                       Variadic<Plan_Buffer>:$inputs,
                       Variadic<Plan_Buffer>:$outputs,
                       I64Attr:$extent, I64Attr:$grain,
                       OptionalAttr<I64Attr>:$threads,
                       OptionalAttr<I64Attr>:$shared_bytes,
                       OptionalAttr<I64Attr>:$scratch_bytes);
  let assemblyFormat = [{
    $kernel (`ins` `(` $inputs^ `:` type($inputs) `)`)?
    `outs` `(` $outputs `:` type($outputs) `)`
    `extent` $extent `grain` $grain (`threads` $threads^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Plan_MatMulOp : Plan_StepOp<"matmul", [AttrSizedOperandSegments, NoTerminator,
    SingleBlock, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "c[b] = alpha * op(a[b]) op(b[b]), accumulated in fp32";
  let description = [{
    The result goes to `c`, or tile by tile to `epilogue`, a kernel whose
    argument 0 is the tile. runtime/PlanSchema.def defines the fields of `shape`
    and `axes`; a field of the default value is not printed. With an epilogue,
    the leading dimension and strides of c are multiples of n, and give the row
    of c for each row of the product. A GPU's library is called once per index
    of the outer axes.

    A GPU's library takes no epilogue, so tile sizes are 0. `compute` is the
    compute type: f32 if absent, tf32 (f32 operands are rounded first) or f64.
    `fused` is the operation on the product p before the library writes `c`. If
    the library has no algorithm for the fused product, it computes the bare
    product, and the launches in `unfused` do the rest. A CPU's library supports
    `bgrad_a` and `bgrad_b`, with or without an epilogue, and sums in f32:

    | fused | c | reads | writes |
    |---|---|---|---|
    | bias | p + bias | bias: n | |
    | relu_bias | max(p + bias, 0), 0 if NaN | bias | |
    | relu_aux_bias | as relu_bias | bias | aux: 1 bit, set if c > 0 |
    | drelu | p if the bit of aux is set, else 0 | aux | |
    | drelu_bgrad | as drelu | aux | bias_grad: n, the sum of c's rows |
    | bgrad_a, bgrad_b | p | | bias_grad: op(a) or op(b) summed along k |

    ```mlir
    plan.matmul %x, %w epilogue @step_0_fc1 ins(%b : memref<10xf32>)
        outs(%y : memref<32x10xf32>)
        shape <m = 32, n = 10, k = 64, trans_b = true, lda = 64, ldb = 64,
               ldc = 10, tile_m = 32, tile_n = 10>
        axes <stride_c = 320> {alpha = 1.0 : f64}
        : memref<32x64xbf16>, memref<10x64xbf16>
    ```

    On a GPU:

    ```mlir
    plan.matmul %x, %w into %y : memref<32x10xf32> fused relu_aux_bias
        bias(%b : memref<10xf32>) aux(%m : memref<32x16xui8>)
        shape <m = 32, n = 10, k = 64, trans_b = true, lda = 64, ldb = 64,
               ldc = 10>
        axes <stride_c = 320> {alpha = 1.0 : f64}
        : memref<32x64xbf16>, memref<10x64xbf16>
    ```

    With 8 samples of 12 heads each, one call per sample, the axes of a product
    are `<batch = 12, stride_a = 64, stride_b = 64, stride_c = 64, outer =
    <extents = [8], a = [98304], b = [98304], c = [98304]>>`.
  }];
  let regions = (region MaxSizedRegion<1>:$unfused);
  let arguments = (ins Plan_Buffer:$a, Plan_Buffer:$b, Optional<Plan_Buffer>:$c,
                       OptionalAttr<FlatSymbolRefAttr>:$epilogue,
                       Variadic<Plan_Buffer>:$epilogue_inputs,
                       Variadic<Plan_Buffer>:$epilogue_outputs,
                       OptionalAttr<Plan_FusedKindAttr>:$fused,
                       Optional<Plan_Buffer>:$bias, Optional<Plan_Buffer>:$aux,
                       Optional<Plan_Buffer>:$bias_grad,
                       Plan_ProductShapeAttr:$shape, Plan_BatchAxesAttr:$axes,
                       F64Attr:$alpha, OptionalAttr<Plan_ComputeAttr>:$compute);
  let assemblyFormat = [{
    $a `,` $b (`into` $c^ `:` type($c))?
    (`epilogue` $epilogue^)?
    (`ins` `(` $epilogue_inputs^ `:` type($epilogue_inputs) `)`)?
    (`outs` `(` $epilogue_outputs^ `:` type($epilogue_outputs) `)`)?
    (`fused` custom<Word>($fused)^)? (`bias` `(` $bias^ `:` type($bias) `)`)?
    (`aux` `(` $aux^ `:` type($aux) `)`)?
    (`bias_grad` `(` $bias_grad^ `:` type($bias_grad) `)`)?
    `shape` $shape `axes` $axes attr-dict `:` type($a) `,` type($b)
    (`unfused` $unfused^)?
  }];
  let hasVerifier = 1;
}

def Plan_ConvOp : Plan_StepOp<"conv", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a convolution or one of its gradients, accumulated in fp32";
  let description = [{
    x and y are NHWC. w is OIHW, or OHWI with `filter_layout`. `forward` writes
    y, `input_grad` x, and `weight_grad` w. The written operand is absent if an
    epilogue consumes the result (never for `weight_grad`). `compute` is as in
    `plan.matmul`.

    ```mlir
    plan.conv forward x(%x : memref<32x8x8x1xf32>) w(%w : memref<16x1x3x3xf32>)
        y(%y : memref<32x8x8x16xf32>)
        {batch = 32 : i64, groups = 1 : i64, in_channels = 1 : i64,
         out_channels = 16 : i64, in_spatial = array<i64: 8, 8>,
         out_spatial = array<i64: 8, 8>, kernel = array<i64: 3, 3>,
         strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>,
         pads_begin = array<i64: 1, 1>, pads_end = array<i64: 1, 1>}
    ```
  }];
  let arguments = (ins Plan_ConvKindAttr:$kind, Optional<Plan_Buffer>:$x,
                       Optional<Plan_Buffer>:$w, Optional<Plan_Buffer>:$y,
                       OptionalAttr<FlatSymbolRefAttr>:$epilogue,
                       Variadic<Plan_Buffer>:$epilogue_inputs,
                       Variadic<Plan_Buffer>:$epilogue_outputs,
                       I64Attr:$batch, I64Attr:$groups, I64Attr:$in_channels,
                       I64Attr:$out_channels, DenseI64ArrayAttr:$in_spatial,
                       DenseI64ArrayAttr:$out_spatial,
                       DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$dilations,
                       DenseI64ArrayAttr:$pads_begin,
                       DenseI64ArrayAttr:$pads_end,
                       OptionalAttr<MPC_FilterLayoutAttr>:$filter_layout,
                       OptionalAttr<Plan_ComputeAttr>:$compute);
  let assemblyFormat = [{
    custom<Word>($kind) (`x` `(` $x^ `:` type($x) `)`)? (`w` `(` $w^ `:` type($w) `)`)?
    (`y` `(` $y^ `:` type($y) `)`)?
    (`epilogue` $epilogue^)?
    (`ins` `(` $epilogue_inputs^ `:` type($epilogue_inputs) `)`)?
    (`outs` `(` $epilogue_outputs^ `:` type($epilogue_outputs) `)`)?
    attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Returns the buffer that the convolution writes: y, or for a gradient x
    /// or w. Null if an epilogue takes the result.
    ::mlir::Value getWritten() {
      switch (getKind()) {
      case ConvKind::Forward: return getY();
      case ConvKind::InputGrad: return getX();
      case ConvKind::WeightGrad: return getW();
      }
      llvm_unreachable("unknown kind of convolution");
    }
  }];
}

def Plan_CopyOp : Plan_StepOp<"copy"> {
  let summary = "copies a buffer, or rows of one, to another";
  let description = [{
    Copies a buffer to another of equal type. On a CPU, can also copy `rows`
    rows between buffers of equal element type. The first source row starts
    `offset` bytes into the source; further rows follow every `stride` bytes.
    Rows fill the destination, unless `row_bytes` gives their length. Then the
    first row goes `to_offset` bytes into the destination; further rows follow
    every `to_stride` bytes.

    ```mlir
    plan.copy %a to %b : memref<32x10xf32>, memref<32x10xf32>
    plan.copy %a to %c {rows = 32 : i64, offset = 8 : i64, stride = 40 : i64}
        : memref<32x10xf32>, memref<32x4xf32>
    plan.copy %c to %a {rows = 32 : i64, stride = 16 : i64, row_bytes = 16 : i64,
        to_offset = 8 : i64, to_stride = 40 : i64} : memref<32x4xf32>, memref<32x10xf32>
    ```
  }];
  let arguments = (ins Plan_Buffer:$source, Plan_Buffer:$destination,
                       OptionalAttr<I64Attr>:$rows,
                       DefaultValuedAttr<I64Attr, "0">:$offset,
                       DefaultValuedAttr<I64Attr, "0">:$stride,
                       OptionalAttr<I64Attr>:$row_bytes,
                       DefaultValuedAttr<I64Attr, "0">:$to_offset,
                       DefaultValuedAttr<I64Attr, "0">:$to_stride);
  let assemblyFormat = "$source `to` $destination attr-dict `:` type($source) `,` type($destination)";
  let builders = [OpBuilder<(ins "::mlir::Value":$source,
                                 "::mlir::Value":$destination), [{
    ::mlir::IntegerAttr zero = $_builder.getI64IntegerAttr(0);
    build($_builder, $_state, source, destination, ::mlir::IntegerAttr(), zero,
          zero, ::mlir::IntegerAttr(), zero, zero);
  }]>];
  let extraClassDeclaration = [{
    ::llvm::LogicalResult verifyRows();
  }];
  let hasVerifier = 1;
}

def Plan_CheckIndicesOp : Plan_StepOp<"check_indices"> {
  let summary = "stops the run if an index is out of range";
  let description = [{
    Checks that the integers in [begin, end) of each box are in [-size, size),
    as for `indices` of `plan.input`. Writes nothing.

    ```mlir
    plan.check_indices %ids [{begin = array<i64: 0>, end = array<i64: 16>, size = 20}
        ] : memref<16xi64>
    ```
  }];
  let arguments = (ins Plan_Buffer:$buffer, ArrayAttr:$indices);
  let assemblyFormat = "$buffer $indices attr-dict `:` type($buffer)";
  let hasVerifier = 1;
}

def Plan_AllReduceOp : Plan_StepOp<"all_reduce", [HasParent<"ProgramOp">]> {
  let summary = "reduces a buffer over the ranks of a distributed run";
  let description = [{
    Replaces each element of the buffer by the element's sum, mean or maximum
    over all ranks. With one rank, nothing changes. A mean takes floats only. A
    device may run later steps meanwhile, as far as they use other memory.

    With `row_elements` above 0, the buffer is a table with rows of so many
    elements, of which most are likely zero. The ranks may then send only the
    rows that are not zero, with equal results. Not on a GPU.

    ```mlir
    %bucket = plan.arena at 0 : memref<6553600xf32>
    plan.all_reduce mean %bucket : memref<6553600xf32>
    %table = plan.arena at 26214400 : memref<3200000xf32>
    plan.all_reduce mean %table {row_elements = 64 : i64} : memref<3200000xf32>
    ```
  }];
  let arguments = (ins MPC_ReduceAttr:$kind, Plan_Buffer:$buffer,
                       DefaultValuedAttr<I64Attr, "0">:$row_elements);
  let assemblyFormat = "custom<Word>($kind) $buffer attr-dict `:` type($buffer)";
  let hasVerifier = 1;
}

def Plan_ReduceScatterOp
    : Plan_StepOp<"reduce_scatter", [HasParent<"ProgramOp">]> {
  let summary = "reduces buffers over ranks, each for one rank only";
  let description = [{
    Like `plan.all_reduce`, but each buffer gets its reduction only on the rank
    that owns the parameter beside it. On other ranks, the buffer is undefined
    afterwards. All buffers have one element type.

    ```mlir
    %bucket = plan.arena at 0 : memref<8256xf32>
    %w = plan.view %bucket at 0 : memref<8256xf32> to memref<128x64xf32>
    %b = plan.view %bucket at 32768 : memref<8256xf32> to memref<64xf32>
    plan.reduce_scatter mean %w, %b owners [@fc1.weight, @fc1.bias]
        : memref<128x64xf32>, memref<64xf32>
    ```
  }];
  let arguments = (ins MPC_ReduceAttr:$kind, Variadic<Plan_Buffer>:$parts,
                       FlatSymbolRefArrayAttr:$owners);
  let assemblyFormat = [{
    custom<Word>($kind) $parts `owners` $owners attr-dict `:` type($parts)
  }];
  let hasVerifier = 1;
}

def Plan_AllGatherOp : Plan_StepOp<"all_gather", [HasParent<"ProgramOp">]> {
  let summary = "gives all ranks buffers that one rank each has";
  let description = [{
    Each buffer is defined on the rank that owns the parameter beside it, and
    then equal on all ranks.

    ```mlir
    %low = plan.state @fc1.weight.low : memref<128x64xbf16>
    %b = plan.state @fc1.bias : memref<64xf32>
    plan.all_gather %low, %b owners [@fc1.weight, @fc1.bias]
        : memref<128x64xbf16>, memref<64xf32>
    ```
  }];
  let arguments = (ins Variadic<Plan_Buffer>:$parts,
                       FlatSymbolRefArrayAttr:$owners);
  let assemblyFormat = "$parts `owners` $owners attr-dict `:` type($parts)";
  let hasVerifier = 1;
}

def Plan_IfOp : Plan_StepOp<"if", [NoTerminator, SingleBlock]> {
  let summary = "runs one list of steps or another";
  let description = [{
    Runs the first list if the predicate is true, else the second, if any.

    ```mlir
    plan.if %finite {
      plan.copy %a to %c : memref<8xf32>, memref<8xf32>
    } else {
      plan.copy %b to %c : memref<8xf32>, memref<8xf32>
    } : memref<i1>
    ```
  }];
  let arguments = (ins Plan_Buffer:$predicate);
  let regions = (region SizedRegion<1>:$then, AnyRegion:$otherwise);
  let assemblyFormat = [{
    $predicate $then (`else` $otherwise^)? attr-dict `:` type($predicate)
  }];
  let hasVerifier = 1;
}

def Plan_ForOp : Plan_StepOp<"for", [NoTerminator, SingleBlock,
    ParentOneOf<["ProgramOp", "ForOp", "IfOp"]>]> {
  let summary = "steps that run `count` times";
  let description = [{
    The loop's parts move from iteration to iteration; all other memory stays
    fixed.

    ```mlir
    plan.for 35 {
      %x = plan.part %xs from 0 by 5120 : memref<35x20x64xf32> to memref<20x64xf32>
      plan.launch @step_1_tanh ins(%x : memref<20x64xf32>)
          outs(%h : memref<20x64xf32>) extent 1280 grain 16384
    }
    ```

    Iterations of a `parallel` loop write only parts, and allocations in the
    arena that the loop declares, so workers of a CPU may run iterations at the
    same time. `plan-assign-offsets` puts these allocations side by side, in
    `private_bytes` from `private_offset`, and each worker has a copy of this
    memory. The pass clears `parallel` if the memory exceeds a cache.

    ```mlir
    plan.for 8 parallel {
      %x = plan.part %xs from 0 by 5120 : memref<8x20x64xf32> to memref<20x64xf32>
      %y = plan.part %ys from 0 by 5120 : memref<8x20x64xf32> to memref<20x64xf32>
      %h = plan.arena at 128 : memref<20x64xf32>
      plan.launch @step_1_tanh ins(%x : memref<20x64xf32>)
          outs(%h : memref<20x64xf32>) extent 1280 grain 16384
      plan.launch @step_1_tanh ins(%h : memref<20x64xf32>)
          outs(%y : memref<20x64xf32>) extent 1280 grain 16384
    } {private_bytes = 5120 : i64, private_offset = 128 : i64}
    ```
  }];
  let arguments = (ins I64Attr:$count, UnitAttr:$parallel,
                       OptionalAttr<I64Attr>:$private_offset,
                       OptionalAttr<I64Attr>:$private_bytes);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$count (`parallel` $parallel^)? $body attr-dict";
  let builders = [OpBuilder<(ins "int64_t":$count, "bool":$isParallel), [{
    build($_builder, $_state, $_builder.getI64IntegerAttr(count),
          isParallel ? $_builder.getUnitAttr() : ::mlir::UnitAttr(),
          ::mlir::IntegerAttr(), ::mlir::IntegerAttr());
  }]>];
  let hasVerifier = 1;
}

#endif // MPC_COMPILER_DIALECT_PLAN_PLANOPS_TD
