// RUN: mpc-opt %s -split-input-file -verify-diagnostics

func.func @shapes_that_do_not_broadcast(%a: tensor<4x8xf32>, %b: tensor<3xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{shapes [4, 8] and [3] do not broadcast together}}
  %0 = "mpc.add"(%a, %b) : (tensor<4x8xf32>, tensor<3xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @result_shape_that_is_not_inferred(%a: tensor<4x8xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{'mpc.relu' op inferred type(s) 'tensor<4x8xf32>' are incompatible with return type(s) of operation 'tensor<4x9xf32>'}}
  %0 = "mpc.relu"(%a) : (tensor<4x8xf32>) -> tensor<4x9xf32>
  return
}

// -----

func.func @integers_of_two_types(%a: tensor<4xi32>, %b: tensor<4xi64>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{expected operands of one element type, found 'i32' and 'i64'}}
  %0 = "mpc.add"(%a, %b) : (tensor<4xi32>, tensor<4xi64>) -> tensor<4xi32>
  return
}

// -----

func.func @signed_and_unsigned(%a: tensor<4xi32>, %b: tensor<4xui32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{expected operands of one element type, found 'i32' and 'ui32'}}
  %0 = "mpc.less"(%a, %b) : (tensor<4xi32>, tensor<4xui32>) -> tensor<4xi1>
  return
}

// -----

func.func @choice_of_two_types(%c: tensor<4xi1>, %a: tensor<4xi32>, %b: tensor<4xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{expected operands of one element type, found 'i32' and 'f32'}}
  %0 = "mpc.select"(%c, %a, %b) : (tensor<4xi1>, tensor<4xi32>, tensor<4xf32>) -> tensor<4xi32>
  return
}

// -----

func.func @sum_of_booleans(%a: tensor<4xi1>) {
  // expected-error@+1 {{operand #0 must be statically shaped tensor}}
  %0 = "mpc.add"(%a, %a) : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
  return
}

// -----

func.func @remainder_of_floats_with_the_sign_of_the_divisor(%a: tensor<4xf32>) {
  // expected-error@+1 {{expected attribute fmod, because the operands are floats}}
  %0 = mpc.mod %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @dynamic_shape(%a: tensor<?x8xf32>) {
  // expected-error@+1 {{must be statically shaped tensor}}
  %0 = "mpc.relu"(%a) : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return
}

// -----

func.func @dropout_of_everything(%x: tensor<4xf32>, %s: tensor<i64>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{expected ratio in [0, 1)}}
  %0 = "mpc.dropout"(%x, %s, %s) {ratio = 1.0 : f64, id = 0 : i64} : (tensor<4xf32>, tensor<i64>, tensor<i64>) -> tensor<4xf32>
  return
}

// -----

func.func @no_such_formula(%dy: tensor<4xf32>, %x: tensor<4xf32>) {
  // expected-error @below {{there is no formula of "square"}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.formula_grad %dy, %x {of = "square"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @random_of_a_row_of_seeds(%seed: tensor<2xi64>, %step: tensor<i64>) -> tensor<4xf32> {
  // expected-error @below {{expected scalar seed and micro_step}}
  %0 = mpc.random_uniform %seed, %step {id = 0 : i64} : (tensor<2xi64>, tensor<i64>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @bits_of_another_width(%x: tensor<4xf32>) -> tensor<4xi64> {
  // expected-error @+1 {{expected types of one width, found 'f32' and 'i64'}}
  %0 = mpc.bit_cast %x : (tensor<4xf32>) -> tensor<4xi64>
  return %0 : tensor<4xi64>
}
