// Ranges of constants propagate through elementwise ops and views. Values
// beyond the low type stay fp32, and values that are bounded again do not. Only
// a range of constants alone is proved; other ranges assume data of order 1.
// RUN: mpc-opt %s --mpc-attach-target=name=zen5 -amp-assign-precision="mode=bf16-mixed" -mlir-print-local-scope | FileCheck %s

// The smallest float is added to scores where a mask is 0.
// CHECK-LABEL: func.func @smallest_float
// CHECK: mpc.matmul {{.*}}results = [f32]
// CHECK: mpc.sub {{.*}}results = [f32]
// CHECK: mpc.mul {{.*}}results = [f32], {{.*}}reason = constant_range, {{.*}}sources = [{kind = "constant", name = "least", value = 3.402{{[0-9]*}}E+38 : f64}], evidence = proved
// CHECK: mpc.add {{.*}}results = [f32], {{.*}}reason = constant_range, {{.*}}sources = [{kind = "constant", name = "least", {{.*}}}], evidence = assumed
// CHECK: mpc.reshape {{.*}}results = [f32], {{.*}}reason = constant_range, {{.*}}evidence = assumed
// CHECK: mpc.softmax {{.*}}reason = not_between_low
func.func @smallest_float(%q: tensor<4x4xf32>, %m: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %one = mpc.constant dense<1.0> : tensor<f32>
  %least = mpc.constant dense<-3.40282347E+38> : tensor<f32> loc("least")
  %low = mpc.matmul %q, %q : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("before")
  %rows = mpc.relu %low : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("relu")
  %scores = mpc.matmul %rows, %q : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("scores")
  %off = mpc.sub %one, %m : (tensor<f32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("off")
  %mask = mpc.mul %off, %least : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32> loc("mask")
  %masked = mpc.add %scores, %mask : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("masked")
  %view = mpc.reshape %masked : (tensor<4x4xf32>) -> tensor<16xf32> loc("view")
  %p = mpc.softmax %view {axis = 0 : i64} : (tensor<16xf32>) -> tensor<16xf32> loc("softmax")
  %square = mpc.reshape %p : (tensor<16xf32>) -> tensor<4x4xf32> loc("square")
  %sum = mpc.add %square, %rows : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("sum")
  %y = mpc.matmul %sum, %q : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("after")
  return %y : tensor<4x4xf32>
}

// bf16 holds the mask, but not its sum with scores. The largest float is
// unreachable.
// CHECK-LABEL: func.func @moderate
// CHECK: mpc.add {{.*}}results = [f32], {{.*}}reason = wide_operand
// CHECK: mpc.minimum {{.*}}reason = constant_range
// CHECK: mpc.tanh {{.*}}results = [bf16]
func.func @moderate(%q: tensor<4x4xf32>, %m: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %tenthousand = mpc.constant dense<-10000.0> : tensor<f32>
  %largest = mpc.constant dense<3.40282347E+38> : tensor<f32>
  %scores = mpc.matmul %q, %q : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("a")
  %mask = mpc.mul %m, %tenthousand : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32> loc("b")
  %masked = mpc.add %scores, %mask : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("c")
  %p = mpc.matmul %masked, %q : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("d")
  %bound = mpc.minimum %p, %largest : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32> loc("e")
  %t = mpc.tanh %p : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("f")
  %y = mpc.matmul %t, %bound : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("g")
  return %y : tensor<4x4xf32>
}

// The low type cannot hold the padding.
// CHECK-LABEL: func.func @padding
// CHECK: mpc.pad {{.*}}results = [f32], {{.*}}reason = constant_range
// CHECK: mpc.pad {{.*}}results = [bf16]
func.func @padding(%q: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = mpc.matmul %q, %q : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("unpadded")
  %1 = mpc.slice %0 {offsets = array<i64: 0, 0>, sizes = array<i64: 4, 3>} : (tensor<4x4xf32>) -> tensor<4x3xf32> loc("slice")
  %2 = mpc.pad %1 {offsets = array<i64: 0, 0>, shape = array<i64: 4, 4>, value = -3.40282347E+38 : f64} : (tensor<4x3xf32>) -> tensor<4x4xf32> loc("least")
  %3 = mpc.pad %1 {offsets = array<i64: 0, 0>, shape = array<i64: 4, 4>} : (tensor<4x3xf32>) -> tensor<4x4xf32> loc("zeros")
  %4 = mpc.matmul %2, %q : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("after_least")
  %5 = mpc.matmul %3, %q : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("after_zeros")
  return %4, %5 : tensor<4x4xf32>, tensor<4x4xf32>
}

// Large constants have ranges like small ones.
// CHECK-LABEL: func.func @resource
// CHECK: mpc.add {{.*}}results = [f32], {{.*}}reason = constant_range
// CHECK: mpc.add {{.*}}results = [bf16], {{.*}}reason = known_operand
func.func @resource(%q: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %least = mpc.constant dense_resource<least> : tensor<2x1xf32>
  %ones = mpc.constant dense_resource<ones> : tensor<2x1xf32>
  %scores = mpc.matmul %q, %q : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("r")
  %parts = mpc.reshape %scores : (tensor<4x4xf32>) -> tensor<2x8xf32> loc("s")
  %0 = mpc.add %parts, %least : (tensor<2x8xf32>, tensor<2x1xf32>) -> tensor<2x8xf32> loc("t")
  %1 = mpc.add %parts, %ones : (tensor<2x8xf32>, tensor<2x1xf32>) -> tensor<2x8xf32> loc("u")
  %2 = mpc.reshape %1 : (tensor<2x8xf32>) -> tensor<4x4xf32> loc("v")
  %3 = mpc.reshape %0 : (tensor<2x8xf32>) -> tensor<4x4xf32> loc("w")
  %4 = mpc.matmul %2, %q : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("x")
  %5 = mpc.matmul %3, %4 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("y")
  return %5 : tensor<4x4xf32>
}

// A frozen value has its initial range in every function. A parameter only
// begins with its initial range.
mpc.variable @floor : tensor<4x4xf32> role frozen init dense<-3.40282347E+38> : tensor<4x4xf32>
mpc.variable @shift : tensor<4x4xf32> role parameter init dense<-3.40282347E+38> : tensor<4x4xf32>
mpc.variable @zeros : tensor<4x4xf32> role frozen
// CHECK-LABEL: func.func @frozen
// CHECK: mpc.add {{.*}}results = [f32], {{.*}}reason = constant_range
// CHECK: mpc.add {{.*}}results = [f32], {{.*}}reason = wide_operand
// CHECK: mpc.add {{.*}}results = [bf16], {{.*}}reason = known_operand
func.func @frozen(%q: tensor<4x4xf32>, %floor: tensor<4x4xf32> {mpc.state = @floor}, %shift: tensor<4x4xf32> {mpc.state = @shift}, %zeros: tensor<4x4xf32> {mpc.state = @zeros}) -> tensor<4x4xf32> {
  %0 = mpc.matmul %q, %q : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("f0")
  %1 = mpc.add %0, %floor : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("f1")
  %2 = mpc.add %0, %shift : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("f2")
  %3 = mpc.add %0, %zeros : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("f3")
  %4 = mpc.matmul %2, %3 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("f4")
  %5 = mpc.softmax %1 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("f5")
  %6 = mpc.matmul %4, %5 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("f6")
  return %6 : tensor<4x4xf32>
}

// A repeated or gathered constant keeps its range.
// CHECK-LABEL: func.func @repeated
// CHECK: mpc.sigmoid {{.*}}results = [f32], {{.*}}reason = constant_range
// CHECK: mpc.expand
// CHECK: mpc.sub
// CHECK: mpc.gather
// CHECK: mpc.add {{.*}}results = [f32], {{.*}}reason = constant_range
func.func @repeated(%x: tensor<4x4xf32>, %i: tensor<4xi64>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %near = mpc.constant dense<[1.0, 0.9, 1.0, 0.8]> : tensor<4xf32>
  %rows = mpc.constant dense<[[-3.40282347E+38], [0.0]]> : tensor<2x1xf32>
  %h = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("repeated0")
  %s = mpc.sigmoid %h : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("repeated1")
  %all = mpc.expand %near : (tensor<4xf32>) -> tensor<4x4xf32> loc("repeated2")
  %c = mpc.sub %all, %s : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("repeated3")
  %y0 = mpc.matmul %c, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("repeated4")
  %m = mpc.gather %rows, %i {axis = 0 : i64} : (tensor<2x1xf32>, tensor<4xi64>) -> tensor<4x1xf32> loc("repeated5")
  %a = mpc.add %h, %m : (tensor<4x4xf32>, tensor<4x1xf32>) -> tensor<4x4xf32> loc("repeated6")
  %y1 = mpc.softmax %a {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("repeated7")
  return %y0, %y1 : tensor<4x4xf32>, tensor<4x4xf32>
}

{-#
  dialect_resources: {
    builtin: {
      least: "0x04000000FFFF7FFF0000803F",
      ones: "0x040000000000803F0000803F"
    }
  }
#-}

// Integers have no range: padded token IDs leave the table's rows low.
// CHECK-LABEL: func.func @token_ids
// CHECK: mpc.pad
// CHECK: mpc.gather {{.*}}results = [bf16]
func.func @token_ids(%q: tensor<4x4xf32>, %ids: tensor<3xi64>) -> tensor<4x4xf32> {
  %0 = mpc.pad %ids {offsets = array<i64: 1>, shape = array<i64: 4>, value = 1.0 : f64} : (tensor<3xi64>) -> tensor<4xi64> loc("ids")
  %1 = mpc.matmul %q, %q : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("table")
  %2 = mpc.gather %1, %0 {axis = 0 : i64} : (tensor<4x4xf32>, tensor<4xi64>) -> tensor<4x4xf32> loc("rows")
  %3 = mpc.matmul %2, %q : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("after_rows")
  return %3 : tensor<4x4xf32>
}
