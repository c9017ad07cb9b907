// RUN: mpc-opt %s --plan-deduplicate-kernels | FileCheck %s

// All calls use the first of equal kernels. Names, locations and decision
// records are ignored.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[A:.*]] = call @relu1(%{{.*}})
// CHECK-NEXT: %[[B:.*]] = call @relu1(%[[A]])
// CHECK-NEXT: %[[C:.*]] = call @clip1(%[[B]]
// CHECK-NEXT: %[[D:.*]] = call @clip2(%[[C]]
// CHECK-NEXT: %[[E:.*]] = call @tail(%[[D]])
// CHECK-NEXT: call @narrow(%[[E]])
func.func @main(%x: tensor<64xf32>) -> tensor<64xbf16> {
  %0 = call @relu1(%x) : (tensor<64xf32>) -> tensor<64xf32>
  %1 = call @relu2(%0) : (tensor<64xf32>) -> tensor<64xf32>
  %2 = call @clip1(%1) : (tensor<64xf32>) -> tensor<64xf32>
  %3 = call @clip2(%2) : (tensor<64xf32>) -> tensor<64xf32>
  %4 = call @tail(%3) : (tensor<64xf32>) -> tensor<64xf32>
  %5 = call @narrow(%4) : (tensor<64xf32>) -> tensor<64xbf16>
  return %5 : tensor<64xbf16>
}

// CHECK: func.func private @relu1
func.func private @relu1(%x: tensor<64xf32>) -> tensor<64xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.relu %x {mpc.phase = #mpc.phase<forward>} : (tensor<64xf32>) -> tensor<64xf32> loc("relu1")
  return %0 : tensor<64xf32>
}
// CHECK-NOT: @relu2
func.func private @relu2(%x: tensor<64xf32>) -> tensor<64xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.relu %x {mpc.phase = #mpc.phase<backward>} : (tensor<64xf32>) -> tensor<64xf32> loc("relu2")
  return %0 : tensor<64xf32>
}

// The op's own attributes matter.
// CHECK: func.func private @clip1
func.func private @clip1(%x: tensor<64xf32>) -> tensor<64xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.clip %x {min = 0.0 : f64} : (tensor<64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}
// CHECK: func.func private @clip2
func.func private @clip2(%x: tensor<64xf32>) -> tensor<64xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.clip %x {min = 1.0 : f64} : (tensor<64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// The kernel's kind matters.
// CHECK: func.func private @tail
func.func private @tail(%x: tensor<64xf32>) -> tensor<64xf32> attributes {mpc.kernel = #mpc.kernel<epilogue>} {
  %0 = mpc.relu %x : (tensor<64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// The types matter.
// CHECK: func.func private @narrow
func.func private @narrow(%x: tensor<64xf32>) -> tensor<64xbf16> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.relu %x : (tensor<64xf32>) -> tensor<64xbf16>
  return %0 : tensor<64xbf16>
}
