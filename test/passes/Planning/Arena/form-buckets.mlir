// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(plan-form-buckets{bucket-bytes=32}))" | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(plan-form-buckets))" | FileCheck %s --check-prefix=ALL

// A bucket is full after 32 bytes. It stands at its last member, and takes
// members of one kind and element type.
// CHECK-LABEL: func.func @fills
// CHECK: mpc.region pointwise
// CHECK: %[[FIRST:.*]]:2 = mpc.all_reduce mean %arg0, %arg1 : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
// CHECK-NEXT: %[[HALF:.*]] = mpc.all_reduce mean %arg3 : (tensor<4xf16>) -> tensor<4xf16>
// CHECK-NEXT: %[[MAX:.*]] = mpc.all_reduce max %arg2
// CHECK-NEXT: %[[LAST:.*]] = mpc.all_reduce mean %arg2
// CHECK: return %[[FIRST]]#0, %[[FIRST]]#1, %[[LAST]], %[[HALF]], %[[MAX]], %{{.*}} :
// ALL-LABEL: func.func @fills
// ALL: mpc.all_reduce mean %arg3
// ALL: mpc.all_reduce max %arg2
// ALL: mpc.all_reduce mean %arg0, %arg1, %arg2
func.func @fills(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>, %h: tensor<4xf16>)
    -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf16>, tensor<4xf32>, tensor<4xf32>) {
  %0 = mpc.all_reduce mean %a : (tensor<4xf32>) -> tensor<4xf32>
  %1 = mpc.region pointwise (%c) {kernel = "backward"} : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%x: tensor<4xf32>):
    %9 = mpc.relu %x : (tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %9 : tensor<4xf32>
  }
  %2 = mpc.all_reduce mean %b : (tensor<4xf32>) -> tensor<4xf32>
  %3 = mpc.all_reduce mean %h : (tensor<4xf16>) -> tensor<4xf16>
  %4 = mpc.all_reduce max %c : (tensor<4xf32>) -> tensor<4xf32>
  %5 = mpc.all_reduce mean %c : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %2, %5, %3, %4, %1 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf16>, tensor<4xf32>, tensor<4xf32>
}

// A bucket ends before an op that reads a result.
// ALL-LABEL: func.func @reads
// ALL: %[[A:.*]] = mpc.all_reduce mean %arg0
// ALL-NEXT: mpc.region pointwise(%[[A]])
// ALL: mpc.all_reduce mean %arg1
func.func @reads(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = mpc.all_reduce mean %a : (tensor<4xf32>) -> tensor<4xf32>
  %1 = mpc.region pointwise (%0) {kernel = "reader"} : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%x: tensor<4xf32>):
    %9 = mpc.relu %x : (tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %9 : tensor<4xf32>
  }
  %2 = mpc.all_reduce mean %b : (tensor<4xf32>) -> tensor<4xf32>
  return %1, %2 : tensor<4xf32>, tensor<4xf32>
}

// A message of several operands is complete: its reader does not wait for the
// gradients in a bucket.
// ALL-LABEL: func.func @messages
// ALL: %[[M:.*]]:2 = mpc.all_reduce mean %arg1, %arg2
// ALL: mpc.region pointwise(%[[M]]#0)
// ALL: mpc.all_reduce mean %arg0, %arg3
func.func @messages(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>, %d: tensor<4xf32>)
    -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = mpc.all_reduce mean %a : (tensor<4xf32>) -> tensor<4xf32>
  %1:2 = mpc.all_reduce mean %b, %c : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %2 = mpc.region pointwise (%1#0) {kernel = "reader"} : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%x: tensor<4xf32>):
    %9 = mpc.relu %x : (tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %9 : tensor<4xf32>
  }
  %3 = mpc.all_reduce mean %d : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1#1, %2, %3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
