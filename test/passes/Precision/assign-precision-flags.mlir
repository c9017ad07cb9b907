// Flags, policy files and presets that change decisions.
// RUN: split-file %s %t
// RUN: mpc-opt %t/model.mlir -amp-assign-precision="mode=16-mixed keep-fp32=fc2" -mlir-print-local-scope | FileCheck %s --check-prefix=KEEP
// RUN: mpc-opt %t/model.mlir -amp-assign-precision="mode=16-mixed keep-fp32=fc1#" -mlir-print-local-scope | FileCheck %s --check-prefix=BACKWARD
// RUN: mpc-opt %t/model.mlir -amp-assign-precision="mode=16-mixed force-low=softmax" -mlir-print-local-scope | FileCheck %s --check-prefix=FORCE
// RUN: mpc-opt %t/model.mlir -amp-assign-precision="mode=16-mixed force-low=softmax keep-fp32=soft" -mlir-print-local-scope | FileCheck %s --check-prefix=BOTH
// RUN: mpc-opt %t/model.mlir -amp-assign-precision="mode=16-mixed policy=tensorflow" -mlir-print-local-scope | FileCheck %s --check-prefix=PRESET
// RUN: mpc-opt %t/model.mlir -amp-assign-precision="mode=16-mixed policy=%t/policy.json" -mlir-print-local-scope | FileCheck %s --check-prefix=FILE

// The expression is matched against names, forward and backward.
// KEEP: mpc.gemm {{.*}}reason = allow_list, path = ["fc1"]
// KEEP: mpc.gemm {{.*}}compute = f32, {{.*}}class = allow, rule = "--keep-fp32=fc2", {{.*}}reason = keep_fp32, {{.*}}flip = "drop --keep-fp32=fc2"
// KEEP: mpc.gemm {{.*}}reason = allow_list, path = ["fc1#dx"]

// BACKWARD: mpc.gemm {{.*}}reason = allow_list, path = ["fc1"]
// BACKWARD: mpc.gemm {{.*}}reason = allow_list, path = ["fc2"]
// BACKWARD: mpc.gemm {{.*}}reason = keep_fp32, path = ["fc1#dx"]

// FORCE: mpc.softmax {{.*}}results = [f16], {{.*}}class = deny, rule = "--force-low=softmax", {{.*}}reason = force_low
// Keeping fp32 is the safe side.
// BOTH: mpc.softmax {{.*}}results = [f32], {{.*}}class = deny, rule = "--keep-fp32=soft", {{.*}}reason = keep_fp32

// PRESET: mpc.softmax {{.*}}results = [f16], {{.*}}class = infer, rule = "preset:tensorflow:softmax", {{.*}}reason = between_low

// A rule for an op also covers its gradients. The last matching rule wins.
// FILE: mpc.gemm {{.*}}class = deny, rule = "{{.*}}policy.json:rules[0]", {{.*}}reason = deny_list, path = ["fc1"]
// FILE: mpc.softmax {{.*}}class = deny, rule = "preset:torch:softmax"
// FILE: mpc.gemm {{.*}}class = allow, rule = "{{.*}}policy.json:rules[1]", {{.*}}reason = allow_list, path = ["fc2"]

//--- model.mlir
func.func @step(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = mpc.gemm %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("fc1")
  %1 = mpc.softmax %0 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("softmax")
  %2 = mpc.gemm %1, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("fc2")
  %3 = mpc.gemm %2, %x {mpc.phase = #mpc.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("fc1#dx")
  return %3 : tensor<4x4xf32>
}

//--- policy.json
{
  "preset": "torch",
  "rules": [
    {"op": "Gemm", "class": "deny", "reason": "diverged once"},
    {"op": "gemm", "node": "fc2", "type": "fp16", "class": "allow"},
    {"op": "Gemm", "type": "bf16", "class": "infer"}
  ]
}
