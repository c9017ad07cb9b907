// A step of SGD on a perceptron of two layers, after differentiation.

mpc.variable @w1 : tensor<8x4xf32> role parameter fill 0.5
mpc.variable @b1 : tensor<8xf32> role parameter
mpc.variable @w2 : tensor<3x8xf32> role parameter fill 0.25
mpc.variable @mpc.step : tensor<i64> role counter
mpc.variable @mpc.micro_step : tensor<i64> role counter

func.func @step(%x: tensor<2x4xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                %t: tensor<2xi64> {mpc.input = "target", mpc.role = #mpc.role<label>},
                %lr: tensor<f32> {mpc.input = "learning_rate", mpc.role = #mpc.role<scalar>},
                %w1: tensor<8x4xf32> {mpc.state = @w1},
                %b1: tensor<8xf32> {mpc.state = @b1},
                %w2: tensor<3x8xf32> {mpc.state = @w2},
                %step: tensor<i64> {mpc.state = @mpc.step},
                %micro: tensor<i64> {mpc.state = @mpc.micro_step})
    -> (tensor<8x4xf32> {mpc.updates = @w1}, tensor<8xf32> {mpc.updates = @b1},
        tensor<3x8xf32> {mpc.updates = @w2},
        tensor<i64> {mpc.updates = @mpc.step},
        tensor<i64> {mpc.updates = @mpc.micro_step},
        tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<loss>}) {
  %next = mpc.increment %step {mpc.phase = #mpc.phase<optimizer>} : (tensor<i64>) -> tensor<i64> loc("step")
  %h = mpc.gemm %x, %w1, %b1 {transB = true} : (tensor<2x4xf32>, tensor<8x4xf32>, tensor<8xf32>) -> tensor<2x8xf32> loc("fc1")
  %r = mpc.relu %h : (tensor<2x8xf32>) -> tensor<2x8xf32> loc("relu1")
  %y = mpc.gemm %r, %w2 {transB = true} : (tensor<2x8xf32>, tensor<3x8xf32>) -> tensor<2x3xf32> loc("fc2")
  %loss, %lp = mpc.softmax_cross_entropy_loss %y, %t {mpc.phase = #mpc.phase<loss>} : (tensor<2x3xf32>, tensor<2xi64>) -> (tensor<f32>, tensor<2x3xf32>) loc("loss")

  %seed = mpc.gradient_seed {mpc.phase = #mpc.phase<backward>} : tensor<f32> loc("loss#seed")
  %dy = mpc.softmax_cross_entropy_loss_grad %seed, %lp, %t {mpc.phase = #mpc.phase<backward>} : (tensor<f32>, tensor<2x3xf32>, tensor<2xi64>) -> tensor<2x3xf32> loc("loss#dx")
  %dr = mpc.gemm %dy, %w2 {mpc.phase = #mpc.phase<backward>} : (tensor<2x3xf32>, tensor<3x8xf32>) -> tensor<2x8xf32> loc("fc2#dx")
  %dw2 = mpc.gemm %dy, %r {transA = true, mpc.phase = #mpc.phase<backward>} : (tensor<2x3xf32>, tensor<2x8xf32>) -> tensor<3x8xf32> loc("fc2#dw")
  %dh = mpc.relu_grad %dr, %r {mpc.phase = #mpc.phase<backward>} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32> loc("relu1#dx")
  %dw1 = mpc.gemm %dh, %x {transA = true, mpc.phase = #mpc.phase<backward>} : (tensor<2x8xf32>, tensor<2x4xf32>) -> tensor<8x4xf32> loc("fc1#dw")
  %db1 = mpc.sum_to_size %dh {mpc.phase = #mpc.phase<backward>} : (tensor<2x8xf32>) -> tensor<8xf32> loc("fc1#db")

  %w1n = mpc.sgd %w1, %dw1, %lr {mpc.phase = #mpc.phase<optimizer>} : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32> loc("w1")
  %b1n = mpc.sgd %b1, %db1, %lr {mpc.phase = #mpc.phase<optimizer>} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32> loc("b1")
  %w2n = mpc.sgd %w2, %dw2, %lr {mpc.phase = #mpc.phase<optimizer>} : (tensor<3x8xf32>, tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32> loc("w2")
  %micron = mpc.increment %micro {mpc.phase = #mpc.phase<optimizer>} : (tensor<i64>) -> tensor<i64> loc("micro_step")
  return %w1n, %b1n, %w2n, %next, %micron, %loss : tensor<8x4xf32>, tensor<8xf32>, tensor<3x8xf32>, tensor<i64>, tensor<i64>, tensor<f32>
}

func.func @eval(%x: tensor<2x4xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                %w1: tensor<8x4xf32> {mpc.state = @w1},
                %b1: tensor<8xf32> {mpc.state = @b1},
                %w2: tensor<3x8xf32> {mpc.state = @w2})
    -> (tensor<2x3xf32> {mpc.output = "y", mpc.role = #mpc.role<prediction>}) {
  %h = mpc.gemm %x, %w1, %b1 {transB = true} : (tensor<2x4xf32>, tensor<8x4xf32>, tensor<8xf32>) -> tensor<2x8xf32> loc("fc1")
  %r = mpc.relu %h : (tensor<2x8xf32>) -> tensor<2x8xf32> loc("relu1")
  %y = mpc.gemm %r, %w2 {transB = true} : (tensor<2x8xf32>, tensor<3x8xf32>) -> tensor<2x3xf32> loc("fc2")
  return %y : tensor<2x3xf32>
}
