// RUN: mpc-opt %s -split-input-file -verify-diagnostics

// Indices [5, 2] along axis 1 of [4, 9, 6] read parts of [4, 5, 2, 6].
func.func @indices_that_fit(%x: tensor<4x9x6xf32>, %i: tensor<5x2xi64>, %j: tensor<4x2xi64>, %u: tensor<4x2x6xf32>, %k: tensor<4x1x6xi64>) {
  %0 = mpc.gather %x, %i {axis = 1 : i64} : (tensor<4x9x6xf32>, tensor<5x2xi64>) -> tensor<4x5x2x6xf32>
  %1 = mpc.gather %x, %j {axis = 1 : i64, batch_dims = 1 : i64} : (tensor<4x9x6xf32>, tensor<4x2xi64>) -> tensor<4x2x6xf32>
  %2 = mpc.scatter %x, %j, %u {axis = 1 : i64, batch_dims = 1 : i64, reduction = #mpc.scatter<add>} : (tensor<4x9x6xf32>, tensor<4x2xi64>, tensor<4x2x6xf32>) -> tensor<4x9x6xf32>
  %3 = mpc.gather_elements %x, %k {axis = 1 : i64} : (tensor<4x9x6xf32>, tensor<4x1x6xi64>) -> tensor<4x1x6xf32>
  return
}

// -----

func.func @checked_indices_beyond_the_input(%ids: tensor<4xi64>) {
  // expected-error @+1 {{expected boxes of indices within an integer input}}
  mpc.check_indices %ids [{begin = array<i64: 0>, end = array<i64: 5>, size = 9 : i64}] : tensor<4xi64>
  return
}

// -----

func.func @axis_that_is_not_there(%x: tensor<4x9xf32>, %i: tensor<5xi64>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{axis 2 is not in [0, 2)}}
  %0 = mpc.gather %x, %i {axis = 2 : i64} : (tensor<4x9xf32>, tensor<5xi64>) -> tensor<4x5xf32>
  return
}

// -----

func.func @indices_of_an_empty_axis(%x: tensor<0x9xf32>, %i: tensor<5xi64>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{expected no indices of axis 0, which has no elements, found [5]}}
  %0 = mpc.gather %x, %i {axis = 0 : i64} : (tensor<0x9xf32>, tensor<5xi64>) -> tensor<5x9xf32>
  return
}

// -----

func.func @batch_behind_the_axis(%x: tensor<4x9xf32>, %i: tensor<4x5xi64>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{expected batch_dims in [0, 0], found 1}}
  %0 = mpc.gather %x, %i {axis = 0 : i64, batch_dims = 1 : i64} : (tensor<4x9xf32>, tensor<4x5xi64>) -> tensor<4x5xf32>
  return
}

// -----

func.func @other_batches(%x: tensor<4x9xf32>, %i: tensor<3x5xi64>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{expected the same batch axes, found [4] and [3]}}
  %0 = mpc.gather %x, %i {axis = 1 : i64, batch_dims = 1 : i64} : (tensor<4x9xf32>, tensor<3x5xi64>) -> tensor<4x5xf32>
  return
}

// -----

func.func @elements_of_other_lines(%x: tensor<4x9xf32>, %i: tensor<3x5xi64>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{expected indices of the data's shape [4, 9] but for axis 1, found [3, 5]}}
  %0 = mpc.gather_elements %x, %i {axis = 1 : i64} : (tensor<4x9xf32>, tensor<3x5xi64>) -> tensor<3x5xf32>
  return
}

// -----

func.func @updates_of_another_shape(%x: tensor<4x9xf32>, %i: tensor<2xi64>, %u: tensor<2x8xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{expected updates of shape [2, 9], found [2, 8]}}
  %0 = mpc.scatter %x, %i, %u {axis = 0 : i64, reduction = #mpc.scatter<add>} : (tensor<4x9xf32>, tensor<2xi64>, tensor<2x8xf32>) -> tensor<4x9xf32>
  return
}

// -----

func.func @updates_of_another_type(%x: tensor<4xi64>, %i: tensor<2xi64>, %u: tensor<2xi32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{expected updates of type 'i64', found 'i32'}}
  %0 = mpc.scatter %x, %i, %u {axis = 0 : i64, reduction = #mpc.scatter<none>} : (tensor<4xi64>, tensor<2xi64>, tensor<2xi32>) -> tensor<4xi64>
  return
}

// -----

func.func @sum_of_booleans(%x: tensor<4xi1>, %i: tensor<2xi64>, %u: tensor<2xi1>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{expected numbers to reduce, found 'i1'}}
  %0 = mpc.scatter %x, %i, %u {axis = 0 : i64, reduction = #mpc.scatter<add>} : (tensor<4xi1>, tensor<2xi64>, tensor<2xi1>) -> tensor<4xi1>
  return
}
