// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v3 --mpc-emit-kernels --cse --canonicalize | FileCheck %s

// The quotient of two f32 has up to 277 bits. Each of twelve steps subtracts 25 of
// them, from the highest on, in f64.
// CHECK-LABEL: func.func @fmod(
// CHECK: %[[X:.*]] = math.absf {{.*}} : vector<8xf64>
// CHECK-NEXT: %[[Y:.*]] = math.absf
// CHECK-NEXT: %[[SCALED:.*]] = arith.mulf %[[Y]], %{{.*}}
// CHECK-NEXT: %[[Q:.*]] = arith.divf %[[X]], %[[SCALED]]
// CHECK-NEXT: %[[WHOLE:.*]] = math.floor %[[Q]]
// CHECK-NEXT: %[[P:.*]] = arith.mulf %[[WHOLE]], %[[SCALED]]
// CHECK-NEXT: %[[REST:.*]] = arith.subf %[[X]], %[[P]]
// CHECK-NEXT: %[[UNDER:.*]] = arith.cmpf olt, %[[REST]]
// CHECK-NEXT: %[[MORE:.*]] = arith.addf %[[REST]], %[[SCALED]]
// CHECK-NEXT: arith.select %[[UNDER]], %[[MORE]], %[[REST]]
// CHECK-COUNT-11: math.floor {{.*}} : vector<8xf64>
// CHECK-NOT: math.floor {{.*}} : vector
// CHECK: arith.bitcast {{.*}} : vector<8xf64> to vector<8xi64>
// CHECK: arith.negf
// CHECK-NEXT: arith.select
// CHECK-NEXT: arith.truncf {{.*}} : vector<8xf64> to vector<8xf32>
func.func private @fmod(%x: tensor<64xf32>, %y: tensor<64xf32>) -> tensor<64xf32>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.mod %x, %y {fmod = true} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}
