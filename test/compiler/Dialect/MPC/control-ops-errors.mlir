// RUN: mpc-opt %s -split-input-file -verify-diagnostics

func.func @no_iteration(%h: tensor<4xf32>) {
  // expected-error @below {{expected a length of 1 at least, found 0}}
  %0 = mpc.scan 0 carried(%h : tensor<4xf32>) -> (tensor<4xf32>) {
  ^bb0(%a: tensor<4xf32>):
    mpc.yield %a : tensor<4xf32>
  } {reversed_inputs = array<i1>, reversed_outputs = array<i1>}
  return
}

// -----

func.func @another_type_carried(%h: tensor<4xf32>) {
  // expected-error @below {{expected carried value 0 to keep its type 'tensor<4xf32>'}}
  %0 = mpc.scan 3 carried(%h : tensor<4xf32>) -> (tensor<4xf32>) {
  ^bb0(%a: tensor<4xf32>):
    %1 = mpc.reshape %a : (tensor<4xf32>) -> tensor<2x2xf32>
    mpc.yield %1 : tensor<2x2xf32>
  } {reversed_inputs = array<i1>, reversed_outputs = array<i1>}
  return
}

// -----

func.func @too_few_parts(%x: tensor<3x4xf32>) {
  // expected-error @below {{expected a scanned operand to be 5 of 'tensor<4xf32>', found 'tensor<3x4xf32>'}}
  %0 = mpc.scan 5 scanned(%x : tensor<3x4xf32>) -> (tensor<5x4xf32>) {
  ^bb0(%a: tensor<4xf32>):
    mpc.yield %a : tensor<4xf32>
  } {reversed_inputs = array<i1: false>, reversed_outputs = array<i1: false>}
  return
}

// -----

func.func @another_stack(%x: tensor<5x4xf32>) {
  // expected-error @below {{expected a stacked result to be 5 of 'tensor<4xf32>', found 'tensor<5x3xf32>'}}
  %0 = mpc.scan 5 scanned(%x : tensor<5x4xf32>) -> (tensor<5x3xf32>) {
  ^bb0(%a: tensor<4xf32>):
    mpc.yield %a : tensor<4xf32>
  } {reversed_inputs = array<i1: false>, reversed_outputs = array<i1: false>}
  return
}

// -----

func.func @no_direction(%x: tensor<5x4xf32>) {
  // expected-error @below {{expected one element of reversed_inputs per scanned operand}}
  %0 = mpc.scan 5 scanned(%x : tensor<5x4xf32>) -> (tensor<5x4xf32>) {
  ^bb0(%a: tensor<4xf32>):
    mpc.yield %a : tensor<4xf32>
  } {reversed_inputs = array<i1>, reversed_outputs = array<i1: false>}
  return
}

// -----

func.func @another_body(%x: tensor<5x4xf32>) {
  // expected-error @below {{expected @takes_scalars to have type '(tensor<4xf32>) -> tensor<4xf32>' as an iteration has, found '(tensor<f32>) -> tensor<f32>'}}
  %0 = mpc.scan_call @takes_scalars 5 scanned(%x : tensor<5x4xf32>)
      {reversed_inputs = array<i1: false>, reversed_outputs = array<i1: false>} -> (tensor<5x4xf32>)
  return
}
func.func private @takes_scalars(%x: tensor<f32>) -> tensor<f32> {
  return %x : tensor<f32>
}

// -----

func.func @too_few_arguments(%c: tensor<i1>, %x: tensor<4xf32>) {
  // expected-error @below {{expected one block argument per captured operand, of its type}}
  %0 = mpc.if %c captured(%x : tensor<4xf32>) -> (tensor<4xf32>) {
  ^bb0(%a: tensor<4xf32>):
    mpc.yield %a : tensor<4xf32>
  } else {
    %1 = mpc.constant dense<0.0> : tensor<4xf32>
    mpc.yield %1 : tensor<4xf32>
  }
  return
}

// -----

func.func @another_type_in_a_branch(%c: tensor<i1>, %x: tensor<4xf32>) {
  // expected-error @below {{expected both branches to yield values of the results' types}}
  %0 = mpc.if %c captured(%x : tensor<4xf32>) -> (tensor<4xf32>) {
  ^bb0(%a: tensor<4xf32>):
    mpc.yield %a : tensor<4xf32>
  } else {
  ^bb0(%a: tensor<4xf32>):
    %1 = mpc.reshape %a : (tensor<4xf32>) -> tensor<2x2xf32>
    mpc.yield %1 : tensor<2x2xf32>
  }
  return
}

// -----

func.func @another_branch(%c: tensor<i1>, %x: tensor<4xf32>) {
  // expected-error @below {{expected @takes_scalars to have type '(tensor<4xf32>) -> tensor<4xf32>' as a branch has, found '(tensor<f32>) -> tensor<f32>'}}
  %0 = mpc.if_call %c @takes_scalars else @takes_scalars(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}
func.func private @takes_scalars(%x: tensor<f32>) -> tensor<f32> {
  return %x : tensor<f32>
}

// -----

func.func @no_branch(%c: tensor<i1>, %x: tensor<4xf32>) {
  // expected-error @below {{no function @missing}}
  %0 = mpc.if_call %c @missing else @missing(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}
