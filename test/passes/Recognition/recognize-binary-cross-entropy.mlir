// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(mpc-recognize-binary-cross-entropy))" | FileCheck %s

// BCEWithLogitsLoss as PyTorch's TorchScript exporter writes it.
// CHECK-LABEL: func.func @torchscript
func.func @torchscript(%x: tensor<4x3xf32>, %t: tensor<4x3xf32>) -> tensor<4x3xf32> {
  // CHECK-NEXT: %[[L:.*]] = mpc.bce_with_logits %arg0, %arg1 : (tensor<4x3xf32>, tensor<4x3xf32>)
  // CHECK-NEXT: return %[[L]]
  %0 = mpc.sigmoid %x : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %1 = mpc.log %0 : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %2 = mpc.constant dense<1.0> : tensor<1xf32>
  %3 = mpc.sub %2, %0 : (tensor<1xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %4 = mpc.sub %2, %t : (tensor<1xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %5 = mpc.log %3 : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %6 = mpc.mul %t, %1 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %7 = mpc.mul %4, %5 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %8 = mpc.add %6, %7 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %9 = mpc.neg %8 : (tensor<4x3xf32>) -> tensor<4x3xf32>
  return %9 : tensor<4x3xf32>
}

// BCEWithLogitsLoss as PyTorch's current exporter writes it.
// CHECK-LABEL: func.func @dynamo
func.func @dynamo(%x: tensor<4x3xf32>, %t: tensor<4x3xf32>) -> tensor<4x3xf32> {
  // CHECK-NEXT: %[[L:.*]] = mpc.bce_with_logits %arg0, %arg1
  // CHECK-NEXT: return %[[L]]
  %0 = mpc.constant dense<1.0> : tensor<f32>
  %1 = mpc.sub %0, %t : (tensor<f32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %2 = mpc.mul %1, %x : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %3 = mpc.sigmoid %x : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %4 = mpc.log %3 : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %5 = mpc.sub %2, %4 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %5 : tensor<4x3xf32>
}

// max(x, 0) - x * t + log(1 + exp(-|x|)), with the bound as a separate op.
// CHECK-LABEL: func.func @by_absolute_value
func.func @by_absolute_value(%x: tensor<4x3xf32>, %t: tensor<4x3xf32>) -> tensor<4x3xf32> {
  // CHECK-NEXT: %[[L:.*]] = mpc.bce_with_logits %arg0, %arg1
  // CHECK-NEXT: return %[[L]]
  %zero = mpc.constant dense<0.0> : tensor<f32>
  %one = mpc.constant dense<1.0> : tensor<f32>
  %0 = mpc.maximum %x, %zero : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %1 = mpc.mul %x, %t : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %2 = mpc.sub %0, %1 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %3 = mpc.abs %x : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %4 = mpc.neg %3 : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %5 = mpc.exp %4 : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %6 = mpc.add %5, %one : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %7 = mpc.log %6 : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %8 = mpc.add %2, %7 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %8 : tensor<4x3xf32>
}

// PyTorch's form before 2.0: with m = max(-x, 0), (1 - t) * x + m + log(exp(-m)
// + exp(-x - m)).
// CHECK-LABEL: func.func @by_greatest_value
func.func @by_greatest_value(%x: tensor<4x3xf32>, %t: tensor<4x3xf32>) -> tensor<4x3xf32> {
  // CHECK-NEXT: %[[L:.*]] = mpc.bce_with_logits %arg0, %arg1
  // CHECK-NEXT: return %[[L]]
  %one = mpc.constant dense<1.0> : tensor<f32>
  %nx = mpc.neg %x : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %m = mpc.clip %nx {min = 0.0 : f64} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %0 = mpc.sub %one, %t : (tensor<f32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %1 = mpc.mul %0, %x : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %2 = mpc.add %1, %m : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %3 = mpc.neg %m : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %4 = mpc.exp %3 : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %5 = mpc.sub %nx, %m : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %6 = mpc.exp %5 : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %7 = mpc.add %4, %6 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %8 = mpc.log %7 : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %9 = mpc.add %2, %8 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %9 : tensor<4x3xf32>
}

// softplus(x) - x * t, with PyTorch's bound from the export. The logits are
// themselves a sum.
// CHECK-LABEL: func.func @softplus
func.func @softplus(%a: tensor<4x3xf32>, %b: tensor<3xf32>, %t: tensor<4x3xf32>) -> tensor<4x3xf32> {
  // CHECK-NEXT: %[[X:.*]] = mpc.add %arg0, %arg1
  // CHECK-NEXT: %[[L:.*]] = mpc.bce_with_logits %[[X]], %arg2
  // CHECK-NEXT: return %[[L]]
  %one = mpc.constant dense<1.0> : tensor<f32>
  %most = mpc.constant dense<20.0> : tensor<f32>
  %x = mpc.add %a, %b : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  %0 = mpc.mul %x, %one : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %1 = mpc.softplus %0 : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %2 = mpc.div %1, %one : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %3 = mpc.less %most, %0 : (tensor<f32>, tensor<4x3xf32>) -> tensor<4x3xi1>
  %4 = mpc.select %3, %x, %2 : (tensor<4x3xi1>, tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %5 = mpc.mul %x, %t : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %6 = mpc.sub %4, %5 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %6 : tensor<4x3xf32>
}

// logsigmoid of x and -x, negated after the mean.
// CHECK-LABEL: func.func @logsigmoid
func.func @logsigmoid(%x: tensor<4x3xf32>, %t: tensor<4x3xf32>) -> tensor<f32> {
  // CHECK-NEXT: %[[L:.*]] = mpc.bce_with_logits %arg0, %arg1
  // CHECK-NEXT: %[[N:.*]] = mpc.neg %[[L]]
  // CHECK-NEXT: mpc.reduce_mean %[[N]]
  %one = mpc.constant dense<1.0> : tensor<f32>
  %0 = mpc.sigmoid %x : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %1 = mpc.log %0 : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %2 = mpc.mul %t, %1 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %3 = mpc.sub %one, %t : (tensor<f32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %4 = mpc.neg %x : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %5 = mpc.sigmoid %4 : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %6 = mpc.log %5 : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %7 = mpc.mul %3, %6 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %8 = mpc.add %2, %7 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %9 = mpc.reduce_mean %8 {axes = array<i64: 0, 1>} : (tensor<4x3xf32>) -> tensor<f32>
  %10 = mpc.neg %9 : (tensor<f32>) -> tensor<f32>
  return %10 : tensor<f32>
}

// BCELoss: logarithms are at least -100.
// CHECK-LABEL: func.func @of_probabilities
func.func @of_probabilities(%p: tensor<4x3xf32>, %t: tensor<4x3xf32>) -> tensor<4x3xf32> {
  // CHECK-NEXT: %[[L:.*]] = mpc.bce %arg0, %arg1
  // CHECK-NEXT: return %[[L]]
  %one = mpc.constant dense<1.0> : tensor<f32>
  %least = mpc.constant dense<-100.0> : tensor<f32>
  %0 = mpc.sub %t, %one : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %1 = mpc.neg %p : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %2 = mpc.add %1, %one : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %3 = mpc.log %2 : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %4 = mpc.maximum %3, %least : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %5 = mpc.mul %0, %4 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %6 = mpc.log %p : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %7 = mpc.maximum %6, %least : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %8 = mpc.mul %t, %7 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %9 = mpc.sub %5, %8 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %9 : tensor<4x3xf32>
}

// With a weight for positive targets, only the logarithms are found: both are
// of one sigmoid.
// CHECK-LABEL: func.func @positive_weight
func.func @positive_weight(%x: tensor<4x3xf32>, %t: tensor<4x3xf32>, %w: tensor<3xf32>) -> tensor<4x3xf32> {
  // CHECK-NOT: mpc.sigmoid
  // CHECK-NOT: mpc.log
  // CHECK: %[[M:.*]] = mpc.neg %arg0
  // CHECK: mpc.softplus %[[M]]
  // CHECK: mpc.softplus %arg0
  // CHECK-NOT: mpc.log
  %one = mpc.constant dense<1.0> : tensor<1xf32>
  %0 = mpc.sigmoid %x : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %1 = mpc.log %0 : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %2 = mpc.sub %one, %0 : (tensor<1xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %3 = mpc.log %2 : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %4 = mpc.mul %t, %1 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %5 = mpc.mul %4, %w : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  %6 = mpc.sub %one, %t : (tensor<1xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %7 = mpc.mul %6, %3 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %8 = mpc.add %5, %7 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %8 : tensor<4x3xf32>
}

// Another op reads the target's complement too.
// CHECK-LABEL: func.func @shared_complement
func.func @shared_complement(%x: tensor<4x3xf32>, %t: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>) {
  // CHECK: %[[C:.*]] = mpc.sub %{{.*}}, %arg1
  // CHECK-NEXT: %[[L:.*]] = mpc.bce_with_logits %arg0, %arg1
  // CHECK-NEXT: return %[[L]], %[[C]]
  %one = mpc.constant dense<1.0> : tensor<f32>
  %0 = mpc.sub %one, %t : (tensor<f32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %1 = mpc.mul %0, %x : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %2 = mpc.sigmoid %x : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %3 = mpc.log %2 : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %4 = mpc.sub %1, %3 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %4, %0 : tensor<4x3xf32>, tensor<4x3xf32>
}

// Probabilities are clipped first: outside the bounds there is no gradient.
// CHECK-LABEL: func.func @clipped
// CHECK-NOT: mpc.bce
// CHECK-NOT: mpc.softplus
func.func @clipped(%x: tensor<4x3xf32>, %t: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %one = mpc.constant dense<1.0> : tensor<f32>
  %0 = mpc.sigmoid %x : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %p = mpc.clip %0 {min = 1.0e-7 : f64, max = 0.9999999 : f64} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %1 = mpc.log %p : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %2 = mpc.mul %t, %1 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %3 = mpc.sub %one, %t : (tensor<f32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %4 = mpc.sub %one, %p : (tensor<f32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %5 = mpc.log %4 : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %6 = mpc.mul %3, %5 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %7 = mpc.add %2, %6 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %7 : tensor<4x3xf32>
}

// Two targets; the sigmoid of another value; a bound of -1000; a softplus that
// is linear from 2 on.
// CHECK-LABEL: func.func @near_misses
// CHECK-NOT: mpc.bce
func.func @near_misses(%x: tensor<4x3xf32>, %z: tensor<4x3xf32>, %t: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>) {
  %one = mpc.constant dense<1.0> : tensor<f32>
  %two = mpc.constant dense<2.0> : tensor<f32>
  %0 = mpc.softplus %x : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %1 = mpc.mul %z, %t : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %2 = mpc.sub %0, %1 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %3 = mpc.mul %x, %t : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %4 = mpc.mul %3, %two : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %5 = mpc.softplus %x : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %6 = mpc.sub %5, %4 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %7 = mpc.softplus %x : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %8 = mpc.less %two, %x : (tensor<f32>, tensor<4x3xf32>) -> tensor<4x3xi1>
  // CHECK: mpc.select
  %9 = mpc.select %8, %x, %7 : (tensor<4x3xi1>, tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %2, %6, %9 : tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>
}

// The sigmoid has another user: only its logarithms are replaced.
// CHECK-LABEL: func.func @read_elsewhere
// CHECK-NOT: mpc.bce
// CHECK: mpc.log
func.func @read_elsewhere(%x: tensor<4x3xf32>, %t: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>) {
  %one = mpc.constant dense<1.0> : tensor<f32>
  %0 = mpc.sub %one, %t : (tensor<f32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %1 = mpc.mul %0, %x : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %2 = mpc.sigmoid %x : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %3 = mpc.log %2 : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %4 = mpc.sub %1, %3 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %4, %2 : tensor<4x3xf32>, tensor<4x3xf32>
}
