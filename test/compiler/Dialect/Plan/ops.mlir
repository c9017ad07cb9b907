// Every op of the plan dialect survives a round trip through text.
//
// RUN: mpc-opt %s --verify-roundtrip | FileCheck %s

mpc.variable @w : tensor<10x64xf32> role parameter
mpc.variable @k : tensor<16x1x3x3xf32> role parameter

// CHECK-LABEL: plan.program @step attributes {arena_bytes = 131072 : i64}
plan.program @step attributes {arena_bytes = 131072 : i64} {
  // CHECK: plan.input "x" role data : memref<32x64xf32>
  %x = plan.input "x" role data : memref<32x64xf32>
  // CHECK: plan.input "ids" role data indices [{begin = array<i64: 0, 1>, end = array<i64: 4, 2>, size = 9 : i64}] : memref<4x2xi64>
  %ids = plan.input "ids" role data indices [{begin = array<i64: 0, 1>, end = array<i64: 4, 2>, size = 9 : i64}] : memref<4x2xi64>
  %i = plan.input "i" role data : memref<32x8x8x1xf32>
  // CHECK: plan.state @w : memref<10x64xf32>
  %w = plan.state @w : memref<10x64xf32>
  %k = plan.state @k : memref<16x1x3x3xf32>
  // CHECK: plan.constant dense<1.000000e+00> : tensor<10xf32> : memref<10xf32>
  %c = plan.constant dense<1.0> : tensor<10xf32> : memref<10xf32>
  // CHECK: plan.arena at 64 : memref<32x10xf32>
  %y = plan.arena at 64 : memref<32x10xf32>
  // CHECK: plan.arena : memref<32x8x8x16xf32>
  %z = plan.arena : memref<32x8x8x16xf32>
  // CHECK: plan.matmul %{{.*}}, %{{.*}} epilogue @bias ins(%{{.*}} : memref<10xf32>) outs(%{{.*}} : memref<32x10xf32>)
  plan.matmul %x, %w epilogue @bias ins(%c : memref<10xf32>) outs(%y : memref<32x10xf32>)
      shape <m = 32, n = 10, k = 64, trans_b = true, lda = 64, ldb = 64, ldc = 10, tile_m = 32, tile_n = 10>
      axes <stride_c = 320> {alpha = 1.0 : f64}
      : memref<32x64xf32>, memref<10x64xf32>
  // CHECK: plan.conv forward x(%{{.*}} : memref<32x8x8x1xf32>) w(%{{.*}} : memref<16x1x3x3xf32>) y(%{{.*}} : memref<32x8x8x16xf32>)
  plan.conv forward x(%i : memref<32x8x8x1xf32>) w(%k : memref<16x1x3x3xf32>) y(%z : memref<32x8x8x16xf32>)
      {batch = 32 : i64, groups = 1 : i64, in_channels = 1 : i64, out_channels = 16 : i64,
       in_spatial = array<i64: 8, 8>, out_spatial = array<i64: 8, 8>, kernel = array<i64: 3, 3>,
       strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>,
       pads_begin = array<i64: 1, 1>, pads_end = array<i64: 1, 1>}
  %heads = plan.arena : memref<2x16x72xbf16>
  %dheads = plan.arena : memref<2x16x72xbf16>
  %mixed = plan.arena : memref<2x16x24xbf16>
  %dmixed = plan.arena : memref<2x16x24xbf16>
  %stats = plan.arena : memref<2x3x16xf32>
  %seen = plan.arena : memref<16x16xf32>
  // CHECK: plan.attention forward query(%[[P:[0-9]+]] : memref<2x16x72xbf16>) key(%[[P]] : memref<2x16x72xbf16>)
  // CHECK-SAME: value(%[[P]] : memref<2x16x72xbf16>) bias(%{{.*}} : memref<16x16xf32>) output(%{{.*}} : memref<2x16x24xbf16>)
  // CHECK-SAME: statistics(%{{.*}} : memref<2x3x16xf32>) shape <batch = 2, heads = 3, key_heads = 3, queries = 16,
  // CHECK-SAME: keys = 16, size = 8, columns = 8, query_at = <batch = 1152, head = 8, token = 72>,
  // CHECK-SAME: key_at = <offset = 24, batch = 1152, head = 8, token = 72>
  // CHECK-SAME: bias_at = <query = 16, key = 1>> {scale = 3.500000e-01 : f64}
  plan.attention forward query(%heads : memref<2x16x72xbf16>)
      key(%heads : memref<2x16x72xbf16>) value(%heads : memref<2x16x72xbf16>)
      bias(%seen : memref<16x16xf32>)
      output(%mixed : memref<2x16x24xbf16>) statistics(%stats : memref<2x3x16xf32>)
      shape <batch = 2, heads = 3, key_heads = 3, queries = 16, keys = 16, size = 8, columns = 8,
             query_at = <batch = 1152, head = 8, token = 72>,
             key_at = <offset = 24, batch = 1152, head = 8, token = 72>,
             value_at = <offset = 48, batch = 1152, head = 8, token = 72>,
             output_at = <batch = 384, head = 8, token = 24>,
             bias_at = <query = 16, key = 1>> {scale = 0.35 : f64}
  // CHECK: plan.attention gradient query({{.*}} d_output({{.*}} d_query(%[[DP:[0-9]+]] : memref<2x16x72xbf16>)
  // CHECK-SAME: d_key(%[[DP]] : memref<2x16x72xbf16>) d_value(%[[DP]] : memref<2x16x72xbf16>)
  // CHECK-SAME: d_value_at = <offset = 48, batch = 1152, head = 8, token = 72>> {causal_offset = 0 : i64, scale = 3.500000e-01 : f64}
  plan.attention gradient query(%heads : memref<2x16x72xbf16>)
      key(%heads : memref<2x16x72xbf16>) value(%heads : memref<2x16x72xbf16>)
      output(%mixed : memref<2x16x24xbf16>) statistics(%stats : memref<2x3x16xf32>)
      d_output(%dmixed : memref<2x16x24xbf16>) d_query(%dheads : memref<2x16x72xbf16>)
      d_key(%dheads : memref<2x16x72xbf16>) d_value(%dheads : memref<2x16x72xbf16>)
      shape <batch = 2, heads = 3, key_heads = 3, queries = 16, keys = 16, size = 8, columns = 8,
             query_at = <batch = 1152, head = 8, token = 72>,
             key_at = <offset = 24, batch = 1152, head = 8, token = 72>,
             value_at = <offset = 48, batch = 1152, head = 8, token = 72>,
             output_at = <batch = 384, head = 8, token = 24>,
             d_output_at = <batch = 384, head = 8, token = 24>,
             d_query_at = <batch = 1152, head = 8, token = 72>,
             d_key_at = <offset = 24, batch = 1152, head = 8, token = 72>,
             d_value_at = <offset = 48, batch = 1152, head = 8, token = 72>>
      {scale = 0.35 : f64, causal_offset = 0 : i64}
  // CHECK: plan.view %{{.*}} at 40 : memref<32x10xf32> to memref<31x10xf32>
  %rows = plan.view %y at 40 : memref<32x10xf32> to memref<31x10xf32>
  // CHECK: plan.view %{{.*}} : memref<32x10xf32> to memref<320xf32>
  %v = plan.view %y : memref<32x10xf32> to memref<320xf32>
  // CHECK: plan.launch @relu ins(%{{.*}} : memref<320xf32>) outs(%{{.*}} : memref<320xf32>) extent 320 grain 64
  plan.launch @relu ins(%v : memref<320xf32>) outs(%v : memref<320xf32>) extent 320 grain 64
  %m = plan.arena at 0 : memref<32x16xui8>
  // CHECK: plan.matmul %{{.*}}, %{{.*}} into %{{.*}} : memref<32x10xf32> fused relu_aux_bias bias(%{{.*}} : memref<10xf32>) aux(%{{.*}} : memref<32x16xui8>) shape <{{.*}}compute = #plan.compute<tf32>
  plan.matmul %x, %w into %y : memref<32x10xf32> fused relu_aux_bias bias(%c : memref<10xf32>)
      aux(%m : memref<32x16xui8>)
      shape <m = 32, n = 10, k = 64, trans_b = true, lda = 64, ldb = 64, ldc = 10>
      axes <stride_c = 320> {alpha = 1.0 : f64, compute = #plan.compute<tf32>}
      : memref<32x64xf32>, memref<10x64xf32>
  // CHECK: plan.matmul {{.*}} shape <m = 4, n = 10, k = 64, trans_b = true, lda = 64, ldb = 64, ldc = 10, offset_a = 64>
  // CHECK-SAME: axes <batch = 2, stride_a = 256, stride_c = 40, outer = <extents = [3, 1], a = [512, 0], b = [0, 0], c = [80, 0]>> {alpha = 1.000000e+00 : f64}
  plan.matmul %x, %w into %y : memref<32x10xf32>
      shape <lda = 64, ldb = 64, ldc = 10, offset_a = 64, m = 4, n = 10, k = 64, trans_a = false, trans_b = true>
      axes <batch = 2, stride_a = 256, stride_c = 40, outer = <extents = [3, 1], a = [512, 0], b = [0, 0], c = [80, 0]>>
      {alpha = 1.0 : f64} : memref<32x64xf32>, memref<10x64xf32>
  // CHECK: plan.matmul {{.*}} fused bias {{.*}} unfused {
  // CHECK-NEXT: plan.launch @relu
  // CHECK-NEXT: }
  plan.matmul %x, %w into %y : memref<32x10xf32> fused bias bias(%c : memref<10xf32>)
      shape <m = 32, n = 10, k = 64, trans_b = true, lda = 64, ldb = 64, ldc = 10>
      axes <stride_c = 320> {alpha = 1.0 : f64}
      : memref<32x64xf32>, memref<10x64xf32> unfused {
    plan.launch @relu ins(%v : memref<320xf32>) outs(%v : memref<320xf32>) extent 320 grain 64 threads 64
  }
  // CHECK: plan.launch @relu ins(%{{.*}}) outs(%{{.*}}) extent 320 grain 64 threads 64 {shared_bytes = 128 : i64}
  plan.launch @relu ins(%v : memref<320xf32>) outs(%v : memref<320xf32>) extent 320 grain 64 threads 64
      {shared_bytes = 128 : i64}
  // CHECK: plan.launch @relu ins(%{{.*}}) outs(%{{.*}}) extent 320 grain 64 {scratch_bytes = 4096 : i64}
  plan.launch @relu ins(%v : memref<320xf32>) outs(%v : memref<320xf32>) extent 320 grain 64
      {scratch_bytes = 4096 : i64}
  %p = plan.arena at 0 : memref<i1>
  // CHECK: plan.if %{{.*}} {
  plan.if %p {
    // CHECK: plan.copy %{{.*}} to %{{.*}} : memref<32x10xf32>, memref<32x10xf32>
    plan.copy %y to %y : memref<32x10xf32>, memref<32x10xf32>
  } : memref<i1>
  // CHECK: plan.if %{{.*}} {
  plan.if %p {
    // CHECK: } else {
  } else {
    // CHECK-NEXT: %[[MINE:.*]] = plan.arena at 0 : memref<32x10xf32>
    %mine = plan.arena at 0 : memref<32x10xf32>
    // CHECK-NEXT: plan.copy %[[MINE]] to %{{.*}} : memref<32x10xf32>, memref<32x10xf32>
    plan.copy %mine to %y : memref<32x10xf32>, memref<32x10xf32>
  } : memref<i1>
  // CHECK: plan.for 32 {
  plan.for 32 {
    // CHECK: %[[PART:.*]] = plan.part %{{.*}} from 1240 by -40 : memref<32x10xf32> to memref<10xf32>
    %part = plan.part %y from 1240 by -40 : memref<32x10xf32> to memref<10xf32>
    // CHECK: %[[ROW:.*]] = plan.arena at 0 : memref<10xf32>
    %row = plan.arena at 0 : memref<10xf32>
    // CHECK: plan.copy %[[PART]] to %[[ROW]]
    plan.copy %part to %row : memref<10xf32>, memref<10xf32>
  }
  // CHECK: plan.for 32 parallel {
  plan.for 32 parallel {
    %part = plan.part %y from 0 by 40 : memref<32x10xf32> to memref<10xf32>
    %row = plan.arena at 64 : memref<10xf32>
    plan.copy %part to %row : memref<10xf32>, memref<10xf32>
    plan.copy %row to %part : memref<10xf32>, memref<10xf32>
    // CHECK: } {private_bytes = 64 : i64, private_offset = 64 : i64}
  } {private_offset = 64 : i64, private_bytes = 64 : i64}
  %box = plan.arena at 0 : memref<32x4xf32>
  // CHECK: plan.copy %{{.*}} to %{{.*}} {row_bytes = 16 : i64, rows = 32 : i64, stride = 16 : i64, to_offset = 24 : i64, to_stride = 40 : i64} : memref<32x4xf32>, memref<32x10xf32>
  plan.copy %box to %y {rows = 32 : i64, stride = 16 : i64, row_bytes = 16 : i64, to_offset = 24 : i64, to_stride = 40 : i64}
      : memref<32x4xf32>, memref<32x10xf32>
  // CHECK: plan.copy %{{.*}} to %{{.*}} {offset = 8 : i64, rows = 32 : i64, stride = 40 : i64} : memref<32x10xf32>, memref<32x4xf32>
  plan.copy %y to %box {rows = 32 : i64, offset = 8 : i64, stride = 40 : i64}
      : memref<32x10xf32>, memref<32x4xf32>
  %looked = plan.arena at 0 : memref<4xi32>
  // CHECK: plan.check_indices %{{.*}} [{begin = array<i64: 0>, end = array<i64: 4>, size = 9 : i64}] : memref<4xi32>
  plan.check_indices %looked [{begin = array<i64: 0>, end = array<i64: 4>, size = 9 : i64}] : memref<4xi32>
  // CHECK: plan.all_reduce mean %{{.*}} : memref<32x10xf32>
  plan.all_reduce mean %y : memref<32x10xf32>
  // CHECK: plan.all_reduce mean %{{.*}} {row_elements = 10 : i64} : memref<32x10xf32>
  plan.all_reduce mean %y {row_elements = 10 : i64} : memref<32x10xf32>
  // CHECK: plan.all_reduce max %{{.*}} : memref<4xi32>
  plan.all_reduce max %looked : memref<4xi32>
  // CHECK: plan.output "y" role output %{{.*}} : memref<32x10xf32>
  plan.output "y" role output %y : memref<32x10xf32>
}

func.func private @bias(%t: tensor<32x10xf32>, %b: tensor<10xf32>) -> tensor<32x10xf32>
    attributes {mpc.kernel = #mpc.kernel<epilogue>} {
  %0 = mpc.add %t, %b : (tensor<32x10xf32>, tensor<10xf32>) -> tensor<32x10xf32>
  return %0 : tensor<32x10xf32>
}
func.func private @relu(%x: tensor<320xf32>) -> tensor<320xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.relu %x : (tensor<320xf32>) -> tensor<320xf32>
  return %0 : tensor<320xf32>
}
