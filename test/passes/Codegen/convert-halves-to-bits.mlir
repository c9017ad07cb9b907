// RUN: mpc-opt %s --mpc-attach-target=name=x86-64 --mpc-convert-halves-to-bits | FileCheck %s --implicit-check-not=f16
// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v3 --mpc-convert-halves-to-bits | FileCheck %s --check-prefix=F16 --implicit-check-not=bf16
// RUN: mpc-opt %s --mpc-attach-target=name=sapphirerapids --mpc-convert-halves-to-bits | FileCheck %s --check-prefix=NATIVE

// CHECK-LABEL: llvm.func @fill(
// CHECK: %[[X:.*]] = llvm.bitcast %{{.*}} : i16 to i16
// CHECK: llvm.insertelement %[[X]], %{{.*}} : vector<8xi16>
// CHECK: llvm.shufflevector {{.*}} : vector<8xi16>
// CHECK: llvm.getelementptr {{.*}} -> !llvm.ptr, i16
// CHECK: llvm.store {{.*}} : vector<8xi16>, !llvm.ptr
// CHECK: llvm.mlir.constant(16256 : i16) : i16
// CHECK: llvm.mlir.constant(dense<15360> : vector<8xi16>) : vector<8xi16>
//
// F16-LABEL: llvm.func @fill(
// F16: llvm.mlir.constant(16256 : i16) : i16
// F16: llvm.mlir.constant(dense<1.000000e+00> : vector<8xf16>) : vector<8xf16>
//
// NATIVE-LABEL: llvm.func @fill(
// NATIVE: llvm.bitcast %{{.*}} : i16 to bf16
// NATIVE: llvm.mlir.constant(1.000000e+00 : bf16) : bf16
llvm.func @fill(%word: i16, %y: !llvm.ptr, %z: !llvm.ptr, %i: i64) {
  %x = llvm.bitcast %word : i16 to bf16
  %0 = llvm.mlir.poison : vector<8xbf16>
  %1 = llvm.insertelement %x, %0[%i : i64] : vector<8xbf16>
  %2 = llvm.shufflevector %1, %0 [0, 0, 0, 0, 0, 0, 0, 0] : vector<8xbf16>
  %3 = llvm.getelementptr %y[%i] : (!llvm.ptr, i64) -> !llvm.ptr, bf16
  llvm.store %2, %3 : vector<8xbf16>, !llvm.ptr
  %4 = llvm.mlir.constant(1.0 : bf16) : bf16
  llvm.store %4, %z : bf16, !llvm.ptr
  %5 = llvm.mlir.constant(dense<1.0> : vector<8xf16>) : vector<8xf16>
  llvm.store %5, %z : vector<8xf16>, !llvm.ptr
  llvm.return
}
