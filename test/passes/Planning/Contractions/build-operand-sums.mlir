// RUN: mpc-opt %s --mpc-attach-target=name=sapphirerapids --plan-build-programs | FileCheck %s

// A CPU's library sums an operand and calls an epilogue.
// CHECK-LABEL: plan.program @operand_sum
// CHECK: %[[X:.*]] = plan.input "x"
// CHECK: %[[T:.*]] = plan.arena : memref<4x4xf32>
// CHECK: %[[S:.*]] = plan.arena : memref<1x4xf32>
// CHECK: plan.matmul %[[X]], %[[X]] epilogue @tail ins(%[[X]] : memref<4x4xf32>) outs(%[[T]] : memref<4x4xf32>) fused bgrad_a bias_grad(%[[S]] : memref<1x4xf32>)
func.func @operand_sum(%x: tensor<4x4xf32> {mpc.input = "x"}) -> (tensor<4x4xf32> {mpc.output = "y"}, tensor<1x4xf32> {mpc.output = "s"}) {
  %p, %s = plan.product bgrad_a %x, %x {transA = true, transB = false, alpha = 1.0 : f64}
      : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> bias_grad tensor<1x4xf32>
  %y = call @tail(%p, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %y, %s : tensor<4x4xf32>, tensor<1x4xf32>
}

func.func private @tail(%t: tensor<4x4xf32>, %x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {mpc.kernel = #mpc.kernel<epilogue>} {
  %0 = mpc.add %t, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
