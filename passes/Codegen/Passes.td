// The passes of the Codegen stage, in the order they run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_PASSES_TD
#define MPC_PASSES_CODEGEN_PASSES_TD

include "mlir/Pass/PassBase.td"

def EmitKernelsPass : Pass<"mpc-emit-kernels", "::mlir::ModuleOp"> {
  let summary = "turn kernel functions on tensors into loops over buffers";
  let description = [{
    Replaces every function with the attribute `mpc.kernel` by a function of
    equal name that computes the results in memory. The new function takes the
    flat buffers of all arguments and results, then the bounds of
    `runtime/ABI.h`. Scratch memory follows the bounds if the kernel's partition
    has any.

    Floats are computed in f32 (f64 if an f64 takes part), in vectors of the
    target's width. Narrower types exist only at loads, at stores and where an
    op's result rounds to a narrower type. The order of every sum depends on
    shapes alone.

    Before:

    ```mlir
    func.func private @scale(%x: tensor<4096xf32>, %s: tensor<f32>) -> tensor<4096xf32>
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %y = mpc.mul %x, %s : (tensor<4096xf32>, tensor<f32>) -> tensor<4096xf32>
      return %y : tensor<4096xf32>
    }
    ```

    After, with `target=x86-64-v4`:

    ```mlir
    func.func @scale(%x: memref<4096xf32>, %s: memref<1xf32>, %y: memref<4096xf32>,
        %begin: index, %end: index) attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      ...
      %factor = memref.load %s[%c0] : memref<1xf32>
      ...
      scf.for %i = %begin to %middle step %c16 {
        %0 = vector.load %x[%i] : memref<4096xf32>, vector<16xf32>
        %1 = vector.broadcast %factor : f32 to vector<16xf32>
        %2 = arith.mulf %0, %1 : vector<16xf32>
        vector.store %2, %y[%i] : memref<4096xf32>, vector<16xf32>
      }
      ...
      scf.for %i = %middle to %end step %c1 {
        %0 = memref.load %x[%i] : memref<4096xf32>
        %1 = arith.mulf %0, %factor : f32
        memref.store %1, %y[%i] : memref<4096xf32>
      }
      return
    }
    ```

    On a GPU the pass emits one thread of a block. The block's number determines
    the slice, so there are no bounds. A thread's vectors follow the vectors of
    its neighbours. Shuffles and shared memory combine the threads' parts of a
    sum.

    After, with `target=sm_80`:

    ```mlir
    func.func @scale(%x: memref<4096xf32, 1> {llvm.align = 16 : i64}, %s: ..., %y: ...)
        attributes {mpc.kernel = #mpc.kernel<pointwise>, mpc.threads = 256 : i32} {
      %thread = nvvm.read.ptx.sreg.tid.x range <i32, 0, 256> : i32
      ...
      %block = nvvm.read.ptx.sreg.ctaid.x : i32
      ...
      scf.for %i = %first to %end step %c1024 {
        %0 = vector.load %x[%i] {alignment = 16 : i64} : memref<4096xf32, 1>, vector<4xf32>
        %1 = vector.broadcast %factor : f32 to vector<4xf32>
        %2 = arith.mulf %0, %1 : vector<4xf32>
        vector.store %2, %y[%i]
            {alignment = 16 : i64} : memref<4096xf32, 1>, vector<4xf32>
      }
      return
    }
    ```

    At the end, no function with `mpc.kernel` has an op of the mpc or amp
    dialect.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect",
  ];
}

def LowerMathPass : Pass<"mpc-lower-math", "::mlir::ModuleOp"> {
  let summary = "turn functions of the math dialect into arithmetic or calls";
  let description = [{
    exp, log, log1p, tanh and erf of f32 become polynomials, which vectorise. On
    a GPU, exp and tanh of f32 use the instructions for powers of two and
    reciprocals instead. Functions of f64, and powers, become calls of libm, or
    arithmetic on a GPU. A function without code on a GPU is an error.

    Conversions of bf16 and f16 become integer arithmetic, and fused
    multiply-adds a product and a sum, if the target has no instructions for
    them.

    Before:

    ```mlir
    func.func @kernel(%x: f64, %y: vector<16xf32>) -> (f64, vector<16xf32>) {
      %0 = math.exp %x : f64
      %1 = math.exp %y : vector<16xf32>
      return %0, %1 : f64, vector<16xf32>
    }
    ```

    After, with `target=x86-64-v4`:

    ```mlir
    func.func private @exp(f64) -> f64 attributes {llvm.readnone}
    func.func @kernel(%x: f64, %y: vector<16xf32>) -> (f64, vector<16xf32>) {
      ...
      %0 = call @exp(%x) : (f64) -> f64
      %1 = arith.cmpf uge, %y, %least : vector<16xf32>
      ...
      %p = math.fma %q, %r, %c : vector<16xf32>
      ...
      return %0, %2 : f64, vector<16xf32>
    }
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::math::MathDialect", "::mlir::vector::VectorDialect",
    "::mlir::LLVM::LLVMDialect",
  ];
}

def ConvertToNVVMPass : Pass<"mpc-convert-to-nvvm", "::mlir::ModuleOp"> {
  let summary = "turn the kernels of a GPU into the LLVM dialect";
  let description = [{
    Expects kernels without loops of the scf dialect, and without math functions
    that have no instruction. Buffers become pointers with the address space of
    their memory. Indices become 32-bit words, or 64-bit words if a buffer has
    more than 2^30 elements. Only the LLVM and NVVM dialects are left in the
    kernels.

    Before:

    ```mlir
    func.func @copy(%x: memref<64xf32, 1>, %y: memref<64xf32, 1>)
        attributes {mpc.kernel = #mpc.kernel<pointwise>, mpc.threads = 128 : i32} {
      %0 = nvvm.read.ptx.sreg.tid.x : i32
      %i = arith.index_castui %0 : i32 to index
      %1 = vector.load %x[%i] {alignment = 16 : i64} : memref<64xf32, 1>, vector<4xf32>
      vector.store %1, %y[%i] {alignment = 16 : i64} : memref<64xf32, 1>, vector<4xf32>
      return
    }
    ```

    After:

    ```mlir
    llvm.func @copy(%x: !llvm.ptr<1>, %y: !llvm.ptr<1>)
        attributes {nvvm.kernel, nvvm.maxntid = array<i32: 128>, nvvm.minctasm = 1 : i32} {
      ...
      %i = nvvm.read.ptx.sreg.tid.x : i32
      ...
      %0 = llvm.getelementptr %from[%i] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
      %1 = llvm.load %0 {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
      ...
      %2 = llvm.getelementptr %to[%i] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
      llvm.store %1, %2 {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
      llvm.return
    }
    ```
  }];
  // Also depends on NVVM, which is registered by hand: see NVVMOps.h.
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

def ConvertHalvesToBitsPass : Pass<"mpc-convert-halves-to-bits", "::mlir::ModuleOp"> {
  let summary = "move 16-bit floats as integers where the CPU lacks them";
  let description = [{
    Runs after the conversion to the LLVM dialect, on kernels whose f16 or bf16
    conversions `mpc-lower-math` has expanded. The remaining values are only
    loaded, stored and moved between lanes, so i16 can replace them. At the end,
    no type without instructions on the target is left.

    Before:

    ```mlir
    llvm.func @fill(%x: i16, %y: !llvm.ptr) {
      %0 = llvm.bitcast %x : i16 to bf16
      llvm.store %0, %y : bf16, !llvm.ptr
      llvm.return
    }
    ```

    After, with `target=x86-64`:

    ```mlir
    llvm.func @fill(%x: i16, %y: !llvm.ptr) {
      %0 = llvm.bitcast %x : i16 to i16
      llvm.store %0, %y : i16, !llvm.ptr
      llvm.return
    }
    ```
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

def AddKernelEntriesPass : Pass<"mpc-add-kernel-entries", "::mlir::ModuleOp"> {
  let summary = "give every kernel the signature the runtime calls";
  let description = [{
    Runs after the conversion to the LLVM dialect. A kernel NAME becomes the
    internal function `NAME.body`. A new function NAME of type `mpc_kernel_fn`
    or `mpc_epilogue_fn` (`runtime/ABI.h`) loads the buffers' addresses and
    calls the body. The worker's scratch memory is passed on if the kernel needs
    any.

    Before:

    ```mlir
    llvm.func @copy(%x: !llvm.ptr, %y: !llvm.ptr, %begin: i64, %end: i64)
        attributes {mpc.kernel = #mpc.kernel<movement>} {
      llvm.return
    }
    ```

    After:

    ```mlir
    llvm.func internal @copy.body(%x: !llvm.ptr, %y: !llvm.ptr, %begin: i64, %end: i64)
        attributes {always_inline, ...} {
      llvm.return
    }
    llvm.func @copy(%args: !llvm.ptr, %begin: i64, %end: i64, %scratch: !llvm.ptr)
        attributes {...} {
      %0 = llvm.getelementptr %args[0] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
      %x = llvm.load %0 : !llvm.ptr -> !llvm.ptr
      %1 = llvm.getelementptr %args[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
      %y = llvm.load %1 : !llvm.ptr -> !llvm.ptr
      llvm.call @copy.body(%x, %y, %begin, %end) : (!llvm.ptr, !llvm.ptr, i64, i64) -> ()
      llvm.return
    }
    ```
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

#endif // MPC_PASSES_CODEGEN_PASSES_TD
