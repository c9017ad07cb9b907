// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v3 --mpc-emit-kernels --cse --canonicalize | FileCheck %s

// Comparisons let NaN pass: a NaN is neither below 0 nor below the limit.
// CHECK-LABEL: func.func @relu(
// CHECK-DAG: %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : vector<8xf32>
// CHECK: %[[X:.*]] = vector.load
// CHECK-NEXT: %[[ON:.*]] = arith.cmpf ugt, %[[X]], %[[ZERO]]
// CHECK-NEXT: arith.select %[[ON]], %[[X]], %[[ZERO]]
func.func private @relu(%x: tensor<64xf32>) -> tensor<64xf32>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.relu %x : (tensor<64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// An absent limit takes no comparison.
// CHECK-LABEL: func.func @clip(
// CHECK-DAG: %[[MIN:.*]] = arith.constant dense<-1.000000e+00> : vector<8xf32>
// CHECK: %[[X:.*]] = vector.load
// CHECK-NEXT: %[[BELOW:.*]] = arith.cmpf olt, %[[X]], %[[MIN]]
// CHECK-NEXT: %[[Y:.*]] = arith.select %[[BELOW]], %[[MIN]], %[[X]]
// CHECK-NEXT: vector.store %[[Y]]
func.func private @clip(%x: tensor<64xf32>) -> tensor<64xf32>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.clip %x {min = -1.0 : f64} : (tensor<64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// A square is one product.
// CHECK-LABEL: func.func @square(
// CHECK: %[[X:.*]] = vector.load
// CHECK-NEXT: %[[Y:.*]] = arith.mulf %[[X]], %[[X]]
// CHECK-NEXT: vector.store %[[Y]]
func.func private @square(%x: tensor<64xf32>) -> tensor<64xf32>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %c = mpc.constant dense<2.0> : tensor<f32>
  %0 = mpc.pow %x, %c : (tensor<64xf32>, tensor<f32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// 1 / (1 + exp(-x)).
// CHECK-LABEL: func.func @sigmoid(
// CHECK-DAG: %[[ONE:.*]] = arith.constant dense<1.000000e+00> : vector<8xf32>
// CHECK: %[[X:.*]] = vector.load
// CHECK-NEXT: %[[NEG:.*]] = arith.negf %[[X]]
// CHECK-NEXT: %[[E:.*]] = math.exp %[[NEG]]
// CHECK-NEXT: %[[D:.*]] = arith.addf %[[E]], %[[ONE]]
// CHECK-NEXT: arith.divf %[[ONE]], %[[D]]
func.func private @sigmoid(%x: tensor<64xf32>) -> tensor<64xf32>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.sigmoid %x : (tensor<64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}
