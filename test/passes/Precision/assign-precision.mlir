// RUN: mpc-opt %s -split-input-file --mpc-attach-target=name=zen5 -amp-assign-precision="mode=16-mixed" -mlir-print-debuginfo -mlir-print-local-scope | FileCheck %s --check-prefixes=CHECK,FP16
// RUN: mpc-opt %s -split-input-file --mpc-attach-target=name=zen5 -amp-assign-precision="mode=bf16-mixed" -mlir-print-debuginfo -mlir-print-local-scope | FileCheck %s --check-prefixes=CHECK,BF16
// RUN: mpc-opt %s -split-input-file --mpc-attach-target=name=zen5 -amp-assign-precision="mode=32-true" -mlir-print-local-scope | FileCheck %s --check-prefix=FP32
// RUN: mpc-opt %s -split-input-file --mpc-attach-target=name=zen5 -amp-assign-precision="mode=64-true" -mlir-print-local-scope | FileCheck %s --check-prefix=FP64

// The mode with one type decides nothing, and says so.
// FP32: amp.mode = #amp.mode<"32-true">
// FP32: mpc.matmul {{.*}}results = [f32], compute = f32, class = allow, {{.*}}reason = mode
// FP64: amp.mode = #amp.mode<"64-true">
// FP64: mpc.matmul {{.*}}results = [f64], compute = f64, class = allow, {{.*}}reason = mode

// A contraction multiplies the low type and sums in fp32. If no low op reads
// the result, it stays fp32 too.
// CHECK-LABEL: func @allowed
func.func @allowed(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // FP16: mpc.matmul {{.*}}results = [f16], compute = f16, class = allow, rule = "default:matmul", {{.*}}reason = allow_list, path = ["a"]
  // BF16: mpc.matmul {{.*}}results = [bf16], compute = bf16, class = allow
  %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("a")
  // CHECK: mpc.matmul {{.*}}results = [f32], {{.*}}class = allow, {{.*}}path = ["b"], {{.*}}flip = "--keep-fp32=^b$"
  %1 = mpc.matmul %0, %0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("b")
  return %1 : tensor<4x4xf32>
}

// -----

// CHECK-LABEL: func @between_low
func.func @between_low(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("a")
  // CHECK: mpc.add {{.*}}results = [{{b?}}f16], compute = f32, class = infer, {{.*}}reason = between_low, path = ["a", "add", "relu", "b"]
  %1 = mpc.add %0, %0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("add")
  // CHECK: mpc.relu {{.*}}results = [{{b?}}f16], {{.*}}class = clear, {{.*}}reason = between_low
  %2 = mpc.relu %1 : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("relu")
  %3 = mpc.matmul %2, %2 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("b")
  // CHECK: mpc.add {{.*}}results = [f32], {{.*}}class = infer, {{.*}}reason = not_between_low, {{.*}}flip = "--force-low=^tail$"
  %4 = mpc.add %3, %3 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("tail")
  return %4 : tensor<4x4xf32>
}

// -----

// fp16 denies ops that bf16, with the range of fp32, allows.
// CHECK-LABEL: func @denied
func.func @denied(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("a")
  // FP16: mpc.exp {{.*}}results = [f32], {{.*}}class = deny, rule = "default:exp", {{.*}}reason = deny_list
  // BF16: mpc.exp {{.*}}results = [bf16], {{.*}}class = infer, {{.*}}reason = between_low
  %1 = mpc.exp %0 : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("exp")
  // FP16: mpc.mul {{.*}}results = [f32], {{.*}}class = infer, {{.*}}reason = after_denied, path = ["exp", "mul"]
  // BF16: mpc.mul {{.*}}results = [bf16], {{.*}}class = infer, {{.*}}reason = between_low
  %2 = mpc.mul %1, %1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("mul")
  // A clear op at the end of a denied chain may round before it moves data.
  // FP16: mpc.transpose {{.*}}results = [f16], {{.*}}class = clear, {{.*}}reason = follows_neighbours, path = ["transpose", "b"]
  %3 = mpc.transpose %2 {perm = array<i64: 1, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("transpose")
  %4 = mpc.matmul %3, %3 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("b")
  return %4 : tensor<4x4xf32>
}

// -----

// A user's sum is denied and unbounded in fp16. The gradient of a broadcast is
// neither.
// CHECK-LABEL: func @sums
func.func @sums(%x: tensor<4x4xf32>) -> (tensor<1x4xf32>, tensor<1x4xf32>) {
  // FP16: mpc.reduce_sum {{.*}}results = [f32], {{.*}}class = deny
  %0 = mpc.reduce_sum %x {axes = array<i64: 0>, keepdims = true} : (tensor<4x4xf32>) -> tensor<1x4xf32> loc("sum")
  // FP16: mpc.matmul {{.*}}reason = allow_list_unbounded, path = ["sum", "a"]
  // BF16: mpc.matmul {{.*}}reason = allow_list,
  %1 = mpc.matmul %x, %0 {transB = true} : (tensor<4x4xf32>, tensor<1x4xf32>) -> tensor<4x1xf32> loc("a")
  %2 = mpc.matmul %1, %0 : (tensor<4x1xf32>, tensor<1x4xf32>) -> tensor<4x4xf32> loc("b")
  // CHECK: mpc.sum_to_size {{.*}}results = [{{b?}}f16], {{.*}}class = infer, {{.*}}reason = between_low, path = ["b", "sum_to", "c"]
  %3 = mpc.sum_to_size %2 : (tensor<4x4xf32>) -> tensor<1x4xf32> loc("sum_to")
  %4 = mpc.matmul %3, %x : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32> loc("c")
  // The rule covers every form of the backward pass.
  // CHECK: mpc.reduce_sum {{.*}}class = infer, rule = "default:sum_to_size"
  %5 = mpc.reduce_sum %2 {axes = array<i64: 0>, keepdims = true, mpc.phase = #mpc.phase<backward>} : (tensor<4x4xf32>) -> tensor<1x4xf32> loc("a#db")
  return %5, %4 : tensor<1x4xf32>, tensor<1x4xf32>
}

// -----

// The loss and its gradient are fp32 for any operands.
// CHECK-LABEL: func @loss
func.func @loss(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("a")
  // CHECK: mpc.sub {{.*}}results = [f32], {{.*}}class = infer, {{.*}}reason = loss_region, {{.*}}evidence = proved
  %1 = mpc.sub %0, %x {mpc.phase = #mpc.phase<loss>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("mse")
  // CHECK: mpc.mul {{.*}}reason = loss_region
  %2 = mpc.mul %1, %1 {mpc.phase = #mpc.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("mse#dx")
  %3 = mpc.matmul %2, %2 {mpc.phase = #mpc.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("a#dx")
  return %3 : tensor<4x4xf32>
}

// -----

// The loss scale enters at the seed. fp16 need not represent the seed in any
// shape or multiple, because a factor may make it small.
// CHECK-LABEL: func @multiples_of_seed
func.func @multiples_of_seed(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %half = mpc.constant dense<0.5> : tensor<f32>
  %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("a")
  %seed = mpc.gradient_seed : tensor<f32>
  // CHECK: mpc.mul {{.*}}results = [f32], {{.*}}reason = loss_region, {{.*}}loc("factor#dx")
  %1 = mpc.mul %seed, %half {mpc.phase = #mpc.phase<backward>} : (tensor<f32>, tensor<f32>) -> tensor<f32> loc("factor#dx")
  // CHECK: mpc.expand {{.*}}results = [f32], {{.*}}class = clear, {{.*}}reason = loss_region
  %2 = mpc.expand %1 {mpc.phase = #mpc.phase<backward>} : (tensor<f32>) -> tensor<4x4xf32> loc("sum#dx")
  // CHECK: mpc.mul {{.*}}results = [{{b?}}f16], {{.*}}reason = between_low
  %3 = mpc.mul %2, %0 {mpc.phase = #mpc.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("square#da")
  %4 = mpc.matmul %3, %x {mpc.phase = #mpc.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("a#dx")
  return %4 : tensor<4x4xf32>
}

// -----

// A constant that fp16 cannot hold keeps its user in fp32. Next to the
// constant, bf16 keeps no digit of the other operand.
// CHECK-LABEL: func @constant_range
func.func @constant_range(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %mask = mpc.constant dense<-1.0e+9> : tensor<4x4xf32>
  %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("a")
  // FP16: mpc.add {{.*}}results = [f32], {{.*}}class = infer, {{.*}}reason = constant_range, {{.*}}sources = [{kind = "constant", value = 1.000000e+09 : f64}], evidence = proved
  // BF16: mpc.add {{.*}}results = [f32], {{.*}}class = infer, {{.*}}reason = wide_operand
  %1 = mpc.add %0, %mask : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("mask")
  // FP16: mpc.clip {{.*}}reason = constant_range, {{.*}}sources = [{kind = "value", name = "clip", value = 1.000000e+06 : f64}], evidence = proved
  %2 = mpc.clip %1 {max = 1.0e+6 : f64} : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("clip")
  %3 = mpc.matmul %2, %2 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("b")
  return %3 : tensor<4x4xf32>
}

// -----

// So does a constant that fp16 rounds to 0 or to few digits, such as an epsilon
// before a logarithm. Zero is zero in any type.
// CHECK-LABEL: func @vanishing
func.func @vanishing(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %epsilon = mpc.constant dense<1.0e-8> : tensor<f32>
  %small = mpc.constant dense<1.0e-6> : tensor<f32>
  %zero = mpc.constant dense<0.0> : tensor<f32>
  %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("v")
  // FP16: mpc.add {{.*}}results = [f32], {{.*}}reason = constant_range
  // BF16: mpc.add {{.*}}results = [bf16], {{.*}}reason = known_operand
  %1 = mpc.add %0, %epsilon : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32> loc("epsilon")
  // FP16: mpc.mul {{.*}}results = [f32], {{.*}}reason = constant_range
  // BF16: mpc.mul {{.*}}results = [bf16], {{.*}}reason = between_low
  %2 = mpc.mul %0, %small : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32> loc("small")
  // CHECK: mpc.add {{.*}}results = [{{b?}}f16], {{.*}}reason = known_operand
  %3 = mpc.add %0, %zero : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32> loc("zero")
  // FP16: mpc.clip {{.*}}reason = constant_range
  // BF16: mpc.clip {{.*}}reason = between_low
  %4 = mpc.clip %0 {min = 1.0e-7 : f64} : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("clipped")
  // CHECK: mpc.clip {{.*}}reason = between_low
  %5 = mpc.clip %0 {min = 0.0 : f64} : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("unclipped")
  %6 = mpc.matmul %1, %4 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("w0")
  %7 = mpc.matmul %3, %5 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("w1")
  %8 = mpc.matmul %6, %7 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("w2")
  %9 = mpc.relu %2 : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("r")
  // Gradients are multiples of the loss scale.
  // CHECK: mpc.mul {{.*}}results = [{{b?}}f16], {{.*}}reason = between_low
  %11 = mpc.mul %0, %small {mpc.phase = #mpc.phase<backward>} : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32> loc("small#da")
  %12 = mpc.matmul %11, %x {mpc.phase = #mpc.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("v#dx")
  %10 = mpc.matmul %8, %9 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("w3")
  return %10, %12 : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// Values that the model stores in another type stay unchanged.
// CHECK-LABEL: func @model_types
func.func @model_types(%x: tensor<4x4xf64>, %i: tensor<4x4xi64>) -> (tensor<4x4xf64>, tensor<4x4xf32>) {
  // CHECK: mpc.matmul {{.*}}results = [f64], compute = f64, model = [f64], class = allow, {{.*}}reason = model_type
  %0 = mpc.matmul %x, %x : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64> loc("double")
  // CHECK: mpc.cast {{.*}}results = [f32], {{.*}}class = fixed, {{.*}}reason = model_cast
  // CHECK-NOT: flip
  // CHECK-SAME: loc("cast")
  %1 = mpc.cast %i : (tensor<4x4xi64>) -> tensor<4x4xf32> loc("cast")
  return %0, %1 : tensor<4x4xf64>, tensor<4x4xf32>
}

// -----

// An op in two functions is decided once: the sum in @step alone would stay
// fp32, but @eval multiplies it.
// CHECK-LABEL: func @step
func.func @step(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("a")
  // CHECK: mpc.add {{.*}}results = [{{b?}}f16], {{.*}}reason = between_low
  %1 = mpc.add %0, %0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("add")
  return %1 : tensor<4x4xf32>
}
// CHECK-LABEL: func @eval
func.func @eval(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("a")
  // CHECK: mpc.add {{.*}}results = [{{b?}}f16], {{.*}}reason = between_low
  %1 = mpc.add %0, %0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("add")
  %2 = mpc.matmul %1, %1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("b")
  return %2 : tensor<4x4xf32>
}
