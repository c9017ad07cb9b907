// Operand positions tell scales and biases of normalizations, whatever their shape.
//
// RUN: mpc-opt %s -mpc-add-optimizer="optimizer=adamw weight-decay=0.5 no-decay=norm" | FileCheck %s --check-prefix=NORM
// RUN: mpc-opt %s -mpc-add-optimizer="optimizer=adamw weight-decay=0.5 no-decay=bias" | FileCheck %s --check-prefix=BIAS

mpc.variable @layer : tensor<2x3xf32> role parameter
mpc.variable @shift : tensor<2x3xf32> role parameter
mpc.variable @root : tensor<3xf32> role parameter

// NORM: mpc.adam {{.*}}mpc.phase = #mpc.phase<optimizer>} :
// NORM: mpc.adam {{.*}}weight_decay = 5.000000e-01 : f64
// NORM: mpc.adam {{.*}}mpc.phase = #mpc.phase<optimizer>} :
// BIAS: mpc.adam {{.*}}weight_decay = 5.000000e-01 : f64
// BIAS: mpc.adam {{.*}}mpc.phase = #mpc.phase<optimizer>} :
// BIAS: mpc.adam {{.*}}weight_decay = 5.000000e-01 : f64
func.func @step(%x: tensor<4x2x3xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                %layer: tensor<2x3xf32> {mpc.state = @layer}, %shift: tensor<2x3xf32> {mpc.state = @shift},
                %root: tensor<3xf32> {mpc.state = @root})
    -> (tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<loss>}) {
  %y, %mean, %inv_std = mpc.layer_norm %x, %layer, %shift {axes = array<i64: 1, 2>, epsilon = 1.0e-5 : f64}
      : (tensor<4x2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> (tensor<4x2x3xf32>, tensor<4x1x1xf32>, tensor<4x1x1xf32>)
  %z, %inv_rms = mpc.rms_norm %y, %root {axes = array<i64: 2>, epsilon = 1.0e-5 : f64}
      : (tensor<4x2x3xf32>, tensor<3xf32>) -> (tensor<4x2x3xf32>, tensor<4x2x1xf32>)
  %loss = mpc.reduce_mean %z {axes = array<i64: 0, 1, 2>, keepdims = false} : (tensor<4x2x3xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}
