// RUN: mpc-opt %s | mpc-opt -mlir-print-local-scope | FileCheck %s

// CHECK-LABEL: func @cast
func.func @cast(%x: tensor<8xf32>) -> tensor<8xbf16> {
  // CHECK: amp.cast %{{.*}} : (tensor<8xf32>) -> tensor<8xbf16>
  %0 = amp.cast %x : (tensor<8xf32>) -> tensor<8xbf16>
  return %0 : tensor<8xbf16>
}

// CHECK-LABEL: func @loss_scale
func.func @loss_scale(%g: tensor<8xf16>, %scale: tensor<f32>, %good: tensor<i64>, %left: tensor<i64>)
    -> (tensor<8xf32>, tensor<f32>, tensor<i64>, tensor<i64>) {
  %one = mpc.constant dense<1.0> : tensor<f32>
  // CHECK: amp.scale_loss %{{.*}}, %{{.*}} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %s = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
  // CHECK: amp.unscale %{{.*}}, %{{.*}} : (tensor<8xf16>, tensor<f32>) -> tensor<8xf32>
  %u = amp.unscale %g, %s : (tensor<8xf16>, tensor<f32>) -> tensor<8xf32>
  // CHECK: amp.all_finite %{{.*}} : (tensor<8xf32>) -> tensor<i1>
  %ok = amp.all_finite %u : (tensor<8xf32>) -> tensor<i1>
  // CHECK: amp.update_scale
  // CHECK-SAME: growth_interval = 2000 : i64
  %s1, %g1, %l1 = amp.update_scale %scale, %good, %left, %ok
      {growth_factor = 2.0 : f64, backoff_factor = 0.5 : f64, growth_interval = 2000 : i64,
       min_scale = 6.103515625e-05 : f64, max_scale = 16777216.0 : f64, hysteresis = 1 : i64}
      : (tensor<f32>, tensor<i64>, tensor<i64>, tensor<i1>) -> (tensor<f32>, tensor<i64>, tensor<i64>)
  return %u, %s1, %g1, %l1 : tensor<8xf32>, tensor<f32>, tensor<i64>, tensor<i64>
}

// CHECK-LABEL: func @decision
func.func @decision(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  // CHECK: #amp.decision<operands = [any], results = [bf16], compute = f32, class = clear, rule = "default:relu", why = "exact",
  // CHECK-SAME: reason = between_low, path = ["fc1", "relu", "fc2"], evidence = assumed, flip = "--keep-fp32=^relu$">
  %0 = mpc.relu %x {amp.decision = #amp.decision<operands = [any], results = [bf16], compute = f32, class = clear,
      rule = "default:relu", why = "exact", reason = between_low, path = ["fc1", "relu", "fc2"], evidence = assumed, flip = "--keep-fp32=^relu$">}
      : (tensor<8xf32>) -> tensor<8xf32>
  // No flag flips a hard constraint.
  // CHECK: evidence = proved>
  %1 = mpc.relu %0 {amp.decision = #amp.decision<operands = [f64], results = [f64], compute = f64, class = fixed,
      rule = "default:relu", why = "exact", reason = model_type, path = ["relu"], evidence = proved>}
      : (tensor<8xf32>) -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}
