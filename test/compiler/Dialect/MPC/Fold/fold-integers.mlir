// RUN: mpc-opt %s -canonicalize | FileCheck %s

// These tests show which ops fold. test/numerics/test_integers.py compares the
// formulas with NumPy over all types.

// CHECK-LABEL: func @wraps_around
// CHECK-DAG: dense<[-126, 44]> : tensor<2xi8>
// CHECK-DAG: dense<[44, 0]> : tensor<2xui8>
func.func @wraps_around() -> (tensor<2xi8>, tensor<2xui8>) {
  %a = mpc.constant dense<[127, -128]> : tensor<2xi8>
  %b = mpc.constant dense<[3, -84]> : tensor<2xi8>
  %c = mpc.constant dense<[200, 255]> : tensor<2xui8>
  %d = mpc.constant dense<[100, 1]> : tensor<2xui8>
  %0 = mpc.add %a, %b : (tensor<2xi8>, tensor<2xi8>) -> tensor<2xi8>
  %1 = mpc.add %c, %d : (tensor<2xui8>, tensor<2xui8>) -> tensor<2xui8>
  return %0, %1 : tensor<2xi8>, tensor<2xui8>
}

// CHECK-LABEL: func @divides_by_zero_and_minus_one
// CHECK-DAG: dense<[0, -2147483648, -3]> : tensor<3xi32>
// CHECK-DAG: dense<[0, 0, -1]> : tensor<3xi32>
// CHECK-DAG: dense<[0, 0, 1]> : tensor<3xi32>
func.func @divides_by_zero_and_minus_one() -> (tensor<3xi32>, tensor<3xi32>, tensor<3xi32>) {
  %a = mpc.constant dense<[5, -2147483648, -7]> : tensor<3xi32>
  %b = mpc.constant dense<[0, -1, 2]> : tensor<3xi32>
  %0 = mpc.div %a, %b : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
  %1 = mpc.mod %a, %b {fmod = true} : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
  %2 = mpc.mod %a, %b : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
  return %0, %1, %2 : tensor<3xi32>, tensor<3xi32>, tensor<3xi32>
}

// Signedness is part of the type: 255 is above 1 if unsigned and below 1 if signed.
// CHECK-LABEL: func @compares_by_sign
// CHECK-DAG: dense<false> : tensor<i1>
// CHECK-DAG: dense<true> : tensor<i1>
// CHECK: return %[[U:.*]], %[[S:.*]] :
func.func @compares_by_sign() -> (tensor<i1>, tensor<i1>) {
  %a = mpc.constant dense<255> : tensor<ui8>
  %b = mpc.constant dense<1> : tensor<ui8>
  %c = mpc.constant dense<-1> : tensor<i8>
  %d = mpc.constant dense<1> : tensor<i8>
  %0 = mpc.less %a, %b : (tensor<ui8>, tensor<ui8>) -> tensor<i1>
  %1 = mpc.less %c, %d : (tensor<i8>, tensor<i8>) -> tensor<i1>
  return %0, %1 : tensor<i1>, tensor<i1>
}

// CHECK-LABEL: func @makes_a_mask
// CHECK-NEXT: mpc.constant dense<{{\[\[}}true, false], [true, true]]> : tensor<2x2xi1>
// CHECK-NEXT: return
func.func @makes_a_mask() -> tensor<2x2xi1> {
  %i = mpc.constant dense<[[0], [1]]> : tensor<2x1xi64>
  %j = mpc.constant dense<[0, 1]> : tensor<2xi64>
  %0 = mpc.less %i, %j : (tensor<2x1xi64>, tensor<2xi64>) -> tensor<2x2xi1>
  %1 = mpc.not %0 : (tensor<2x2xi1>) -> tensor<2x2xi1>
  return %1 : tensor<2x2xi1>
}

// CHECK-LABEL: func @reduces
// CHECK-DAG: dense<[3, 7]> : tensor<2xi64>
// CHECK-DAG: dense<24> : tensor<1x1xi64>
func.func @reduces() -> (tensor<2xi64>, tensor<1x1xi64>) {
  %x = mpc.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi64>
  %0 = mpc.reduce_sum %x {axes = array<i64: 1>} : (tensor<2x2xi64>) -> tensor<2xi64>
  %1 = mpc.reduce_prod %x {axes = array<i64: 0, 1>, keepdims = true} : (tensor<2x2xi64>) -> tensor<1x1xi64>
  return %0, %1 : tensor<2xi64>, tensor<1x1xi64>
}

// CHECK-LABEL: func @selects_elements_of_any_type
// CHECK-NEXT: mpc.constant dense<[1.000000e+00, 4.000000e+00]> : tensor<2xf32>
func.func @selects_elements_of_any_type() -> tensor<2xf32> {
  %c = mpc.constant dense<[true, false]> : tensor<2xi1>
  %a = mpc.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %b = mpc.constant dense<[3.0, 4.0]> : tensor<2xf32>
  %0 = mpc.select %c, %a, %b : (tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// CHECK-LABEL: func @converts
// CHECK-DAG: dense<[-1, 44, 0]> : tensor<3xi8>
// CHECK-DAG: dense<true> : tensor<3xi1>
func.func @converts() -> (tensor<3xi8>, tensor<3xi1>) {
  %x = mpc.constant dense<[-1.5, 300.0, 0x7FC00000]> : tensor<3xf32>
  %0 = mpc.cast %x : (tensor<3xf32>) -> tensor<3xi8>
  %1 = mpc.cast %x : (tensor<3xf32>) -> tensor<3xi1>
  return %0, %1 : tensor<3xi8>, tensor<3xi1>
}

// Bit casts keep the bits of 1.0, of a NaN, and of -1.
// CHECK-LABEL: func @reads_bits
// CHECK-DAG: dense<[1065353216, 2143289345]> : tensor<2xi32>
// CHECK-DAG: dense<65535> : tensor<2xui16>
func.func @reads_bits() -> (tensor<2xi32>, tensor<2xui16>) {
  %x = mpc.constant dense<[1.0, 0x7FC00001]> : tensor<2xf32>
  %0 = mpc.bit_cast %x : (tensor<2xf32>) -> tensor<2xi32>
  %y = mpc.constant dense<-1> : tensor<2xi16>
  %1 = mpc.bit_cast %y : (tensor<2xi16>) -> tensor<2xui16>
  return %0, %1 : tensor<2xi32>, tensor<2xui16>
}

// Small modules can request large constants.
// CHECK-LABEL: func @keeps_what_is_too_large
// CHECK: mpc.equal
func.func @keeps_what_is_too_large() -> tensor<2097153x2xi1> {
  %a = mpc.constant dense<1> : tensor<2097153x1xi64>
  %b = mpc.constant dense<[1, 2]> : tensor<2xi64>
  %0 = mpc.equal %a, %b : (tensor<2097153x1xi64>, tensor<2xi64>) -> tensor<2097153x2xi1>
  return %0 : tensor<2097153x2xi1>
}
