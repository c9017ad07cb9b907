// RUN: not mpc-opt %s -split-input-file -mpc-add-optimizer=freeze=^nothing 2>&1 | FileCheck %s --check-prefix=PATTERN
// RUN: not mpc-opt %s -split-input-file "-mpc-add-optimizer=train=[" 2>&1 | FileCheck %s --check-prefix=REGEX
// RUN: not mpc-opt %s -split-input-file -mpc-add-optimizer=freeze=. 2>&1 | FileCheck %s --check-prefix=FROZEN
// RUN: not mpc-opt %s -split-input-file -mpc-add-optimizer=optimizer=adam 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not mpc-opt %s -split-input-file -mpc-add-optimizer=optimizer=sophia 2>&1 | FileCheck %s --check-prefix=OPTIMIZER

// PATTERN: error: --freeze: no parameter's name matches '^nothing'
// REGEX: error: --train: '[' is not a regular expression
// FROZEN: error: nothing to train: the loss depends on no float parameter, or all of them are frozen; --train REGEX chooses among all floats of the model
// NAME: error: the model has a parameter 'w.m', but the optimizer state of 'w' needs that name; rename it
// OPTIMIZER: error: unknown optimizer 'sophia'; expected one of sgd, momentum, nesterov, adam, adamw, adagrad, rmsprop, lamb, lion, muon
module {
  mpc.variable @w : tensor<8xf32> role parameter
  mpc.variable @w.m : tensor<8xf32> role parameter
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %m: tensor<8xf32> {mpc.state = @w.m})
      -> (tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<loss>}) {
    %0 = mpc.mul %w, %m : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %1 = mpc.reduce_sum %0 {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
    return %1 : tensor<f32>
  }
}

// -----

// PATTERN: error: expected a function @step with a loss; give one with --loss
module {
}

// -----

// NAME: error: the model has an input 'learning_rate', but an input of the optimizer needs that name; rename it
module {
  mpc.variable @p : tensor<8xf32> role parameter
  func.func @step(%x: tensor<8xf32> {mpc.input = "learning_rate", mpc.role = #mpc.role<data>}, %p: tensor<8xf32> {mpc.state = @p})
      -> (tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<loss>}) {
    %0 = mpc.mul %p, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %1 = mpc.reduce_sum %0 {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
    return %1 : tensor<f32>
  }
}
