// RUN: mpc-opt %s --mpc-tile-products=elements=8192 | FileCheck %s
// RUN: mpc-opt %s --mpc-attach-target=name=sm_80 --mpc-tile-products="elements=8192" | FileCheck %s --check-prefix=GPU

// GPU-NOT: mpc.scan

// The loop takes one sample at a time. Heads between tokens are moved inside
// the loop, where a product reads them in place. All samples share the mask.
//
// CHECK-LABEL: func.func @forward
// CHECK: %[[Q:.*]] = mpc.reshape %arg0 : (tensor<4x64x16xf32>) -> tensor<4x1x64x16xf32>
// CHECK: %[[O:.*]] = mpc.scan 4 scanned(%[[Q]], %{{.*}}, %{{.*}} : {{.*}}) invariant(%arg3 : tensor<64x64xf32>) -> (tensor<4x1x64x16xf32>)
// CHECK-NEXT: ^bb0(%[[A:[^:]*]]: tensor<1x64x16xf32>, {{.*}}, %[[MASK:.*]]: tensor<64x64xf32>):
// CHECK: %[[SCALE:.*]] = mpc.constant dense<2.500000e-01>
// CHECK: mpc.reshape %[[A]] : (tensor<1x64x16xf32>) -> tensor<1x64x2x8xf32>
// CHECK: mpc.transpose {{.*}} -> tensor<1x2x64x8xf32>
// CHECK: mpc.mul {{.*}}, %[[SCALE]]
// CHECK: mpc.matmul {{.*}} -> tensor<1x2x64x64xf32>
// CHECK: mpc.add {{.*}}, %[[MASK]] {{.*}} -> tensor<1x2x64x64xf32>
// CHECK: mpc.softmax
// CHECK: mpc.matmul
// CHECK: mpc.transpose {{.*}} -> tensor<1x64x2x8xf32>
// CHECK: %[[Y:.*]] = mpc.reshape {{.*}} -> tensor<1x64x16xf32>
// CHECK: mpc.yield %[[Y]]
// CHECK: %[[R:.*]] = mpc.reshape %[[O]] : (tensor<4x1x64x16xf32>) -> tensor<4x64x16xf32>
// CHECK: return %[[R]]
func.func @forward(%q: tensor<4x64x16xf32>, %k: tensor<4x64x16xf32>, %v: tensor<4x64x16xf32>, %mask: tensor<64x64xf32>) -> tensor<4x64x16xf32> {
  %scale = mpc.constant dense<2.500000e-01> : tensor<f32>
  %0 = mpc.reshape %q : (tensor<4x64x16xf32>) -> tensor<4x64x2x8xf32>
  %1 = mpc.transpose %0 {perm = array<i64: 0, 2, 1, 3>} : (tensor<4x64x2x8xf32>) -> tensor<4x2x64x8xf32>
  %2 = mpc.mul %1, %scale : (tensor<4x2x64x8xf32>, tensor<f32>) -> tensor<4x2x64x8xf32>
  %3 = mpc.reshape %k : (tensor<4x64x16xf32>) -> tensor<4x64x2x8xf32>
  %4 = mpc.transpose %3 {perm = array<i64: 0, 2, 3, 1>} : (tensor<4x64x2x8xf32>) -> tensor<4x2x8x64xf32>
  %5 = mpc.reshape %v : (tensor<4x64x16xf32>) -> tensor<4x64x2x8xf32>
  %6 = mpc.transpose %5 {perm = array<i64: 0, 2, 1, 3>} : (tensor<4x64x2x8xf32>) -> tensor<4x2x64x8xf32>
  %s = mpc.matmul %2, %4 : (tensor<4x2x64x8xf32>, tensor<4x2x8x64xf32>) -> tensor<4x2x64x64xf32>
  %m = mpc.add %s, %mask : (tensor<4x2x64x64xf32>, tensor<64x64xf32>) -> tensor<4x2x64x64xf32>
  %p = mpc.softmax %m {axis = 3 : i64} : (tensor<4x2x64x64xf32>) -> tensor<4x2x64x64xf32>
  %o = mpc.matmul %p, %6 : (tensor<4x2x64x64xf32>, tensor<4x2x64x8xf32>) -> tensor<4x2x64x8xf32>
  %7 = mpc.transpose %o {perm = array<i64: 0, 2, 1, 3>} : (tensor<4x2x64x8xf32>) -> tensor<4x64x2x8xf32>
  %8 = mpc.reshape %7 : (tensor<4x64x2x8xf32>) -> tensor<4x64x16xf32>
  return %8 : tensor<4x64x16xf32>
}

// The backward pass recomputes the scores and repeats the dropout: each part
// knows its first group of four elements.
//
// CHECK-LABEL: func.func @training
// CHECK: %[[STARTS:.*]] = mpc.constant dense<[0, 2048]> : tensor<2xi64>
// CHECK: mpc.scan 2 scanned({{.*}}, %[[STARTS]] : {{.*}}) invariant(%arg4, %arg5 : tensor<i64>, tensor<i64>) -> (tensor<2x2x64x8xf32>) {
// CHECK-NEXT: ^bb0({{.*}}, %[[N:[^:]*]]: tensor<i64>, %[[SEED:.*]]: tensor<i64>, %[[STEP:.*]]: tensor<i64>):
// CHECK-NEXT: mpc.matmul {{.*}} -> tensor<2x64x64xf32>
// CHECK-NEXT: mpc.softmax
// CHECK-NEXT: mpc.dropout %{{.*}}, %[[SEED]], %[[STEP]], %[[N]] {id = 3
// CHECK-NEXT: mpc.matmul
// CHECK-NEXT: mpc.yield
// CHECK: mpc.scan 2 scanned({{.*}}) invariant({{.*}}) -> (tensor<2x2x64x8xf32>, tensor<2x2x64x8xf32>, tensor<2x2x64x8xf32>) {
// CHECK-NEXT: ^bb0
// CHECK-COUNT-2: mpc.matmul {{.*}} -> tensor<2x64x64xf32>
// CHECK: mpc.softmax_grad
// CHECK-COUNT-2: mpc.matmul {{.*}} -> tensor<2x64x8xf32>
// CHECK-NOT: mpc.matmul
// CHECK: } {mpc.phase = #mpc.phase<backward>
func.func @training(%q: tensor<4x64x8xf32>, %k: tensor<4x64x8xf32>, %v: tensor<4x64x8xf32>, %dy: tensor<4x64x8xf32>, %seed: tensor<i64>, %micro_step: tensor<i64>)
    -> (tensor<4x64x8xf32>, tensor<4x64x8xf32>, tensor<4x64x8xf32>, tensor<4x64x8xf32>) {
  %s = mpc.matmul %q, %k {transB = true} : (tensor<4x64x8xf32>, tensor<4x64x8xf32>) -> tensor<4x64x64xf32>
  %p = mpc.softmax %s {axis = 2 : i64} : (tensor<4x64x64xf32>) -> tensor<4x64x64xf32>
  %d = mpc.dropout %p, %seed, %micro_step {ratio = 0.5 : f64, id = 3 : i64} : (tensor<4x64x64xf32>, tensor<i64>, tensor<i64>) -> tensor<4x64x64xf32>
  %o = mpc.matmul %d, %v : (tensor<4x64x64xf32>, tensor<4x64x8xf32>) -> tensor<4x64x8xf32>
  %dd = mpc.matmul %dy, %v {mpc.phase = #mpc.phase<backward>, transB = true} : (tensor<4x64x8xf32>, tensor<4x64x8xf32>) -> tensor<4x64x64xf32>
  %dv = mpc.matmul %d, %dy {mpc.phase = #mpc.phase<backward>, transA = true} : (tensor<4x64x64xf32>, tensor<4x64x8xf32>) -> tensor<4x64x8xf32>
  %dp = mpc.dropout %dd, %seed, %micro_step {mpc.phase = #mpc.phase<backward>, ratio = 0.5 : f64, id = 3 : i64} : (tensor<4x64x64xf32>, tensor<i64>, tensor<i64>) -> tensor<4x64x64xf32>
  %ds = mpc.softmax_grad %dp, %p {mpc.phase = #mpc.phase<backward>, axis = 2 : i64} : (tensor<4x64x64xf32>, tensor<4x64x64xf32>) -> tensor<4x64x64xf32>
  %dq = mpc.matmul %ds, %k {mpc.phase = #mpc.phase<backward>} : (tensor<4x64x64xf32>, tensor<4x64x8xf32>) -> tensor<4x64x8xf32>
  %dk = mpc.matmul %ds, %q {mpc.phase = #mpc.phase<backward>, transA = true} : (tensor<4x64x64xf32>, tensor<4x64x8xf32>) -> tensor<4x64x8xf32>
  return %o, %dq, %dk, %dv : tensor<4x64x8xf32>, tensor<4x64x8xf32>, tensor<4x64x8xf32>, tensor<4x64x8xf32>
}

// The reciprocal of a row's sum is between the products.
//
// CHECK-LABEL: func.func @between
// CHECK: mpc.scan 2
// CHECK: mpc.reduce_sum
// CHECK: mpc.reciprocal
// CHECK: mpc.yield
func.func @between(%q: tensor<4x64x8xf32>, %k: tensor<4x64x8xf32>) -> tensor<4x64x8xf32> {
  %s = mpc.matmul %q, %k {transB = true} : (tensor<4x64x8xf32>, tensor<4x64x8xf32>) -> tensor<4x64x64xf32>
  %e = mpc.exp %s : (tensor<4x64x64xf32>) -> tensor<4x64x64xf32>
  %sum = mpc.reduce_sum %e {axes = array<i64: 2>, keepdims = true} : (tensor<4x64x64xf32>) -> tensor<4x64x1xf32>
  %r = mpc.reciprocal %sum : (tensor<4x64x1xf32>) -> tensor<4x64x1xf32>
  %p = mpc.mul %e, %r : (tensor<4x64x64xf32>, tensor<4x64x1xf32>) -> tensor<4x64x64xf32>
  %o = mpc.matmul %p, %k : (tensor<4x64x64xf32>, tensor<4x64x8xf32>) -> tensor<4x64x8xf32>
  return %o : tensor<4x64x8xf32>
}

// With one sample, the loop takes some rows of all heads at a time. Gradients of keys and values
// are summed over iterations in f32. Values that are not in parts are moved.
//
// CHECK-LABEL: func.func @rows
// CHECK: mpc.transpose {{.*}} -> tensor<2x1x4x32x8xf32>
// CHECK: mpc.scan 2 scanned({{.*}}) invariant(%arg1, %arg2 : {{.*}}) -> (tensor<2x1x4x32x8xf32>) {
// CHECK-COUNT-2: mpc.matmul
// CHECK-NEXT: mpc.yield
// CHECK: %[[ZERO:.*]] = mpc.constant dense<0.000000e+00> : tensor<1x4x8x64xf32>
// CHECK: %[[STARTS:.*]] = mpc.constant dense<[0, 512]> : tensor<2xi64>
// CHECK: %[[LOOP:.*]]:2 = mpc.scan 2 carried(%[[ZERO]] : tensor<1x4x8x64xf32>) scanned({{.*}}, %[[STARTS]] : {{.*}}) invariant({{.*}}) -> (tensor<1x4x8x64xf32>, tensor<2x1x4x32x8xf32>) {
// CHECK-NEXT: ^bb0(%[[OLD:[^:]*]]: tensor<1x4x8x64xf32>, {{.*}}: tensor<1x4x32x8xf32>, %[[START:[^:]*]]: tensor<i64>,
// CHECK: mpc.dropout {{.*}}, %[[START]] {id = 3 : i64, {{.*}}whole = array<i64: 1, 4, 64, 64>}
// CHECK: %[[DK:.*]] = mpc.matmul {{.*}} -> tensor<1x4x8x64xf32>
// CHECK-NEXT: %[[SUM:.*]] = mpc.add %[[OLD]], %[[DK]]
// CHECK-NEXT: mpc.yield %[[SUM]]
// CHECK: amp.cast %[[LOOP]]#0 : (tensor<1x4x8x64xf32>) -> tensor<1x4x8x64xbf16>
func.func @rows(%q: tensor<1x4x64x8xf32>, %k: tensor<1x4x8x64xf32>, %v: tensor<1x4x64x8xf32>, %dy: tensor<1x4x64x8xf32>, %seed: tensor<i64>, %micro_step: tensor<i64>)
    -> (tensor<1x4x64x8xf32>, tensor<1x4x64x8xf32>, tensor<1x4x8x64xbf16>) {
  %s = mpc.matmul %q, %k : (tensor<1x4x64x8xf32>, tensor<1x4x8x64xf32>) -> tensor<1x4x64x64xf32>
  %p = mpc.softmax %s {axis = 3 : i64} : (tensor<1x4x64x64xf32>) -> tensor<1x4x64x64xf32>
  %o = mpc.matmul %p, %v : (tensor<1x4x64x64xf32>, tensor<1x4x64x8xf32>) -> tensor<1x4x64x8xf32>
  %dd = mpc.matmul %dy, %v {mpc.phase = #mpc.phase<backward>, transB = true} : (tensor<1x4x64x8xf32>, tensor<1x4x64x8xf32>) -> tensor<1x4x64x64xf32>
  %dp = mpc.dropout %dd, %seed, %micro_step {mpc.phase = #mpc.phase<backward>, ratio = 0.5 : f64, id = 3 : i64} : (tensor<1x4x64x64xf32>, tensor<i64>, tensor<i64>) -> tensor<1x4x64x64xf32>
  %ds = mpc.softmax_grad %dp, %p {mpc.phase = #mpc.phase<backward>, axis = 3 : i64} : (tensor<1x4x64x64xf32>, tensor<1x4x64x64xf32>) -> tensor<1x4x64x64xf32>
  %dq = mpc.matmul %ds, %k {mpc.phase = #mpc.phase<backward>, transB = true} : (tensor<1x4x64x64xf32>, tensor<1x4x8x64xf32>) -> tensor<1x4x64x8xf32>
  %dk = mpc.matmul %q, %ds {mpc.phase = #mpc.phase<backward>, transA = true} : (tensor<1x4x64x8xf32>, tensor<1x4x64x64xf32>) -> tensor<1x4x8x64xbf16>
  return %o, %dq, %dk : tensor<1x4x64x8xf32>, tensor<1x4x64x8xf32>, tensor<1x4x8x64xbf16>
}

// Samples and the rows of each sample make nested loops.
//
// CHECK-LABEL: func.func @samples_and_rows
// CHECK: mpc.scan 2 scanned
// CHECK: mpc.scan 2 scanned
// CHECK: mpc.matmul {{.*}} -> tensor<1x4x32x64xf32>
// CHECK: mpc.dropout {{.*}} whole = array<i64: 2, 4, 64, 64>} : (tensor<1x4x32x64xf32>
func.func @samples_and_rows(%q: tensor<2x4x64x8xf32>, %k: tensor<2x4x8x64xf32>, %v: tensor<2x4x64x8xf32>, %seed: tensor<i64>, %micro_step: tensor<i64>) -> tensor<2x4x64x8xf32> {
  %s = mpc.matmul %q, %k : (tensor<2x4x64x8xf32>, tensor<2x4x8x64xf32>) -> tensor<2x4x64x64xf32>
  %p = mpc.softmax %s {axis = 3 : i64} : (tensor<2x4x64x64xf32>) -> tensor<2x4x64x64xf32>
  %d = mpc.dropout %p, %seed, %micro_step {ratio = 0.5 : f64, id = 3 : i64} : (tensor<2x4x64x64xf32>, tensor<i64>, tensor<i64>) -> tensor<2x4x64x64xf32>
  %o = mpc.matmul %d, %v : (tensor<2x4x64x64xf32>, tensor<2x4x64x8xf32>) -> tensor<2x4x64x8xf32>
  return %o : tensor<2x4x64x8xf32>
}

// No loop if the scores are a result, if neither samples nor rows are
// independent, or if each part would have one row.
//
// CHECK-LABEL: func.func @stays
// CHECK-NOT: mpc.scan
func.func @stays(%q: tensor<4x64x8xf32>, %x: tensor<1x128x8xf32>, %y: tensor<1x127x8xf32>) -> (tensor<4x64x64xf32>, tensor<1x128x8xf32>, tensor<1x127x8xf32>) {
  %s = mpc.matmul %q, %q {transB = true} : (tensor<4x64x8xf32>, tensor<4x64x8xf32>) -> tensor<4x64x64xf32>
  %p = mpc.softmax %s {axis = 2 : i64} : (tensor<4x64x64xf32>) -> tensor<4x64x64xf32>
  %t = mpc.matmul %x, %x {transB = true} : (tensor<1x128x8xf32>, tensor<1x128x8xf32>) -> tensor<1x128x128xf32>
  %u = mpc.softmax %t {axis = 1 : i64} : (tensor<1x128x128xf32>) -> tensor<1x128x128xf32>
  %o = mpc.matmul %u, %x : (tensor<1x128x128xf32>, tensor<1x128x8xf32>) -> tensor<1x128x8xf32>
  %a = mpc.matmul %y, %y {transB = true} : (tensor<1x127x8xf32>, tensor<1x127x8xf32>) -> tensor<1x127x127xf32>
  %b = mpc.matmul %a, %y : (tensor<1x127x127xf32>, tensor<1x127x8xf32>) -> tensor<1x127x8xf32>
  return %p, %o, %b : tensor<4x64x64xf32>, tensor<1x128x8xf32>, tensor<1x127x8xf32>
}

// No loop if the backward pass would have to repeat a product of long rows.
//
// CHECK-LABEL: func.func @costly
// CHECK-NOT: mpc.scan
func.func @costly(%q: tensor<4x700x300xf32>, %k: tensor<4x700x300xf32>, %dy: tensor<4x700x300xf32>) -> (tensor<4x700x300xf32>, tensor<4x700x300xf32>) {
  %s = mpc.matmul %q, %k {transB = true} : (tensor<4x700x300xf32>, tensor<4x700x300xf32>) -> tensor<4x700x700xf32>
  %e = mpc.exp %s : (tensor<4x700x700xf32>) -> tensor<4x700x700xf32>
  %o = mpc.matmul %e, %k : (tensor<4x700x700xf32>, tensor<4x700x300xf32>) -> tensor<4x700x300xf32>
  %dk = mpc.matmul %e, %dy {mpc.phase = #mpc.phase<backward>, transA = true} : (tensor<4x700x700xf32>, tensor<4x700x300xf32>) -> tensor<4x700x300xf32>
  return %o, %dk : tensor<4x700x300xf32>, tensor<4x700x300xf32>
}

// The loop computes a large mask of positions. A loop over rows computes part
// of it. A loop over samples computes all, and its inner loop a part.
//
// CHECK-LABEL: func.func @places
// CHECK-NOT: tensor<2048x2048xi1>
// CHECK: mpc.scan
// CHECK: mpc.less_or_equal {{.*}} -> tensor<[[ROWS:[0-9]+]]x2048xi1>
// CHECK: mpc.and {{.*}} -> tensor<[[ROWS]]x2048xi1>
// CHECK: mpc.select
// CHECK-LABEL: func.func @places_of_samples
// CHECK-NOT: tensor<2048x2048xi1>
// CHECK: return
func.func @places(%q: tensor<1x2048x16xf32>, %k: tensor<1x2048x16xf32>, %v: tensor<1x2048x16xf32>, %seen: tensor<1x2048xi1>,
                  %first: tensor<2048x1xi64>, %second: tensor<1x2048xi64>) -> tensor<1x2048x16xf32> {
  %hidden = mpc.constant dense<0xFF800000> : tensor<f32>
  %order = mpc.less_or_equal %second, %first : (tensor<1x2048xi64>, tensor<2048x1xi64>) -> tensor<2048x2048xi1>
  %mask = mpc.and %order, %seen : (tensor<2048x2048xi1>, tensor<1x2048xi1>) -> tensor<2048x2048xi1>
  %s = mpc.matmul %q, %k {transB = true} : (tensor<1x2048x16xf32>, tensor<1x2048x16xf32>) -> tensor<1x2048x2048xf32>
  %m = mpc.select %mask, %s, %hidden : (tensor<2048x2048xi1>, tensor<1x2048x2048xf32>, tensor<f32>) -> tensor<1x2048x2048xf32>
  %p = mpc.softmax %m {axis = 2 : i64} : (tensor<1x2048x2048xf32>) -> tensor<1x2048x2048xf32>
  %o = mpc.matmul %p, %v : (tensor<1x2048x2048xf32>, tensor<1x2048x16xf32>) -> tensor<1x2048x16xf32>
  return %o : tensor<1x2048x16xf32>
}

func.func @places_of_samples(%q: tensor<2x2048x16xf32>, %k: tensor<2x2048x16xf32>, %v: tensor<2x2048x16xf32>, %first: tensor<2048x1xi64>,
                             %second: tensor<1x2048xi64>) -> tensor<2x2048x16xf32> {
  %hidden = mpc.constant dense<0xFF800000> : tensor<f32>
  %mask = mpc.less_or_equal %second, %first : (tensor<1x2048xi64>, tensor<2048x1xi64>) -> tensor<2048x2048xi1>
  %s = mpc.matmul %q, %k {transB = true} : (tensor<2x2048x16xf32>, tensor<2x2048x16xf32>) -> tensor<2x2048x2048xf32>
  %m = mpc.select %mask, %s, %hidden : (tensor<2048x2048xi1>, tensor<2x2048x2048xf32>, tensor<f32>) -> tensor<2x2048x2048xf32>
  %p = mpc.softmax %m {axis = 2 : i64} : (tensor<2x2048x2048xf32>) -> tensor<2x2048x2048xf32>
  %o = mpc.matmul %p, %v : (tensor<2x2048x2048xf32>, tensor<2x2048x16xf32>) -> tensor<2x2048x16xf32>
  return %o : tensor<2x2048x16xf32>
}
