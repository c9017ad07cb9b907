// RUN: mpc-opt %s --split-input-file --verify-diagnostics \
// RUN:   --mpc-attach-target=name=x86-64-v3 --plan-verify
//
// Launches match the loops of their kernels.

func.func private @relu(%x: tensor<32x10xf32>) -> tensor<32x10xf32>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %y = mpc.relu %x : (tensor<32x10xf32>) -> tensor<32x10xf32>
  return %y : tensor<32x10xf32>
}

plan.program @good {
  %x = plan.input "x" role data : memref<32x10xf32>
  %y = plan.arena : memref<32x10xf32>
  plan.launch @relu ins(%x : memref<32x10xf32>) outs(%y : memref<32x10xf32>) extent 320 grain 16384
}

// -----

func.func private @relu(%x: tensor<32x10xf32>) -> tensor<32x10xf32>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %y = mpc.relu %x : (tensor<32x10xf32>) -> tensor<32x10xf32>
  return %y : tensor<32x10xf32>
}

plan.program @long {
  %x = plan.input "x" role data : memref<32x10xf32>
  %y = plan.arena : memref<32x10xf32>
  // expected-error @below {{'plan.launch' op expected extent 320, which @relu is made for, found 321}}
  plan.launch @relu ins(%x : memref<32x10xf32>) outs(%y : memref<32x10xf32>) extent 321 grain 16384
}

// -----

func.func private @relu(%x: tensor<32x10xf32>) -> tensor<32x10xf32>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %y = mpc.relu %x : (tensor<32x10xf32>) -> tensor<32x10xf32>
  return %y : tensor<32x10xf32>
}

// Covers launches inside a loop.
plan.program @nested {
  %x = plan.input "x" role data : memref<32x10xf32>
  %y = plan.arena : memref<32x10xf32>
  plan.for 2 {
    // expected-error @below {{expected grain 16384, which @relu is made for, found 64}}
    plan.launch @relu ins(%x : memref<32x10xf32>) outs(%y : memref<32x10xf32>) extent 320 grain 64
  }
}

// -----

func.func private @relu(%x: tensor<32x10xf32>) -> tensor<32x10xf32>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %y = mpc.relu %x : (tensor<32x10xf32>) -> tensor<32x10xf32>
  return %y : tensor<32x10xf32>
}

plan.program @scratch {
  %x = plan.input "x" role data : memref<32x10xf32>
  %y = plan.arena : memref<32x10xf32>
  // expected-error @below {{expected scratch_bytes 0, which @relu is made for, found 64}}
  plan.launch @relu ins(%x : memref<32x10xf32>) outs(%y : memref<32x10xf32>) extent 320 grain 16384 {scratch_bytes = 64 : i64}
}

// -----

func.func private @relu(%x: tensor<32x10xf32>) -> tensor<32x10xf32>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %y = mpc.relu %x : (tensor<32x10xf32>) -> tensor<32x10xf32>
  return %y : tensor<32x10xf32>
}

plan.program @threads {
  %x = plan.input "x" role data : memref<32x10xf32>
  %y = plan.arena : memref<32x10xf32>
  // expected-error @below {{expected threads 1, which @relu is made for, found 128}}
  plan.launch @relu ins(%x : memref<32x10xf32>) outs(%y : memref<32x10xf32>) extent 320 grain 16384 threads 128
}

// -----

plan.program @nobody {
  %x = plan.arena : memref<4xf32>
  // expected-error @below {{expected a kernel, found @relu}}
  plan.launch @relu outs(%x : memref<4xf32>) extent 4 grain 4
}
