// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v3 --plan-place-contractions --split-input-file | FileCheck %s --check-prefixes=CHECK,NARROW
// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v4 --plan-place-contractions --split-input-file | FileCheck %s --check-prefixes=CHECK,WIDE
// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v3 --plan-place-contractions="contractions=library" --split-input-file | FileCheck %s --check-prefixes=CHECK,WIDE

// Codegen multiplies large products in packed blocks on CPUs without 512-bit
// vectors, where the library would not pack.
//
// CHECK-LABEL: func.func @large
// NARROW: kernel = "y", provider = #mpc.provider<generated>
// WIDE: kernel = "y", provider = #mpc.provider<library>
func.func @large(%x: tensor<64x32xbf16>, %w: tensor<32x64xbf16>) -> tensor<64x64xf32> {
  %y = mpc.region contraction (%x, %w) {kernel = "y"} : (tensor<64x32xbf16>, tensor<32x64xbf16>) -> tensor<64x64xf32> {
  ^bb0(%0: tensor<64x32xbf16>, %1: tensor<32x64xbf16>):
    %2 = mpc.matmul %0, %1 : (tensor<64x32xbf16>, tensor<32x64xbf16>) -> tensor<64x64xf32>
    mpc.yield %2 : tensor<64x64xf32>
  }
  return %y : tensor<64x64xf32>
}

// -----

// Packing does not pay for products of few rows.
//
// CHECK-LABEL: func.func @small
// CHECK: kernel = "y", provider = #mpc.provider<library>
func.func @small(%x: tensor<63x32xf32>, %w: tensor<32x64xf32>) -> tensor<63x64xf32> {
  %y = mpc.region contraction (%x, %w) {kernel = "y"} : (tensor<63x32xf32>, tensor<32x64xf32>) -> tensor<63x64xf32> {
  ^bb0(%0: tensor<63x32xf32>, %1: tensor<32x64xf32>):
    %2 = mpc.matmul %0, %1 : (tensor<63x32xf32>, tensor<32x64xf32>) -> tensor<63x64xf32>
    mpc.yield %2 : tensor<63x64xf32>
  }
  return %y : tensor<63x64xf32>
}

// -----

// Products of a batch stay, because strides are free.
//
// CHECK-LABEL: func.func @heads
// CHECK: kernel = "y", provider = #mpc.provider<library>
func.func @heads(%q: tensor<4x64x32xf32>, %k: tensor<4x32x64xf32>) -> tensor<4x64x64xf32> {
  %y = mpc.region contraction (%q, %k) {kernel = "y"} : (tensor<4x64x32xf32>, tensor<4x32x64xf32>) -> tensor<4x64x64xf32> {
  ^bb0(%0: tensor<4x64x32xf32>, %1: tensor<4x32x64xf32>):
    %2 = mpc.matmul %0, %1 : (tensor<4x64x32xf32>, tensor<4x32x64xf32>) -> tensor<4x64x64xf32>
    mpc.yield %2 : tensor<4x64x64xf32>
  }
  return %y : tensor<4x64x64xf32>
}
