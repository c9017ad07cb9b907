// RUN: mpc-opt %s -split-input-file -amp-assign-precision="mode=16-mixed" -amp-insert-casts | FileCheck %s

// One cast of a value serves all users that multiply it.
// CHECK-LABEL: func @one_cast_per_value
func.func @one_cast_per_value(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  // CHECK-COUNT-2: amp.cast {{.*}} : (tensor<4x4xf32>) -> tensor<4x4xf16>
  // CHECK-NOT: amp.cast
  // CHECK: mpc.matmul {{.*}} : (tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<4x4xf32>
  %0 = mpc.matmul %x, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("a")
  // CHECK: mpc.matmul {{.*}} : (tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<4x4xf32>
  %1 = mpc.matmul %x, %w {transA = true} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("b")
  return %0, %1 : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// An op between low ops rounds its own result, without a cast.
// CHECK-LABEL: func @results_round_themselves
func.func @results_round_themselves(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // CHECK: %[[X:.*]] = amp.cast %arg0
  // CHECK: %[[A:.*]] = mpc.matmul %[[X]], %[[X]] {{.*}} -> tensor<4x4xf16>
  %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("a")
  // The other operand is read in its stored type.
  // CHECK: %[[HALF:.*]] = mpc.constant
  %half = mpc.constant dense<0.5> : tensor<4x4xf32>
  // CHECK: %[[ADD:.*]] = mpc.add %[[A]], %[[HALF]] {{.*}} : (tensor<4x4xf16>, tensor<4x4xf32>) -> tensor<4x4xf16>
  %1 = mpc.add %0, %half : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("add")
  // CHECK: mpc.matmul %[[ADD]], %[[ADD]] {{.*}} -> tensor<4x4xf32>
  %2 = mpc.matmul %1, %1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("b")
  return %2 : tensor<4x4xf32>
}

// -----

// A denied op reads fp32, through a cast if the value is stored low.
// CHECK-LABEL: func @denied_reads_fp32
func.func @denied_reads_fp32(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  // CHECK: %[[A:.*]] = mpc.matmul {{.*}} -> tensor<4x4xf16>
  %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("a")
  // CHECK: %[[UP:.*]] = amp.cast %[[A]] : (tensor<4x4xf16>) -> tensor<4x4xf32>
  // CHECK: mpc.softmax %[[UP]]
  %1 = mpc.softmax %0 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("softmax")
  %2 = mpc.matmul %0, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("b")
  return %1, %2 : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// Function results keep their types.
// CHECK-LABEL: func @boundaries
// CHECK-SAME: -> (tensor<4x4xf32>, tensor<4x4xf32>)
func.func @boundaries(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  // CHECK: %[[A:.*]] = mpc.matmul {{.*}} -> tensor<4x4xf16>
  // CHECK: %[[UP:.*]] = amp.cast %[[A]]
  %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("a")
  %1 = mpc.matmul %0, %0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("b")
  // CHECK: return %[[UP]], %{{.*}} : tensor<4x4xf32>, tensor<4x4xf32>
  return %0, %1 : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// Statistics, scales and biases of a normalisation stay fp32.
// CHECK-LABEL: func @normalisation
func.func @normalisation(%x: tensor<4x4xf32>, %s: tensor<4xf32>) -> tensor<4x4xf32> {
  %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("a")
  // CHECK: mpc.batch_norm {{.*}} : (tensor<4x4xf16>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4x4xf16>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  %1:5 = mpc.batch_norm %0, %s, %s, %s, %s {epsilon = 1.0e-5 : f64, momentum = 0.9 : f64} : (tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) loc("bn")
  %2 = mpc.matmul %1#0, %1#0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("b")
  return %2 : tensor<4x4xf32>
}

// -----

// Loops and branches take values in the model's types, even if a value is
// stored low for another user.
// CHECK-LABEL: func @bodies
func.func @bodies(%x: tensor<4x4xf32>, %c: tensor<i1>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  // CHECK: %[[A:.*]] = mpc.matmul {{.*}} -> tensor<4x4xf16>
  // CHECK: %[[UP:.*]] = amp.cast %[[A]] : (tensor<4x4xf16>) -> tensor<4x4xf32>
  %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("a")
  // CHECK: mpc.matmul %[[A]], %[[A]]
  %1 = mpc.matmul %0, %0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("b")
  // CHECK: mpc.if %{{.*}} captured(%[[UP]] : tensor<4x4xf32>) -> (tensor<4x4xf32>)
  %2 = mpc.if %c captured(%0 : tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  ^bb0(%a: tensor<4x4xf32>):
    %4 = mpc.neg %a : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("neg")
    mpc.yield %4 : tensor<4x4xf32>
  } else {
  ^bb0(%a: tensor<4x4xf32>):
    mpc.yield %a : tensor<4x4xf32>
  }
  // CHECK: mpc.scan 2 carried(%[[UP]] : tensor<4x4xf32>)
  %3 = mpc.scan 2 carried(%0 : tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  ^bb0(%a: tensor<4x4xf32>):
    %4 = mpc.neg %a : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("step")
    mpc.yield %4 : tensor<4x4xf32>
  } {reversed_inputs = array<i1>, reversed_outputs = array<i1>}
  return %1, %2, %3 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
