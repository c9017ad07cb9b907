// RUN: mpc-opt %s --split-input-file --verify-diagnostics

plan.program @f {
  // expected-error @below {{unknown role "weight"}}
  %x = plan.input "x" role weight : memref<4xf32>
}

// -----

plan.program @f {
  // expected-error @below {{'plan.input' op expected a role of inputs, found loss}}
  %x = plan.input "x" role loss : memref<4xf32>
}

// -----

plan.program @f {
  %x = plan.arena : memref<4xf32>
  // expected-error @below {{'plan.output' op expected a role of outputs, found data}}
  plan.output "x" role data %x : memref<4xf32>
}

// -----

plan.program @f {
  // expected-error @below {{'plan.input' op expected boxes of indices within an integer buffer, found [}}
  %ids = plan.input "ids" role data indices [{begin = array<i64: 0>, end = array<i64: 5>, size = 9 : i64}] : memref<4xi64>
}

// -----

plan.program @f {
  // expected-error @below {{'plan.state' op no mpc.variable @w}}
  %w = plan.state @w : memref<4xf32>
}

// -----

mpc.variable @w : tensor<4xf32> role parameter
plan.program @f {
  // expected-error @below {{'plan.state' op expected a buffer for 'tensor<4xf32>', found 'memref<5xf32>'}}
  %w = plan.state @w : memref<5xf32>
}

// -----

plan.program @f {
  // expected-error @below {{expected an offset that is a multiple of 64, found 4}}
  %a = plan.arena at 4 : memref<4xf32>
}

// -----

plan.program @f attributes {arena_bytes = 64 : i64} {
  // expected-error @below {{reaches to byte 128 of an arena of 64}}
  %a = plan.arena at 64 : memref<16xf32>
}

// -----

plan.program @f {
  %a = plan.arena : memref<4xf32>
  // expected-error @below {{expected 4 elements of 'f32', found 'memref<5xf32>'}}
  %v = plan.view %a : memref<4xf32> to memref<5xf32>
}

// -----

plan.program @f {
  %x = plan.input "x" role data : memref<4xf32>
  %v = plan.view %x : memref<4xf32> to memref<2x2xf32>
  %a = plan.arena : memref<2x2xf32>
  // expected-error @below {{'plan.copy' op writes to an input or a constant}}
  plan.copy %a to %v : memref<2x2xf32>, memref<2x2xf32>
}

// -----

plan.program @f {
  %a = plan.arena : memref<4x3xf32>
  %b = plan.arena : memref<4x2xf32>
  // expected-error @below {{expected rows within}}
  plan.copy %a to %b {rows = 4 : i64, offset = 8 : i64, stride = 12 : i64} : memref<4x3xf32>, memref<4x2xf32>
}

// -----

plan.program @rows_behind_the_destination {
  %a = plan.arena : memref<4x3xf32>
  %b = plan.arena : memref<4x2xf32>
  // expected-error @below {{expected rows within}}
  plan.copy %a to %b {rows = 4 : i64, stride = 12 : i64, row_bytes = 8 : i64, to_offset = 4 : i64, to_stride = 8 : i64} : memref<4x3xf32>, memref<4x2xf32>
}

// -----

plan.program @f {
  %a = plan.arena : memref<4x3xf32>
  %b = plan.arena : memref<4x2xf32>
  // expected-error @below {{expected rows within}}
  plan.copy %a to %b {rows = 4 : i64, offset = -4 : i64, stride = 12 : i64} : memref<4x3xf32>, memref<4x2xf32>
}

// -----

plan.program @f {
  %a = plan.arena : memref<4x3xf32>
  %b = plan.arena : memref<4x2xf32>
  // expected-error @below {{expected rows within}}
  plan.copy %a to %b {rows = 4 : i64, stride = 4 : i64} : memref<4x3xf32>, memref<4x2xf32>
}

// -----

plan.program @f {
  %a = plan.arena : memref<4x3xf32>
  %b = plan.arena : memref<4x2xf32>
  // expected-error @below {{expected rows within}}
  plan.copy %a to %b {rows = 4 : i64, stride = 4611686018427387904 : i64} : memref<4x3xf32>, memref<4x2xf32>
}

// -----

plan.program @f {
  %a = plan.arena : memref<4x3xf32>
  %b = plan.arena : memref<4x2xf32>
  // expected-error @below {{expected rows that fill}}
  plan.copy %a to %b {rows = 3 : i64, stride = 12 : i64} : memref<4x3xf32>, memref<4x2xf32>
}

// -----

plan.program @f {
  %a = plan.arena : memref<4x3xf32>
  %b = plan.arena : memref<4x2xf32>
  // expected-error @below {{expected rows that fill}}
  plan.copy %a to %b {rows = 0 : i64, stride = 12 : i64} : memref<4x3xf32>, memref<4x2xf32>
}

// -----

plan.program @f {
  %a = plan.arena : memref<4x3xf32>
  %b = plan.arena : memref<4x2xi32>
  // expected-error @below {{expected buffers of one element type}}
  plan.copy %a to %b {rows = 4 : i64, stride = 12 : i64} : memref<4x3xf32>, memref<4x2xi32>
}

// -----

plan.program @f {
  %a = plan.arena : memref<4xf32>
  // expected-error @below {{buffers do not fit the arguments and results of @k}}
  plan.launch @k ins(%a : memref<4xf32>) outs(%a : memref<4xf32>) extent 4 grain 64
}
func.func private @k(%x: tensor<8xf32>) -> tensor<8xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  return %x : tensor<8xf32>
}

// -----

plan.program @f {
  %a = plan.arena : memref<8xf32>
  // expected-error @below {{expected @k to be a kernel that is no epilogue}}
  plan.launch @k ins(%a : memref<8xf32>) outs(%a : memref<8xf32>) extent 4 grain 64
}
func.func private @k(%x: tensor<8xf32>) -> tensor<8xf32> attributes {mpc.kernel = #mpc.kernel<epilogue>} {
  return %x : tensor<8xf32>
}

// -----

plan.program @f {
  %a = plan.arena : memref<8xf32>
  // expected-error @below {{the extent is negative or the grain is not positive}}
  plan.launch @k outs(%a : memref<8xf32>) extent 4 grain 0
}

// -----

plan.program @f {
  %a = plan.arena : memref<4x4xf32>
  // expected-error @below {{expected either a result buffer or an epilogue}}
  plan.matmul %a, %a
      shape <m = 4, n = 4, k = 4, lda = 4, ldb = 4, ldc = 4, tile_m = 4, tile_n = 4>
      axes <stride_c = 16> {alpha = 1.0 : f64} : memref<4x4xf32>, memref<4x4xf32>
}

// -----

plan.program @f {
  %a = plan.arena : memref<4xf32>
  // expected-error @below {{expected a predicate of one i1, found 'memref<4xf32>'}}
  plan.if %a {
  } : memref<4xf32>
}

// -----

plan.program @f {
  %p = plan.arena : memref<i1>
  // expected-error @below {{expected memory and steps, found 'plan.output'}}
  plan.if %p {
  } else {
    plan.output "y" role output %p : memref<i1>
  } : memref<i1>
}

// -----

plan.program @f {
  %a = plan.arena : memref<8xf32>
  // expected-error @below {{threads and shared memory are only for GPUs}}
  plan.launch @k outs(%a : memref<8xf32>) extent 4 grain 1 {shared_bytes = 64 : i64}
}

// -----

plan.program @f {
  %a = plan.arena : memref<8xf32>
  // expected-error @below {{scratch memory is only for CPUs}}
  plan.launch @k outs(%a : memref<8xf32>) extent 4 grain 1 threads 32 {scratch_bytes = 64 : i64}
}

// -----

plan.program @f {
  %a = plan.arena : memref<8xf32>
  // expected-error @below {{a worker cannot have that much scratch memory}}
  plan.launch @k outs(%a : memref<8xf32>) extent 4 grain 1 {scratch_bytes = -1 : i64}
}

// -----

plan.program @f {
  %a = plan.arena : memref<8xf32>
  // expected-error @below {{a block has between 1 and 1024 threads}}
  plan.launch @k outs(%a : memref<8xf32>) extent 4 grain 1 threads 2048
}

// -----

plan.program @f {
  %a = plan.arena : memref<4x4xf32>
  %c = plan.arena : memref<4x4xf32>
  // expected-error @below {{unknown kind of fused product "gelu"}}
  plan.matmul %a, %a into %c : memref<4x4xf32> fused gelu
      shape <m = 4, n = 4, k = 4, lda = 4, ldb = 4, ldc = 4>
      axes <stride_c = 16> {alpha = 1.0 : f64} : memref<4x4xf32>, memref<4x4xf32>
}

// -----

plan.program @f {
  %a = plan.arena : memref<4x4xf32>
  %c = plan.arena : memref<4x4xf32>
  %b = plan.arena : memref<4xf32>
  // expected-error @below {{expected only launches in unfused}}
  plan.matmul %a, %a into %c : memref<4x4xf32> fused bias bias(%b : memref<4xf32>)
      shape <m = 4, n = 4, k = 4, lda = 4, ldb = 4, ldc = 4>
      axes <stride_c = 16> {alpha = 1.0 : f64} : memref<4x4xf32>, memref<4x4xf32> unfused {
    plan.copy %a to %c : memref<4x4xf32>, memref<4x4xf32>
  }
}

// -----

func.func @f(%x: tensor<4x4xf32>, %b: tensor<4xf32>) -> tensor<4x4xf32> {
  // expected-error @below {{expected unfused to take 'tensor<4x4xf32>' and to yield 'tensor<4x4xf32>'}}
  %y = plan.product bias %x, %x bias(%b : tensor<4xf32>) {transA = false, transB = false, alpha = 1.0 : f64}
      : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> unfused {
  ^bb0(%p: tensor<4x4xf32>):
    plan.yield %b : tensor<4xf32>
  }
  return %y : tensor<4x4xf32>
}

// -----

plan.program @f {
  %a = plan.arena : memref<4x4xf32>
  %c = plan.arena : memref<4x4xf32>
  // expected-error @below {{fused kind "bias" needs bias}}
  plan.matmul %a, %a into %c : memref<4x4xf32> fused bias
      shape <m = 4, n = 4, k = 4, lda = 4, ldb = 4, ldc = 4>
      axes <stride_c = 16> {alpha = 1.0 : f64} : memref<4x4xf32>, memref<4x4xf32>
}

// -----

plan.program @f {
  %a = plan.arena : memref<4x4xf32>
  %c = plan.arena : memref<4x4xf32>
  %m = plan.arena : memref<4x1xui8>
  // expected-error @below {{expected aux to have 64 elements of 'ui8', found 'memref<4x1xui8>'}}
  plan.matmul %a, %a into %c : memref<4x4xf32> fused drelu aux(%m : memref<4x1xui8>)
      shape <m = 4, n = 4, k = 4, lda = 4, ldb = 4, ldc = 4>
      axes <stride_c = 16> {alpha = 1.0 : f64} : memref<4x4xf32>, memref<4x4xf32>
}

// -----

plan.program @f {
  %a = plan.arena : memref<4x4xf32>
  %c = plan.arena : memref<4x4xf32>
  plan.matmul %a, %a into %c : memref<4x4xf32>
      shape <m = 4, n = 4, k = 4, lda = 4, ldb = 4, ldc = 4>
      axes <stride_c = 16> {alpha = 1.0 : f64,
      // expected-error @+2 {{unknown compute type "f8"}}
      // expected-error @+1 {{failed to parse Plan_ComputeAttr}}
      compute = #plan.compute<f8>} : memref<4x4xf32>, memref<4x4xf32>
}

// -----

plan.program @f {
  %a = plan.arena : memref<4x4xf32>
  %c = plan.arena : memref<4x4xf32>
  // expected-error @below {{a GPU's library chooses its tiles}}
  plan.matmul %a, %a into %c : memref<4x4xf32>
      shape <m = 4, n = 4, k = 4, lda = 4, ldb = 4, ldc = 4, tile_n = 4>
      axes <stride_c = 16> {alpha = 1.0 : f64}
      : memref<4x4xf32>, memref<4x4xf32>
}

// -----

// Attributes of records have the fields of runtime/PlanSchema.def only, once
// each, within their ranges.

plan.program @f {
  %a = plan.arena : memref<4x4xf32>
  %c = plan.arena : memref<4x4xf32>
  plan.matmul %a, %a into %c : memref<4x4xf32>
      // expected-error @+2 {{unknown field 'depth'}}
      // expected-error @+1 {{failed to parse Plan_ProductShapeAttr}}
      shape <m = 4, n = 4, depth = 4> axes <> {alpha = 1.0 : f64} : memref<4x4xf32>, memref<4x4xf32>
}

// -----

plan.program @f {
  %a = plan.arena : memref<4x4xf32>
  %c = plan.arena : memref<4x4xf32>
  plan.matmul %a, %a into %c : memref<4x4xf32>
      // expected-error @+2 {{field 'm' twice}}
      // expected-error @+1 {{failed to parse Plan_ProductShapeAttr}}
      shape <m = 4, n = 4, m = 4> axes <> {alpha = 1.0 : f64} : memref<4x4xf32>, memref<4x4xf32>
}

// -----

plan.program @f {
  %a = plan.arena : memref<4x4xf32>
  %c = plan.arena : memref<4x4xf32>
  // expected-error @below {{an extent is out of range}}
  plan.matmul %a, %a into %c : memref<4x4xf32>
      shape <m = 4, n = 4, lda = 4, ldb = 4, ldc = 4> axes <> {alpha = 1.0 : f64} : memref<4x4xf32>, memref<4x4xf32>
}

// -----

plan.program @f {
  %a = plan.arena : memref<4x4xf32>
  %c = plan.arena : memref<4x4xf32>
  // expected-error @below {{an extent is out of range}}
  plan.matmul %a, %a into %c : memref<4x4xf32>
      shape <m = 4, n = 4, k = 4, lda = 4, ldb = 4, ldc = 4>
      axes <outer = <extents = [0], a = [0], b = [0], c = [0]>> {alpha = 1.0 : f64} : memref<4x4xf32>, memref<4x4xf32>
}

// -----

// The last element of a batch's last matrix must lie in the buffer, and rows
// must not overlap.

plan.program @f {
  %a = plan.arena : memref<2x4x4xf32>
  %c = plan.arena : memref<2x4x4xf32>
  // expected-error @below {{expected the matrices of a to lie within 32 elements}}
  plan.matmul %a, %a into %c : memref<2x4x4xf32>
      shape <m = 4, n = 4, k = 4, lda = 5, ldb = 4, ldc = 4, tile_m = 4, tile_n = 4>
      axes <batch = 2, stride_a = 16, stride_b = 16, stride_c = 16> {alpha = 1.0 : f64}
      : memref<2x4x4xf32>, memref<2x4x4xf32>
}

// -----

plan.program @f {
  %a = plan.arena : memref<2x4x4xf32>
  %c = plan.arena : memref<2x4x4xf32>
  // expected-error @below {{expected the matrices of b to lie within 32 elements}}
  plan.matmul %a, %a into %c : memref<2x4x4xf32>
      shape <m = 4, n = 4, k = 4, lda = 4, ldb = 4, ldc = 4, tile_m = 4, tile_n = 4>
      axes <batch = 2, stride_a = 16, stride_b = 17, stride_c = 16> {alpha = 1.0 : f64}
      : memref<2x4x4xf32>, memref<2x4x4xf32>
}

// -----

plan.program @f {
  %a = plan.arena : memref<2x4x4xf32>
  %c = plan.arena : memref<2x4x4xf32>
  // expected-error @below {{expected the matrices of b to lie within 32 elements}}
  plan.matmul %a, %a into %c : memref<2x4x4xf32>
      shape <m = 4, n = 4, k = 4, lda = 4, ldb = 4, ldc = 4, offset_b = 1, tile_m = 4, tile_n = 4>
      axes <batch = 2, stride_a = 16, stride_b = 16, stride_c = 16> {alpha = 1.0 : f64}
      : memref<2x4x4xf32>, memref<2x4x4xf32>
}

// -----

plan.program @f {
  %a = plan.arena : memref<2x4x4xf32>
  %c = plan.arena : memref<2x4x4xf32>
  // expected-error @below {{expected the matrices of c to lie within 32 elements}}
  plan.matmul %a, %a into %c : memref<2x4x4xf32>
      shape <m = 4, n = 4, k = 4, lda = 4, ldb = 4, ldc = 6, tile_m = 4, tile_n = 4>
      axes <batch = 2, stride_a = 16, stride_b = 16, stride_c = 16> {alpha = 1.0 : f64}
      : memref<2x4x4xf32>, memref<2x4x4xf32>
}

// -----

plan.program @f {
  %a = plan.arena : memref<2x4x4xf32>
  %c = plan.arena : memref<2x4x4xf32>
  // expected-error @below {{expected the matrices of b to lie within 32 elements}}
  plan.matmul %a, %a into %c : memref<2x4x4xf32>
      shape <m = 4, n = 4, k = 4, lda = 4, ldb = 4, ldc = 4, tile_m = 4, tile_n = 4>
      axes <stride_a = 16, stride_c = 16, outer = <extents = [2], a = [16], b = [17], c = [16]>> {alpha = 1.0 : f64}
      : memref<2x4x4xf32>, memref<2x4x4xf32>
}

// -----

plan.program @f {
  %a = plan.arena : memref<2x4x4xf32>
  %c = plan.arena : memref<2x4x4xf32>
  // expected-error @below {{expected the matrices of b to lie within 32 elements}}
  plan.matmul %a, %a into %c : memref<2x4x4xf32>
      shape <m = 4, n = 4, k = 4, lda = 4, ldb = 4, ldc = 4, tile_m = 4, tile_n = 4>
      axes <batch = 2, stride_a = 16, stride_b = -1, stride_c = 16> {alpha = 1.0 : f64}
      : memref<2x4x4xf32>, memref<2x4x4xf32>
}

// -----

plan.program @f {
  %a = plan.arena : memref<2x4x4xf32>
  %c = plan.arena : memref<2x4x4xf32>
  // expected-error @below {{expected the matrices of b to lie within 32 elements}}
  plan.matmul %a, %a into %c : memref<2x4x4xf32>
      shape <m = 4, n = 4, k = 4, lda = 4, ldb = 4, ldc = 4, tile_m = 4, tile_n = 4>
      axes <batch = 2, stride_a = 16, stride_b = 9223372036854775807, stride_c = 16> {alpha = 1.0 : f64}
      : memref<2x4x4xf32>, memref<2x4x4xf32>
}

// -----

plan.program @f {
  %a = plan.arena : memref<2x4x4xf32>
  %c = plan.arena : memref<2x4x4xf32>
  // expected-error @below {{expected the matrices of a to lie within 32 elements}}
  plan.matmul %a, %a into %c : memref<2x4x4xf32>
      shape <m = 4, n = 4, k = 4, lda = 3, ldb = 4, ldc = 4, tile_m = 4, tile_n = 4>
      axes <batch = 2, stride_a = 16, stride_b = 16, stride_c = 16> {alpha = 1.0 : f64}
      : memref<2x4x4xf32>, memref<2x4x4xf32>
}

// -----

plan.program @f {
  %x = plan.arena : memref<1x2x2x3xf32>
  %w = plan.arena : memref<2x1x1x3xf32>
  %y = plan.arena : memref<1x2x2x2xf32>
  plan.conv forward x(%x : memref<1x2x2x3xf32>) w(%w : memref<2x1x1x3xf32>) y(%y : memref<1x2x2x2xf32>)
      {batch = 1 : i64, groups = 1 : i64, in_channels = 3 : i64, out_channels = 2 : i64,
       in_spatial = array<i64: 2, 2>, out_spatial = array<i64: 2, 2>, kernel = array<i64: 1, 1>,
       strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads_begin = array<i64: 0, 0>,
       pads_end = array<i64: 0, 0>,
       // expected-error @+2 {{unknown filter layout "HWIO"}}
       // expected-error @+1 {{failed to parse MPC_FilterLayoutAttr}}
       filter_layout = #mpc.filter_layout<HWIO>}
}

// -----

plan.program @f {
  // expected-error @below {{a loop has between 1 and 2^31 - 2 iterations}}
  plan.for 0 {
  }
}

// -----

plan.program @f {
  %x = plan.input "x" role data : memref<4x2xf32>
  plan.for 5 {
    // expected-error @below {{expected parts within 'memref<4x2xf32>' in 5 iterations}}
    %part = plan.part %x from 0 by 8 : memref<4x2xf32> to memref<2xf32>
  }
}

// -----

plan.program @f {
  %x = plan.input "x" role data : memref<4x2xf32>
  plan.for 4 {
    // expected-error @below {{expected parts within 'memref<4x2xf32>' in 4 iterations}}
    %part = plan.part %x from 16 by -8 : memref<4x2xf32> to memref<2xf32>
  }
}

// -----

plan.program @f {
  %x = plan.input "x" role data : memref<4x2xf32>
  plan.for 4 {
    // expected-error @below {{expected parts at multiples of 4 bytes, found byte 2 and steps of 4}}
    %part = plan.part %x from 2 by 4 : memref<4x2xf32> to memref<2xf32>
  }
}

// -----

plan.program @f {
  %x = plan.input "x" role data : memref<4x2xf32>
  plan.for 4 {
    %part = plan.part %x from 0 by 8 : memref<4x2xf32> to memref<2xf32>
    %a = plan.arena : memref<2xf32>
    // expected-error @below {{'plan.copy' op writes to an input or a constant}}
    plan.copy %a to %part : memref<2xf32>, memref<2xf32>
  }
}

// -----

plan.program @f {
  %x = plan.input "x" role data : memref<2xf32>
  %y = plan.arena : memref<2xf32>
  plan.for 4 parallel {
    // expected-error @below {{writes what other iterations of a parallel loop may write or read}}
    plan.copy %x to %y : memref<2xf32>, memref<2xf32>
  }
}

// -----

// Neither a view of a private buffer nor an inner loop's part is private to the iteration.
plan.program @f {
  %x = plan.input "x" role data : memref<2xf32>
  %y = plan.arena : memref<4x2xf32>
  plan.for 4 parallel {
    plan.for 4 {
      %part = plan.part %y from 0 by 8 : memref<4x2xf32> to memref<2xf32>
      // expected-error @below {{writes what other iterations of a parallel loop may write or read}}
      plan.copy %x to %part : memref<2xf32>, memref<2xf32>
    }
  }
}

// -----

plan.program @f attributes {arena_bytes = 256 : i64} {
  plan.for 4 parallel {
    // expected-error @below {{expected an allocation within the private memory of its loop}}
    %a = plan.arena at 128 : memref<2xf32>
  } {private_offset = 0 : i64, private_bytes = 128 : i64}
}

// -----

plan.program @f attributes {arena_bytes = 256 : i64} {
  // expected-error @below {{expected private memory at a multiple of 64, found 128 bytes at 32}}
  plan.for 4 parallel {
  } {private_offset = 32 : i64, private_bytes = 128 : i64}
}

// -----

plan.program @f attributes {arena_bytes = 256 : i64} {
  // expected-error @below {{expected private memory with an offset and a size, in a parallel loop, found an offset and a size in a sequential loop}}
  plan.for 4 {
  } {private_offset = 0 : i64, private_bytes = 128 : i64}
}

// -----

plan.program @f {
  %x = plan.input "x" role data : memref<4x2xf32>
  // expected-error @below {{expected memory and steps, found 'plan.output'}}
  plan.for 4 {
    plan.output "x" role output %x : memref<4x2xf32>
  }
}

// -----

func.func @computed_in_a_string(%a: tensor<4x4xf32>) {
  // expected-error @below {{expected the compute type of a library, such as #plan.compute<tf32>, found "tf32"}}
  %0 = mpc.matmul %a, %a {plan.compute = "tf32"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

plan.program @f {
  %ids = plan.arena : memref<4xi32>
  // expected-error @below {{expected boxes of indices within an integer buffer}}
  plan.check_indices %ids [{begin = array<i64: 0>, end = array<i64: 5>, size = 9 : i64}] : memref<4xi32>
}

// -----

plan.program @f {
  %counts = plan.arena : memref<4xi32>
  // expected-error @below {{expected floats, found 'memref<4xi32>'}}
  plan.all_reduce mean %counts : memref<4xi32>
}

// -----

plan.program @f {
  %table = plan.arena : memref<4x6xf32>
  // expected-error @below {{expected rows that fill the buffer, found rows of 5 elements in 24}}
  plan.all_reduce mean %table {row_elements = 5 : i64} : memref<4x6xf32>
}

// -----

plan.program @f {
  %table = plan.arena : memref<4x6xf32>
  // expected-error @below {{expected rows that fill the buffer, found rows of -6 elements in 24}}
  plan.all_reduce mean %table {row_elements = -6 : i64} : memref<4x6xf32>
}

// -----

plan.program @f {
  %flags = plan.arena : memref<4xi1>
  // expected-error @below {{expected numbers, found 'memref<4xi1>'}}
  plan.all_reduce max %flags : memref<4xi1>
}

// -----

plan.program @f {
  %x = plan.input "x" role data : memref<4xf32>
  // expected-error @below {{writes to an input or a constant}}
  plan.all_reduce sum %x : memref<4xf32>
}

// -----

plan.program @f {
  %x = plan.arena : memref<4xf32>
  plan.for 2 {
    // expected-error @below {{expects parent op 'plan.program'}}
    plan.all_reduce sum %x : memref<4xf32>
  }
}

// -----

func.func @attribute_that_no_pass_knows(%a: tensor<4x4xf32>) {
  // expected-error @below {{no op has an attribute 'plan.computed'}}
  %0 = mpc.matmul %a, %a {plan.computed = #plan.compute<tf32>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

plan.program @view_beyond_its_source {
  %a = plan.arena : memref<8x4xf32>
  // expected-error @below {{expected whole elements within 'memref<8x4xf32>', found 'memref<2x4xf32>' at byte 100}}
  %v = plan.view %a at 100 : memref<8x4xf32> to memref<2x4xf32>
}

// -----

plan.program @view_between_elements {
  %a = plan.arena : memref<8x4xf32>
  // expected-error @below {{expected whole elements}}
  %v = plan.view %a at 6 : memref<8x4xf32> to memref<2x4xf32>
}

// -----

func.func @f(%x: tensor<4x5xf32>) -> tensor<4x5xf32> {
  // expected-error @below {{'plan.place' op expected a larger tensor of the same elements, found 'tensor<4x5xf32>'}}
  %y = plan.place %x : tensor<4x5xf32> to tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}

// -----

func.func @f(%x: tensor<4x5xf32>) -> tensor<8x4xf32> {
  // expected-error @below {{'plan.place' op expected a box within 'tensor<8x4xf32>', found one of 5 elements from 0 on along axis 1}}
  %y = plan.place %x : tensor<4x5xf32> to tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// -----

func.func @f(%x: tensor<4x5xf32>) -> tensor<6x8xf32> {
  // expected-error @below {{'plan.place' op expected a box within 'tensor<6x8xf32>', found one of 4 elements from 3 on along axis 0}}
  %y = plan.place %x {offsets = array<i64: 3, 0>} : tensor<4x5xf32> to tensor<6x8xf32>
  return %y : tensor<6x8xf32>
}

// -----

func.func @f(%x: tensor<4x5xf32>) -> tensor<6x8xf32> {
  // expected-error @below {{'plan.place' op expected an offset for each of 2 axes, found 1}}
  %y = plan.place %x {offsets = array<i64: 1>} : tensor<4x5xf32> to tensor<6x8xf32>
  return %y : tensor<6x8xf32>
}

// -----

func.func @f(%x: tensor<4x5xf32>) -> (tensor<4x4xf32>, tensor<4x8xf32>) {
  %p = mpc.matmul %x, %x {transB = true} : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x4xf32>
  // expected-error @below {{'plan.place' op expected to be the only reader of its product}}
  %y = plan.place %p : tensor<4x4xf32> to tensor<4x8xf32>
  return %p, %y : tensor<4x4xf32>, tensor<4x8xf32>
}

// -----

func.func @f(%x: tensor<4x5xf32>) -> tensor<4x8xf32> {
  %p = mpc.matmul %x, %x {transB = true} : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x4xf32>
  %y = plan.place %p : tensor<4x4xf32> to tensor<4x8xf32>
  // expected-error @below {{'plan.assemble' op expected boxes of 32 elements, found 16}}
  %z = plan.assemble %y : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %z : tensor<4x8xf32>
}

// -----

func.func @f(%x: tensor<4x5xf32>) -> tensor<4x8xf32> {
  %p = mpc.matmul %x, %x {transB = true} : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x4xf32>
  %q = mpc.matmul %x, %x {transB = true} : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x4xf32>
  %y = plan.place %p {offsets = array<i64: 0, 3>} : tensor<4x4xf32> to tensor<4x8xf32>
  %z = plan.place %q : tensor<4x4xf32> to tensor<4x8xf32>
  // expected-error @below {{'plan.assemble' op expected boxes that do not overlap, found part 1 over another}}
  %w = plan.assemble %y, %z : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %w : tensor<4x8xf32>
}

// -----

func.func @f(%x: tensor<4x5xf32>) -> tensor<4x8xf32> {
  %p = mpc.matmul %x, %x {transB = true} : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x4xf32>
  // expected-error @below {{'plan.assemble' op expected parts as large as 'tensor<4x8xf32>', found 'tensor<4x4xf32>'}}
  %y = plan.assemble %p : (tensor<4x4xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = mpc.region pointwise (%x) {kernel = "y"} : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%a: tensor<4x8xf32>):
    %0 = mpc.relu %a : (tensor<4x8xf32>) -> tensor<4x8xf32>
    mpc.yield %0 : tensor<4x8xf32>
  }
  // expected-error @below {{'plan.assemble' op expected part 0 to be stored through plan.place}}
  %z = plan.assemble %y : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %z : tensor<4x8xf32>
}

// -----

// A CPU's library with tiles sums in f32 for any result type.
plan.program @f {
  %a = plan.arena : memref<4x4xbf16>
  %c = plan.arena : memref<4x4xbf16>
  %s = plan.arena : memref<4xbf16>
  // expected-error @below {{expected bias_grad to have 4 elements of 'f32', found 'memref<4xbf16>'}}
  plan.matmul %a, %a into %c : memref<4x4xbf16> fused bgrad_b bias_grad(%s : memref<4xbf16>)
      shape <m = 4, n = 4, k = 4, lda = 4, ldb = 4, ldc = 4, tile_m = 4, tile_n = 4>
      axes <stride_c = 16> {alpha = 1.0 : f64} : memref<4x4xbf16>, memref<4x4xbf16>
}

// -----

// Only a CPU's library, which has tiles, sums beside an epilogue.
plan.program @f {
  %a = plan.arena : memref<4x4xf32>
  %c = plan.arena : memref<4x4xf32>
  %s = plan.arena : memref<4xf32>
  // expected-error @below {{expected a fused product with a result buffer and a batch of 1, found no result buffer and a batch of 1}}
  plan.matmul %a, %a epilogue @tail outs(%c : memref<4x4xf32>) fused bgrad_b bias_grad(%s : memref<4xf32>)
      shape <m = 4, n = 4, k = 4, lda = 4, ldb = 4, ldc = 4>
      axes <stride_c = 16> {alpha = 1.0 : f64} : memref<4x4xf32>, memref<4x4xf32>
}

// -----

// The epilogue was made for a result of 5 rows.
func.func private @tail(%tile: tensor<5x2xf32>) -> tensor<5x2xf32> attributes {mpc.kernel = #mpc.kernel<epilogue>} {
  %y = mpc.relu %tile : (tensor<5x2xf32>) -> tensor<5x2xf32>
  return %y : tensor<5x2xf32>
}
plan.program @f {
  %x = plan.input "x" role data : memref<4x3xf32>
  %w = plan.input "w" role data : memref<2x3xf32>
  %y = plan.arena : memref<5x2xf32>
  // expected-error @below {{'plan.matmul' op expected @tail to take 8 elements in rows of 2, found 'tensor<5x2xf32>'}}
  plan.matmul %x, %w epilogue @tail outs(%y : memref<5x2xf32>)
      shape <m = 4, n = 2, k = 3, trans_b = true, lda = 3, ldb = 3, ldc = 2, tile_m = 4, tile_n = 2>
      axes <stride_c = 8> {alpha = 1.0 : f64} : memref<4x3xf32>, memref<2x3xf32>
}

// -----

// The number of elements is equal, but the rows differ.
func.func private @tail(%tile: tensor<2x4xf32>) -> tensor<2x4xf32> attributes {mpc.kernel = #mpc.kernel<epilogue>} {
  %y = mpc.relu %tile : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
plan.program @f {
  %x = plan.input "x" role data : memref<4x3xf32>
  %w = plan.input "w" role data : memref<2x3xf32>
  %y = plan.arena : memref<2x4xf32>
  // expected-error @below {{expected @tail to take 8 elements in rows of 2, found 'tensor<2x4xf32>'}}
  plan.matmul %x, %w epilogue @tail outs(%y : memref<2x4xf32>)
      shape <m = 4, n = 2, k = 3, trans_b = true, lda = 3, ldb = 3, ldc = 2, tile_m = 4, tile_n = 2>
      axes <stride_c = 8> {alpha = 1.0 : f64} : memref<4x3xf32>, memref<2x3xf32>
}

// -----

// An image of 2 x 2 pixels gives no 3 x 3.
func.func private @tail(%tile: tensor<1x3x3x5xf32>) -> tensor<1x3x3x5xf32> attributes {mpc.kernel = #mpc.kernel<epilogue>} {
  %y = mpc.relu %tile : (tensor<1x3x3x5xf32>) -> tensor<1x3x3x5xf32>
  return %y : tensor<1x3x3x5xf32>
}
plan.program @f {
  %x = plan.input "x" role data : memref<1x2x2x4xf32>
  %w = plan.input "w" role data : memref<5x4x1x1xf32>
  %y = plan.arena : memref<1x3x3x5xf32>
  // expected-error @below {{'plan.conv' op expected @tail to take 20 elements in rows of 5, found 'tensor<1x3x3x5xf32>'}}
  plan.conv forward x(%x : memref<1x2x2x4xf32>) w(%w : memref<5x4x1x1xf32>)
    epilogue @tail outs(%y : memref<1x3x3x5xf32>) {batch = 1 : i64,
    groups = 1 : i64, in_channels = 4 : i64, out_channels = 5 : i64,
    in_spatial = array<i64: 2, 2>, out_spatial = array<i64: 2, 2>,
    kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>,
    dilations = array<i64: 1, 1>, pads_begin = array<i64: 0, 0>,
    pads_end = array<i64: 0, 0>}
}

// -----

plan.program @f {
  %x = plan.arena : memref<1x8x8x3xf32>
  %w = plan.arena : memref<2x3x1x1xf32>
  %y = plan.arena : memref<1x8x1x2xf32>
  // expected-error @below {{'plan.conv' op expected an input extent, its padding and the stride to add up to at most 2147483647, found 8, padding of 0 and 0 and a stride of 2147483640}}
  plan.conv forward x(%x : memref<1x8x8x3xf32>) w(%w : memref<2x3x1x1xf32>) y(%y : memref<1x8x1x2xf32>)
      {batch = 1 : i64, groups = 1 : i64, in_channels = 3 : i64, out_channels = 2 : i64,
       in_spatial = array<i64: 8, 8>, out_spatial = array<i64: 8, 1>, kernel = array<i64: 1, 1>,
       strides = array<i64: 1, 2147483640>, dilations = array<i64: 1, 1>, pads_begin = array<i64: 0, 0>,
       pads_end = array<i64: 0, 0>}
}

// -----

plan.program @f {
  %x = plan.arena : memref<1x8x8x3xf32>
  %w = plan.arena : memref<2x3x1x1xf32>
  %y = plan.arena : memref<1x8x1x2xf32>
  // expected-error @below {{'plan.conv' op expected padding and a stride for each of 2 axes, found 1}}
  plan.conv forward x(%x : memref<1x8x8x3xf32>) w(%w : memref<2x3x1x1xf32>) y(%y : memref<1x8x1x2xf32>)
      {batch = 1 : i64, groups = 1 : i64, in_channels = 3 : i64, out_channels = 2 : i64,
       in_spatial = array<i64: 8, 8>, out_spatial = array<i64: 8, 1>, kernel = array<i64: 1, 1>,
       strides = array<i64: 1>, dilations = array<i64: 1, 1>, pads_begin = array<i64: 0, 0>,
       pads_end = array<i64: 0, 0>}
}
