// Products of an update with the attribute mpc.low_update compute in the low
// type, if the policy and the flags allow it. All other ops of updates stay
// wide.
// RUN: mpc-opt %s --mpc-attach-target=name=zen5 -amp-assign-precision="mode=bf16-mixed" -amp-insert-casts -amp-verify-precision -mlir-print-local-scope | FileCheck %s
// RUN: mpc-opt %s --mpc-attach-target=name=zen5 -amp-assign-precision="mode=16-mixed" -amp-insert-casts -mlir-print-local-scope | FileCheck %s --check-prefix=HALF
// RUN: mpc-opt %s --mpc-attach-target=name=zen5 -amp-assign-precision="mode=bf16-mixed keep-fp32=^w#update" -amp-insert-casts -amp-verify-precision -mlir-print-local-scope | FileCheck %s --check-prefix=KEPT
// RUN: mpc-opt %s --mpc-attach-target=name=zen5 -amp-assign-precision="mode=32-true" -amp-verify-precision -mlir-print-local-scope | FileCheck %s --check-prefix=SINGLE
// RUN: sed 's/mpc.low_update/mpc.high_update/' %s | not mpc-opt 2>&1 | FileCheck %s --check-prefix=UNKNOWN

mpc.variable @w : tensor<64x64xf32> role parameter
func.func @step(%g: tensor<64x64xf32> {mpc.input = "g", mpc.role = #mpc.role<data>},
                %lr: tensor<f32> {mpc.input = "learning_rate", mpc.role = #mpc.role<scalar>},
                %w: tensor<64x64xf32> {mpc.state = @w}) -> (tensor<64x64xf32> {mpc.updates = @w}) {
  // CHECK: %[[LOW:.*]] = mpc.matmul {{.*}}reason = allow_list{{.*}}(tensor<64x64xbf16>, tensor<64x64xbf16>)
  // HALF: mpc.matmul {{.*}}reason = allow_list{{.*}}(tensor<64x64xf16>, tensor<64x64xf16>)
  // KEPT: mpc.matmul {{.*}}reason = keep_fp32{{.*}}(tensor<64x64xf32>, tensor<64x64xf32>)
  // SINGLE: mpc.matmul {{.*}}(tensor<64x64xf32>, tensor<64x64xf32>)
  // UNKNOWN: no op has an attribute 'mpc.high_update'
  %0 = mpc.matmul %g, %g {transB = true, mpc.low_update, mpc.phase = #mpc.phase<optimizer>}
      : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("w#update")
  // CHECK: mpc.matmul {{.*}}reason = update{{.*}}(tensor<64x64xf32>, tensor<64x64xf32>)
  %1 = mpc.matmul %0, %g {mpc.phase = #mpc.phase<optimizer>}
      : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("other#update")
  // CHECK: mpc.sgd {{.*}}(tensor<64x64xf32>, tensor<64x64xf32>, tensor<f32>)
  %2 = mpc.sgd %w, %1, %lr {mpc.phase = #mpc.phase<optimizer>}
      : (tensor<64x64xf32>, tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xf32> loc("w#update")
  return %2 : tensor<64x64xf32>
}
