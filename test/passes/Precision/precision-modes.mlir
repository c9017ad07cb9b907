// The whole stage runs on a perceptron and on a network with
// BatchNormalization, in every mode. The verifier runs last each time.
// DEFINE: %{low} = -amp-insert-casts -amp-optimize-casts -amp-insert-loss-scaling -amp-insert-master-weights -amp-verify-precision
// RUN: mpc-opt %S/Inputs/mlp.mlir -amp-assign-precision="mode=bf16-mixed" %{low} | FileCheck %s --check-prefixes=MLP,MLP-BF16
// RUN: mpc-opt %S/Inputs/mlp.mlir -amp-assign-precision="mode=16-mixed" %{low} | FileCheck %s --check-prefixes=MLP,MLP-FP16
// RUN: mpc-opt %S/Inputs/mlp.mlir -amp-assign-precision="mode=32-true" %{low} | FileCheck %s --check-prefix=FP32
// RUN: mpc-opt %S/Inputs/mlp.mlir -amp-assign-precision="mode=64-true" -amp-convert-float-type %{low} | FileCheck %s --check-prefix=FP64
// RUN: mpc-opt %S/Inputs/cnn.mlir -amp-assign-precision="mode=bf16-mixed" %{low} | FileCheck %s --check-prefixes=CNN,CNN-BF16
// RUN: mpc-opt %S/Inputs/cnn.mlir -amp-assign-precision="mode=16-mixed" %{low} | FileCheck %s --check-prefixes=CNN,CNN-FP16
// RUN: mpc-opt %S/Inputs/cnn.mlir -amp-assign-precision="mode=32-true" %{low} | FileCheck %s --check-prefix=FP32
// RUN: mpc-opt %S/Inputs/cnn.mlir -amp-assign-precision="mode=64-true" -amp-convert-float-type %{low} | FileCheck %s --check-prefix=FP64

// MLP-BF16: amp.loss_scale = #amp.loss_scale<none>, amp.mode = #amp.mode<"bf16-mixed">
// MLP-FP16: amp.loss_scale = #amp.loss_scale<dynamic>, amp.mode = #amp.mode<"16-mixed">
// MLP-LABEL: func.func @step
// MLP: mpc.gemm {{.*}} : (tensor<2x4x[[LOW:b?f16]]>, tensor<8x4x[[LOW]]>, tensor<8xf32>) -> tensor<2x8x[[LOW]]>
// MLP: mpc.relu {{.*}} -> tensor<2x8x[[LOW]]>
// The loss reads the last product's fp32 sums, unrounded.
// MLP: mpc.gemm {{.*}} : (tensor<2x8x[[LOW]]>, tensor<3x8x[[LOW]]>) -> tensor<2x3xf32>
// MLP: mpc.softmax_cross_entropy_loss {{.*}} : (tensor<2x3xf32>, tensor<2xi64>) -> (tensor<f32>, tensor<2x3xf32>)
// MLP-FP16: amp.scale_loss
// Both products that read the loss's gradient share one cast.
// MLP: %[[DY:.*]] = amp.cast %{{.*}} : (tensor<2x3xf32>) -> tensor<2x3x[[LOW]]>
// MLP-NOT: amp.cast
// MLP: mpc.gemm %[[DY]], %{{.*}} -> tensor<2x8x[[LOW]]>
// Weight gradients go to the optimizer in fp32, unrounded.
// MLP: mpc.gemm %[[DY]], %{{.*}} -> tensor<3x8xf32>
// MLP: mpc.relu_grad {{.*}} -> tensor<2x8x[[LOW]]>
// MLP: mpc.gemm {{.*}} -> tensor<8x4xf32>
// MLP: mpc.sum_to_size {{.*}} : (tensor<2x8x[[LOW]]>) -> tensor<8xf32>
// The optimizer writes the copies: one cast per multiplied weight.
// MLP-COUNT-2: amp.cast {{.*}} {mpc.phase = #mpc.phase<optimizer>}
// MLP-NOT: amp.cast
// MLP-LABEL: func.func @eval
// MLP: amp.cast
// MLP-NOT: amp.cast
// MLP: mpc.gemm
// MLP-LABEL: func.func @derive

// CNN-BF16: amp.mode = #amp.mode<"bf16-mixed">
// CNN-FP16: amp.mode = #amp.mode<"16-mixed">
// CNN-LABEL: func.func @step
// CNN: mpc.conv {{.*}} -> tensor<2x4x4x4x[[LOW:b?f16]]>
// CNN: mpc.batch_norm {{.*}} : (tensor<2x4x4x4x[[LOW]]>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4x4x4x[[LOW]]>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
// CNN: mpc.relu {{.*}} -> tensor<2x4x4x4x[[LOW]]>
// CNN: mpc.max_pool {{.*}} -> (tensor<2x4x2x2x[[LOW]]>, tensor<2x4x2x2xi32>)
// CNN: mpc.conv {{.*}} -> tensor<2x3x2x2xf32>
// CNN: mpc.global_average_pool {{.*}} -> tensor<2x3x1x1xf32>
// CNN: mpc.conv_weight_grad {{.*}} -> tensor<3x4x1x1xf32>
// CNN: mpc.conv_input_grad {{.*}} -> tensor<2x4x2x2x[[LOW]]>
// CNN: mpc.max_pool_grad {{.*}} -> tensor<2x4x4x4x[[LOW]]>
// CNN: mpc.relu_grad {{.*}} -> tensor<2x4x4x4x[[LOW]]>
// CNN: mpc.batch_norm_grad {{.*}} -> (tensor<2x4x4x4x[[LOW]]>, tensor<4xf32>, tensor<4xf32>)
// CNN: mpc.conv_weight_grad {{.*}} -> tensor<4x1x3x3xf32>

// FP32: amp.loss_scale = #amp.loss_scale<none>, amp.mode = #amp.mode<"32-true">
// FP32-NOT: amp.cast
// FP32-NOT: tensor<{{[0-9x]*}}{{b?}}f16>
// FP32-NOT: amp.unscale

// FP64: amp.mode = #amp.mode<"64-true">
// FP64-NOT: tensor<{{[0-9x]*}}f32>
// FP64-NOT: amp.cast
