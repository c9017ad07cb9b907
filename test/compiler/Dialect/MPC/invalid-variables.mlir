// RUN: mpc-opt %s -split-input-file -verify-diagnostics

// expected-error@+1 {{unknown role "weight"}}
mpc.variable @w : tensor<8xf32> role weight

// -----

// expected-error@+1 {{expected a role of state, found data}}
mpc.variable @x : tensor<8xf32> role data

// -----

// expected-error@+1 {{expected init or fill, found both}}
mpc.variable @w : tensor<8xf32> role parameter init dense<0.0> : tensor<8xf32> fill 0.0

// -----

mpc.variable @w : tensor<8xf32> role parameter
// expected-error@+1 {{expected type 'tensor<8xf32>' of variable @w, found 'tensor<9xf32>'}}
func.func @state_of_another_type(%w: tensor<9xf32> {mpc.state = @w}) {
  return
}

// -----

// expected-error@+1 {{no mpc.variable @w}}
func.func @state_that_does_not_exist(%w: tensor<9xf32> {mpc.state = @w}) {
  return
}

// -----

func.func @region_of_unknown_kind(%x: tensor<8xf32>) {
  // expected-error@+1 {{unknown kind of kernel "vertical", expected one of pointwise, row_reduce, column_reduce, contraction, window, movement, epilogue, scatter, cumulative}}
  %0 = mpc.region vertical(%x) : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8xf32>):
    mpc.yield %a : tensor<8xf32>
  }
  return
}

// -----

func.func @region_of_epilogue(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected another kind than epilogue, which only Planning makes}}
  %0 = mpc.region epilogue(%x) : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8xf32>):
    mpc.yield %a : tensor<8xf32>
  }
  return
}

// -----

// Printed without large constants.
func.func @values_left_out() {
  // expected-error @+1 {{has no values: they were left out when this text was printed; mpc compile --emit-data prints them}}
  %0 = mpc.constant dense_resource<__elided__> : tensor<100xf32>
  return
}
