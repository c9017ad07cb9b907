// RUN: mpc-opt %s --mpc-attach-target=name=sm_90 | FileCheck %s
// RUN: mpc-opt %s --mpc-attach-target | FileCheck %s --check-prefix=NATIVE
// RUN: mpc-opt %s --mpc-attach-target=name=sm_90 --mpc-attach-target=name=zen5 | FileCheck %s --check-prefix=LAST
// RUN: not mpc-opt %s --mpc-attach-target=name=pdp11 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// CHECK: module attributes {mpc.target = #mpc.target<"sm_90">}
// NATIVE: module attributes {mpc.target = #mpc.target<"native">}
// LAST: module attributes {mpc.target = #mpc.target<"zen5">}
// UNKNOWN: unknown target 'pdp11', expected one of native, x86-64,
module {
}
