// RUN: mpc-opt %s -mpc-add-loss=loss=mse | FileCheck %s --check-prefix=SINGLE
// RUN: mpc-opt %s -mpc-add-loss="loss=mse float64" | FileCheck %s --check-prefix=DOUBLE

// A float16 output has its loss and targets in f32, or in f64.
// SINGLE: func @step({{.*}}%{{.*}}: tensor<4x8xf32> {mpc.input = "target"
// SINGLE: mpc.sub {{.*}} : (tensor<4x8xf16>, tensor<4x8xf32>) -> tensor<4x8xf32>
// SINGLE: func @eval({{.*}}%{{.*}}: tensor<4x8xf32> {mpc.input = "target"
// DOUBLE: func @step({{.*}}%{{.*}}: tensor<4x8xf64> {mpc.input = "target"
// DOUBLE: mpc.sub {{.*}} : (tensor<4x8xf16>, tensor<4x8xf64>) -> tensor<4x8xf64>
// DOUBLE: func @eval({{.*}}%{{.*}}: tensor<4x8xf64> {mpc.input = "target"
func.func @forward(%x: tensor<4x8xf16> {mpc.input = "x", mpc.role = #mpc.role<data>})
    -> (tensor<4x8xf16> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  %y = mpc.relu %x : (tensor<4x8xf16>) -> tensor<4x8xf16>
  return %y : tensor<4x8xf16>
}
