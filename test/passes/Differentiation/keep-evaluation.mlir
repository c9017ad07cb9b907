// RUN: mpc-opt %s -split-input-file -mpc-keep-evaluation | FileCheck %s

// Values that only training reads are deleted. Values that evaluation reads, or
// that are derived for it, stay.
// CHECK: mpc.variable @w :
// CHECK-NEXT: mpc.variable @w.low :
// CHECK-NOT: momentum
// CHECK-NOT: @step
// CHECK: func.func @eval
// CHECK: func.func @derive
mpc.variable @w : tensor<3xf32> role parameter
mpc.variable @w.low : tensor<3xbf16> role derived
mpc.variable @w.momentum : tensor<3xf32> role optimizer_state
func.func @step(%x: tensor<3xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                %m: tensor<3xf32> {mpc.state = @w.momentum})
    -> (tensor<3xf32> {mpc.updates = @w.momentum}) {
  %0 = mpc.add %x, %m : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
func.func @eval(%x: tensor<3xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                %w: tensor<3xbf16> {mpc.state = @w.low})
    -> (tensor<3xbf16> {mpc.output = "y", mpc.role = #mpc.role<prediction>}) {
  return %w : tensor<3xbf16>
}
func.func @derive(%w: tensor<3xf32> {mpc.state = @w})
    -> (tensor<3xbf16> {mpc.updates = @w.low}) {
  %0 = amp.cast %w : (tensor<3xf32>) -> tensor<3xbf16>
  return %0 : tensor<3xbf16>
}

// -----

// A model without an evaluation stays unchanged.
// CHECK: mpc.variable @v :
// CHECK: func.func @step
mpc.variable @v : tensor<3xf32> role optimizer_state
func.func @step(%x: tensor<3xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                %m: tensor<3xf32> {mpc.state = @v})
    -> (tensor<3xf32> {mpc.updates = @v}) {
  %0 = mpc.add %x, %m : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
