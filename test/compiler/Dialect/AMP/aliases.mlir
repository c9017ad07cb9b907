// Records and locations print as short aliases before the module, each once.
// The printed module reads back as the same.
// RUN: mpc-opt %s -mlir-print-debuginfo -o %t
// RUN: FileCheck %s --input-file=%t
// RUN: mpc-opt %t -mlir-print-debuginfo | diff %t -

// CHECK: #decision = #amp.decision<operands = [any], results = [bf16], {{.*}}path = ["fc1", "relu", "fc2"]
// CHECK: #decision1 = #amp.decision<operands = [f64],
// CHECK-LABEL: func.func @step
// CHECK-NEXT: mpc.relu %{{.*}} {amp.decision = #decision} : (tensor<8xf32>) -> tensor<8xbf16> loc(#relu1)
// CHECK-NEXT: mpc.relu %{{.*}} {amp.decision = #decision1} : (tensor<8xbf16>) -> tensor<8xf32> loc(#relu1$dx)
// CHECK-NEXT: mpc.neg {{.*}} loc(#_layer_0_act_Neg)
// CHECK-NEXT: mpc.abs {{.*}} loc(#Add_9_and_1_more)
// CHECK-LABEL: func.func @eval
// CHECK-NEXT: {amp.decision = #decision}
// CHECK: #Add_9 = loc("Add_9")
// CHECK: #relu1$dx = loc("relu1#dx")
func.func @step(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = mpc.relu %x {amp.decision = #amp.decision<operands = [any], results = [bf16], compute = f32, class = clear,
      rule = "default:relu", why = "exact", reason = between_low, path = ["fc1", "relu", "fc2"], evidence = assumed, flip = "--keep-fp32=^relu$">}
      : (tensor<8xf32>) -> tensor<8xbf16> loc("relu1")
  %1 = mpc.relu %0 {amp.decision = #amp.decision<operands = [f64], results = [f64], compute = f64, class = fixed,
      rule = "default:relu", why = "", reason = model_type, path = [], evidence = proved>}
      : (tensor<8xbf16>) -> tensor<8xf32> loc("relu1#dx")
  %2 = mpc.neg %1 : (tensor<8xf32>) -> tensor<8xf32> loc("/layer.0/act/Neg")
  %3 = mpc.abs %2 : (tensor<8xf32>) -> tensor<8xf32> loc(fused["Add_9", "Mul_8"])
  return %3 : tensor<8xf32>
}

func.func @eval(%x: tensor<8xf32>) -> tensor<8xbf16> {
  %0 = mpc.relu %x {amp.decision = #amp.decision<operands = [any], results = [bf16], compute = f32, class = clear,
      rule = "default:relu", why = "exact", reason = between_low, path = ["fc1", "relu", "fc2"], evidence = assumed, flip = "--keep-fp32=^relu$">}
      : (tensor<8xf32>) -> tensor<8xbf16> loc("relu1")
  return %0 : tensor<8xbf16>
}
