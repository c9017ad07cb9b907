// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v3 --mpc-emit-kernels --cse --canonicalize | FileCheck %s

// A NaN of the forward pass is kept where the gradient would be 0.
// CHECK-LABEL: func.func @relu_grad(
// CHECK: %[[DY:.*]] = vector.load
// CHECK-NEXT: %[[Y:.*]] = vector.load
// CHECK-NEXT: %[[ON:.*]] = arith.cmpf ogt, %[[Y]], %[[ZERO:.*]] : vector<8xf32>
// CHECK-NEXT: %[[NAN:.*]] = arith.cmpf uno, %[[Y]], %[[Y]]
// CHECK-NEXT: %[[OFF:.*]] = arith.select %[[NAN]], %[[Y]], %[[ZERO]]
// CHECK-NEXT: arith.select %[[ON]], %[[DY]], %[[OFF]]
func.func private @relu_grad(%dy: tensor<64xf32>, %y: tensor<64xf32>) -> tensor<64xf32>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.relu_grad %dy, %y : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// dy (1 - y y), of the result of the forward op.
// CHECK-LABEL: func.func @tanh_grad(
// CHECK-DAG: %[[ONE:.*]] = arith.constant dense<1.000000e+00> : vector<8xf32>
// CHECK: %[[DY:.*]] = vector.load
// CHECK-NEXT: %[[Y:.*]] = vector.load
// CHECK-NEXT: %[[YY:.*]] = arith.mulf %[[Y]], %[[Y]]
// CHECK-NEXT: %[[SLOPE:.*]] = arith.subf %[[ONE]], %[[YY]]
// CHECK-NEXT: arith.mulf %[[DY]], %[[SLOPE]]
func.func private @tanh_grad(%dy: tensor<64xf32>, %y: tensor<64xf32>) -> tensor<64xf32>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.tanh_grad %dy, %y : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// The gradient passes at the limit itself. An absent limit takes no comparison.
// CHECK-LABEL: func.func @clip_grad(
// CHECK-DAG: %[[SIX:.*]] = arith.constant dense<6.000000e+00> : vector<8xf32>
// CHECK: %[[DY:.*]] = vector.load
// CHECK-NEXT: %[[X:.*]] = vector.load
// CHECK: %[[NAN:.*]] = arith.cmpf uno, %[[X]], %[[X]]
// CHECK-NEXT: %[[OFF:.*]] = arith.select %[[NAN]]
// CHECK-NEXT: %[[IN:.*]] = arith.cmpf ole, %[[X]], %[[SIX]]
// CHECK-NEXT: %[[DX:.*]] = arith.select %[[IN]], %[[DY]], %[[OFF]]
// CHECK-NEXT: vector.store %[[DX]]
func.func private @clip_grad(%dy: tensor<64xf32>, %x: tensor<64xf32>) -> tensor<64xf32>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.clip_grad %dy, %x {max = 6.0 : f64} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}
