// RUN: not mpc-opt %s -split-input-file -mpc-add-adapters=lora=0 2>&1 | FileCheck %s --check-prefix=RANK
// RUN: not mpc-opt %s -split-input-file -mpc-add-adapters=lora=2:x 2>&1 | FileCheck %s --check-prefix=ALPHA
// RUN: not mpc-opt %s -split-input-file -mpc-add-adapters=lora=2@ 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: not mpc-opt %s -split-input-file -mpc-add-adapters=lora=2@^none 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not mpc-opt %s -split-input-file "-mpc-add-adapters=lora=2@[" 2>&1 | FileCheck %s --check-prefix=REGEX
// RUN: not mpc-opt %s -split-input-file -mpc-add-adapters=lora=2 2>&1 | FileCheck %s --check-prefix=LINEAR
// RUN: not mpc-opt %s -split-input-file -mpc-add-adapters=lora=4@fc1 2>&1 | FileCheck %s --check-prefix=LARGE
// RUN: not mpc-opt %s -split-input-file -mpc-add-adapters=lora=2@fc1 2>&1 | FileCheck %s --check-prefix=GIVEN

// RANK: error: --lora 0: expected RANK, RANK:ALPHA or either with @REGEX, with a rank of at least 1 and an alpha above 0, such as 8:16@attention
// ALPHA: error: --lora 2:x: expected RANK
// EMPTY: error: --lora 2@: expected RANK
// NONE: error: --lora: no parameter's name matches '^none'; there are 'fc1.weight'
// REGEX: error: --lora: '[' is not a regular expression
// LINEAR: error: --lora: the model has no matmul or gemm layer but the last; name layers, also 1x1 convolutions, with @REGEX
// LARGE: add-adapters-errors.mlir:[[# @LINE + 7]]:{{.*}}: error: --lora: 'fc1.weight' has 4 inputs and 3 outputs, so a rank of 4 saves nothing; give at most 3, or choose layers with @REGEX
module {
  mpc.variable @fc1.weight : tensor<4x3xf32> role parameter
  func.func @forward(%x: tensor<8x4xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                     %fc1: tensor<4x3xf32> {mpc.state = @fc1.weight})
      -> (tensor<8x3xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
    // A location of its own.
    %0 = mpc.matmul %x, %fc1 : (tensor<8x4xf32>, tensor<4x3xf32>) -> tensor<8x3xf32>
    return %0 : tensor<8x3xf32>
  }
}

// -----

// A value that --weights gives has another rank.
// GIVEN: error: the value given for 'fc1.lora_A.weight' is 'tensor<3x4xf32>', and --lora makes it 'tensor<2x4xf32>'; give the rank and the layers of the file
module {
  mpc.variable @fc1.weight : tensor<4x3xf32> role parameter
  mpc.variable @fc1.lora_A.weight : tensor<3x4xf32> role parameter {mpc.adapter}
  func.func @forward(%x: tensor<8x4xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                     %fc1: tensor<4x3xf32> {mpc.state = @fc1.weight})
      -> (tensor<8x3xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
    %0 = mpc.matmul %x, %fc1 : (tensor<8x4xf32>, tensor<4x3xf32>) -> tensor<8x3xf32>
    return %0 : tensor<8x3xf32>
  }
}

// -----

// The values of another layer.
// GIVEN: error: --weights gives 'fc2.lora_A.weight', and --lora adapts no such layer; name the layers of the file with @REGEX
module {
  mpc.variable @fc1.weight : tensor<4x3xf32> role parameter
  mpc.variable @fc2.lora_A.weight : tensor<2x4xf32> role parameter {mpc.adapter}
  func.func @forward(%x: tensor<8x4xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                     %fc1: tensor<4x3xf32> {mpc.state = @fc1.weight})
      -> (tensor<8x3xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
    %0 = mpc.matmul %x, %fc1 : (tensor<8x4xf32>, tensor<4x3xf32>) -> tensor<8x3xf32>
    return %0 : tensor<8x3xf32>
  }
}

// -----

// The model has a variable of that name.
// GIVEN: error: --lora: the model has 'fc1.lora_A.weight' already; choose other layers with @REGEX
module {
  mpc.variable @fc1.weight : tensor<4x3xf32> role parameter
  mpc.variable @fc1.lora_A.weight : tensor<2x4xf32> role parameter
  func.func @forward(%x: tensor<8x4xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                     %fc1: tensor<4x3xf32> {mpc.state = @fc1.weight})
      -> (tensor<8x3xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
    %0 = mpc.matmul %x, %fc1 : (tensor<8x4xf32>, tensor<4x3xf32>) -> tensor<8x3xf32>
    return %0 : tensor<8x3xf32>
  }
}

// -----

// A weight that ops compute from a parameter has no adapter.
// GIVEN: error: --lora: no parameter's name matches 'fc1'
module {
  mpc.variable @fc1.weight : tensor<2x4x3xf32> role parameter
  func.func @forward(%x: tensor<8x4xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                     %fc1: tensor<2x4x3xf32> {mpc.state = @fc1.weight})
      -> (tensor<8x3xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
    %0 = mpc.reduce_mean %fc1 {axes = array<i64: 0>} : (tensor<2x4x3xf32>) -> tensor<4x3xf32>
    %1 = mpc.matmul %x, %0 : (tensor<8x4xf32>, tensor<4x3xf32>) -> tensor<8x3xf32>
    return %1 : tensor<8x3xf32>
  }
}

// -----

// A constant matrix, such as the weights of an interpolation, is no layer.
// GIVEN: error: --lora: no parameter's name matches 'fc1'
module {
  func.func @forward(%x: tensor<8x4xf32> {mpc.input = "x", mpc.role = #mpc.role<data>})
      -> (tensor<8x3xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
    %0 = mpc.constant dense<1.0> : tensor<4x3xf32> loc("fc1")
    %1 = mpc.matmul %x, %0 : (tensor<8x4xf32>, tensor<4x3xf32>) -> tensor<8x3xf32>
    return %1 : tensor<8x3xf32>
  }
}

// -----

// GIVEN: error: --lora applies to a forward model, but this one is a training graph already
module {
}
