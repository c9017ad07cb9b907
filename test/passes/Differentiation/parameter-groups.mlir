// RUN: mpc-opt %s -mpc-add-optimizer="optimizer=adamw weight-decay=0.5 no-decay=bias,norm" | FileCheck %s --check-prefix=BOTH
// RUN: mpc-opt %s -mpc-add-optimizer="optimizer=adamw weight-decay=0.5 no-decay=norm" | FileCheck %s --check-prefix=NORM
// RUN: mpc-opt %s -mpc-add-optimizer="optimizer=sgd weight-decay=0.5 no-decay=^w lr-scale=.=0.5,^b=0.25,shift=1" | FileCheck %s --check-prefix=NAME
// RUN: not mpc-opt %s -mpc-add-optimizer="optimizer=sgd no-decay=bias" 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not mpc-opt %s -mpc-add-optimizer="optimizer=adamw no-decay=^x" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not mpc-opt %s -mpc-add-optimizer="optimizer=adamw train=^w no-decay=bias" 2>&1 | FileCheck %s --check-prefix=NOBIAS
// RUN: not mpc-opt %s -mpc-add-optimizer="optimizer=adamw train=^w no-decay=bias,norm" 2>&1 | FileCheck %s --check-prefix=NOBIAS
// RUN: mpc-opt %s -mpc-add-optimizer="optimizer=adamw train=^w,^scale no-decay=bias,norm" | FileCheck %s --check-prefix=NORMALONE
// RUN: not mpc-opt %s -mpc-add-optimizer="optimizer=adamw lr-scale=^w" 2>&1 | FileCheck %s --check-prefix=FACTOR
// RUN: not mpc-opt %s -mpc-add-optimizer="optimizer=adamw lr-scale=^w=-1" 2>&1 | FileCheck %s --check-prefix=FACTOR
// RUN: not mpc-opt %s -mpc-add-optimizer="optimizer=adamw lr-scale=^w=inf" 2>&1 | FileCheck %s --check-prefix=FACTOR
// RUN: not mpc-opt %s -mpc-add-optimizer="optimizer=adamw lr-scale=(=1" 2>&1 | FileCheck %s --check-prefix=REGEX
// RUN: not mpc-opt %s -mpc-add-optimizer="optimizer=adamw lr-scale=^x=1" 2>&1 | FileCheck %s --check-prefix=SCALENONE

// ZERO: error: --no-decay has no effect: the weight decay of sgd is 0; give another with --weight-decay
// NONE: error: --no-decay: no parameter's name matches '^x'
// NOBIAS: error: --no-decay bias: no bias is trained
// FACTOR: error: --lr-scale {{.*}}: expected REGEX=FACTOR with a factor of at least 0, such as ^backbone=0.1
// REGEX: error: --lr-scale: '(' is not a regular expression
// SCALENONE: error: --lr-scale: no parameter's name matches '^x'
mpc.variable @w : tensor<8x3xf32> role parameter
mpc.variable @b : tensor<3xf32> role parameter
mpc.variable @scale : tensor<3xf32> role parameter
mpc.variable @shift : tensor<3xf32> role parameter

// A bias is an addend, and a normalization's scale is a multiplier.
// BOTH: mpc.adam {{.*}}weight_decay = 5.000000e-01 : f64
// BOTH-NOT: weight_decay = 5.000000e-01
// BOTH-COUNT-3: mpc.adam
// NORM-COUNT-2: mpc.adam {{.*}}weight_decay = 5.000000e-01 : f64
// NORM-NEXT: mpc.adam {{.*}}mpc.phase = #mpc.phase<optimizer>} :
// NORM: mpc.adam {{.*}}weight_decay = 5.000000e-01 : f64

// Both words are accepted if one of them matches a parameter.
// NORMALONE: mpc.adam {{.*}}weight_decay
// NORMALONE: mpc.adam {{.*}}mpc.phase = #mpc.phase<optimizer>} :

// The last matching factor wins, and a factor of 1 is the rate itself.
// NAME-LABEL: func @step
// NAME: %[[LR:[a-z0-9]+]]: tensor<f32> {mpc.input = "learning_rate"
// NAME: %[[HALF:.*]] = mpc.constant {{.*}}dense<5.000000e-01>
// NAME: %[[HALFRATE:.*]] = mpc.mul %[[LR]], %[[HALF]]
// NAME: mpc.sgd %{{[a-z0-9]+}}, %{{[a-z0-9#]+}}, %[[HALFRATE]] {mpc.phase = #mpc.phase<optimizer>}
// NAME: %[[QUARTER:.*]] = mpc.constant {{.*}}dense<2.500000e-01>
// NAME: %[[QUARTERRATE:.*]] = mpc.mul %[[LR]], %[[QUARTER]]
// NAME: mpc.sgd %{{[a-z0-9]+}}, %{{[a-z0-9#]+}}, %[[QUARTERRATE]] {{.*}}weight_decay = 5.000000e-01
// NAME-NOT: mpc.mul
// NAME: mpc.sgd %{{[a-z0-9]+}}, %{{[a-z0-9#]+}}, %[[HALFRATE]] {{.*}}weight_decay = 5.000000e-01
// NAME: mpc.sgd %{{[a-z0-9]+}}, %{{[a-z0-9#]+}}, %[[LR]] {{.*}}weight_decay = 5.000000e-01
func.func @step(%x: tensor<4x8xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                %w: tensor<8x3xf32> {mpc.state = @w}, %b: tensor<3xf32> {mpc.state = @b},
                %scale: tensor<3xf32> {mpc.state = @scale}, %shift: tensor<3xf32> {mpc.state = @shift})
    -> (tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<loss>}) {
  %y = mpc.gemm %x, %w, %b : (tensor<4x8xf32>, tensor<8x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  %row = mpc.reshape %scale : (tensor<3xf32>) -> tensor<1x3xf32>
  %scaled = mpc.mul %y, %row : (tensor<4x3xf32>, tensor<1x3xf32>) -> tensor<4x3xf32>
  %z = mpc.add %scaled, %shift : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  %loss = mpc.reduce_mean %z {axes = array<i64: 0, 1>, keepdims = false} : (tensor<4x3xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}
