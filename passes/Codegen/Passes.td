// The passes of the Codegen stage, in the order they run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_PASSES_TD
#define MPC_PASSES_CODEGEN_PASSES_TD

include "mlir/Pass/PassBase.td"

def EmitKernelsPass : Pass<"mpc-emit-kernels", "::mlir::ModuleOp"> {
  let summary = "turn kernel functions on tensors into loops over buffers";
  let description = [{
    Replaces every function with the attribute `mpc.kernel` by one of the same
    name that takes the buffers of its arguments and results, flat, and the
    bounds of `runtime/ABI.h`, and computes the results there. Floats are
    computed in f32 (f64 where an f64 takes part), in vectors of the target's
    width; narrower types exist at loads, at stores and where an op's result
    rounds to them. The order of every sum depends on shapes alone. Where the
    kernel's partition has scratch, that many bytes follow the bounds.

    Before (test/passes/Codegen/emit-kernels.mlir):

    ```mlir
    func.func private @scale(%x: tensor<64xf32>, %s: tensor<f32>) -> tensor<64xf32>
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %y = mpc.mul %x, %s : (tensor<64xf32>, tensor<f32>) -> tensor<64xf32>
      return %y : tensor<64xf32>
    }
    ```

    After:

    ```mlir
    func.func @scale(%x: memref<64xf32>, %s: memref<1xf32>, %y: memref<64xf32>,
                     %begin: index, %end: index) attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = memref.load %s[%c0] : memref<1xf32>
      scf.for %i = %begin to %middle step %c16 {
        %1 = vector.load %x[%i] : memref<64xf32>, vector<16xf32>
        %2 = vector.broadcast %0 : f32 to vector<16xf32>
        %3 = arith.mulf %1, %2 : vector<16xf32>
        vector.store %3, %y[%i] : memref<64xf32>, vector<16xf32>
      }
      ...
    ```

    On a GPU one thread of a block is emitted. Which slice is its block's it
    knows from the block's number, so there are no bounds; its vectors follow
    those of its neighbours, and its part of a sum is combined with theirs by
    shuffles and through shared memory:

    ```mlir
    func.func @scale(%x: memref<64xf32, 1> {llvm.align = 16}, ...)
        attributes {mpc.kernel = #mpc.kernel<pointwise>, mpc.threads = 256} {
      %thread = nvvm.read.ptx.sreg.tid.x range <i32, 0, 256> : i32
      ...
      scf.for %i = %first to %end step %c1024 {
        %1 = vector.load %x[%i] {alignment = 16 : i64} : memref<64xf32, 1>, vector<4xf32>
    ```

    Afterwards no function with `mpc.kernel` has an op of the mpc or amp dialect.
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
    exp, log, log1p and tanh of f32 become polynomials, which vectorise; those of
    f64, and powers, become calls of libm, on a GPU arithmetic: there, what has no
    code is an error. Conversions of bf16 and f16 become
    integer arithmetic, and fused multiply-adds a product and a sum, where the
    target has no instructions for them.

    ```mlir
    %0 = math.exp %x : f64      // -> call @exp(%x)
    %1 = math.exp %y : vector<16xf32>   // -> arith, vector and math.fma ops
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
    Takes kernels without loops of the scf dialect and functions of the math
    dialect that have no instruction. Buffers become pointers with the address
    space of their memory, indices words of 32 bits (64 where a buffer has more
    than 2^30 elements), and nothing but the LLVM and NVVM dialects is left
    of the kernels.

    ```mlir
    func.func @scale(%x: memref<64xf32, 1>, ...) attributes {nvvm.kernel}
      %0 = vector.load %x[%i] {alignment = 16 : i64} : memref<64xf32, 1>, vector<4xf32>
    // ->
    llvm.func @scale(%x: !llvm.ptr<1>, ...) attributes {nvvm.kernel}
      %0 = llvm.getelementptr %x[%i] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
      %1 = llvm.load %0 {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
    ```
  }];
  // And NVVM: see NVVMOps.h.
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

def ConvertHalvesToBitsPass : Pass<"mpc-convert-halves-to-bits", "::mlir::ModuleOp"> {
  let summary = "move 16-bit floats as integers where the CPU lacks them";
  let description = [{
    After conversion to the LLVM dialect, on kernels whose conversions of f16 or
    bf16 `mpc-lower-math` has expanded: the values left are loaded, stored and
    moved between lanes, as i16. None of those types is left where the target
    has no instructions for it.

    ```mlir
    llvm.func @fill(%x: i16, %y: !llvm.ptr)
      %0 = llvm.bitcast %x : i16 to bf16
      llvm.store %0, %y : bf16, !llvm.ptr
    // ->
      %0 = llvm.bitcast %x : i16 to i16
      llvm.store %0, %y : i16, !llvm.ptr
    ```
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

def AddKernelEntriesPass : Pass<"mpc-add-kernel-entries", "::mlir::ModuleOp"> {
  let summary = "give every kernel the signature the runtime calls";
  let description = [{
    After conversion to the LLVM dialect: a kernel becomes the internal function
    `NAME.body`, and NAME a function of the type `mpc_kernel_fn` or
    `mpc_epilogue_fn` (`runtime/ABI.h`) that loads the buffers' addresses and
    calls it, with the worker's scratch memory where the kernel needs some.

    ```mlir
    llvm.func internal @scale.body(%x: !llvm.ptr, ..., %begin: i64, %end: i64)
    llvm.func @scale(%args: !llvm.ptr, %begin: i64, %end: i64, %scratch: !llvm.ptr) {
      %0 = llvm.load %args : !llvm.ptr -> !llvm.ptr
      ...
      llvm.call @scale.body(%0, ..., %begin, %end)
      llvm.return
    }
    ```
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

#endif // MPC_PASSES_CODEGEN_PASSES_TD
