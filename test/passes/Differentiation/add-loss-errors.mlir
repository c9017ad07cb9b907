// RUN: mpc-opt %s -split-input-file -verify-diagnostics -mpc-add-loss=loss=softmax_cross_entropy

func.func @forward(%x: tensor<4x8xf32> {mpc.input = "x", mpc.role = #mpc.role<data>})
    -> (tensor<4x8xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  %s = mpc.relu %x : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("scores")
  // expected-error@+1 {{expected scores for softmax_cross_entropy, which applies softmax itself, found the output of Softmax; train on the scores before it: --loss softmax_cross_entropy@NODE, here @scores}}
  %y = mpc.softmax %s {axis = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

func.func @forward(%x: tensor<4x8xf32> {mpc.input = "x", mpc.role = #mpc.role<data>})
    -> (tensor<4x8xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  // The logarithm of a softmax of a log-softmax is the log-softmax.
  // expected-warning@+1 {{softmax_cross_entropy takes the logarithm of softmax again}}
  %y = mpc.log_softmax %x {axis = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// expected-error@+1 {{the model has 2 outputs (a, b); name the output for the loss with --loss KIND@OUTPUT}}
module {
  func.func @forward(%x: tensor<4x8xf32> {mpc.input = "x", mpc.role = #mpc.role<data>})
      -> (tensor<4x8xf32> {mpc.output = "a", mpc.role = #mpc.role<output>}, tensor<4x8xf32> {mpc.output = "b", mpc.role = #mpc.role<output>}) {
    return %x, %x : tensor<4x8xf32>, tensor<4x8xf32>
  }
}

// -----

// expected-error@+1 {{expected scores of shape [batch, classes, ...] for softmax_cross_entropy, found [4]; help: for one number per sample, use bce_with_logits (two classes) or mse}}
func.func @forward(%x: tensor<4xf32> {mpc.input = "x", mpc.role = #mpc.role<data>})
    -> (tensor<4xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{expected a float output for the loss, found i64[4,2]}}
func.func @forward(%x: tensor<4x2xi64> {mpc.input = "x", mpc.role = #mpc.role<data>})
    -> (tensor<4x2xi64> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  return %x : tensor<4x2xi64>
}

// -----

// expected-error@+1 {{expected scores of shape [batch, classes, ...] for softmax_cross_entropy, found []; help: if the model computes its loss itself, use --loss output:NAME}}
func.func @forward(%x: tensor<f32> {mpc.input = "x", mpc.role = #mpc.role<data>})
    -> (tensor<f32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  return %x : tensor<f32>
}

// -----

// expected-error@+1 {{input 'target' of the model is f32[4], but the loss needs labels of i64[4]; name another array with --target-array}}
module {
  func.func @forward(%x: tensor<4x8xf32> {mpc.input = "x", mpc.role = #mpc.role<data>}, %t: tensor<4xf32> {mpc.input = "target", mpc.role = #mpc.role<data>})
      -> (tensor<4x8xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
    %y = mpc.relu %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %y : tensor<4x8xf32>
  }
}

// -----

// Two labels per sample match the 8 rows, but three do not.
module {
  func.func @forward(%x: tensor<4x2x5xf32> {mpc.input = "x", mpc.role = #mpc.role<data>}, %t: tensor<4x3xi64> {mpc.input = "target", mpc.role = #mpc.role<data>})
      -> (tensor<8x5xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
    // expected-error@+1 {{expected labels of shape [8] for scores of shape [8,5], found [4,3]}}
    %y = mpc.reshape %x : (tensor<4x2x5xf32>) -> tensor<8x5xf32>
    return %y : tensor<8x5xf32>
  }
}

// -----

// An input of the model would be the one-hot labels.
// expected-error@+1 {{input 'target' of the model is i64[4,5], but the loss needs labels of f32[4,5]; name another array with --target-array}}
module {
  func.func @forward(%x: tensor<4x5xf32> {mpc.input = "x", mpc.role = #mpc.role<data>}, %t: tensor<4x5xi64> {mpc.input = "target", mpc.role = #mpc.role<data>})
      -> (tensor<4x5xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
    %y = mpc.relu %x : (tensor<4x5xf32>) -> tensor<4x5xf32>
    return %y : tensor<4x5xf32>
  }
}

// -----

// expected-error@+1 {{--loss applies to a forward model, but this one is a training graph already}}
module {
  func.func @accumulate() {
    return
  }
}
