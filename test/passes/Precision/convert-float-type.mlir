// RUN: mpc-opt %s -amp-convert-float-type | FileCheck %s

// Values are kept exactly: the fp32 value of 0.1.
// CHECK: mpc.variable @w : tensor<2xf64> role parameter init dense<[0.10000000149011612, 2.000000e+00]> : tensor<2xf64>
mpc.variable @w : tensor<2xf32> role parameter init dense<[0.1, 2.0]> : tensor<2xf32>
// CHECK: mpc.variable @r : tensor<2xf64> role frozen init dense_resource<[[$BLOB:.*]]> : tensor<2xf64>
mpc.variable @r : tensor<2xf32> role frozen init dense_resource<blob> : tensor<2xf32>
// CHECK: mpc.variable @mpc.step : tensor<i64>
mpc.variable @mpc.step : tensor<i64> role counter

// CHECK-LABEL: func @step
// CHECK-SAME: tensor<2xf64> {mpc.state = @w}
// CHECK-SAME: tensor<f64> {mpc.input = "learning_rate", mpc.role = #mpc.role<scalar>}
// CHECK-SAME: tensor<2xf16>
func.func @step(%w: tensor<2xf32> {mpc.state = @w},
                %lr: tensor<f32> {mpc.input = "learning_rate", mpc.role = #mpc.role<scalar>},
                %h: tensor<2xf16>) -> (tensor<2xf32> {mpc.updates = @w}) {
  // CHECK: mpc.constant dense<5.000000e-01> : tensor<f64>
  %c = mpc.constant dense<0.5> : tensor<f32>
  // CHECK: mpc.mul {{.*}} : (tensor<2xf64>, tensor<f64>) -> tensor<2xf64>
  %0 = mpc.mul %w, %c : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  // CHECK: mpc.cast {{.*}} : (tensor<2xf16>) -> tensor<2xf64>
  %1 = mpc.cast %h : (tensor<2xf16>) -> tensor<2xf32>
  %2 = mpc.add %0, %1 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %3 = mpc.sgd %w, %2, %lr : (tensor<2xf32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  // CHECK: return %{{.*}} : tensor<2xf64>
  return %3 : tensor<2xf32>
}

// A bit cast reads the bits of the fp32 value, to which the fp64 value is rounded.
// CHECK-LABEL: func @bits
func.func @bits(%x: tensor<2xf32>, %y: tensor<2xf64>) -> (tensor<2xf32>, tensor<2xi64>) {
  // CHECK: %[[NARROW:.*]] = mpc.cast %{{.*}} : (tensor<2xf64>) -> tensor<2xf32>
  // CHECK: mpc.bit_cast %[[NARROW]] : (tensor<2xf32>) -> tensor<2xi32>
  %0 = mpc.bit_cast %x : (tensor<2xf32>) -> tensor<2xi32>
  // CHECK: %[[NUMBER:.*]] = mpc.bit_cast %{{.*}} : (tensor<2xi32>) -> tensor<2xf32>
  // CHECK: mpc.cast %[[NUMBER]] : (tensor<2xf32>) -> tensor<2xf64>
  %1 = mpc.bit_cast %0 : (tensor<2xi32>) -> tensor<2xf32>
  // CHECK: mpc.bit_cast %{{.*}} : (tensor<2xf64>) -> tensor<2xi64>
  %2 = mpc.bit_cast %y : (tensor<2xf64>) -> tensor<2xi64>
  return %1, %2 : tensor<2xf32>, tensor<2xi64>
}

// 1.0 and 2.0 in fp64, little-endian, aligned to 8.
// CHECK: [[$BLOB]]: "0x08000000000000000000F03F0000000000000040"
{-#
  dialect_resources: {
    builtin: {
      blob: "0x040000000000803F00000040"
    }
  }
#-}
