// The size of an input in the data decides like that of a constant: small
// inputs meet low values in the low type, large inputs and unknown ones do not.
// RUN: mpc-opt %s --mpc-attach-target=name=zen5 -amp-assign-precision="mode=bf16-mixed" -mlir-print-local-scope | FileCheck %s
// RUN: mpc-opt %s --mpc-attach-target=name=zen5 -amp-assign-precision="mode=16-mixed" -mlir-print-local-scope | FileCheck %s
// RUN: sed 's/0.98, 4.1/-0.98, 4.1/' %s | not mpc-opt 2>&1 | FileCheck %s --check-prefix=BAD

// BAD: expected the sizes of inputs, such as {x = array<f64: 1.0, 4.0>}, of a module
module attributes {mpc.input_sizes = {t = array<f64: 0.98, 4.1>, u = array<f64: 300.0, 1000.0>}} {
// CHECK-LABEL: func.func @data
// CHECK: mpc.add {{.*}}results = [{{b?}}f16], {{.*}}reason = known_operand, {{.*}}sources = [{in_data, kind = "input", largest = 4.100000e+00 : f64, name = "t", rms = 0.979{{9*[0-9]*}} : f64}], evidence = assumed
// CHECK: mpc.add {{.*}}results = [f32], {{.*}}reason = wide_operand, {{.*}}sources = [{in_data, kind = "input", largest = 1.000000e+03 : f64, name = "u", rms = 3.000000e+02 : f64}], evidence = assumed
// CHECK: mpc.add {{.*}}results = [f32], {{.*}}reason = wide_operand, {{.*}}sources = [{kind = "input", name = "v"}], evidence = assumed
// CHECK: mpc.mul
// CHECK: mpc.add {{.*}}results = [{{b?}}f16], {{.*}}reason = known_operand, {{.*}}sources = [{in_data, kind = "value", {{.*}}name = "half", {{.*}}}], evidence = assumed
func.func @data(%x: tensor<4x4xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                %t: tensor<4x4xf32> {mpc.input = "t", mpc.role = #mpc.role<data>},
                %u: tensor<4x4xf32> {mpc.input = "u", mpc.role = #mpc.role<data>},
                %v: tensor<4x4xf32> {mpc.input = "v", mpc.role = #mpc.role<data>}) -> tensor<4x4xf32> {
  %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("first")
  %1 = mpc.add %0, %t : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("small")
  %2 = mpc.matmul %1, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("second")
  %3 = mpc.add %2, %u : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("large")
  %4 = mpc.matmul %3, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("third")
  %5 = mpc.add %4, %v : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("unknown")
  %6 = mpc.matmul %5, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("fourth")
  %c = mpc.constant dense<0.5> : tensor<f32> loc("c")
  %7 = mpc.mul %t, %c : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32> loc("half")
  %8 = mpc.add %6, %7 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("derived")
  %9 = mpc.matmul %8, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("fifth")
  return %9 : tensor<4x4xf32>
}
}
