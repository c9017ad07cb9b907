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
  // expected-error@+1 {{of floats is expected with fmod}}
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

func.func @inner_dimensions_differ(%a: tensor<4x8xf32>, %b: tensor<7x5xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{inner dimensions 8 and 7 differ}}
  %0 = "mpc.matmul"(%a, %b) : (tensor<4x8xf32>, tensor<7x5xf32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @gemm_addend_that_does_not_broadcast(%a: tensor<4x8xf32>, %b: tensor<8x5xf32>, %c: tensor<4xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{C of shape [4] does not broadcast to [4, 5]}}
  %0 = "mpc.gemm"(%a, %b, %c) : (tensor<4x8xf32>, tensor<8x5xf32>, tensor<4xf32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @stride_of_zero(%x: tensor<1x1x8x8xf32>, %w: tensor<1x1x3x3xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{expected kernel sizes, strides and dilations of at least 1 and pads of at least 0}}
  %0 = "mpc.conv"(%x, %w) {strides = array<i64: 0, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x1x8x8xf32>, tensor<1x1x3x3xf32>) -> tensor<1x1x6x6xf32>
  return
}

// -----

func.func @groups_that_do_not_divide(%x: tensor<1x3x8x8xf32>, %w: tensor<4x1x3x3xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{a weight of shape [4, 1, 3, 3] in 2 groups does not fit 3 input channels}}
  %0 = "mpc.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 2 : i64} : (tensor<1x3x8x8xf32>, tensor<4x1x3x3xf32>) -> tensor<1x4x6x6xf32>
  return
}

// -----

func.func @window_larger_than_input(%x: tensor<1x1x2x2xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{a window of 3 does not fit a padded axis of 2}}
  %0 = "mpc.average_pool"(%x) {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>} : (tensor<1x1x2x2xf32>) -> tensor<1x1x1x1xf32>
  return
}

// -----

func.func @gradient_of_another_convolution(%dy: tensor<1x4x5x6xf32>, %w: tensor<4x1x3x3xf32>) {
  // expected-error@+1 {{expected d_output of shape [1, 4, 6, 6], found [1, 4, 5, 6]}}
  %0 = mpc.conv_input_grad %dy, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x4x5x6xf32>, tensor<4x1x3x3xf32>) -> tensor<1x1x8x8xf32>
  return
}

// -----

func.func @labels_of_the_wrong_shape(%s: tensor<32x10xf32>, %t: tensor<31xi64>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{expected labels of shape [32], found [31]}}
  %0, %1 = "mpc.softmax_cross_entropy_loss"(%s, %t) : (tensor<32x10xf32>, tensor<31xi64>) -> (tensor<f32>, tensor<32x10xf32>)
  return
}

// -----

func.func @permutation_with_a_repeated_axis(%x: tensor<2x3xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{perm [0, 0] is not a permutation of the 2 axes}}
  %0 = "mpc.transpose"(%x) {perm = array<i64: 0, 0>} : (tensor<2x3xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @slice_strided_past_the_end(%x: tensor<8xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{3 elements from 2 on, 3 apart, are outside an axis of size 8}}
  %0 = "mpc.slice"(%x) {offsets = array<i64: 2>, sizes = array<i64: 3>, strides = array<i64: 3>} : (tensor<8xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @slice_strided_before_the_start(%x: tensor<8xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{4 elements from 2 on, -1 apart, are outside an axis of size 8}}
  %0 = "mpc.slice"(%x) {offsets = array<i64: 2>, sizes = array<i64: 4>, strides = array<i64: -1>} : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @slice_of_a_stride_that_overflows(%x: tensor<8xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{are outside an axis of size 8}}
  %0 = "mpc.slice"(%x) {offsets = array<i64: 0>, sizes = array<i64: 3>, strides = array<i64: 4611686018427387904>} : (tensor<8xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @slice_of_stride_0(%x: tensor<8xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{expected strides other than 0}}
  %0 = "mpc.slice"(%x) {offsets = array<i64: 0>, sizes = array<i64: 3>, strides = array<i64: 0>} : (tensor<8xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @pad_of_too_few_strides(%x: tensor<2x3xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{expected 2 strides, one per axis}}
  %0 = "mpc.pad"(%x) {offsets = array<i64: 0, 0>, shape = array<i64: 4, 5>, strides = array<i64: 2>} : (tensor<2x3xf32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @cumsum_of_no_axis(%x: tensor<2x3xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{axis 2 is not in [0, 2)}}
  %0 = "mpc.cumsum"(%x) {axis = 2 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @slice_past_the_end(%x: tensor<4xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{elements [2, 5) are outside an axis of size 4}}
  %0 = "mpc.slice"(%x) {offsets = array<i64: 2>, sizes = array<i64: 3>} : (tensor<4xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @pad_past_the_end(%x: tensor<4xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{elements [2, 6) are outside an axis of size 5}}
  %0 = "mpc.pad"(%x) {offsets = array<i64: 2>, shape = array<i64: 5>} : (tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @pad_of_another_rank(%x: tensor<4xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{expected 1 offsets and extents, one per axis}}
  %0 = "mpc.pad"(%x) {offsets = array<i64: 0, 0>, shape = array<i64: 5, 5>} : (tensor<4xf32>) -> tensor<5x5xf32>
  return
}

// -----

func.func @parts_of_unequal_length(%x: tensor<10x4xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{expected 'parts' to divide an axis of size 10, found 4}}
  %0 = "mpc.reduce_sum"(%x) {axes = array<i64: 0>, keepdims = true, parts = 4 : i64} : (tensor<10x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @parts_of_an_axis_that_is_gone(%x: tensor<10x4xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{expected 'parts' of reduced axes that are kept}}
  %0 = "mpc.reduce_max"(%x) {axes = array<i64: 0>, parts = 2 : i64} : (tensor<10x4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @reshape_that_loses_elements(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{expected 32 elements, found 31}}
  %0 = mpc.reshape %x : (tensor<4x8xf32>) -> tensor<31xf32>
  return
}

// -----

func.func @unsorted_axes(%x: tensor<4x8xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{expected sorted, distinct axes}}
  %0 = "mpc.reduce_sum"(%x) {axes = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<f32>
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

func.func @channel_vectors_of_the_wrong_size(%x: tensor<2x3x4x4xf32>, %c: tensor<4xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{expected a vector of 3 elements, one per channel, found [4]}}
  %0 = "mpc.batch_norm_inference"(%x, %c, %c, %c, %c) {epsilon = 1.0e-5 : f64} : (tensor<2x3x4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x3x4x4xf32>
  return
}

// -----

func.func @unknown_decay_mode(%p: tensor<8xf32>, %lr: tensor<f32>, %t: tensor<i64>) {
  // expected-error@+2 {{expected ::mpc::DecayMode to be one of: l2, decoupled, decoupled_after, post}}
  // expected-error@+1 {{failed to parse MPC_DecayModeAttr}}
  %0, %1, %2 = mpc.adam %p, %p, %p, %p, %lr, %t {beta1 = 0.9 : f64, beta2 = 0.99 : f64, epsilon = 1.0e-8 : f64, decay_mode = #mpc.decay<cosine>} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i64>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

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
  // expected-error@+1 {{expected one of [pointwise, row_reduce, column_reduce, contraction, window, movement, epilogue, scatter, cumulative]}}
  %0 = mpc.region vertical(%x) : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8xf32>):
    mpc.yield %a : tensor<8xf32>
  }
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

func.func @filter_layout(%x: tensor<1x3x4x4xf32>, %w: tensor<2x3x1x1xf32>) {
  // expected-error @below {{unknown filter layout "HWIO"}}
  // expected-error @below {{failed to parse MPC_FilterLayoutAttr}}
  %0 = mpc.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, filter_layout = #mpc.filter_layout<HWIO>}
      : (tensor<1x3x4x4xf32>, tensor<2x3x1x1xf32>) -> tensor<1x2x4x4xf32>
  return
}

// -----

func.func @filter_of_another_layout(%x: tensor<1x3x4x4xf32>, %w: tensor<2x3x1x1xf32>) {
  // expected-error @below {{does not fit 3 input channels}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, filter_layout = #mpc.filter_layout<OHWI>}
      : (tensor<1x3x4x4xf32>, tensor<2x3x1x1xf32>) -> tensor<1x2x4x4xf32>
  return
}

// -----

func.func private @unknown_kernel(%x: tensor<4xf32>) -> tensor<4xf32>
    // expected-error @below {{expected ::mpc::KernelKind to be one of: pointwise, row_reduce}}
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

func.func @no_such_formula(%dy: tensor<4xf32>, %x: tensor<4xf32>) {
  // expected-error @below {{there is no formula of "square"}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.formula_grad %dy, %x {of = "square"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

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
  // expected-error @below {{expected @takes_scalars to take and give what an iteration does}}
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
  // expected-error @below {{expected @takes_scalars to take and give what a branch does}}
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

// -----

func.func @random_of_a_row_of_seeds(%seed: tensor<2xi64>, %step: tensor<i64>) -> tensor<4xf32> {
  // expected-error @below {{expected scalar seed and micro_step}}
  %0 = mpc.random_uniform %seed, %step {id = 0 : i64} : (tensor<2xi64>, tensor<i64>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @dilated_window_does_not_fit(%x: tensor<1x1x5x5xf32>) -> tensor<1x1x1x4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{a window of 7 does not fit a padded axis of 5}}
  %0 = mpc.average_pool %x {kernel = array<i64: 3, 2>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 3, 1>}
      : (tensor<1x1x5x5xf32>) -> tensor<1x1x1x4xf32>
  return %0 : tensor<1x1x1x4xf32>
}

// -----

func.func @layer_norm_over_no_axis_of_its_input(%x: tensor<4x8xf32>, %s: tensor<8xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{axis 2 is not in [0, 2)}}
  %0, %1, %2 = mpc.layer_norm %x, %s {axes = array<i64: 2>, epsilon = 1.0e-5 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x1xf32>, tensor<4x1xf32>)
  return
}

// -----

func.func @layer_norm_scale_of_another_shape(%x: tensor<4x8xf32>, %s: tensor<4xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{shape [4] does not broadcast to the input's [4, 8]}}
  %0, %1, %2 = mpc.layer_norm %x, %s {axes = array<i64: 1>, epsilon = 1.0e-5 : f64} : (tensor<4x8xf32>, tensor<4xf32>) -> (tensor<4x8xf32>, tensor<4x1xf32>, tensor<4x1xf32>)
  return
}

// -----

func.func @rms_norm_axes_out_of_order(%x: tensor<4x8xf32>, %s: tensor<8xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{expected ascending axes}}
  %0, %1 = mpc.rms_norm %x, %s {axes = array<i64: 1, 0>, epsilon = 1.0e-5 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<1x1xf32>)
  return
}

// -----

func.func @rms_norm_grad_of_other_statistics(%x: tensor<4x8xf32>, %s: tensor<8xf32>, %inv: tensor<4xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{expected statistics of shape [4, 1], found [4]}}
  %0, %1 = mpc.rms_norm_grad %x, %x, %s, %inv {axes = array<i64: 1>} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>) -> (tensor<4x8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @labels_smoothed_away(%s: tensor<32x10xf32>, %t: tensor<32xi64>) -> tensor<f32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{expected label_smoothing in [0, 1), found 1.0}}
  %0, %1 = mpc.softmax_cross_entropy_loss %s, %t {label_smoothing = 1.0 : f64} : (tensor<32x10xf32>, tensor<32xi64>) -> (tensor<f32>, tensor<32x10xf32>)
  return %0 : tensor<f32>
}

// -----

func.func @attention_of_other_keys(%q: tensor<2x8x4xf32>, %k: tensor<2x7x4xf32>, %v: tensor<2x8x4xf32>) {
  // expected-error @+2 {{query [2, 8, 4], key [2, 7, 4] and value [2, 8, 4] do not fit each other}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = mpc.attention %q, %k, %v : (tensor<2x8x4xf32>, tensor<2x7x4xf32>, tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return
}

// -----

func.func @attention_bias_of_another_shape(%q: tensor<2x8x4xf32>, %b: tensor<3x8xf32>) {
  // expected-error @+2 {{shape [3, 8] does not broadcast to the scores' [2, 8, 8]}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = mpc.attention %q, %q, %q bias %b : (tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<3x8xf32>) -> tensor<2x8x4xf32>
  return
}

// -----

func.func @tables_of_two_shapes(%x: tensor<2x8x4xf32>, %c: tensor<8x2xf32>, %s: tensor<1x2xf32>) {
  // expected-error @+2 {{expected cosines and sines of one shape, found [8, 2] and [1, 2]}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = mpc.rotary_embedding %x, %c, %s : (tensor<2x8x4xf32>, tensor<8x2xf32>, tensor<1x2xf32>) -> tensor<2x8x4xf32>
  return
}

// -----

func.func @more_pairs_than_elements(%x: tensor<2x8x4xf32>, %c: tensor<8x3xf32>) {
  // expected-error @+2 {{expected tables of 1 to 2 pairs, found 3}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = mpc.rotary_embedding %x, %c, %c : (tensor<2x8x4xf32>, tensor<8x3xf32>, tensor<8x3xf32>) -> tensor<2x8x4xf32>
  return
}

// -----

func.func @tables_of_other_rows(%x: tensor<2x8x4xf32>, %c: tensor<7x2xf32>) {
  // expected-error @+2 {{tables [7, 2] do not broadcast to the rows of [2, 8, 4]}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = mpc.rotary_embedding %x, %c, %c : (tensor<2x8x4xf32>, tensor<7x2xf32>, tensor<7x2xf32>) -> tensor<2x8x4xf32>
  return
}

// -----

func.func @tables_of_more_axes(%x: tensor<8x4xf32>, %c: tensor<1x8x2xf32>) {
  // expected-error @+2 {{expected tables of rank 1 to 2, found [1, 8, 2]}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = mpc.rotary_embedding %x, %c, %c : (tensor<8x4xf32>, tensor<1x8x2xf32>, tensor<1x8x2xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @attention_with_half_a_dropout(%q: tensor<2x8x4xf32>) {
  // expected-error @+2 {{expected a dropout with its id, seed and micro step, or none of them}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = mpc.attention %q, %q, %q {dropout = 0.5} : (tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return
}

// -----

// As it is printed where large constants are left out.
func.func @values_left_out() {
  // expected-error @+1 {{has no values, which were left out where this was printed; mpc compile --emit-data prints them}}
  %0 = mpc.constant dense_resource<__elided__> : tensor<100xf32>
  return
}

// -----

// expected-error @+1 {{expected mpc.indices to be boxes of an argument of integers}}
func.func @indices_beyond_the_argument(%ids: tensor<4x2xi64> {mpc.indices = [{begin = array<i64: 0, 1>, end = array<i64: 4, 3>, size = 9 : i64}]}) {
  return
}

// -----

// expected-error @+1 {{expected mpc.indices to be boxes of an argument of integers}}
func.func @indices_that_are_floats(%ids: tensor<4xf32> {mpc.indices = [{begin = array<i64: 0>, end = array<i64: 4>, size = 9 : i64}]}) {
  return
}

// -----

// expected-error @+1 {{expected mpc.indices to be boxes of an argument of integers}}
func.func @ignored_index_that_is_no_label(%ids: tensor<4xi64> {mpc.indices = [{begin = array<i64: 0>, end = array<i64: 4>, size = 9 : i64, ignored = 2 : i64}]}) {
  return
}

// -----

func.func @checked_indices_beyond_the_input(%ids: tensor<4xi64>) {
  // expected-error @+1 {{expected boxes of integers of the input}}
  mpc.check_indices %ids [{begin = array<i64: 0>, end = array<i64: 5>, size = 9 : i64}] : tensor<4xi64>
  return
}

// -----

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

// -----

func.func @bits_of_another_width(%x: tensor<4xf32>) -> tensor<4xi64> {
  // expected-error @+1 {{expected types of one width, found 'f32' and 'i64'}}
  %0 = mpc.bit_cast %x : (tensor<4xf32>) -> tensor<4xi64>
  return %0 : tensor<4xi64>
}
