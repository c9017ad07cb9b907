// RUN: mpc-opt %s --plan-fill-constants | FileCheck %s
// RUN: mpc-opt %s --mpc-attach-target=name=x86-64 --plan-fill-constants --plan-outline-kernels --plan-build-programs | FileCheck %s --check-prefix=PLAN

// CHECK-LABEL: func.func @zeros
// CHECK-NEXT: %[[R:.*]] = mpc.region pointwise() {kernel = "fill"} : () -> tensor<128x64xf32> {
// CHECK-NEXT: %[[C:.*]] = mpc.constant dense<0.000000e+00> : tensor<128x64xf32>
// CHECK-NEXT: mpc.yield %[[C]]
// CHECK: return %[[R]]
//
// PLAN-LABEL: plan.program @zeros
// PLAN-NOT: plan.constant
// PLAN: plan.launch @fill outs(%{{.*}} : memref<128x64xf32>) extent 8192
func.func @zeros() -> (tensor<128x64xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  %0 = mpc.constant dense<0.0> : tensor<128x64xf32>
  return %0 : tensor<128x64xf32>
}

// Small constants, constants of several values and constants in kernels stay.
//
// CHECK-LABEL: func.func @others
// CHECK-NOT: kernel = "fill"
// CHECK: return
func.func @others(%x: tensor<8192xf32>) -> (tensor<4095xf32>, tensor<2xf32>, tensor<8192xf32>) {
  %0 = mpc.constant dense<0.0> : tensor<4095xf32>
  %1 = mpc.constant dense<[0.0, 1.0]> : tensor<2xf32>
  %2 = mpc.region pointwise (%x) : (tensor<8192xf32>) -> tensor<8192xf32> {
  ^bb0(%a: tensor<8192xf32>):
    %3 = mpc.constant dense<1.0> : tensor<8192xf32>
    %4 = mpc.add %a, %3 : (tensor<8192xf32>, tensor<8192xf32>) -> tensor<8192xf32>
    mpc.yield %4 : tensor<8192xf32>
  }
  return %0, %1, %2 : tensor<4095xf32>, tensor<2xf32>, tensor<8192xf32>
}
