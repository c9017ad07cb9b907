// RUN: mpc-opt %s -canonicalize | FileCheck %s

// These tests show which ops fold. test/numerics/test_constant_floats.py
// checks, for every op and type, that kernels compute the same bits.

// 0.1 + 0.2 is rounded to f32, to f64 and to bf16.
// CHECK-LABEL: func @rounds_to_its_own_type
// CHECK-DAG: dense<3.000000e-01> : tensor<f32>
// CHECK-DAG: dense<0.30000000000000004> : tensor<f64>
// CHECK-DAG: dense<3.007810e-01> : tensor<bf16>
// CHECK-NOT: mpc.add
func.func @rounds_to_its_own_type() -> (tensor<f32>, tensor<f64>, tensor<bf16>) {
  %a = mpc.constant dense<0.1> : tensor<f32>
  %b = mpc.constant dense<0.2> : tensor<f32>
  %c = mpc.constant dense<0.1> : tensor<f64>
  %d = mpc.constant dense<0.2> : tensor<f64>
  %e = mpc.constant dense<0.1> : tensor<bf16>
  %f = mpc.constant dense<0.2> : tensor<bf16>
  %0 = mpc.add %a, %b : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = mpc.add %c, %d : (tensor<f64>, tensor<f64>) -> tensor<f64>
  %2 = mpc.add %e, %f : (tensor<bf16>, tensor<bf16>) -> tensor<bf16>
  return %0, %1, %2 : tensor<f32>, tensor<f64>, tensor<bf16>
}

// CHECK-LABEL: func @computes_of_two
// CHECK-DAG: dense<[-1.000000e+00, 0.000000e+00]>
// CHECK-DAG: dense<[2.000000e+00, 9.000000e+00]>
// CHECK-DAG: dense<[5.000000e-01, 1.000000e+00]>
// CHECK-DAG: dense<[2.000000e+00, 3.000000e+00]>
// CHECK-DAG: dense<[1.000000e+00, 3.000000e+00]>
// CHECK-NOT: mpc.{{sub|mul|div|maximum|minimum}}
func.func @computes_of_two() -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %a = mpc.constant dense<[1.0, 3.0]> : tensor<2xf32>
  %b = mpc.constant dense<[2.0, 3.0]> : tensor<2xf32>
  %0 = mpc.sub %a, %b : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = mpc.mul %a, %b : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %2 = mpc.div %a, %b : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %3 = mpc.maximum %a, %b : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %4 = mpc.minimum %a, %b : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0, %1, %2, %3, %4 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}

// CHECK-LABEL: func @computes_of_one
// CHECK-DAG: dense<[-2.500000e+00, 5.000000e-01]>
// CHECK-DAG: dense<[2.500000e+00, 5.000000e-01]>
// CHECK-DAG: dense<[2.500000e+00, 0.000000e+00]>
// CHECK-DAG: dense<[4.000000e-01, -2.000000e+00]>
// CHECK-DAG: dense<[3.000000e+00, -0.000000e+00]>
// CHECK-DAG: dense<[2.000000e+00, -1.000000e+00]>
// CHECK-DAG: dense<[2.000000e+00, -0.000000e+00]>
// CHECK-DAG: dense<1.500000e+00>
// CHECK-NOT: mpc.{{neg|abs|relu|reciprocal|ceil|floor|round|sqrt}}
func.func @computes_of_one() -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<f32>) {
  %x = mpc.constant dense<[2.5, -0.5]> : tensor<2xf32>
  %s = mpc.constant dense<2.25> : tensor<f32>
  %0 = mpc.neg %x : (tensor<2xf32>) -> tensor<2xf32>
  %1 = mpc.abs %x : (tensor<2xf32>) -> tensor<2xf32>
  %2 = mpc.relu %x : (tensor<2xf32>) -> tensor<2xf32>
  %3 = mpc.reciprocal %x : (tensor<2xf32>) -> tensor<2xf32>
  %4 = mpc.ceil %x : (tensor<2xf32>) -> tensor<2xf32>
  %5 = mpc.floor %x : (tensor<2xf32>) -> tensor<2xf32>
  %6 = mpc.round %x : (tensor<2xf32>) -> tensor<2xf32>
  %7 = mpc.sqrt %s : (tensor<f32>) -> tensor<f32>
  return %0, %1, %2, %3, %4, %5, %6, %7 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<f32>
}

// NaN is not less than a number, nor equal to itself.
// CHECK-LABEL: func @compares
// CHECK-DAG: dense<[true, false]> : tensor<2xi1>
// CHECK-DAG: dense<[false, true]> : tensor<2xi1>
// CHECK-NOT: mpc.{{less|equal}}
func.func @compares() -> (tensor<2xi1>, tensor<2xi1>) {
  %a = mpc.constant dense<[1.0, 0x7FC00000]> : tensor<2xf32>
  %b = mpc.constant dense<[0x7FC00000, 2.0]> : tensor<2xf32>
  %c = mpc.constant dense<2.0> : tensor<f32>
  %0 = mpc.less %a, %c : (tensor<2xf32>, tensor<f32>) -> tensor<2xi1>
  %1 = mpc.equal %b, %c : (tensor<2xf32>, tensor<f32>) -> tensor<2xi1>
  return %0, %1 : tensor<2xi1>, tensor<2xi1>
}

// Rows and columns broadcast to a table.
// CHECK-LABEL: func @broadcasts
// CHECK-NEXT: mpc.constant dense<{{\[\[}}1.000000e+01, 2.000000e+01], [2.000000e+01, 4.000000e+01]]>
// CHECK-NEXT: return
func.func @broadcasts() -> tensor<2x2xf32> {
  %a = mpc.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32>
  %b = mpc.constant dense<[10.0, 20.0]> : tensor<2xf32>
  %0 = mpc.mul %a, %b : (tensor<2x1xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

// The last digits of these functions depend on the machine.
// CHECK-LABEL: func @keeps_functions_and_powers
// CHECK: mpc.exp
// CHECK: mpc.pow
// CHECK: mpc.erf
func.func @keeps_functions_and_powers() -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %x = mpc.constant dense<2.0> : tensor<f32>
  %0 = mpc.exp %x : (tensor<f32>) -> tensor<f32>
  %1 = mpc.pow %x, %x : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %2 = mpc.erf %x : (tensor<f32>) -> tensor<f32>
  return %0, %1, %2 : tensor<f32>, tensor<f32>, tensor<f32>
}

// If a sum has another type than its operands, a kernel must round it.
// CHECK-LABEL: func @keeps_what_is_of_two_types
// CHECK: mpc.add
// CHECK: mpc.less
func.func @keeps_what_is_of_two_types() -> (tensor<f32>, tensor<i1>) {
  %a = mpc.constant dense<1.0> : tensor<bf16>
  %b = mpc.constant dense<2.0> : tensor<f32>
  %0 = mpc.add %a, %a : (tensor<bf16>, tensor<bf16>) -> tensor<f32>
  %1 = mpc.less %a, %b : (tensor<bf16>, tensor<f32>) -> tensor<i1>
  return %0, %1 : tensor<f32>, tensor<i1>
}

// A splat stays a splat of any size. Other constants fold up to four million
// elements.
// CHECK-LABEL: func @keeps_what_is_large
// CHECK-DAG: dense<3.000000e+00> : tensor<4096x4096xf32>
// CHECK-DAG: mpc.add
func.func @keeps_what_is_large() -> (tensor<4096x4096xf32>, tensor<4194304x2xf32>) {
  %a = mpc.constant dense<1.0> : tensor<4096x4096xf32>
  %b = mpc.constant dense<2.0> : tensor<f32>
  %c = mpc.constant dense<0.0> : tensor<4194304x1xf32>
  %d = mpc.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %0 = mpc.add %a, %b : (tensor<4096x4096xf32>, tensor<f32>) -> tensor<4096x4096xf32>
  %1 = mpc.add %c, %d : (tensor<4194304x1xf32>, tensor<2xf32>) -> tensor<4194304x2xf32>
  return %0, %1 : tensor<4096x4096xf32>, tensor<4194304x2xf32>
}
