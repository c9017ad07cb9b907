// Passes of the Planning stage on regions: they decide who computes each
// product, and where values are read and written.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PLANNING_PLACEMENTPASSES_TD
#define MPC_PASSES_PLANNING_PLACEMENTPASSES_TD

include "mlir/Pass/PassBase.td"

def PlaceContractionsPass : Pass<"plan-place-contractions", "::mlir::func::FuncOp"> {
  let summary = "choose a library or generated code for every contraction";
  let description = [{
    Gives every region of kind contraction the attribute `provider`, as listed
    in compiler/Kernels/ContractionTable.h. On a CPU, for example, float64
    products are generated, and so are large products on vectors of less than
    512 bits. oneDNN computes all others.

    A GPU's library takes no epilogue kernel, so the regions it computes are
    dissolved. Supported epilogues become part of a `plan.product`, with the
    gradient of a bias and the mask of a relu if needed in the backward pass.
    Any other epilogue becomes a pointwise region that reads the product, in the
    type of the region's contraction.

    A relu becomes part of a product only if the user asks for the library,
    whose relu of NaN is 0. Otherwise the library adds the bias, and a kernel
    computes the relu. A bias of constant zeros, which PyTorch's exporter adds
    to convolutions without a bias, is dropped: the library rounds the product.

    Before:

    ```mlir
    func.func @step(%x: tensor<32x64xf32>, %w: tensor<10x64xf32>, %b: tensor<10xf32>)
        -> tensor<32x10xf32> {
      %y = mpc.region contraction (%x, %w, %b) {kernel = "step_0_fc1"}
          : (tensor<32x64xf32>, tensor<10x64xf32>, tensor<10xf32>) -> tensor<32x10xf32> {
      ^bb0(%0: tensor<32x64xf32>, %1: tensor<10x64xf32>, %2: tensor<10xf32>):
        %3 = mpc.matmul %0, %1 {transB = true}
            : (tensor<32x64xf32>, tensor<10x64xf32>) -> tensor<32x10xf32>
        %4 = mpc.add %3, %2 : (tensor<32x10xf32>, tensor<10xf32>) -> tensor<32x10xf32>
        mpc.yield %4 : tensor<32x10xf32>
      }
      return %y : tensor<32x10xf32>
    }
    ```

    After, with `target=x86-64-v4`:

    ```mlir
    %y = mpc.region contraction(%x, %w, %b)
        {kernel = "step_0_fc1", provider = #mpc.provider<library>} ...
    ```

    After, with `target=sm_80`:

    ```mlir
    %output = plan.product bias %x, %w bias(%b : tensor<10xf32>)
        {alpha = 1.000000e+00 : f64, transA = false, transB = true}
        : (tensor<32x64xf32>, tensor<10x64xf32>) -> tensor<32x10xf32> unfused {
    ^bb0(%arg3: tensor<32x10xf32>):
      %0 = mpc.region pointwise(%arg3, %b) {kernel = "step_0_fc1_bias"}
          : (tensor<32x10xf32>, tensor<10xf32>) -> tensor<32x10xf32> {
      ^bb0(%arg4: tensor<32x10xf32>, %arg5: tensor<10xf32>):
        %1 = mpc.add %arg4, %arg5 : (tensor<32x10xf32>, tensor<10xf32>) -> tensor<32x10xf32>
        mpc.yield %1 : tensor<32x10xf32>
      }
      plan.yield %0 : tensor<32x10xf32>
    }
    return %output : tensor<32x10xf32>
    ```

    The library's algorithms for a product are known only at run time. `unfused`
    holds the kernels that run if the library has none.
  }];
  let options = [
    Option<"contractions", "contractions", "std::string", "\"table\"",
           "how contractions that both can do are chosen: table; library, "
           "which also fuses relu, so NaN becomes 0; generated; or bare: like "
           "table, but libraries fuse nothing">,
  ];
  let dependentDialects = ["::mpc::MPCDialect", "::mpc::amp::AMPDialect",
                           "::mpc::plan::PlanDialect"];
}

def FoldMovementPass : Pass<"plan-fold-movement", "::mlir::func::FuncOp"> {
  let summary = "let kernels and products read and write through transposes";
  let description = [{
    Kernels of elementwise ops and of row reductions fuse transposes of whole
    rows (at least 32 bytes). A transpose that is the only user of a kernel's
    result becomes the kernel's last op, so the kernel stores in transposed
    order. A transpose that only elementwise kernels and row reductions read
    becomes the first op of the kernels. If a view that splits axes lies between
    (columns of queries viewed as heads), the elementwise kernel computes in the
    shape of the view.

    On a CPU, the library takes any distance between rows and between matrices.
    So a library product reads operands through `plan.access` from before
    transposes, slices, expansions and reshapes, if rows stay whole. If a
    transpose of whole rows is the only user of a product, the product writes
    the transposed result. The library does so through `plan.arrange`; an
    epilogue kernel or a generated kernel gets the transpose as its last op. A
    view that merges axes (heads that share keys) may lie between product and
    transpose. Movement kernels without users are erased.

    On any target, a generated product reads operands through clones of the
    movement ops at the start of the region. The clones generate no code. There
    are two exceptions. Samples with shared weights are rows of one matrix and
    must stay evenly spaced. On a GPU, rows must start at whole vectors.

    On a GPU, the library takes one distance between the matrices of a batch.
    Operands and results of library products stay in place if the required
    calls, one per index of the other batch axes, cost less than the movement
    kernels (`TargetInfo`). The kernel of a transpose fuses a cast of its
    operand.

    On a GPU, attention of a library takes any distance between samples, heads
    and tokens. It reads heads through `plan.access`, and writes through
    `plan.arrange`, if rows start at whole vectors of 16 bytes. So heads stay
    columns of a projection.

    On any target, a slice of adjacent elements, such as some rows of a matrix,
    becomes a view for all users.

    Expects providers on contractions, from `plan-place-contractions`.

    Before:

    ```mlir
    func.func @step(%x: tensor<8x16x4xf32>, %k: tensor<16x4x8xf32>) -> tensor<16x8x8xf32> {
      %q = mpc.region movement (%x) {kernel = "q"} : (tensor<8x16x4xf32>) -> tensor<16x8x4xf32> {
      ^bb0(%0: tensor<8x16x4xf32>):
        %1 = mpc.transpose %0 {perm = array<i64: 1, 0, 2>}
            : (tensor<8x16x4xf32>) -> tensor<16x8x4xf32>
        mpc.yield %1 : tensor<16x8x4xf32>
      }
      %s = mpc.region contraction (%q, %k) {kernel = "s", provider = #mpc.provider<library>}
          : (tensor<16x8x4xf32>, tensor<16x4x8xf32>) -> tensor<16x8x8xf32> {
      ^bb0(%0: tensor<16x8x4xf32>, %1: tensor<16x4x8xf32>):
        %2 = mpc.matmul %0, %1 : (tensor<16x8x4xf32>, tensor<16x4x8xf32>) -> tensor<16x8x8xf32>
        mpc.yield %2 : tensor<16x8x8xf32>
      }
      return %s : tensor<16x8x8xf32>
    }
    ```

    After, with `target=x86-64-v3`:

    ```mlir
    %0 = plan.access %x {offset = 0 : i64, strides = array<i64: 4, 64, 1>}
        : tensor<8x16x4xf32> to tensor<16x8x4xf32>
    %1 = mpc.region contraction(%0, %k)
        {kernel = "s", provider = #mpc.provider<library>}
        : (tensor<16x8x4xf32>, tensor<16x4x8xf32>) -> tensor<16x8x8xf32> {
    ^bb0(%arg2: tensor<16x8x4xf32>, %arg3: tensor<16x4x8xf32>):
      %2 = mpc.matmul %arg2, %arg3
          : (tensor<16x8x4xf32>, tensor<16x4x8xf32>) -> tensor<16x8x8xf32>
      mpc.yield %2 : tensor<16x8x8xf32>
    }
    return %1 : tensor<16x8x8xf32>
    ```

    Afterwards, only products and attention read a `plan.access` of elements
    that are not adjacent.
  }];
  let dependentDialects = ["::mpc::MPCDialect", "::mpc::plan::PlanDialect"];
}

def FoldPartsPass : Pass<"plan-fold-parts", "::mlir::func::FuncOp"> {
  let summary = "let kernels load and store parts of rows";
  let description = [{
    Folds a kernel that only copies a slice of adjacent elements (some columns
    of a matrix, say) into all users, if these are pointwise kernels, row
    reductions or epilogues of library products and read element by element. The
    slice becomes the first op of each user, so the user loads a part of the
    whole. Also folds a kernel that only joins equally shaped values, if one
    pointwise kernel or epilogue makes all values and nothing else reads them.
    The join becomes the last op there, and the values are stored side by side.

    The pass omits a fold that would need more memory. A slice is not folded if
    the backward pass would then keep the whole for a single part. A join is not
    folded if separate results could overwrite operands of the kernel, but the
    join could not.

    Expects updates merged by `plan-merge-updates`, which compares kernels.

    Before:

    ```mlir
    func.func @step(%h: tensor<8x64xf32>) -> tensor<8x32xf32> {
      %u = mpc.region movement (%h) {kernel = "u"} : (tensor<8x64xf32>) -> tensor<8x32xf32> {
      ^bb0(%0: tensor<8x64xf32>):
        %1 = mpc.slice %0 {offsets = array<i64: 0, 32>, sizes = array<i64: 8, 32>}
            : (tensor<8x64xf32>) -> tensor<8x32xf32>
        mpc.yield %1 : tensor<8x32xf32>
      }
      %y = mpc.region pointwise (%u) {kernel = "y"} : (tensor<8x32xf32>) -> tensor<8x32xf32> {
      ^bb0(%0: tensor<8x32xf32>):
        %1 = mpc.relu %0 : (tensor<8x32xf32>) -> tensor<8x32xf32>
        mpc.yield %1 : tensor<8x32xf32>
      }
      return %y : tensor<8x32xf32>
    }
    ```

    After:

    ```mlir
    %0 = mpc.region pointwise(%h) {kernel = "y"}
        : (tensor<8x64xf32>) -> tensor<8x32xf32> {
    ^bb0(%arg1: tensor<8x64xf32>):
      %1 = mpc.slice %arg1 {offsets = array<i64: 0, 32>, sizes = array<i64: 8, 32>}
          : (tensor<8x64xf32>) -> tensor<8x32xf32>
      %2 = mpc.relu %1 : (tensor<8x32xf32>) -> tensor<8x32xf32>
      mpc.yield %2 : tensor<8x32xf32>
    }
    return %0 : tensor<8x32xf32>
    ```

    Afterwards kernels may hold slices of arguments and joins of results. These
    are no computations, but places to load from and store to.
  }];
  let dependentDialects = ["::mpc::MPCDialect"];
}

def AssembleJoinsPass : Pass<"plan-assemble-joins", "::mlir::func::FuncOp"> {
  let summary = "let several kernels and products write parts of the same "
                "rows";
  let description = [{
    A kernel that only joins parts of rows becomes `plan.assemble`, which takes
    no step, if separate kernels and products make the parts and nothing else
    reads the parts. Each maker writes its box of the joined tensor
    (`plan.place`). Makers are library products with or without epilogues,
    generated products, and kernels that store rows anywhere. Heads that are
    columns in the join form a box of the join viewed in heads. So the gradients
    of queries, keys and values are written where the gradient of the common
    product reads.

    On a GPU, the join stays if the box is not aligned to vectors of 16 bytes. A
    join that the function returns always stays.

    Expects `plan-fold-parts` to have folded joins of the results of one kernel.

    Before:

    ```mlir
    func.func @step(%a: tensor<2x3x4x5xf32>, %b: tensor<2x3x5x4xf32>, %x: tensor<2x4x12xf32>)
        -> tensor<2x4x24xf32> {
      %0 = mpc.region contraction (%a, %b) {kernel = "heads", provider = #mpc.provider<library>}
          : (tensor<2x3x4x5xf32>, tensor<2x3x5x4xf32>) -> tensor<2x4x3x4xf32> {
      ^bb0(%arg0: tensor<2x3x4x5xf32>, %arg1: tensor<2x3x5x4xf32>):
        %3 = mpc.matmul %arg0, %arg1
            : (tensor<2x3x4x5xf32>, tensor<2x3x5x4xf32>) -> tensor<2x3x4x4xf32>
        %4 = mpc.relu %3 : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
        %5 = mpc.transpose %4 {perm = array<i64: 0, 2, 1, 3>}
            : (tensor<2x3x4x4xf32>) -> tensor<2x4x3x4xf32>
        mpc.yield %5 : tensor<2x4x3x4xf32>
      }
      %h = mpc.reshape %0 : (tensor<2x4x3x4xf32>) -> tensor<2x4x12xf32>
      %1 = mpc.region pointwise (%x) {kernel = "rows"}
          : (tensor<2x4x12xf32>) -> tensor<2x4x12xf32> {
      ^bb0(%arg0: tensor<2x4x12xf32>):
        %3 = mpc.relu %arg0 : (tensor<2x4x12xf32>) -> tensor<2x4x12xf32>
        mpc.yield %3 : tensor<2x4x12xf32>
      }
      %2 = mpc.region movement (%h, %1) {kernel = "join"}
          : (tensor<2x4x12xf32>, tensor<2x4x12xf32>) -> tensor<2x4x24xf32> {
      ^bb0(%arg0: tensor<2x4x12xf32>, %arg1: tensor<2x4x12xf32>):
        %3 = mpc.concat %arg0, %arg1 {axis = 2 : i64}
            : (tensor<2x4x12xf32>, tensor<2x4x12xf32>) -> tensor<2x4x24xf32>
        mpc.yield %3 : tensor<2x4x24xf32>
      }
      %y = mpc.region pointwise (%2) {kernel = "y"} : (tensor<2x4x24xf32>) -> tensor<2x4x24xf32> {
      ^bb0(%arg0: tensor<2x4x24xf32>):
        %3 = mpc.sqrt %arg0 : (tensor<2x4x24xf32>) -> tensor<2x4x24xf32>
        mpc.yield %3 : tensor<2x4x24xf32>
      }
      return %y : tensor<2x4x24xf32>
    }
    ```

    After, with `target=x86-64-v3`:

    ```mlir
    %0 = mpc.region contraction(%a, %b) {kernel = "heads", provider = #mpc.provider<library>}
        : (tensor<2x3x4x5xf32>, tensor<2x3x5x4xf32>) -> tensor<2x4x6x4xf32> {
    ^bb0(%arg3: tensor<2x3x4x5xf32>, %arg4: tensor<2x3x5x4xf32>):
      %4 = mpc.matmul %arg3, %arg4
          : (tensor<2x3x4x5xf32>, tensor<2x3x5x4xf32>) -> tensor<2x3x4x4xf32>
      %5 = mpc.relu %4 : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
      %6 = mpc.transpose %5 {perm = array<i64: 0, 2, 1, 3>}
          : (tensor<2x3x4x4xf32>) -> tensor<2x4x3x4xf32>
      %7 = plan.place %6 : tensor<2x4x3x4xf32> to tensor<2x4x6x4xf32>
      mpc.yield %7 : tensor<2x4x6x4xf32>
    }
    %1 = mpc.region pointwise(%x) {kernel = "rows"} : (tensor<2x4x12xf32>) -> tensor<2x4x24xf32> {
    ^bb0(%arg3: tensor<2x4x12xf32>):
      %4 = mpc.relu %arg3 : (tensor<2x4x12xf32>) -> tensor<2x4x12xf32>
      %5 = plan.place %4 {offsets = array<i64: 0, 0, 12>}
          : tensor<2x4x12xf32> to tensor<2x4x24xf32>
      mpc.yield %5 : tensor<2x4x24xf32>
    }
    %2 = plan.assemble %0, %1
        : (tensor<2x4x6x4xf32>, tensor<2x4x24xf32>) -> tensor<2x4x24xf32>
    %3 = mpc.region pointwise(%2) {kernel = "y"} : (tensor<2x4x24xf32>) -> tensor<2x4x24xf32> {
    ^bb0(%arg3: tensor<2x4x24xf32>):
      %4 = mpc.sqrt %arg3 : (tensor<2x4x24xf32>) -> tensor<2x4x24xf32>
      mpc.yield %4 : tensor<2x4x24xf32>
    }
    return %3 : tensor<2x4x24xf32>
    ```
  }];
  let dependentDialects = ["::mpc::MPCDialect", "::mpc::plan::PlanDialect"];
}

def PadRowsPass : Pass<"plan-pad-rows", "::mlir::func::FuncOp"> {
  let summary = "pad rows to a multiple of 16 bytes for products of a GPU's "
                "library";
  let description = [{
    On a GPU, the library has only slow kernels if rows of a product's operand
    or result are not multiples of 16 bytes, such as scores of 50257 classes. So
    products on Tensor Cores get operands and results with padded rows, if the
    maker and all users accept padded rows: library products, elementwise
    kernels and reductions, and views that keep rows whole. Inputs, state and
    returned values stay unchanged. Kernels load rows through a slice and store
    rows through `plan.place`; products read through `plan.access`. Nothing
    reads or writes the padding. The length of rows stays: the runtime
    multiplies the elements after the last whole vector separately
    (`runtime/cuda/ProductParts`).

    Rows are padded to 128 bytes for at most 1/64 more memory, else to the next
    multiple that holds whole vectors of f32 and of 16 bits. Values are padded
    if products save more time than memory takes for the padding (`TargetInfo`).
    Products that read more than they multiply save nothing.

    Before:

    ```mlir
    func.func @step(%x: tensor<512x256xbf16>, %w: tensor<1003x256xbf16>) -> tensor<512x1xf32> {
      %s = mpc.matmul %x, %w {transB = true}
          : (tensor<512x256xbf16>, tensor<1003x256xbf16>) -> tensor<512x1003xf32>
      %y = mpc.region row_reduce (%s) {kernel = "y"} : (tensor<512x1003xf32>) -> tensor<512x1xf32> {
      ^bb0(%0: tensor<512x1003xf32>):
        %1 = mpc.reduce_max %0 {axes = array<i64: 1>, keepdims = true}
            : (tensor<512x1003xf32>) -> tensor<512x1xf32>
        mpc.yield %1 : tensor<512x1xf32>
      }
      return %y : tensor<512x1xf32>
    }
    ```

    After, with `target=sm_90`:

    ```mlir
    %0 = mpc.matmul %x, %w {transB = true}
        : (tensor<512x256xbf16>, tensor<1003x256xbf16>) -> tensor<512x1003xf32>
    %1 = plan.place %0 : tensor<512x1003xf32> to tensor<512x1008xf32>
    %2 = mpc.region row_reduce(%1) {kernel = "y"} : (tensor<512x1008xf32>) -> tensor<512x1xf32> {
    ^bb0(%arg2: tensor<512x1008xf32>):
      %3 = mpc.slice %arg2 {offsets = array<i64: 0, 0>, sizes = array<i64: 512, 1003>}
          : (tensor<512x1008xf32>) -> tensor<512x1003xf32>
      %4 = mpc.reduce_max %3 {axes = array<i64: 1>, keepdims = true}
          : (tensor<512x1003xf32>) -> tensor<512x1xf32>
      mpc.yield %4 : tensor<512x1xf32>
    }
    return %2 : tensor<512x1xf32>
    ```

    Expects kernels as left by `plan-assemble-joins`.
  }];
  let dependentDialects = ["::mpc::MPCDialect", "::mpc::plan::PlanDialect"];
}

#endif // MPC_PASSES_PLANNING_PLACEMENTPASSES_TD
