// The flag that flips a decision names one op, though several have the name. The
// ops that follow are listed.
// RUN: mpc-opt %s -amp-assign-precision="mode=bf16-mixed list-followers" -mlir-print-local-scope | FileCheck %s
// RUN: mpc-opt %s -amp-assign-precision="mode=bf16-mixed list-followers keep-fp32=^fc~1$" -mlir-print-local-scope | FileCheck %s --check-prefix=FIRST
// RUN: mpc-opt %s -amp-assign-precision="mode=bf16-mixed list-followers keep-fp32=^fc~2$" -mlir-print-local-scope | FileCheck %s --check-prefix=SECOND
// RUN: mpc-opt %s -amp-assign-precision="mode=bf16-mixed list-followers keep-fp32=^fc$" -mlir-print-local-scope | FileCheck %s --check-prefix=BOTH
// RUN: mpc-opt %s -amp-assign-precision="mode=bf16-mixed" -mlir-print-local-scope | FileCheck %s --check-prefix=UNASKED
// RUN: not mpc-opt %s -amp-assign-precision="mode=bf16-mixed keep-fp32=2$" 2>&1 | FileCheck %s --check-prefix=NUMBER

// A name that a node has is no id of another node. Without a name, the kind
// stands for the name.
// CHECK: mpc.matmul {{.*}}flip = "--keep-fp32=^fc~1$">, amp.followers = ["tanh~1"], amp.id = "fc~1"}
// CHECK: mpc.tanh {{.*}}flip = "--keep-fp32=^tanh~1$">, amp.followers = ["fc~1"], amp.id = "tanh~1"}
// CHECK: mpc.matmul {{.*}}flip = "--keep-fp32=^fc~2$">, amp.followers = ["fc~1", "tanh~1"], amp.id = "fc~2"}
// CHECK: mpc.relu {{.*}}flip = "--keep-fp32=^relu$">, amp.followers = ["fc~2"]}
// CHECK: mpc.matmul {{.*}}flip = "--keep-fp32=^fc~4$">, amp.followers = ["fc~2", "relu"], amp.id = "fc~4"}
// CHECK: mpc.neg {{.*}}flip = "--force-low=^fc~3$">, amp.followers = ["fc~4"]}

// FIRST: mpc.matmul {{.*}}compute = f32, {{.*}}flip = "drop --keep-fp32=^fc~1$">, amp.followers = ["tanh~1"], amp.id = "fc~1"}
// FIRST: mpc.tanh {{.*}}results = [f32]
// FIRST: mpc.matmul {{.*}}compute = bf16

// SECOND: mpc.matmul {{.*}}results = [f32], compute = bf16
// SECOND: mpc.tanh {{.*}}results = [f32]
// SECOND: mpc.matmul {{.*}}compute = f32
// SECOND: mpc.relu {{.*}}results = [bf16]

// BOTH: mpc.matmul {{.*}}compute = f32, {{.*}}flip = "drop --keep-fp32=^fc$">, amp.followers = [
// BOTH: mpc.matmul {{.*}}compute = f32, {{.*}}flip = "drop --keep-fp32=^fc$">, amp.followers = [

// A layer's op of training and another of evaluation have the same id: a flag
// names both. A report shows only training, so only ops of training are listed.
// CHECK-LABEL: func.func @eval
// CHECK: mpc.matmul {{.*}}flip = "--keep-fp32=^relu$">, amp.followers = ["fc~2"]}

// UNASKED-NOT: amp.followers
// Only expressions with a ~ see the numbers of ids.
// NUMBER: keep-fp32: expression '2$' matches no node
func.func @step(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("fc")
  %1 = mpc.tanh %0 : (tensor<4x4xf32>) -> tensor<4x4xf32> loc(unknown)
  %2 = mpc.matmul %1, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("fc")
  %3 = mpc.relu %2 : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("relu")
  %4 = mpc.matmul %3, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("fc")
  %5 = mpc.neg %4 : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("fc~3")
  return %5 : tensor<4x4xf32>
}
func.func @eval(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("relu")
  return %0 : tensor<4x4xf32>
}
