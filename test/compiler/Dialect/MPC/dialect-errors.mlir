// RUN: mpc-opt %s -split-input-file -verify-diagnostics

// expected-error@+1 {{expected mpc.role to be that of an input, such as #mpc.role<data>, found #mpc.role<loss>}}
func.func @input_with_the_role_of_an_output(%x: tensor<8xf32> {mpc.input = "x", mpc.role = #mpc.role<loss>}) {
  return
}

// -----

// expected-error@+1 {{expected mpc.role to be that of an output, such as #mpc.role<loss>, found "loss"}}
func.func @role_as_a_string(%x: tensor<f32>) -> (tensor<f32> {mpc.output = "y", mpc.role = "loss"}) {
  return %x : tensor<f32>
}

// -----

func.func private @unknown_kernel(%x: tensor<4xf32>) -> tensor<4xf32>
    // expected-error @below {{unknown kind of kernel "fast", expected one of pointwise, row_reduce}}
    // expected-error @below {{failed to parse MPC_KernelKindAttr}}
    attributes {mpc.kernel = #mpc.kernel<fast>} {
  return %x : tensor<4xf32>
}

// -----

// expected-error @below {{expected the kind of a kernel such as #mpc.kernel<pointwise>, found "pointwise"}}
func.func private @kernel_as_text(%x: tensor<4xf32>) -> tensor<4xf32>
    attributes {mpc.kernel = "pointwise"} {
  return %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{expected mpc.indices to be boxes of indices within an integer argument}}
func.func @indices_beyond_the_argument(%ids: tensor<4x2xi64> {mpc.indices = [{begin = array<i64: 0, 1>, end = array<i64: 4, 3>, size = 9 : i64}]}) {
  return
}

// -----

// expected-error @+1 {{expected mpc.indices to be boxes of indices within an integer argument}}
func.func @indices_that_are_floats(%ids: tensor<4xf32> {mpc.indices = [{begin = array<i64: 0>, end = array<i64: 4>, size = 9 : i64}]}) {
  return
}

// -----

// expected-error @+1 {{expected mpc.indices to be boxes of indices within an integer argument}}
func.func @ignored_index_that_is_no_label(%ids: tensor<4xi64> {mpc.indices = [{begin = array<i64: 0>, end = array<i64: 4>, size = 9 : i64, ignored = 2 : i64}]}) {
  return
}

// -----

func.func @phase_that_does_not_exist(%x: tensor<8xf32>) {
  // expected-error@+2 {{expected ::mpc::Phase to be one of: forward, loss, backward, optimizer}}
  // expected-error@+1 {{failed to parse MPC_PhaseAttr}}
  %0 = mpc.relu %x {mpc.phase = #mpc.phase<sideways>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @phase_as_a_string(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected a phase of training such as #mpc.phase<backward>, found "backward"}}
  %0 = mpc.relu %x {mpc.phase = "backward"} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @name_that_no_pass_knows(%x: tensor<8xf32>) {
  // expected-error@+1 {{no op has an attribute 'mpc.phrase'}}
  %0 = mpc.relu %x {mpc.phrase = #mpc.phase<backward>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

// expected-error@+1 {{no argument has an attribute 'mpc.output'}}
func.func @output_of_an_argument(%x: tensor<8xf32> {mpc.output = "x"}) {
  return
}

// -----

// expected-error@+1 {{no result has an attribute 'mpc.updated'}}
func.func @misspelt_update(%x: tensor<f32>) -> (tensor<f32> {mpc.updated = @w}) {
  return %x : tensor<f32>
}

// -----

// expected-error@+1 {{expected "mpc.input" to be a name, found 3 : i64}}
func.func @number_as_a_name(%x: tensor<f32> {mpc.input = 3 : i64}) {
  return
}

// -----

// expected-error@+1 {{expected a positive i32 of a function as mpc.threads, found 32 : i64}}
func.func @threads_of_another_type() attributes {mpc.threads = 32 : i64} {
  return
}

// -----

func.func @variance_of_no_normalization(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected mpc.unbiased_running_var to be a unit attribute of mpc.batch_norm, found unit}}
  %0 = mpc.relu %x {mpc.unbiased_running_var} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @ranks_of_no_normalization(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected mpc.over_ranks to be a unit attribute of mpc.batch_norm or mpc.batch_norm_grad, found unit}}
  %0 = mpc.relu %x {mpc.over_ranks} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @unknown_decay_mode(%p: tensor<8xf32>, %lr: tensor<f32>, %t: tensor<i64>) {
  // expected-error@+2 {{expected ::mpc::DecayMode to be one of: l2, decoupled, decoupled_after, post}}
  // expected-error@+1 {{failed to parse MPC_DecayModeAttr}}
  %0, %1, %2 = mpc.adam %p, %p, %p, %p, %lr, %t {beta1 = 0.9 : f64, beta2 = 0.99 : f64, epsilon = 1.0e-8 : f64, decay_mode = #mpc.decay<cosine>} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i64>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}
