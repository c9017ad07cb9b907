// A step of SGD on two convolutions with BatchNormalization between them, after
// differentiation.

mpc.variable @k1 : tensor<4x1x3x3xf32> role parameter fill 0.1
mpc.variable @scale : tensor<4xf32> role parameter fill 1.0
mpc.variable @bias : tensor<4xf32> role parameter
mpc.variable @mean : tensor<4xf32> role statistic
mpc.variable @var : tensor<4xf32> role statistic fill 1.0
mpc.variable @k2 : tensor<3x4x1x1xf32> role parameter fill 0.1
mpc.variable @mpc.step : tensor<i64> role counter

func.func @step(%x: tensor<2x1x4x4xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                %t: tensor<2xi64> {mpc.input = "target", mpc.role = #mpc.role<label>},
                %lr: tensor<f32> {mpc.input = "learning_rate", mpc.role = #mpc.role<scalar>},
                %k1: tensor<4x1x3x3xf32> {mpc.state = @k1},
                %scale: tensor<4xf32> {mpc.state = @scale},
                %bias: tensor<4xf32> {mpc.state = @bias},
                %mean: tensor<4xf32> {mpc.state = @mean},
                %var: tensor<4xf32> {mpc.state = @var},
                %k2: tensor<3x4x1x1xf32> {mpc.state = @k2},
                %step: tensor<i64> {mpc.state = @mpc.step})
    -> (tensor<4x1x3x3xf32> {mpc.updates = @k1}, tensor<4xf32> {mpc.updates = @scale},
        tensor<4xf32> {mpc.updates = @bias}, tensor<4xf32> {mpc.updates = @mean},
        tensor<4xf32> {mpc.updates = @var}, tensor<3x4x1x1xf32> {mpc.updates = @k2},
        tensor<i64> {mpc.updates = @mpc.step}, tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<loss>}) {
  %c1 = mpc.conv %x, %k1 {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<2x1x4x4xf32>, tensor<4x1x3x3xf32>) -> tensor<2x4x4x4xf32> loc("conv1")
  %n1, %m, %s, %rm, %rv = mpc.batch_norm %c1, %scale, %bias, %mean, %var {epsilon = 1.0e-5 : f64, momentum = 0.9 : f64} : (tensor<2x4x4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4x4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) loc("bn1")
  %r1 = mpc.relu %n1 : (tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32> loc("relu1")
  %p1, %i1 = mpc.max_pool %r1 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<2x4x4x4xf32>) -> (tensor<2x4x2x2xf32>, tensor<2x4x2x2xi32>) loc("pool1")
  %c2 = mpc.conv %p1, %k2 {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<2x4x2x2xf32>, tensor<3x4x1x1xf32>) -> tensor<2x3x2x2xf32> loc("conv2")
  %g = mpc.global_average_pool %c2 : (tensor<2x3x2x2xf32>) -> tensor<2x3x1x1xf32> loc("gap")
  %y = mpc.reshape %g : (tensor<2x3x1x1xf32>) -> tensor<2x3xf32> loc("flatten")
  %loss, %lp = mpc.softmax_cross_entropy_loss %y, %t {mpc.phase = #mpc.phase<loss>} : (tensor<2x3xf32>, tensor<2xi64>) -> (tensor<f32>, tensor<2x3xf32>) loc("loss")

  %seed = mpc.gradient_seed {mpc.phase = #mpc.phase<backward>} : tensor<f32> loc("loss#seed")
  %dy = mpc.softmax_cross_entropy_loss_grad %seed, %lp, %t {mpc.phase = #mpc.phase<backward>} : (tensor<f32>, tensor<2x3xf32>, tensor<2xi64>) -> tensor<2x3xf32> loc("loss#dx")
  %dg = mpc.reshape %dy {mpc.phase = #mpc.phase<backward>} : (tensor<2x3xf32>) -> tensor<2x3x1x1xf32> loc("flatten#dx")
  %dc2 = mpc.global_average_pool_grad %dg {mpc.phase = #mpc.phase<backward>} : (tensor<2x3x1x1xf32>) -> tensor<2x3x2x2xf32> loc("gap#dx")
  %dk2 = mpc.conv_weight_grad %p1, %dc2 {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, mpc.phase = #mpc.phase<backward>} : (tensor<2x4x2x2xf32>, tensor<2x3x2x2xf32>) -> tensor<3x4x1x1xf32> loc("conv2#dw")
  %dp1 = mpc.conv_input_grad %dc2, %k2 {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, mpc.phase = #mpc.phase<backward>} : (tensor<2x3x2x2xf32>, tensor<3x4x1x1xf32>) -> tensor<2x4x2x2xf32> loc("conv2#dx")
  %dr1 = mpc.max_pool_grad %dp1, %i1 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, mpc.phase = #mpc.phase<backward>} : (tensor<2x4x2x2xf32>, tensor<2x4x2x2xi32>) -> tensor<2x4x4x4xf32> loc("pool1#dx")
  %dn1 = mpc.relu_grad %dr1, %r1 {mpc.phase = #mpc.phase<backward>} : (tensor<2x4x4x4xf32>, tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32> loc("relu1#dx")
  %dc1, %dscale, %dbias = mpc.batch_norm_grad %dn1, %c1, %scale, %m, %s {mpc.phase = #mpc.phase<backward>} : (tensor<2x4x4x4xf32>, tensor<2x4x4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4x4x4xf32>, tensor<4xf32>, tensor<4xf32>) loc("bn1#dx")
  %dk1 = mpc.conv_weight_grad %x, %dc1 {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, mpc.phase = #mpc.phase<backward>} : (tensor<2x1x4x4xf32>, tensor<2x4x4x4xf32>) -> tensor<4x1x3x3xf32> loc("conv1#dw")

  %k1n = mpc.sgd %k1, %dk1, %lr {mpc.phase = #mpc.phase<optimizer>} : (tensor<4x1x3x3xf32>, tensor<4x1x3x3xf32>, tensor<f32>) -> tensor<4x1x3x3xf32> loc("k1")
  %sn = mpc.sgd %scale, %dscale, %lr {mpc.phase = #mpc.phase<optimizer>} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32> loc("scale")
  %bn = mpc.sgd %bias, %dbias, %lr {mpc.phase = #mpc.phase<optimizer>} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32> loc("bias")
  %k2n = mpc.sgd %k2, %dk2, %lr {mpc.phase = #mpc.phase<optimizer>} : (tensor<3x4x1x1xf32>, tensor<3x4x1x1xf32>, tensor<f32>) -> tensor<3x4x1x1xf32> loc("k2")
  %next = mpc.increment %step {mpc.phase = #mpc.phase<optimizer>} : (tensor<i64>) -> tensor<i64> loc("step")
  return %k1n, %sn, %bn, %rm, %rv, %k2n, %next, %loss : tensor<4x1x3x3xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<3x4x1x1xf32>, tensor<i64>, tensor<f32>
}
