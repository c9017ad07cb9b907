// RUN: mpc-opt %s -mpc-add-adapters=lora=2 | FileCheck %s --implicit-check-not=@head.lora --implicit-check-not=@conv.lora --implicit-check-not=@tied.lora
// RUN: mpc-opt %s -mpc-add-adapters=lora=2,1:4@fc1 | FileCheck %s --check-prefix=LAST
// RUN: mpc-opt %s -mpc-add-adapters=lora=2:1@conv | FileCheck %s --check-prefix=CONV
// RUN: mpc-opt %s -mpc-add-adapters=lora=1@head | FileCheck %s --check-prefix=HEAD
// RUN: mpc-opt %s -mpc-add-adapters=lora=2 -o %t.0
// RUN: mpc-opt %s -mpc-add-adapters="lora=2 lora-seed=1" -o %t.1
// RUN: not cmp %t.0 %t.1

// The layers but the last have adapters. A is random; B is zero.
// CHECK: mpc.variable @fc1.lora_A.weight : tensor<2x4xf32> role parameter init dense<{{.*}}> : tensor<2x4xf32> {mpc.adapter = {alpha = 2.000000e+00 : f64, b = "fc1.lora_B.weight", inputs_first = true, module = "fc1", rank = 2 : i64, scale = 1.000000e+00 : f64, weight = "fc1.weight"}}
// CHECK: mpc.variable @fc1.lora_B.weight : tensor<3x2xf32> role parameter {mpc.adapter}
// CHECK: mpc.variable @left.lora_A.weight : tensor<2x3xf32>
// CHECK: mpc.variable @left.lora_B.weight : tensor<5x2xf32>

// The last --lora that matches counts.
// LAST: mpc.variable @fc1.lora_A.weight : tensor<1x4xf32> {{.*}}scale = 4.000000e+00
// LAST: mpc.variable @left.lora_A.weight : tensor<2x3xf32> {{.*}}scale = 1.000000e+00

// A convolution needs a pattern. Its adapter has the strides of the layer.
// CONV: mpc.variable @conv.lora_A.weight : tensor<2x4x1x1xf32>
// CONV: mpc.variable @conv.lora_B.weight : tensor<4x2x1x1xf32>
// CONV: %[[Y:.*]] = mpc.conv
// CONV: %[[A:.*]] = mpc.conv %{{.*}}strides = array<i64: 2, 2>{{.*}} -> tensor<8x2x2x2xf32>
// CONV: %[[B:.*]] = mpc.conv %[[A]], %{{.*}}strides = array<i64: 1, 1>{{.*}} -> tensor<8x4x2x2xf32>
// CONV: %[[S:.*]] = mpc.mul %[[B]], %{{.*}}
// CONV: mpc.add %[[Y]], %[[S]]
// HEAD: mpc.variable @head.lora_A.weight : tensor<1x5xf32>
mpc.variable @conv.weight : tensor<4x4x1x1xf32> role parameter
mpc.variable @fc1.weight : tensor<4x3xf32> role parameter
mpc.variable @left.weight : tensor<5x3xf32> role parameter
mpc.variable @tied.weight : tensor<5x5xf32> role parameter
mpc.variable @head.weight : tensor<5x2xf32> role parameter

// CHECK: %[[XA:.*]] = mpc.matmul %[[X:.*]], %{{.*}} {transB = true} : (tensor<8x4xf32>, tensor<2x4xf32>) -> tensor<8x2xf32>
// CHECK: %[[XAB:.*]] = mpc.matmul %[[XA]], %{{.*}} {transB = true} : (tensor<8x2xf32>, tensor<3x2xf32>) -> tensor<8x3xf32>
// CHECK: mpc.add %{{.*}}, %[[XAB]]
// A weight on the left, and a transposed one of data.
// CHECK: %[[AX:.*]] = mpc.matmul %{{.*}}, %{{.*}} {transB = true} : (tensor<2x3xf32>, tensor<8x3xf32>) -> tensor<2x8xf32>
// CHECK: %[[BAX:.*]] = mpc.matmul %{{.*}}, %[[AX]] : (tensor<5x2xf32>, tensor<2x8xf32>) -> tensor<5x8xf32>
// CHECK: mpc.add %{{.*}}, %[[BAX]]
func.func @forward(%x: tensor<8x4x4x4xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                   %conv: tensor<4x4x1x1xf32> {mpc.state = @conv.weight}, %fc1: tensor<4x3xf32> {mpc.state = @fc1.weight},
                   %left: tensor<5x3xf32> {mpc.state = @left.weight}, %tied: tensor<5x5xf32> {mpc.state = @tied.weight},
                   %head: tensor<5x2xf32> {mpc.state = @head.weight})
    -> (tensor<8x2xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  %0 = mpc.conv %x, %conv {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
      : (tensor<8x4x4x4xf32>, tensor<4x4x1x1xf32>) -> tensor<8x4x2x2xf32>
  %1 = mpc.reduce_mean %0 {axes = array<i64: 2, 3>} : (tensor<8x4x2x2xf32>) -> tensor<8x4xf32>
  %2 = mpc.gemm %1, %fc1 : (tensor<8x4xf32>, tensor<4x3xf32>) -> tensor<8x3xf32>
  %3 = mpc.matmul %left, %2 {transB = true} : (tensor<5x3xf32>, tensor<8x3xf32>) -> tensor<5x8xf32>
  %4 = mpc.transpose %3 {perm = array<i64: 1, 0>} : (tensor<5x8xf32>) -> tensor<8x5xf32>
  // The weight is also added, so no adapter can stand for its change.
  %5 = mpc.matmul %4, %tied : (tensor<8x5xf32>, tensor<5x5xf32>) -> tensor<8x5xf32>
  %6 = mpc.reduce_mean %tied {axes = array<i64: 0>} : (tensor<5x5xf32>) -> tensor<5xf32>
  %7 = mpc.add %5, %6 : (tensor<8x5xf32>, tensor<5xf32>) -> tensor<8x5xf32>
  %8 = mpc.matmul %7, %head : (tensor<8x5xf32>, tensor<5x2xf32>) -> tensor<8x2xf32>
  return %8 : tensor<8x2xf32>
}
