// The ops of the amp dialect.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_AMP_AMPOPS_TD
#define MPC_COMPILER_DIALECT_AMP_AMPOPS_TD

include "compiler/Dialect/AMP/AMP.td"

def AMP_CastOp : AMP_Op<"cast", "Elementwise",
    [LinearInFirstOperand, SameOperandsAndResultShape]> {
  let summary = "a change of float type that the Precision stage decided";
  let description = [{
    Rounds to nearest even if the result is narrower. Differs from `mpc.cast`, a
    conversion in the model.

    ```mlir
    %1 = amp.cast %0 : (tensor<8xf32>) -> tensor<8xbf16>
    ```
  }];
  let arguments = (ins AMP_FloatTensor:$input);
  let results = (outs AMP_FloatTensor:$output);
  let hasFolder = 1;
}

def AMP_ScaleLossOp : AMP_Op<"scale_loss", "Elementwise",
    [AllShapesMatch<["seed", "output"]>]> {
  let summary = "multiplies the seed of the backward pass by the loss scale";
  let description = [{
    Computes in f32, because a scale of 2^16 overflows f16.

    ```mlir
    %s = amp.scale_loss %seed, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    ```
  }];
  let arguments = (ins AMP_WideTensor:$seed, AMP_Scalar:$scale);
  let results = (outs AMP_WideTensor:$output);
}

def AMP_UnscaleOp : AMP_Op<"unscale", "Elementwise",
    [AllShapesMatch<["grad", "output"]>]> {
  let summary = "divides a gradient by the loss scale, in f32";
  let description = [{
    Every gradient passes through exactly one `amp.unscale`, before clipping and
    the optimizer.

    ```mlir
    %u = amp.unscale %g, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    ```
  }];
  let arguments = (ins AMP_FloatTensor:$grad, AMP_Scalar:$scale);
  let results = (outs AMP_FloatTensor:$output);
}

def AMP_AllFiniteOp : AMP_Op<"all_finite", "Composite"> {
  let summary = "true where no element of any operand is infinite or NaN";
  let description = [{
    Guards the update: an optimizer whose `apply` is false keeps its parameter.

    ```mlir
    %ok = amp.all_finite %g0, %g1 : (tensor<8xf32>, tensor<4x8xf32>) -> tensor<i1>
    ```
  }];
  let arguments = (ins Variadic<AMP_FloatTensor>:$inputs);
  let results = (outs AMP_Flag:$output);
}

def AMP_NonFiniteOp : AMP_Op<"non_finite", "Elementwise", [SameOperandsAndResultShape]> {
  let summary = "elementwise 1 where infinite or NaN, else 0";
  let description = [{
    The elementwise part of `amp.all_finite`.

    ```mlir
    %bad = amp.non_finite %g : (tensor<4x8xbf16>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins AMP_FloatTensor:$input);
  let results = (outs AMP_WideTensor:$output);
}

def AMP_UpdateScaleOp : AMP_Op<"update_scale", "Elementwise"> {
  let summary = "the dynamic loss-scale state machine";
  let description = [{
    If `finite` is true, increments the good steps. At `growth_interval` good
    steps, multiplies the scale by `growth_factor` (up to `max_scale`), refills
    `hysteresis`, and restarts good steps at 0. If `finite` is false, decrements
    `hysteresis`, and restarts good steps at 0. Once `hysteresis` has reached 0,
    multiplies the scale by `backoff_factor` (down to `min_scale`).

    ```mlir
    %s1, %good1, %h1 = amp.update_scale %scale, %good, %left, %ok
        {growth_factor = 2.0 : f64, backoff_factor = 0.5 : f64,
         growth_interval = 2000 : i64, min_scale = 6.103515625e-05 : f64,
         max_scale = 16777216.0 : f64, hysteresis = 1 : i64}
        : (tensor<f32>, tensor<i64>, tensor<i64>, tensor<i1>)
       -> (tensor<f32>, tensor<i64>, tensor<i64>)
    ```
  }];
  let arguments = (ins AMP_Scalar:$scale, AMP_Counter:$good_steps,
                       AMP_Counter:$hysteresis_left, AMP_Flag:$finite,
                       F64Attr:$growth_factor, F64Attr:$backoff_factor,
                       I64Attr:$growth_interval, F64Attr:$min_scale,
                       F64Attr:$max_scale, I64Attr:$hysteresis);
  let results = (outs AMP_Scalar:$new_scale, AMP_Counter:$new_good_steps,
                      AMP_Counter:$new_hysteresis_left);
  let hasVerifier = 1;
}

#endif // MPC_COMPILER_DIALECT_AMP_AMPOPS_TD
