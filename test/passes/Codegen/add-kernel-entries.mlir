// RUN: mpc-opt %s --mpc-add-kernel-entries | FileCheck %s

// CHECK-LABEL: llvm.func internal @copy.body(
// CHECK-SAME: always_inline
// CHECK-LABEL: llvm.func @copy(
// CHECK-SAME: %[[ARGS:.*]]: !llvm.ptr, %[[BEGIN:.*]]: i64, %[[END:.*]]: i64)
// CHECK: %[[SLOT0:.*]] = llvm.getelementptr %[[ARGS]][0]
// CHECK: %[[X:.*]] = llvm.load %[[SLOT0]]
// CHECK: %[[SLOT1:.*]] = llvm.getelementptr %[[ARGS]][1]
// CHECK: %[[Y:.*]] = llvm.load %[[SLOT1]]
// CHECK: llvm.call @copy.body(%[[X]], %[[Y]], %[[BEGIN]], %[[END]])
llvm.func @copy(%x: !llvm.ptr, %y: !llvm.ptr, %begin: i64, %end: i64)
    attributes {mpc.kernel = #mpc.kernel<movement>} {
  llvm.return
}

// CHECK: llvm.func @helper(%{{.*}}: i64) {
llvm.func @helper(%x: i64) {
  llvm.return
}
