// RUN: mpc-opt %s -canonicalize | FileCheck %s

// Constants of every element type are moved at compile time.

// CHECK-LABEL: func @transposes
// CHECK-NEXT: dense<{{\[\[}}1.000000e+00, 3.000000e+00], [2.000000e+00, 4.000000e+00]]> : tensor<2x2xf32>
// CHECK-NEXT: return
func.func @transposes() -> tensor<2x2xf32> {
  %a = mpc.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %0 = mpc.transpose %a {perm = array<i64: 1, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

// CHECK-LABEL: func @reshapes_and_expands
// CHECK-NEXT: dense<{{\[\[}}1, 1, 1], [2, 2, 2]]> : tensor<2x3xi64>
// CHECK-NEXT: return
func.func @reshapes_and_expands() -> tensor<2x3xi64> {
  %a = mpc.constant dense<[1, 2]> : tensor<2xi64>
  %0 = mpc.reshape %a : (tensor<2xi64>) -> tensor<2x1xi64>
  %1 = mpc.expand %0 : (tensor<2x1xi64>) -> tensor<2x3xi64>
  return %1 : tensor<2x3xi64>
}

// CHECK-LABEL: func @slices_backwards
// CHECK-NEXT: dense<[40, 20]> : tensor<2xi8>
// CHECK-NEXT: return
func.func @slices_backwards() -> tensor<2xi8> {
  %a = mpc.constant dense<[10, 20, 30, 40]> : tensor<4xi8>
  %0 = mpc.slice %a {offsets = array<i64: 3>, sizes = array<i64: 2>, strides = array<i64: -2>} : (tensor<4xi8>) -> tensor<2xi8>
  return %0 : tensor<2xi8>
}

// CHECK-LABEL: func @joins_along_the_last_axis
// CHECK-NEXT: dense<{{\[\[}}true, true, false], [true, false, true]]> : tensor<2x3xi1>
// CHECK-NEXT: return
func.func @joins_along_the_last_axis() -> tensor<2x3xi1> {
  %a = mpc.constant dense<true> : tensor<2x1xi1>
  %b = mpc.constant dense<[[true, false], [false, true]]> : tensor<2x2xi1>
  %none = mpc.constant dense<true> : tensor<2x0xi1>
  %0 = mpc.concat %a, %none, %b {axis = 1 : i64} : (tensor<2x1xi1>, tensor<2x0xi1>, tensor<2x2xi1>) -> tensor<2x3xi1>
  return %0 : tensor<2x3xi1>
}

// Negative indices count from the end.
// CHECK-LABEL: func @looks_up
// CHECK-NEXT: dense<{{\[\[\[}}2], [3]], {{\[\[}}5], [5]]]> : tensor<2x2x1xi32>
// CHECK-NEXT: return
func.func @looks_up() -> tensor<2x2x1xi32> {
  %a = mpc.constant dense<[[[1], [2], [3]], [[4], [5], [6]]]> : tensor<2x3x1xi32>
  %i = mpc.constant dense<[[1, -1], [1, -2]]> : tensor<2x2xi64>
  %0 = mpc.gather %a, %i {axis = 1 : i64, batch_dims = 1 : i64} : (tensor<2x3x1xi32>, tensor<2x2xi64>) -> tensor<2x2x1xi32>
  return %0 : tensor<2x2x1xi32>
}

// An index out of range is left to the kernel.
// CHECK-LABEL: func @names_nothing
// CHECK: mpc.gather
func.func @names_nothing() -> tensor<1xi32> {
  %a = mpc.constant dense<[1, 2]> : tensor<2xi32>
  %i = mpc.constant dense<[2]> : tensor<1xi64>
  %0 = mpc.gather %a, %i {axis = 0 : i64} : (tensor<2xi32>, tensor<1xi64>) -> tensor<1xi32>
  return %0 : tensor<1xi32>
}

// A few floats that a kernel broadcasts are not written out.
// CHECK-LABEL: func @keeps_broadcasts_of_floats
// CHECK: mpc.expand
func.func @keeps_broadcasts_of_floats() -> tensor<65536x2xf32> {
  %a = mpc.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %0 = mpc.expand %a : (tensor<2xf32>) -> tensor<65536x2xf32>
  return %0 : tensor<65536x2xf32>
}

// A splat may have any number of elements.
// CHECK-LABEL: func @repeats_one_value
// CHECK-NEXT: dense<1.000000e+00> : tensor<65536x1024xf32>
// CHECK-NEXT: return
func.func @repeats_one_value() -> tensor<65536x1024xf32> {
  %a = mpc.constant dense<1.0> : tensor<f32>
  %0 = mpc.expand %a : (tensor<f32>) -> tensor<65536x1024xf32>
  return %0 : tensor<65536x1024xf32>
}
