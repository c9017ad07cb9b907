// RUN: mpc-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{unknown target 'pdp11', expected one of native, x86-64}}
module attributes {mpc.target = #mpc.target<"pdp11">} {
}

// -----

// expected-error @+1 {{expected the target of a module, such as #mpc.target<"native">, found "zen5"}}
module attributes {mpc.target = "zen5"} {
}

// -----

// expected-error @+1 {{expected the target of a module}}
func.func @target_of_a_function() attributes {mpc.target = #mpc.target<"zen5">} {
  return
}
