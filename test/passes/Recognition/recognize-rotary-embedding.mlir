// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(mpc-recognize-rotary-embedding))" | FileCheck %s

// The example of Passes.td: Llama.
// CHECK-LABEL: func.func @halves
// CHECK: %[[COS:.*]] = mpc.cos
// CHECK: %[[SIN:.*]] = mpc.sin
// CHECK-DAG: %[[C:.*]] = mpc.slice %[[COS]] {offsets = array<i64: 0, 0>, sizes = array<i64: 6, 4>}
// CHECK-DAG: %[[S:.*]] = mpc.slice %[[SIN]] {offsets = array<i64: 0, 0>, sizes = array<i64: 6, 4>}
// CHECK: %[[Y:.*]] = mpc.rotary_embedding %arg0, %[[C]], %[[S]] : (tensor<2x3x6x8xf32>, tensor<6x4xf32>, tensor<6x4xf32>)
// CHECK-NEXT: return %[[Y]]
func.func @halves(%x: tensor<2x3x6x8xf32>, %freqs: tensor<6x4xf32>) -> tensor<2x3x6x8xf32> {
  %angles = mpc.concat %freqs, %freqs {axis = 1 : i64} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x8xf32>
  %cos = mpc.cos %angles : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %sin = mpc.sin %angles : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %own = mpc.mul %x, %cos : (tensor<2x3x6x8xf32>, tensor<6x8xf32>) -> tensor<2x3x6x8xf32>
  %a = mpc.slice %x {offsets = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 3, 6, 4>} : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x4xf32>
  %b = mpc.slice %x {offsets = array<i64: 0, 0, 0, 4>, sizes = array<i64: 2, 3, 6, 4>} : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x4xf32>
  %n = mpc.neg %b : (tensor<2x3x6x4xf32>) -> tensor<2x3x6x4xf32>
  %r = mpc.concat %n, %a {axis = 3 : i64} : (tensor<2x3x6x4xf32>, tensor<2x3x6x4xf32>) -> tensor<2x3x6x8xf32>
  %turned = mpc.mul %r, %sin : (tensor<2x3x6x8xf32>, tensor<6x8xf32>) -> tensor<2x3x6x8xf32>
  %y = mpc.add %own, %turned : (tensor<2x3x6x8xf32>, tensor<2x3x6x8xf32>) -> tensor<2x3x6x8xf32>
  return %y : tensor<2x3x6x8xf32>
}

// The inverse rotation, in several forms.
// CHECK-LABEL: func.func @back
// CHECK: mpc.rotary_embedding {{.*}} {transposed}
func.func @back(%x: tensor<2x3x6x8xf32>, %freqs: tensor<6x4xf32>) -> tensor<2x3x6x8xf32> {
  %angles = mpc.concat %freqs, %freqs {axis = 1 : i64} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x8xf32>
  %cos = mpc.cos %angles : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %sin = mpc.sin %angles : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %own = mpc.mul %x, %cos : (tensor<2x3x6x8xf32>, tensor<6x8xf32>) -> tensor<2x3x6x8xf32>
  %a = mpc.slice %x {offsets = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 3, 6, 4>} : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x4xf32>
  %b = mpc.slice %x {offsets = array<i64: 0, 0, 0, 4>, sizes = array<i64: 2, 3, 6, 4>} : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x4xf32>
  %n = mpc.neg %b : (tensor<2x3x6x4xf32>) -> tensor<2x3x6x4xf32>
  %r = mpc.concat %n, %a {axis = 3 : i64} : (tensor<2x3x6x4xf32>, tensor<2x3x6x4xf32>) -> tensor<2x3x6x8xf32>
  %turned = mpc.mul %r, %sin : (tensor<2x3x6x8xf32>, tensor<6x8xf32>) -> tensor<2x3x6x8xf32>
  %y = mpc.sub %own, %turned : (tensor<2x3x6x8xf32>, tensor<2x3x6x8xf32>) -> tensor<2x3x6x8xf32>
  return %y : tensor<2x3x6x8xf32>
}

// CHECK-LABEL: func.func @back_by_the_sign
// CHECK: mpc.rotary_embedding {{.*}} {transposed}
func.func @back_by_the_sign(%x: tensor<2x3x6x8xf32>, %freqs: tensor<6x4xf32>) -> tensor<2x3x6x8xf32> {
  %angles = mpc.concat %freqs, %freqs {axis = 1 : i64} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x8xf32>
  %cos = mpc.cos %angles : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %sin = mpc.sin %angles : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %own = mpc.mul %x, %cos : (tensor<2x3x6x8xf32>, tensor<6x8xf32>) -> tensor<2x3x6x8xf32>
  %a = mpc.slice %x {offsets = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 3, 6, 4>} : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x4xf32>
  %b = mpc.slice %x {offsets = array<i64: 0, 0, 0, 4>, sizes = array<i64: 2, 3, 6, 4>} : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x4xf32>
  %n = mpc.neg %a : (tensor<2x3x6x4xf32>) -> tensor<2x3x6x4xf32>
  %r = mpc.concat %b, %n {axis = 3 : i64} : (tensor<2x3x6x4xf32>, tensor<2x3x6x4xf32>) -> tensor<2x3x6x8xf32>
  %turned = mpc.mul %r, %sin : (tensor<2x3x6x8xf32>, tensor<6x8xf32>) -> tensor<2x3x6x8xf32>
  %y = mpc.add %own, %turned : (tensor<2x3x6x8xf32>, tensor<2x3x6x8xf32>) -> tensor<2x3x6x8xf32>
  return %y : tensor<2x3x6x8xf32>
}

// GPT-J: every second element, of the first half of a row.
// CHECK-LABEL: func.func @pairs_of_a_part
// CHECK: %[[C:.*]] = mpc.slice %{{.*}} {offsets = array<i64: 0, 0>, sizes = array<i64: 6, 2>, strides = array<i64: 1, 2>}
// CHECK: mpc.rotary_embedding %arg0, %[[C]], %{{.*}} {interleaved} : (tensor<2x3x6x8xf32>, tensor<6x2xf32>, tensor<6x2xf32>)
// CHECK-NOT: mpc.concat
func.func @pairs_of_a_part(%x: tensor<2x3x6x8xf32>, %c: tensor<6x2xf32>, %s: tensor<6x2xf32>) -> tensor<2x3x6x8xf32> {
  %c1 = mpc.reshape %c : (tensor<6x2xf32>) -> tensor<6x2x1xf32>
  %c2 = mpc.expand %c1 : (tensor<6x2x1xf32>) -> tensor<6x2x2xf32>
  %cos = mpc.reshape %c2 : (tensor<6x2x2xf32>) -> tensor<6x4xf32>
  %s1 = mpc.reshape %s : (tensor<6x2xf32>) -> tensor<6x2x1xf32>
  %s2 = mpc.expand %s1 : (tensor<6x2x1xf32>) -> tensor<6x2x2xf32>
  %sin = mpc.reshape %s2 : (tensor<6x2x2xf32>) -> tensor<6x4xf32>
  %front = mpc.slice %x {offsets = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 3, 6, 4>} : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x4xf32>
  %own = mpc.mul %front, %cos : (tensor<2x3x6x4xf32>, tensor<6x4xf32>) -> tensor<2x3x6x4xf32>
  %a = mpc.slice %front {offsets = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 3, 6, 2>, strides = array<i64: 1, 1, 1, 2>} : (tensor<2x3x6x4xf32>) -> tensor<2x3x6x2xf32>
  %b = mpc.slice %front {offsets = array<i64: 0, 0, 0, 1>, sizes = array<i64: 2, 3, 6, 2>, strides = array<i64: 1, 1, 1, 2>} : (tensor<2x3x6x4xf32>) -> tensor<2x3x6x2xf32>
  %n = mpc.neg %b : (tensor<2x3x6x2xf32>) -> tensor<2x3x6x2xf32>
  %n1 = mpc.reshape %n : (tensor<2x3x6x2xf32>) -> tensor<2x3x6x2x1xf32>
  %a1 = mpc.reshape %a : (tensor<2x3x6x2xf32>) -> tensor<2x3x6x2x1xf32>
  %stack = mpc.concat %n1, %a1 {axis = 4 : i64} : (tensor<2x3x6x2x1xf32>, tensor<2x3x6x2x1xf32>) -> tensor<2x3x6x2x2xf32>
  %r = mpc.reshape %stack : (tensor<2x3x6x2x2xf32>) -> tensor<2x3x6x4xf32>
  %turned = mpc.mul %r, %sin : (tensor<2x3x6x4xf32>, tensor<6x4xf32>) -> tensor<2x3x6x4xf32>
  %z = mpc.add %own, %turned : (tensor<2x3x6x4xf32>, tensor<2x3x6x4xf32>) -> tensor<2x3x6x4xf32>
  %rest = mpc.slice %x {offsets = array<i64: 0, 0, 0, 4>, sizes = array<i64: 2, 3, 6, 4>} : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x4xf32>
  %y = mpc.concat %z, %rest {axis = 3 : i64} : (tensor<2x3x6x4xf32>, tensor<2x3x6x4xf32>) -> tensor<2x3x6x8xf32>
  return %y : tensor<2x3x6x8xf32>
}

// Complex numbers, as PyTorch's exporter decomposes them.
// CHECK-LABEL: func.func @complex
// CHECK-DAG: %[[V:.*]] = mpc.reshape %{{.*}} -> tensor<2x3x6x8xf32>
// CHECK-DAG: %[[C:.*]] = mpc.reshape %arg1 : (tensor<6x4x1xf32>) -> tensor<6x4xf32>
// CHECK-DAG: %[[S:.*]] = mpc.reshape %arg2 : (tensor<6x4x1xf32>) -> tensor<6x4xf32>
// CHECK: mpc.rotary_embedding %[[V]], %[[C]], %[[S]] {interleaved}
// CHECK-NOT: mpc.mul
func.func @complex(%x: tensor<2x3x6x8xf32>, %c: tensor<6x4x1xf32>, %s: tensor<6x4x1xf32>) -> tensor<2x3x6x8xf32> {
  %v = mpc.reshape %x : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x4x2xf32>
  %a = mpc.slice %v {offsets = array<i64: 0, 0, 0, 0, 0>, sizes = array<i64: 2, 3, 6, 4, 1>} : (tensor<2x3x6x4x2xf32>) -> tensor<2x3x6x4x1xf32>
  %b = mpc.slice %v {offsets = array<i64: 0, 0, 0, 0, 1>, sizes = array<i64: 2, 3, 6, 4, 1>} : (tensor<2x3x6x4x2xf32>) -> tensor<2x3x6x4x1xf32>
  %ac = mpc.mul %a, %c : (tensor<2x3x6x4x1xf32>, tensor<6x4x1xf32>) -> tensor<2x3x6x4x1xf32>
  %bs = mpc.mul %b, %s : (tensor<2x3x6x4x1xf32>, tensor<6x4x1xf32>) -> tensor<2x3x6x4x1xf32>
  %as = mpc.mul %a, %s : (tensor<2x3x6x4x1xf32>, tensor<6x4x1xf32>) -> tensor<2x3x6x4x1xf32>
  %bc = mpc.mul %b, %c : (tensor<2x3x6x4x1xf32>, tensor<6x4x1xf32>) -> tensor<2x3x6x4x1xf32>
  %re = mpc.sub %ac, %bs : (tensor<2x3x6x4x1xf32>, tensor<2x3x6x4x1xf32>) -> tensor<2x3x6x4x1xf32>
  %im = mpc.add %as, %bc : (tensor<2x3x6x4x1xf32>, tensor<2x3x6x4x1xf32>) -> tensor<2x3x6x4x1xf32>
  %j = mpc.concat %re, %im {axis = 4 : i64} : (tensor<2x3x6x4x1xf32>, tensor<2x3x6x4x1xf32>) -> tensor<2x3x6x4x2xf32>
  %y = mpc.reshape %j : (tensor<2x3x6x4x2xf32>) -> tensor<2x3x6x8xf32>
  return %y : tensor<2x3x6x8xf32>
}

// Conjugate complex numbers.
// CHECK-LABEL: func.func @conjugate
// CHECK: mpc.rotary_embedding {{.*}} {interleaved, transposed}
func.func @conjugate(%x: tensor<2x3x6x8xf32>, %c: tensor<6x4x1xf32>, %s: tensor<6x4x1xf32>) -> tensor<2x3x6x8xf32> {
  %v = mpc.reshape %x : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x4x2xf32>
  %a = mpc.slice %v {offsets = array<i64: 0, 0, 0, 0, 0>, sizes = array<i64: 2, 3, 6, 4, 1>} : (tensor<2x3x6x4x2xf32>) -> tensor<2x3x6x4x1xf32>
  %b = mpc.slice %v {offsets = array<i64: 0, 0, 0, 0, 1>, sizes = array<i64: 2, 3, 6, 4, 1>} : (tensor<2x3x6x4x2xf32>) -> tensor<2x3x6x4x1xf32>
  %ac = mpc.mul %a, %c : (tensor<2x3x6x4x1xf32>, tensor<6x4x1xf32>) -> tensor<2x3x6x4x1xf32>
  %bs = mpc.mul %b, %s : (tensor<2x3x6x4x1xf32>, tensor<6x4x1xf32>) -> tensor<2x3x6x4x1xf32>
  %as = mpc.mul %a, %s : (tensor<2x3x6x4x1xf32>, tensor<6x4x1xf32>) -> tensor<2x3x6x4x1xf32>
  %bc = mpc.mul %b, %c : (tensor<2x3x6x4x1xf32>, tensor<6x4x1xf32>) -> tensor<2x3x6x4x1xf32>
  %re = mpc.add %ac, %bs : (tensor<2x3x6x4x1xf32>, tensor<2x3x6x4x1xf32>) -> tensor<2x3x6x4x1xf32>
  %im = mpc.sub %bc, %as : (tensor<2x3x6x4x1xf32>, tensor<2x3x6x4x1xf32>) -> tensor<2x3x6x4x1xf32>
  %j = mpc.concat %re, %im {axis = 4 : i64} : (tensor<2x3x6x4x1xf32>, tensor<2x3x6x4x1xf32>) -> tensor<2x3x6x4x2xf32>
  %y = mpc.reshape %j : (tensor<2x3x6x4x2xf32>) -> tensor<2x3x6x8xf32>
  return %y : tensor<2x3x6x8xf32>
}

// Each half is rotated separately, by tables of pairs.
// CHECK-LABEL: func.func @sums_of_halves
// CHECK: mpc.rotary_embedding %arg0, %arg1, %arg2 :
func.func @sums_of_halves(%x: tensor<2x3x6x8xf32>, %c: tensor<6x4xf32>, %s: tensor<6x4xf32>) -> tensor<2x3x6x8xf32> {
  %a = mpc.slice %x {offsets = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 3, 6, 4>} : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x4xf32>
  %b = mpc.slice %x {offsets = array<i64: 0, 0, 0, 4>, sizes = array<i64: 2, 3, 6, 4>} : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x4xf32>
  %ac = mpc.mul %a, %c : (tensor<2x3x6x4xf32>, tensor<6x4xf32>) -> tensor<2x3x6x4xf32>
  %bs = mpc.mul %b, %s : (tensor<2x3x6x4xf32>, tensor<6x4xf32>) -> tensor<2x3x6x4xf32>
  %bc = mpc.mul %b, %c : (tensor<2x3x6x4xf32>, tensor<6x4xf32>) -> tensor<2x3x6x4xf32>
  %as = mpc.mul %a, %s : (tensor<2x3x6x4xf32>, tensor<6x4xf32>) -> tensor<2x3x6x4xf32>
  %first = mpc.sub %ac, %bs : (tensor<2x3x6x4xf32>, tensor<2x3x6x4xf32>) -> tensor<2x3x6x4xf32>
  %second = mpc.add %bc, %as : (tensor<2x3x6x4xf32>, tensor<2x3x6x4xf32>) -> tensor<2x3x6x4xf32>
  %y = mpc.concat %first, %second {axis = 3 : i64} : (tensor<2x3x6x4xf32>, tensor<2x3x6x4xf32>) -> tensor<2x3x6x8xf32>
  return %y : tensor<2x3x6x8xf32>
}

// The table is a constant and not trained.
// CHECK-LABEL: func.func @known
// CHECK: mpc.rotary_embedding
mpc.variable @table : tensor<1x4xf32> role frozen init dense<[[0.5, 2.0, 0.5, 2.0]]> : tensor<1x4xf32>
mpc.variable @trained : tensor<1x4xf32> role parameter init dense<[[0.5, 2.0, 0.5, 2.0]]> : tensor<1x4xf32>
mpc.variable @other : tensor<1x4xf32> role frozen init dense<[[0.5, 2.0, 0.5, 3.0]]> : tensor<1x4xf32>
func.func @known(%x: tensor<6x4xf32>, %t: tensor<1x4xf32> {mpc.state = @table}) -> tensor<6x4xf32> {
  %own = mpc.mul %x, %t : (tensor<6x4xf32>, tensor<1x4xf32>) -> tensor<6x4xf32>
  %a = mpc.slice %x {offsets = array<i64: 0, 0>, sizes = array<i64: 6, 2>} : (tensor<6x4xf32>) -> tensor<6x2xf32>
  %b = mpc.slice %x {offsets = array<i64: 0, 2>, sizes = array<i64: 6, 2>} : (tensor<6x4xf32>) -> tensor<6x2xf32>
  %n = mpc.neg %b : (tensor<6x2xf32>) -> tensor<6x2xf32>
  %r = mpc.concat %n, %a {axis = 1 : i64} : (tensor<6x2xf32>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %turned = mpc.mul %r, %t : (tensor<6x4xf32>, tensor<1x4xf32>) -> tensor<6x4xf32>
  %y = mpc.add %own, %turned : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  return %y : tensor<6x4xf32>
}

// Near misses.
// CHECK-LABEL: func.func @table_that_is_trained
// CHECK-NOT: mpc.rotary_embedding
func.func @table_that_is_trained(%x: tensor<6x4xf32>, %t: tensor<1x4xf32> {mpc.state = @trained}) -> tensor<6x4xf32> {
  %own = mpc.mul %x, %t : (tensor<6x4xf32>, tensor<1x4xf32>) -> tensor<6x4xf32>
  %a = mpc.slice %x {offsets = array<i64: 0, 0>, sizes = array<i64: 6, 2>} : (tensor<6x4xf32>) -> tensor<6x2xf32>
  %b = mpc.slice %x {offsets = array<i64: 0, 2>, sizes = array<i64: 6, 2>} : (tensor<6x4xf32>) -> tensor<6x2xf32>
  %n = mpc.neg %b : (tensor<6x2xf32>) -> tensor<6x2xf32>
  %r = mpc.concat %n, %a {axis = 1 : i64} : (tensor<6x2xf32>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %turned = mpc.mul %r, %t : (tensor<6x4xf32>, tensor<1x4xf32>) -> tensor<6x4xf32>
  %y = mpc.add %own, %turned : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  return %y : tensor<6x4xf32>
}

// CHECK-LABEL: func.func @known_table_of_two_halves
// CHECK-NOT: mpc.rotary_embedding
func.func @known_table_of_two_halves(%x: tensor<6x4xf32>, %t: tensor<1x4xf32> {mpc.state = @other}) -> tensor<6x4xf32> {
  %own = mpc.mul %x, %t : (tensor<6x4xf32>, tensor<1x4xf32>) -> tensor<6x4xf32>
  %a = mpc.slice %x {offsets = array<i64: 0, 0>, sizes = array<i64: 6, 2>} : (tensor<6x4xf32>) -> tensor<6x2xf32>
  %b = mpc.slice %x {offsets = array<i64: 0, 2>, sizes = array<i64: 6, 2>} : (tensor<6x4xf32>) -> tensor<6x2xf32>
  %n = mpc.neg %b : (tensor<6x2xf32>) -> tensor<6x2xf32>
  %r = mpc.concat %n, %a {axis = 1 : i64} : (tensor<6x2xf32>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %turned = mpc.mul %r, %t : (tensor<6x4xf32>, tensor<1x4xf32>) -> tensor<6x4xf32>
  %y = mpc.add %own, %turned : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  return %y : tensor<6x4xf32>
}

// CHECK-LABEL: func.func @without_a_sign
// CHECK-NOT: mpc.rotary_embedding
func.func @without_a_sign(%x: tensor<2x3x6x8xf32>, %freqs: tensor<6x4xf32>) -> tensor<2x3x6x8xf32> {
  %angles = mpc.concat %freqs, %freqs {axis = 1 : i64} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x8xf32>
  %cos = mpc.cos %angles : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %sin = mpc.sin %angles : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %own = mpc.mul %x, %cos : (tensor<2x3x6x8xf32>, tensor<6x8xf32>) -> tensor<2x3x6x8xf32>
  %a = mpc.slice %x {offsets = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 3, 6, 4>} : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x4xf32>
  %b = mpc.slice %x {offsets = array<i64: 0, 0, 0, 4>, sizes = array<i64: 2, 3, 6, 4>} : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x4xf32>
  %r = mpc.concat %b, %a {axis = 3 : i64} : (tensor<2x3x6x4xf32>, tensor<2x3x6x4xf32>) -> tensor<2x3x6x8xf32>
  %turned = mpc.mul %r, %sin : (tensor<2x3x6x8xf32>, tensor<6x8xf32>) -> tensor<2x3x6x8xf32>
  %y = mpc.add %own, %turned : (tensor<2x3x6x8xf32>, tensor<2x3x6x8xf32>) -> tensor<2x3x6x8xf32>
  return %y : tensor<2x3x6x8xf32>
}

// CHECK-LABEL: func.func @swapped_halves
// CHECK-NOT: mpc.rotary_embedding
func.func @swapped_halves(%x: tensor<2x3x6x8xf32>, %freqs: tensor<6x4xf32>) -> tensor<2x3x6x8xf32> {
  %angles = mpc.concat %freqs, %freqs {axis = 1 : i64} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x8xf32>
  %cos = mpc.cos %angles : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %sin = mpc.sin %angles : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %own = mpc.mul %x, %cos : (tensor<2x3x6x8xf32>, tensor<6x8xf32>) -> tensor<2x3x6x8xf32>
  %a = mpc.slice %x {offsets = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 3, 6, 4>} : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x4xf32>
  %b = mpc.slice %x {offsets = array<i64: 0, 0, 0, 4>, sizes = array<i64: 2, 3, 6, 4>} : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x4xf32>
  %n = mpc.neg %b : (tensor<2x3x6x4xf32>) -> tensor<2x3x6x4xf32>
  %r = mpc.concat %a, %n {axis = 3 : i64} : (tensor<2x3x6x4xf32>, tensor<2x3x6x4xf32>) -> tensor<2x3x6x8xf32>
  %turned = mpc.mul %r, %sin : (tensor<2x3x6x8xf32>, tensor<6x8xf32>) -> tensor<2x3x6x8xf32>
  %y = mpc.add %own, %turned : (tensor<2x3x6x8xf32>, tensor<2x3x6x8xf32>) -> tensor<2x3x6x8xf32>
  return %y : tensor<2x3x6x8xf32>
}

// CHECK-LABEL: func.func @one_half_twice
// CHECK-NOT: mpc.rotary_embedding
func.func @one_half_twice(%x: tensor<2x3x6x8xf32>, %freqs: tensor<6x4xf32>) -> tensor<2x3x6x8xf32> {
  %angles = mpc.concat %freqs, %freqs {axis = 1 : i64} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x8xf32>
  %cos = mpc.cos %angles : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %sin = mpc.sin %angles : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %own = mpc.mul %x, %cos : (tensor<2x3x6x8xf32>, tensor<6x8xf32>) -> tensor<2x3x6x8xf32>
  %a = mpc.slice %x {offsets = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 3, 6, 4>} : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x4xf32>
  %b = mpc.slice %x {offsets = array<i64: 0, 0, 0, 4>, sizes = array<i64: 2, 3, 6, 4>} : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x4xf32>
  %n = mpc.neg %b : (tensor<2x3x6x4xf32>) -> tensor<2x3x6x4xf32>
  %r = mpc.concat %n, %b {axis = 3 : i64} : (tensor<2x3x6x4xf32>, tensor<2x3x6x4xf32>) -> tensor<2x3x6x8xf32>
  %turned = mpc.mul %r, %sin : (tensor<2x3x6x8xf32>, tensor<6x8xf32>) -> tensor<2x3x6x8xf32>
  %y = mpc.add %own, %turned : (tensor<2x3x6x8xf32>, tensor<2x3x6x8xf32>) -> tensor<2x3x6x8xf32>
  return %y : tensor<2x3x6x8xf32>
}

// CHECK-LABEL: func.func @two_signs
// CHECK-NOT: mpc.rotary_embedding
func.func @two_signs(%x: tensor<2x3x6x8xf32>, %freqs: tensor<6x4xf32>) -> tensor<2x3x6x8xf32> {
  %angles = mpc.concat %freqs, %freqs {axis = 1 : i64} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x8xf32>
  %cos = mpc.cos %angles : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %sin = mpc.sin %angles : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %own = mpc.mul %x, %cos : (tensor<2x3x6x8xf32>, tensor<6x8xf32>) -> tensor<2x3x6x8xf32>
  %a = mpc.slice %x {offsets = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 3, 6, 4>} : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x4xf32>
  %b = mpc.slice %x {offsets = array<i64: 0, 0, 0, 4>, sizes = array<i64: 2, 3, 6, 4>} : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x4xf32>
  %n = mpc.neg %b : (tensor<2x3x6x4xf32>) -> tensor<2x3x6x4xf32>
  %m = mpc.neg %a : (tensor<2x3x6x4xf32>) -> tensor<2x3x6x4xf32>
  %r = mpc.concat %n, %m {axis = 3 : i64} : (tensor<2x3x6x4xf32>, tensor<2x3x6x4xf32>) -> tensor<2x3x6x8xf32>
  %turned = mpc.mul %r, %sin : (tensor<2x3x6x8xf32>, tensor<6x8xf32>) -> tensor<2x3x6x8xf32>
  %y = mpc.add %own, %turned : (tensor<2x3x6x8xf32>, tensor<2x3x6x8xf32>) -> tensor<2x3x6x8xf32>
  return %y : tensor<2x3x6x8xf32>
}

// CHECK-LABEL: func.func @table_of_two_halves
// CHECK-NOT: mpc.rotary_embedding
func.func @table_of_two_halves(%x: tensor<2x3x6x8xf32>, %freqs: tensor<6x4xf32>, %more: tensor<6x4xf32>) -> tensor<2x3x6x8xf32> {
  %angles = mpc.concat %freqs, %more {axis = 1 : i64} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x8xf32>
  %cos = mpc.cos %angles : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %sin = mpc.sin %angles : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %own = mpc.mul %x, %cos : (tensor<2x3x6x8xf32>, tensor<6x8xf32>) -> tensor<2x3x6x8xf32>
  %a = mpc.slice %x {offsets = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 3, 6, 4>} : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x4xf32>
  %b = mpc.slice %x {offsets = array<i64: 0, 0, 0, 4>, sizes = array<i64: 2, 3, 6, 4>} : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x4xf32>
  %n = mpc.neg %b : (tensor<2x3x6x4xf32>) -> tensor<2x3x6x4xf32>
  %r = mpc.concat %n, %a {axis = 3 : i64} : (tensor<2x3x6x4xf32>, tensor<2x3x6x4xf32>) -> tensor<2x3x6x8xf32>
  %turned = mpc.mul %r, %sin : (tensor<2x3x6x8xf32>, tensor<6x8xf32>) -> tensor<2x3x6x8xf32>
  %y = mpc.add %own, %turned : (tensor<2x3x6x8xf32>, tensor<2x3x6x8xf32>) -> tensor<2x3x6x8xf32>
  return %y : tensor<2x3x6x8xf32>
}

// CHECK-LABEL: func.func @of_something_else
// CHECK-NOT: mpc.rotary_embedding
func.func @of_something_else(%x: tensor<2x3x6x8xf32>, %z: tensor<2x3x6x8xf32>, %freqs: tensor<6x4xf32>) -> tensor<2x3x6x8xf32> {
  %angles = mpc.concat %freqs, %freqs {axis = 1 : i64} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x8xf32>
  %cos = mpc.cos %angles : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %sin = mpc.sin %angles : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %own = mpc.mul %z, %cos : (tensor<2x3x6x8xf32>, tensor<6x8xf32>) -> tensor<2x3x6x8xf32>
  %a = mpc.slice %x {offsets = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 3, 6, 4>} : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x4xf32>
  %b = mpc.slice %x {offsets = array<i64: 0, 0, 0, 4>, sizes = array<i64: 2, 3, 6, 4>} : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x4xf32>
  %n = mpc.neg %b : (tensor<2x3x6x4xf32>) -> tensor<2x3x6x4xf32>
  %r = mpc.concat %n, %a {axis = 3 : i64} : (tensor<2x3x6x4xf32>, tensor<2x3x6x4xf32>) -> tensor<2x3x6x8xf32>
  %turned = mpc.mul %r, %sin : (tensor<2x3x6x8xf32>, tensor<6x8xf32>) -> tensor<2x3x6x8xf32>
  %y = mpc.add %own, %turned : (tensor<2x3x6x8xf32>, tensor<2x3x6x8xf32>) -> tensor<2x3x6x8xf32>
  return %y : tensor<2x3x6x8xf32>
}

// The pairs are along another axis.
// CHECK-LABEL: func.func @other_axis
// CHECK-NOT: mpc.rotary_embedding
func.func @other_axis(%x: tensor<8x4xf32>, %c: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %own = mpc.mul %x, %c : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %a = mpc.slice %x {offsets = array<i64: 0, 0>, sizes = array<i64: 4, 4>} : (tensor<8x4xf32>) -> tensor<4x4xf32>
  %b = mpc.slice %x {offsets = array<i64: 4, 0>, sizes = array<i64: 4, 4>} : (tensor<8x4xf32>) -> tensor<4x4xf32>
  %n = mpc.neg %b : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = mpc.concat %n, %a {axis = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %turned = mpc.mul %r, %c : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %y = mpc.add %own, %turned : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// CHECK-LABEL: func.func @complex_of_one_sign
// CHECK-NOT: mpc.rotary_embedding
func.func @complex_of_one_sign(%x: tensor<2x3x6x8xf32>, %c: tensor<6x4x1xf32>, %s: tensor<6x4x1xf32>) -> tensor<2x3x6x8xf32> {
  %v = mpc.reshape %x : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x4x2xf32>
  %a = mpc.slice %v {offsets = array<i64: 0, 0, 0, 0, 0>, sizes = array<i64: 2, 3, 6, 4, 1>} : (tensor<2x3x6x4x2xf32>) -> tensor<2x3x6x4x1xf32>
  %b = mpc.slice %v {offsets = array<i64: 0, 0, 0, 0, 1>, sizes = array<i64: 2, 3, 6, 4, 1>} : (tensor<2x3x6x4x2xf32>) -> tensor<2x3x6x4x1xf32>
  %ac = mpc.mul %a, %c : (tensor<2x3x6x4x1xf32>, tensor<6x4x1xf32>) -> tensor<2x3x6x4x1xf32>
  %bs = mpc.mul %b, %s : (tensor<2x3x6x4x1xf32>, tensor<6x4x1xf32>) -> tensor<2x3x6x4x1xf32>
  %as = mpc.mul %a, %s : (tensor<2x3x6x4x1xf32>, tensor<6x4x1xf32>) -> tensor<2x3x6x4x1xf32>
  %bc = mpc.mul %b, %c : (tensor<2x3x6x4x1xf32>, tensor<6x4x1xf32>) -> tensor<2x3x6x4x1xf32>
  %re = mpc.add %ac, %bs : (tensor<2x3x6x4x1xf32>, tensor<2x3x6x4x1xf32>) -> tensor<2x3x6x4x1xf32>
  %im = mpc.add %as, %bc : (tensor<2x3x6x4x1xf32>, tensor<2x3x6x4x1xf32>) -> tensor<2x3x6x4x1xf32>
  %j = mpc.concat %re, %im {axis = 4 : i64} : (tensor<2x3x6x4x1xf32>, tensor<2x3x6x4x1xf32>) -> tensor<2x3x6x4x2xf32>
  %y = mpc.reshape %j : (tensor<2x3x6x4x2xf32>) -> tensor<2x3x6x8xf32>
  return %y : tensor<2x3x6x8xf32>
}

// CHECK-LABEL: func.func @complex_of_other_tables
// CHECK-NOT: mpc.rotary_embedding
func.func @complex_of_other_tables(%x: tensor<2x3x6x8xf32>, %c: tensor<6x4x1xf32>, %s: tensor<6x4x1xf32>) -> tensor<2x3x6x8xf32> {
  %v = mpc.reshape %x : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x4x2xf32>
  %a = mpc.slice %v {offsets = array<i64: 0, 0, 0, 0, 0>, sizes = array<i64: 2, 3, 6, 4, 1>} : (tensor<2x3x6x4x2xf32>) -> tensor<2x3x6x4x1xf32>
  %b = mpc.slice %v {offsets = array<i64: 0, 0, 0, 0, 1>, sizes = array<i64: 2, 3, 6, 4, 1>} : (tensor<2x3x6x4x2xf32>) -> tensor<2x3x6x4x1xf32>
  %ac = mpc.mul %a, %c : (tensor<2x3x6x4x1xf32>, tensor<6x4x1xf32>) -> tensor<2x3x6x4x1xf32>
  %bs = mpc.mul %b, %s : (tensor<2x3x6x4x1xf32>, tensor<6x4x1xf32>) -> tensor<2x3x6x4x1xf32>
  %as = mpc.mul %a, %c : (tensor<2x3x6x4x1xf32>, tensor<6x4x1xf32>) -> tensor<2x3x6x4x1xf32>
  %bc = mpc.mul %b, %s : (tensor<2x3x6x4x1xf32>, tensor<6x4x1xf32>) -> tensor<2x3x6x4x1xf32>
  %re = mpc.sub %ac, %bs : (tensor<2x3x6x4x1xf32>, tensor<2x3x6x4x1xf32>) -> tensor<2x3x6x4x1xf32>
  %im = mpc.add %as, %bc : (tensor<2x3x6x4x1xf32>, tensor<2x3x6x4x1xf32>) -> tensor<2x3x6x4x1xf32>
  %j = mpc.concat %re, %im {axis = 4 : i64} : (tensor<2x3x6x4x1xf32>, tensor<2x3x6x4x1xf32>) -> tensor<2x3x6x4x2xf32>
  %y = mpc.reshape %j : (tensor<2x3x6x4x2xf32>) -> tensor<2x3x6x8xf32>
  return %y : tensor<2x3x6x8xf32>
}

// CHECK-LABEL: func.func @complex_swapped
// CHECK-NOT: mpc.rotary_embedding
func.func @complex_swapped(%x: tensor<2x3x6x8xf32>, %c: tensor<6x4x1xf32>, %s: tensor<6x4x1xf32>) -> tensor<2x3x6x8xf32> {
  %v = mpc.reshape %x : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x4x2xf32>
  %a = mpc.slice %v {offsets = array<i64: 0, 0, 0, 0, 0>, sizes = array<i64: 2, 3, 6, 4, 1>} : (tensor<2x3x6x4x2xf32>) -> tensor<2x3x6x4x1xf32>
  %b = mpc.slice %v {offsets = array<i64: 0, 0, 0, 0, 1>, sizes = array<i64: 2, 3, 6, 4, 1>} : (tensor<2x3x6x4x2xf32>) -> tensor<2x3x6x4x1xf32>
  %ac = mpc.mul %a, %c : (tensor<2x3x6x4x1xf32>, tensor<6x4x1xf32>) -> tensor<2x3x6x4x1xf32>
  %bs = mpc.mul %b, %s : (tensor<2x3x6x4x1xf32>, tensor<6x4x1xf32>) -> tensor<2x3x6x4x1xf32>
  %as = mpc.mul %a, %s : (tensor<2x3x6x4x1xf32>, tensor<6x4x1xf32>) -> tensor<2x3x6x4x1xf32>
  %bc = mpc.mul %b, %c : (tensor<2x3x6x4x1xf32>, tensor<6x4x1xf32>) -> tensor<2x3x6x4x1xf32>
  %re = mpc.sub %ac, %bs : (tensor<2x3x6x4x1xf32>, tensor<2x3x6x4x1xf32>) -> tensor<2x3x6x4x1xf32>
  %im = mpc.add %as, %bc : (tensor<2x3x6x4x1xf32>, tensor<2x3x6x4x1xf32>) -> tensor<2x3x6x4x1xf32>
  %j = mpc.concat %im, %re {axis = 4 : i64} : (tensor<2x3x6x4x1xf32>, tensor<2x3x6x4x1xf32>) -> tensor<2x3x6x4x2xf32>
  %y = mpc.reshape %j : (tensor<2x3x6x4x2xf32>) -> tensor<2x3x6x8xf32>
  return %y : tensor<2x3x6x8xf32>
}

// A part of the result has another user, so it stays.
// CHECK-LABEL: func.func @read_elsewhere
// CHECK-NOT: mpc.rotary_embedding
func.func @read_elsewhere(%x: tensor<2x3x6x8xf32>, %freqs: tensor<6x4xf32>) -> (tensor<2x3x6x8xf32>, tensor<2x3x6x4xf32>) {
  %angles = mpc.concat %freqs, %freqs {axis = 1 : i64} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x8xf32>
  %cos = mpc.cos %angles : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %sin = mpc.sin %angles : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %own = mpc.mul %x, %cos : (tensor<2x3x6x8xf32>, tensor<6x8xf32>) -> tensor<2x3x6x8xf32>
  %a = mpc.slice %x {offsets = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 3, 6, 4>} : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x4xf32>
  %b = mpc.slice %x {offsets = array<i64: 0, 0, 0, 4>, sizes = array<i64: 2, 3, 6, 4>} : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x4xf32>
  %n = mpc.neg %b : (tensor<2x3x6x4xf32>) -> tensor<2x3x6x4xf32>
  %r = mpc.concat %n, %a {axis = 3 : i64} : (tensor<2x3x6x4xf32>, tensor<2x3x6x4xf32>) -> tensor<2x3x6x8xf32>
  %turned = mpc.mul %r, %sin : (tensor<2x3x6x8xf32>, tensor<6x8xf32>) -> tensor<2x3x6x8xf32>
  %y = mpc.add %own, %turned : (tensor<2x3x6x8xf32>, tensor<2x3x6x8xf32>) -> tensor<2x3x6x8xf32>
  return %y, %n : tensor<2x3x6x8xf32>, tensor<2x3x6x4xf32>
}

// The walk visits each value that the table is computed from once. Here 2^28
// paths lead from the table to the angles.
// CHECK-LABEL: func.func @many_ways
// CHECK: mpc.rotary_embedding
func.func @many_ways(%x: tensor<2x3x6x8xf32>, %freqs: tensor<6x4xf32>) -> tensor<2x3x6x8xf32> {
  %t0 = mpc.concat %freqs, %freqs {axis = 1 : i64} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x8xf32>
  %t1 = mpc.add %t0, %t0 : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %t2 = mpc.add %t1, %t1 : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %t3 = mpc.add %t2, %t2 : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %t4 = mpc.add %t3, %t3 : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %t5 = mpc.add %t4, %t4 : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %t6 = mpc.add %t5, %t5 : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %t7 = mpc.add %t6, %t6 : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %t8 = mpc.add %t7, %t7 : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %t9 = mpc.add %t8, %t8 : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %t10 = mpc.add %t9, %t9 : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %t11 = mpc.add %t10, %t10 : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %t12 = mpc.add %t11, %t11 : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %t13 = mpc.add %t12, %t12 : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %t14 = mpc.add %t13, %t13 : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %t15 = mpc.add %t14, %t14 : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %t16 = mpc.add %t15, %t15 : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %t17 = mpc.add %t16, %t16 : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %t18 = mpc.add %t17, %t17 : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %t19 = mpc.add %t18, %t18 : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %t20 = mpc.add %t19, %t19 : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %t21 = mpc.add %t20, %t20 : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %t22 = mpc.add %t21, %t21 : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %t23 = mpc.add %t22, %t22 : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %t24 = mpc.add %t23, %t23 : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %t25 = mpc.add %t24, %t24 : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %t26 = mpc.add %t25, %t25 : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %t27 = mpc.add %t26, %t26 : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %t28 = mpc.add %t27, %t27 : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %cos = mpc.cos %t28 : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %sin = mpc.sin %t28 : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %own = mpc.mul %x, %cos : (tensor<2x3x6x8xf32>, tensor<6x8xf32>) -> tensor<2x3x6x8xf32>
  %a = mpc.slice %x {offsets = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 3, 6, 4>} : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x4xf32>
  %b = mpc.slice %x {offsets = array<i64: 0, 0, 0, 4>, sizes = array<i64: 2, 3, 6, 4>} : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x4xf32>
  %n = mpc.neg %b : (tensor<2x3x6x4xf32>) -> tensor<2x3x6x4xf32>
  %r = mpc.concat %n, %a {axis = 3 : i64} : (tensor<2x3x6x4xf32>, tensor<2x3x6x4xf32>) -> tensor<2x3x6x8xf32>
  %turned = mpc.mul %r, %sin : (tensor<2x3x6x8xf32>, tensor<6x8xf32>) -> tensor<2x3x6x8xf32>
  %y = mpc.add %own, %turned : (tensor<2x3x6x8xf32>, tensor<2x3x6x8xf32>) -> tensor<2x3x6x8xf32>
  return %y : tensor<2x3x6x8xf32>
}
