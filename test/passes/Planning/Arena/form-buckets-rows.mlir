// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(plan-form-buckets{table-bytes=64}))" | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline="builtin.module(mpc-attach-target{name=sm_90},func.func(plan-form-buckets{table-bytes=64}))" | FileCheck %s --check-prefix=GPU
// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(plan-form-buckets))" | FileCheck %s --check-prefix=SMALL

// A table of which rows travel has a message of its own, between the members of
// a bucket. A small table joins the bucket.
// CHECK-LABEL: func.func @tables
// CHECK: %[[BIG:.*]] = mpc.all_reduce mean %arg1 rows : (tensor<8x2xf32>) -> tensor<8x2xf32>
// CHECK-NEXT: %[[ALL:.*]]:3 = mpc.all_reduce mean %arg0, %arg2, %arg3 : (tensor<4xf32>, tensor<7x2xf32>, tensor<4xf32>)
// CHECK-NEXT: return %[[ALL]]#0, %[[BIG]], %[[ALL]]#1, %[[ALL]]#2

// NCCL reduces whole tables.
// GPU-LABEL: func.func @tables
// GPU: mpc.all_reduce mean %arg0, %arg1, %arg2, %arg3 : (
// GPU-NOT: rows

// By default, a table has 256 KiB at least.
// SMALL-LABEL: func.func @tables
// SMALL: mpc.all_reduce mean %arg0, %arg1, %arg2, %arg3 : (
func.func @tables(%a: tensor<4xf32>, %big: tensor<8x2xf32>, %small: tensor<7x2xf32>, %b: tensor<4xf32>)
    -> (tensor<4xf32>, tensor<8x2xf32>, tensor<7x2xf32>, tensor<4xf32>) {
  %0 = mpc.all_reduce mean %a : (tensor<4xf32>) -> tensor<4xf32>
  %1 = mpc.all_reduce mean %big rows : (tensor<8x2xf32>) -> tensor<8x2xf32>
  %2 = mpc.all_reduce mean %small rows : (tensor<7x2xf32>) -> tensor<7x2xf32>
  %3 = mpc.all_reduce mean %b : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1, %2, %3 : tensor<4xf32>, tensor<8x2xf32>, tensor<7x2xf32>, tensor<4xf32>
}

// A small table that is alone loses its rows, too.
// SMALL-LABEL: func.func @alone
// SMALL: mpc.all_reduce mean %arg0 : (tensor<8x2xf32>) -> tensor<8x2xf32>
// SMALL-LABEL: func.func @large
// SMALL: mpc.all_reduce mean %arg0 rows : (tensor<1024x64xf32>) -> tensor<1024x64xf32>
func.func @alone(%a: tensor<8x2xf32>) -> tensor<8x2xf32> {
  %0 = mpc.all_reduce mean %a rows : (tensor<8x2xf32>) -> tensor<8x2xf32>
  return %0 : tensor<8x2xf32>
}
func.func @large(%a: tensor<1024x64xf32>) -> tensor<1024x64xf32> {
  %0 = mpc.all_reduce mean %a rows : (tensor<1024x64xf32>) -> tensor<1024x64xf32>
  return %0 : tensor<1024x64xf32>
}
