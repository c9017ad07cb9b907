// RUN: mpc-opt %s -mpc-expand-gradients | FileCheck %s

// A constant exponent needs no comparison with zero. x^2, x^3, x^-1 and x^0
// become products, not powers.
// CHECK-LABEL: func @constant_powers
// CHECK-NOT: mpc.select
// CHECK-COUNT-1: mpc.pow {{.*}}backward
// CHECK-NOT: mpc.pow {{.*}}backward
// CHECK: return
func.func @constant_powers(%x: tensor<4xf32>) -> tensor<4xf32> {
  %two = mpc.constant dense<2.0> : tensor<f32>
  %three = mpc.constant dense<3.0> : tensor<f32>
  %minus = mpc.constant dense<-1.0> : tensor<f32>
  %zero = mpc.constant dense<0.0> : tensor<f32>
  %0 = mpc.pow %x, %two : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = mpc.pow %0, %three : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = mpc.pow %1, %minus : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = mpc.pow %x, %zero : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %4 = mpc.add %2, %3 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g = mpc.gradient %4 wrt %x : tensor<4xf32>, (tensor<4xf32>) -> (tensor<4xf32>)
  return %g : tensor<4xf32>
}

// The backward pass draws a dropout's mask again from the same counters.
// CHECK-LABEL: func @dropout
// CHECK-SAME: %[[S:[a-z0-9]+]]: tensor<i64>, %[[M:[a-z0-9]+]]: tensor<i64>
// CHECK: mpc.dropout %{{.*}}, %[[S]], %[[M]] {id = 7 : i64, ratio
// CHECK: mpc.dropout %{{.*}}, %[[S]], %[[M]] {id = 7 : i64, mpc.phase = #mpc.phase<backward>
func.func @dropout(%x: tensor<8xf32>, %s: tensor<i64>, %m: tensor<i64>) -> tensor<8xf32> {
  %0 = mpc.dropout %x, %s, %m {ratio = 0.5 : f64, id = 7 : i64} : (tensor<8xf32>, tensor<i64>, tensor<i64>) -> tensor<8xf32>
  %g = mpc.gradient %0 wrt %x : tensor<8xf32>, (tensor<8xf32>) -> (tensor<8xf32>)
  return %g : tensor<8xf32>
}

// With mpc.clamps, an element at a bound gets no gradient.
// CHECK-LABEL: func @open_clip
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4xf32>
// CHECK-NOT: mpc.clip_grad
// CHECK: %[[ABOVE:.*]] = mpc.less %{{.*}}, %[[X]]
// CHECK: %[[DX:.*]] = mpc.select %[[ABOVE]]
// CHECK: %[[BELOW:.*]] = mpc.less %[[X]], %{{.*}}
// CHECK: mpc.select %[[BELOW]], %[[DX]]
func.func @open_clip(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = mpc.clip %x {min = 0.0 : f64, max = 6.0 : f64, mpc.clamps = 0.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  %g = mpc.gradient %0 wrt %x : tensor<4xf32>, (tensor<4xf32>) -> (tensor<4xf32>)
  return %g : tensor<4xf32>
}
