// Passes of the Planning stage on regions: who computes each product, and where
// values are read and written.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PLANNING_PLACEMENTPASSES_TD
#define MPC_PASSES_PLANNING_PLACEMENTPASSES_TD

include "mlir/Pass/PassBase.td"

def PlaceContractionsPass : Pass<"plan-place-contractions", "::mlir::func::FuncOp"> {
  let summary = "who does every contraction";
  let description = [{
    Asks compiler/Kernels/ContractionTable.h and gives every region of kind
    contraction the attribute `provider`: on a CPU, for example, float64 and,
    where vectors have less than 512 bits, large products are generated, and
    everything else is oneDNN's. Where the library of the target takes
    no epilogue, as on a GPU, the regions it does are dissolved: a tail that it
    knows becomes part of a `plan.product`, with the gradient of a bias and the
    mask of a relu where the backward pass wants them; any other tail becomes a
    pointwise region that reads the product, in the type the region has it.
    A relu becomes part of one only where the library was asked for: its relu
    of NaN is 0. Otherwise the library adds the bias, and a kernel does the relu.
    A bias of constant zeros, as PyTorch's exporter gives convolutions that have
    none, is not added: the library rounds the product itself.

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

    Which products a library has algorithms for is known on the machine that
    runs them: `unfused` is what kernels do there if it has none for this one.
  }];
  let options = [
    Option<"contractions", "contractions", "std::string", "\"table\"",
           "who does contractions that both can do: table; library, which also "
           "does relu, where NaN becomes 0; generated; or bare: by table, but no "
           "library does what follows one">,
  ];
  let dependentDialects = ["::mpc::MPCDialect", "::mpc::amp::AMPDialect",
                           "::mpc::plan::PlanDialect"];
}

def FoldMovementPass : Pass<"plan-fold-movement", "::mlir::func::FuncOp"> {
  let summary = "kernels and products read and write through transposes";
  let description = [{
    A transpose of whole rows (32 bytes and more) that alone reads what an
    elementwise kernel or a reduction of rows makes becomes the last op of that
    kernel, which stores where the transpose would. What such kernels alone read
    they read through a transpose, as their first op. Where a view with axes in
    parts is between the two, as heads are of the columns of queries, the
    elementwise kernel computes in the shape of the view.

    On a CPU, whose library takes any distance between rows and between
    matrices: an operand of a product that the library does, and that transposes,
    slices, expansions and reshapes make of another value, is read there, through
    `plan.access`, if its rows are still whole. A product whose result a
    transpose of whole rows alone reads writes it as that would: the library
    through `plan.arrange`, a kernel that follows it, or that is generated, with
    the transpose as its last op. So does one that the transpose reads in a view
    which merges axes, as heads are that share keys. Kernels that only moved what
    nobody reads any more go.

    On any target a product whose kernel is generated reads its operands through
    copies of the ops that move them, at the head of its region: for these no code
    is made. Two are left alone: samples that share weights, and so are the rows of
    one matrix, where they would no longer lie evenly; and on a GPU rows that would
    begin where no vector does.

    On a GPU, whose library takes one distance between the matrices of a batch:
    the operands and the result of a product that the library does are left where
    they are if the calls it takes then, one for each index of the other axes of
    the batch, cost less than the kernels that move (`TargetInfo`). The kernel
    of a transpose casts what another kernel would cast for it alone.

    On any target a slice whose elements lie side by side, such as some rows of a
    matrix, is read there too, by whatever reads it.

    Expects providers on contractions, of `plan-place-contractions`.

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

    Afterwards every reader of a `plan.access` whose elements do not lie side by
    side is a product.
  }];
  let dependentDialects = ["::mpc::MPCDialect", "::mpc::plan::PlanDialect"];
}

def FoldPartsPass : Pass<"plan-fold-parts", "::mlir::func::FuncOp"> {
  let summary = "kernels load and store parts of rows";
  let description = [{
    A kernel that only copies a slice of neighbours, such as some columns of a
    matrix, goes where pointwise kernels, reductions of rows and the tails of a
    library's products alone compute with its elements: the slice becomes their
    first op, and they load that part of the whole. So does a kernel that only
    joins values of one shape, all of one pointwise kernel or tail, and read by
    nothing else: the join becomes the last op there, and the values are stored
    side by side.

    Neither where it would take more memory: a whole that would be kept for the
    backward pass for one of its parts, or results that can be written over what
    the kernel reads.

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

    Afterwards kernels hold slices of their arguments and joins of what they
    return, which are no ops to compute but places to load from and store to.
  }];
  let dependentDialects = ["::mpc::MPCDialect"];
}

def AssembleJoinsPass : Pass<"plan-assemble-joins", "::mlir::func::FuncOp"> {
  let summary = "several kernels and products write parts of rows";
  let description = [{
    A kernel that only joins parts of rows becomes `plan.assemble`, which takes no
    step, if kernels and products of its own make each part and nothing else
    reads it: each writes its box of the joined tensor (`plan.place`). These are
    products of libraries alone and with tails, products that are generated, and
    kernels that store rows anywhere. Heads that are columns in the join are a
    box of its view in heads: gradients of queries, keys and values are written
    where the gradient of the product that made all three reads them.

    On a GPU, where vectors of 16 bytes are not at multiples of their size in a
    box, the join stays, and so does one that the function returns.

    Expects joins of what one kernel makes folded by `plan-fold-parts`.

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
  let summary = "rows of whole 16 bytes for products of a GPU's library";
  let description = [{
    On a GPU, where the rows of a product's operand or result are no multiple of
    16 bytes, the library has but slow kernels: scores of 50257 classes are such
    rows. What a product of 16 bits makes or reads has its rows further apart
    then, if all that makes and reads it can do with that: products of the
    library, elementwise kernels and reductions, and views that keep rows as they
    are. Inputs, state and what the function returns stay as they are. Kernels
    load rows through a slice and store them through `plan.place`, products
    read through `plan.access`; what lies behind a row is written by nobody and
    read by nobody. Rows are as long as before: the runtime multiplies what is
    behind their last whole vector apart (`runtime/cuda/ProductPieces`).

    Rows are padded to 128 bytes where that is at most a 64th more memory, else
    to as little as makes them whole vectors of f32 and of 16 bits. It is done
    where products win more time than memory takes for what is added
    (`TargetInfo`): products that read more than they multiply win nothing.

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

    Expects kernels as `plan-assemble-joins` leaves them.
  }];
  let options = [
    Option<"tf32", "tf32", "bool", "false",
           "products of f32 are rounded to tf32, and so on Tensor Cores">,
  ];
  let dependentDialects = ["::mpc::MPCDialect", "::mpc::plan::PlanDialect"];
}

#endif // MPC_PASSES_PLANNING_PLACEMENTPASSES_TD
