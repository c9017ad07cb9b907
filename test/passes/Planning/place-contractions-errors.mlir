// RUN: not mpc-opt %s --plan-place-contractions=target=sm_1 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: not mpc-opt %s --plan-place-contractions=contractions=both 2>&1 | FileCheck %s --check-prefix=PROVIDER

// TARGET: unknown target 'sm_1'
// PROVIDER: expected contractions by table, library, generated or bare, found both
func.func @f() {
  return
}
