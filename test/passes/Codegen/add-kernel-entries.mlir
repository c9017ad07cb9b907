// RUN: mpc-opt %s --mpc-add-kernel-entries | FileCheck %s

// CHECK-LABEL: llvm.func internal @copy.body(
// CHECK-SAME: always_inline
// CHECK-LABEL: llvm.func @copy(
// CHECK-SAME: %[[ARGS:.*]]: !llvm.ptr, %[[BEGIN:.*]]: i64, %[[END:.*]]: i64, %{{.*}}: !llvm.ptr)
// CHECK: %[[SLOT0:.*]] = llvm.getelementptr %[[ARGS]][0]
// CHECK: %[[X:.*]] = llvm.load %[[SLOT0]]
// CHECK: %[[SLOT1:.*]] = llvm.getelementptr %[[ARGS]][1]
// CHECK: %[[Y:.*]] = llvm.load %[[SLOT1]]
// CHECK: llvm.call @copy.body(%[[X]], %[[Y]], %[[BEGIN]], %[[END]])
llvm.func @copy(%x: !llvm.ptr, %y: !llvm.ptr, %begin: i64, %end: i64)
    attributes {mpc.kernel = #mpc.kernel<movement>} {
  llvm.return
}

// Scratch memory is passed on if the kernel takes it.
// CHECK-LABEL: llvm.func @sum(
// CHECK-SAME: %[[ARGS:.*]]: !llvm.ptr, %[[BEGIN:.*]]: i64, %[[END:.*]]: i64, %[[SCRATCH:.*]]: !llvm.ptr)
// CHECK: %[[SLOT:.*]] = llvm.getelementptr %[[ARGS]][0]
// CHECK: %[[X:.*]] = llvm.load %[[SLOT]]
// CHECK-NOT: llvm.load
// CHECK: llvm.call @sum.body(%[[X]], %[[BEGIN]], %[[END]], %[[SCRATCH]])
llvm.func @sum(%x: !llvm.ptr, %begin: i64, %end: i64, %scratch: !llvm.ptr)
    attributes {mpc.kernel = #mpc.kernel<column_reduce>} {
  llvm.return
}

// An epilogue takes no scratch memory.
// CHECK-LABEL: llvm.func @tile(
// CHECK-SAME: %{{.*}}: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: i64)
llvm.func @tile(%x: !llvm.ptr, %r0: i64, %r1: i64, %c0: i64, %c1: i64, %ld: i64)
    attributes {mpc.kernel = #mpc.kernel<epilogue>} {
  llvm.return
}

// CHECK: llvm.func @helper(%{{.*}}: i64) {
llvm.func @helper(%x: i64) {
  llvm.return
}
