// RUN: mpc-opt %s --pass-pipeline="builtin.module(mpc-attach-target{name=sm_90},func.func(plan-pad-rows))" | FileCheck %s
// RUN: sed 's/mpc.matmul %%f, %%wf {/mpc.matmul %%f, %%wf {amp.tf32, /' %s | mpc-opt --pass-pipeline="builtin.module(mpc-attach-target{name=sm_90},func.func(plan-pad-rows))" | FileCheck %s --check-prefix=TF32
// RUN: mpc-opt %s --pass-pipeline="builtin.module(mpc-attach-target{name=x86-64-v4},func.func(plan-pad-rows))" | FileCheck %s --check-prefix=CPU
// CPU-NOT: place

// A head of 1003 classes gets padded rows. Products write scores and read their
// gradient with padding. The loss between them loads and stores padded rows,
// also through views, and so does the column sum for a bias's gradient. f32
// rows and bf16 rows are padded separately, because their padding differs.
// CHECK-LABEL: func.func @head
// CHECK: %[[S:.+]] = mpc.matmul %arg0, %arg1
// CHECK-NEXT: %[[P:.+]] = plan.place %[[S]] : tensor<4x128x1003xf32> to tensor<4x128x1008xf32>
// CHECK-NEXT: %[[V:.+]] = mpc.reshape %[[P]] : (tensor<4x128x1008xf32>) -> tensor<512x1008xf32>
// CHECK-NEXT: %[[G:.+]]:2 = mpc.region row_reduce(%[[V]]) {kernel = "loss"} : (tensor<512x1008xf32>) -> (tensor<512x1xf32>, tensor<512x1008xbf16>) {
// CHECK-NEXT: ^bb0(%[[X:.+]]: tensor<512x1008xf32>):
// CHECK-NEXT: %[[ROWS:.+]] = mpc.slice %[[X]] {offsets = array<i64: 0, 0>, sizes = array<i64: 512, 1003>} : (tensor<512x1008xf32>) -> tensor<512x1003xf32>
// CHECK: mpc.reduce_max %[[ROWS]]
// CHECK: %[[LOW:.+]] = amp.cast
// CHECK-NEXT: %[[STORED:.+]] = plan.place %[[LOW]] : tensor<512x1003xbf16> to tensor<512x1008xbf16>
// CHECK-NEXT: mpc.yield %{{.+}}, %[[STORED]]
// CHECK: mpc.region column_reduce(%[[G]]#1)
// CHECK: mpc.slice
// CHECK: mpc.reduce_sum
// CHECK: %[[A:.+]] = plan.access %[[G]]#1 {offset = 0 : i64, strides = array<i64: 1008, 1>} : tensor<512x1008xbf16> to tensor<512x1003xbf16>
// CHECK-NEXT: mpc.matmul %[[A]], %arg1
// CHECK: %[[B:.+]] = plan.access %[[G]]#1
// CHECK-NEXT: mpc.matmul %[[B]], %arg2 {transA = true}
func.func @head(%x: tensor<4x128x256xbf16>, %w: tensor<1003x256xbf16>, %x2: tensor<512x256xbf16>)
    -> (tensor<512x1xf32>, tensor<1x1003xf32>, tensor<512x256xbf16>, tensor<1003x256xf32>) {
  %s = mpc.matmul %x, %w {transB = true} : (tensor<4x128x256xbf16>, tensor<1003x256xbf16>) -> tensor<4x128x1003xf32>
  %v = mpc.reshape %s : (tensor<4x128x1003xf32>) -> tensor<512x1003xf32>
  %l:2 = mpc.region row_reduce (%v) {kernel = "loss"} : (tensor<512x1003xf32>) -> (tensor<512x1xf32>, tensor<512x1003xbf16>) {
  ^bb0(%a: tensor<512x1003xf32>):
    %m = mpc.reduce_max %a {axes = array<i64: 1>, keepdims = true} : (tensor<512x1003xf32>) -> tensor<512x1xf32>
    %d = mpc.sub %a, %m : (tensor<512x1003xf32>, tensor<512x1xf32>) -> tensor<512x1003xf32>
    %c = amp.cast %d : (tensor<512x1003xf32>) -> tensor<512x1003xbf16>
    mpc.yield %m, %c : tensor<512x1xf32>, tensor<512x1003xbf16>
  }
  %db = mpc.region column_reduce (%l#1) {kernel = "db"} : (tensor<512x1003xbf16>) -> tensor<1x1003xf32> {
  ^bb0(%a: tensor<512x1003xbf16>):
    %c = amp.cast %a : (tensor<512x1003xbf16>) -> tensor<512x1003xf32>
    %m = mpc.reduce_sum %c {axes = array<i64: 0>, keepdims = true} : (tensor<512x1003xf32>) -> tensor<1x1003xf32>
    mpc.yield %m : tensor<1x1003xf32>
  }
  %dx = mpc.matmul %l#1, %w : (tensor<512x1003xbf16>, tensor<1003x256xbf16>) -> tensor<512x256xbf16>
  %dw = mpc.matmul %l#1, %x2 {transA = true} : (tensor<512x1003xbf16>, tensor<512x256xbf16>) -> tensor<1003x256xf32>
  return %l#0, %db, %dx, %dw : tensor<512x1xf32>, tensor<1x1003xf32>, tensor<512x256xbf16>, tensor<1003x256xf32>
}

// Long rows are padded to whole cache lines, which depend on their bytes.
// CHECK-LABEL: func.func @lines
// CHECK: plan.place {{.+}} : tensor<64x50257xf32> to tensor<64x50272xf32>
// CHECK: plan.place {{.+}} : tensor<64x50257xbf16> to tensor<64x50304xbf16>
func.func @lines(%x: tensor<64x1024xbf16>, %w: tensor<50257x1024xbf16>) -> tensor<64x1024xbf16> {
  %s = mpc.matmul %x, %w {transB = true} : (tensor<64x1024xbf16>, tensor<50257x1024xbf16>) -> tensor<64x50257xf32>
  %g = mpc.region pointwise (%s) {kernel = "g"} : (tensor<64x50257xf32>) -> tensor<64x50257xbf16> {
  ^bb0(%a: tensor<64x50257xf32>):
    %c = amp.cast %a : (tensor<64x50257xf32>) -> tensor<64x50257xbf16>
    mpc.yield %c : tensor<64x50257xbf16>
  }
  %y = mpc.matmul %g, %w : (tensor<64x50257xbf16>, tensor<50257x1024xbf16>) -> tensor<64x1024xbf16>
  return %y : tensor<64x1024xbf16>
}

// The library adds the bias, or kernels do if it has no algorithm.
// CHECK-LABEL: func.func @bias
// CHECK: %[[Y:.+]] = plan.product bias {{.*}} -> tensor<512x1003xf32> unfused {
// CHECK-NEXT: ^bb0(%[[P:.+]]: tensor<512x1008xf32>):
// CHECK-NEXT: %[[R:.+]] = mpc.region pointwise(%[[P]], %arg2) {kernel = "y_bias"} : (tensor<512x1008xf32>, tensor<1003xf32>) -> tensor<512x1008xf32> {
// CHECK: mpc.slice
// CHECK: mpc.add
// CHECK: plan.place
// CHECK: plan.yield %[[R]] : tensor<512x1008xf32>
// CHECK: plan.place %[[Y]] : tensor<512x1003xf32> to tensor<512x1008xf32>
func.func @bias(%x: tensor<512x256xbf16>, %w: tensor<1003x256xbf16>, %b: tensor<1003xf32>) -> tensor<512x1xf32> {
  %s = plan.product bias %x, %w bias(%b : tensor<1003xf32>) {alpha = 1.000000e+00 : f64, transA = false, transB = true}
      : (tensor<512x256xbf16>, tensor<1003x256xbf16>) -> tensor<512x1003xf32> unfused {
  ^bb0(%p: tensor<512x1003xf32>):
    %0 = mpc.region pointwise (%p, %b) {kernel = "y_bias"} : (tensor<512x1003xf32>, tensor<1003xf32>) -> tensor<512x1003xf32> {
    ^bb0(%a: tensor<512x1003xf32>, %c: tensor<1003xf32>):
      %1 = mpc.add %a, %c : (tensor<512x1003xf32>, tensor<1003xf32>) -> tensor<512x1003xf32>
      mpc.yield %1 : tensor<512x1003xf32>
    }
    plan.yield %0 : tensor<512x1003xf32>
  }
  %m = mpc.region row_reduce (%s) {kernel = "max"} : (tensor<512x1003xf32>) -> tensor<512x1xf32> {
  ^bb0(%a: tensor<512x1003xf32>):
    %1 = mpc.reduce_max %a {axes = array<i64: 1>, keepdims = true} : (tensor<512x1003xf32>) -> tensor<512x1xf32>
    mpc.yield %1 : tensor<512x1xf32>
  }
  return %m : tensor<512x1xf32>
}

// Not padded: scores that the function returns or a kernel moves, aligned rows,
// products that also read another operand, f32 products unless rounded to tf32,
// and products whose other operand stays unaligned.
// CHECK-LABEL: func.func @left
// CHECK-NOT: place
// CHECK: return
// TF32-LABEL: func.func @left
// TF32-NOT: place
// TF32: mpc.region row_reduce{{.*}}kernel = "few"
// TF32: plan.place {{.*}} to tensor<512x1008xf32>
// TF32-NEXT: mpc.region row_reduce{{.*}}kernel = "full"
// TF32-NOT: place
// TF32: return
func.func @left(%x: tensor<512x256xbf16>, %w: tensor<1003x256xbf16>, %w8: tensor<1000x256xbf16>,
                %n: tensor<8192x16xbf16>, %w10: tensor<10x16xbf16>, %f: tensor<512x256xf32>, %wf: tensor<1003x256xf32>, %odd: tensor<256x1003xbf16>)
    -> (tensor<512x1003xf32>, tensor<1003x512xf32>, tensor<512x1xf32>, tensor<8192x1xf32>, tensor<512x1xf32>, tensor<512x1xf32>) {
  %returned = mpc.matmul %x, %w {transB = true} : (tensor<512x256xbf16>, tensor<1003x256xbf16>) -> tensor<512x1003xf32>
  %s = mpc.matmul %x, %w {transB = true} : (tensor<512x256xbf16>, tensor<1003x256xbf16>) -> tensor<512x1003xf32>
  %moved = mpc.region movement (%s) {kernel = "moved"} : (tensor<512x1003xf32>) -> tensor<1003x512xf32> {
  ^bb0(%a: tensor<512x1003xf32>):
    %1 = mpc.transpose %a {perm = array<i64: 1, 0>} : (tensor<512x1003xf32>) -> tensor<1003x512xf32>
    mpc.yield %1 : tensor<1003x512xf32>
  }
  %t = mpc.matmul %x, %w8 {transB = true} : (tensor<512x256xbf16>, tensor<1000x256xbf16>) -> tensor<512x1000xf32>
  %aligned = mpc.region row_reduce (%t) {kernel = "aligned"} : (tensor<512x1000xf32>) -> tensor<512x1xf32> {
  ^bb0(%a: tensor<512x1000xf32>):
    %1 = mpc.reduce_max %a {axes = array<i64: 1>, keepdims = true} : (tensor<512x1000xf32>) -> tensor<512x1xf32>
    mpc.yield %1 : tensor<512x1xf32>
  }
  %u = mpc.matmul %n, %w10 {transB = true} : (tensor<8192x16xbf16>, tensor<10x16xbf16>) -> tensor<8192x10xf32>
  %few = mpc.region row_reduce (%u) {kernel = "few"} : (tensor<8192x10xf32>) -> tensor<8192x1xf32> {
  ^bb0(%a: tensor<8192x10xf32>):
    %1 = mpc.reduce_max %a {axes = array<i64: 1>, keepdims = true} : (tensor<8192x10xf32>) -> tensor<8192x1xf32>
    mpc.yield %1 : tensor<8192x1xf32>
  }
  %p = mpc.matmul %f, %wf {transB = true} : (tensor<512x256xf32>, tensor<1003x256xf32>) -> tensor<512x1003xf32>
  %full = mpc.region row_reduce (%p) {kernel = "full"} : (tensor<512x1003xf32>) -> tensor<512x1xf32> {
  ^bb0(%a: tensor<512x1003xf32>):
    %1 = mpc.reduce_max %a {axes = array<i64: 1>, keepdims = true} : (tensor<512x1003xf32>) -> tensor<512x1xf32>
    mpc.yield %1 : tensor<512x1xf32>
  }
  %q = mpc.matmul %x, %odd : (tensor<512x256xbf16>, tensor<256x1003xbf16>) -> tensor<512x1003xf32>
  %unaligned = mpc.region row_reduce (%q) {kernel = "unaligned"} : (tensor<512x1003xf32>) -> tensor<512x1xf32> {
  ^bb0(%a: tensor<512x1003xf32>):
    %1 = mpc.reduce_max %a {axes = array<i64: 1>, keepdims = true} : (tensor<512x1003xf32>) -> tensor<512x1xf32>
    mpc.yield %1 : tensor<512x1xf32>
  }
  return %returned, %moved, %aligned, %few, %full, %unaligned : tensor<512x1003xf32>, tensor<1003x512xf32>, tensor<512x1xf32>, tensor<8192x1xf32>, tensor<512x1xf32>, tensor<512x1xf32>
}
