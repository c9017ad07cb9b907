// Optimizer ops: each updates a parameter and its optimizer state.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_MPCOPTIMIZEROPS_TD
#define MPC_COMPILER_DIALECT_MPC_MPCOPTIMIZEROPS_TD

include "compiler/Dialect/MPC/MPCEnums.td"
include "compiler/Interfaces/OptimizerOpInterface.td"

// All ops of this file are elementwise. In descriptions, p is the parameter and
// g its gradient, unscaled and clipped. `lr`, `step` and `apply` are scalars of
// rank 0. If `apply` is present and false, nothing is updated: every result
// equals the old value.

class MPC_OptimizerOp<string mnemonic, Trait interface = OptimizerOpInterface>
    : MPC_TensorOp<mnemonic, "Elementwise", [interface]>;

defvar MPC_DecayingOptimizer = DeclareOpInterfaceMethods<OptimizerOpInterface,
    ["keepsWithoutGradient"]>;

def MPC_IncrementOp : MPC_TensorOp<"increment", "Elementwise">,
    MPC_Policy<[], "Fixed", "Fixed", "a counter"> {
  let summary = "adds one to a counter, unless apply is false";
  let description = [{
    Counts steps. `apply` is false if a gradient was infinite or NaN, so that a
    skipped step does not count.

    ```mlir
    %next = mpc.increment %step, %finite : (tensor<i64>, tensor<i1>) -> tensor<i64>
    ```
  }];
  let arguments = (ins MPC_IntTensor:$counter, Optional<MPC_BoolTensor>:$apply);
  let results = (outs MPC_IntTensor:$output);
}

def MPC_SGDOp : MPC_OptimizerOp<"sgd", MPC_DecayingOptimizer>, MPC_UpdatePolicy<[]> {
  let summary = "p - lr * (g + weight_decay * p)";
  let description = [{
    The weight decay is L2: it is added to the gradient.

    ```mlir
    %p1 = mpc.sgd %p, %g, %lr {weight_decay = 0.0 : f64}
        : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$param, MPC_FloatTensor:$grad,
                       MPC_FloatScalar:$lr, Optional<MPC_BoolTensor>:$apply,
                       DefaultValuedAttr<F64Attr, "0.0">:$weight_decay);
  let results = (outs MPC_FloatTensor:$new_param);
}

def MPC_MomentumOp : MPC_OptimizerOp<"momentum">, MPC_UpdatePolicy<["Momentum"]> {
  let summary = "SGD with momentum, plain or Nesterov";
  let description = [{
    g' = g + weight_decay * p; v' = momentum * v + b * g', with b = `beta` when
    step > 0, else 1; p' = p - lr * v', or with `nesterov`
    p' = p - lr * (g' + momentum * v'). `step` counts the updates before this
    one. PyTorch's dampening is 1 - beta.

    ```mlir
    %p1, %v1 = mpc.momentum %p, %g, %v, %lr, %step {momentum = 0.9 : f64}
        : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i64>)
       -> (tensor<8xf32>, tensor<8xf32>)
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$param, MPC_FloatTensor:$grad,
                       MPC_FloatTensor:$velocity, MPC_FloatScalar:$lr,
                       MPC_IntTensor:$step, Optional<MPC_BoolTensor>:$apply,
                       F64Attr:$momentum, DefaultValuedAttr<F64Attr, "1.0">:$beta,
                       DefaultValuedAttr<F64Attr, "0.0">:$weight_decay,
                       DefaultValuedAttr<BoolAttr, "false">:$nesterov);
  let results = (outs MPC_FloatTensor:$new_param, MPC_FloatTensor:$new_velocity);
}

def MPC_AdamOp : MPC_OptimizerOp<"adam">, MPC_UpdatePolicy<["Adam"]> {
  let summary = "Adam and AdamW";
  let description = [{
    With `step` = t, the number of this update counted from 1:
    m' = beta1 * m + (1 - beta1) * g; v' = beta2 * v + (1 - beta2) * g * g;

    | `bias_correction` | p' = p - |
    |---|---|
    | `torch` | lr * (m' / (1 - beta1^t)) / (sqrt(v' / (1 - beta2^t)) + epsilon) |
    | `step_size` | lr * sqrt(1 - beta2^t) / (1 - beta1^t) * m' / (sqrt(v') + epsilon) (without the correction at t = 0) |
    | `none` | lr * m' / (sqrt(v') + epsilon) |

    | `decay_mode` | weight decay w |
    |---|---|
    | `l2` | g is replaced by g + w * p first (Adam of PyTorch and of ONNX) |
    | `decoupled` | p is replaced by p * (1 - lr * w) first (AdamW of PyTorch) |
    | `decoupled_after` | p' is replaced by p' * (1 - lr * w) (AdamW of Hugging Face) |
    | `post` | p' is replaced by p' * (1 - w) (`norm_coefficient_post` of ONNX) |

    ```mlir
    %p1, %m1, %v1 = mpc.adam %p, %g, %m, %v, %lr, %t {beta1 = 0.9 : f64,
        beta2 = 0.999 : f64, epsilon = 1.0e-8 : f64, weight_decay = 0.01 : f64,
        decay_mode = #mpc.decay<decoupled>,
        bias_correction = #mpc.bias_correction<torch>}
        : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i64>)
       -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$param, MPC_FloatTensor:$grad,
                       MPC_FloatTensor:$m, MPC_FloatTensor:$v, MPC_FloatScalar:$lr,
                       MPC_IntTensor:$step, Optional<MPC_BoolTensor>:$apply,
                       F64Attr:$beta1, F64Attr:$beta2, F64Attr:$epsilon,
                       DefaultValuedAttr<F64Attr, "0.0">:$weight_decay,
                       DefaultValuedAttr<MPC_DecayModeAttr, "::mpc::DecayMode::L2">:$decay_mode,
                       DefaultValuedAttr<MPC_BiasCorrectionAttr, "::mpc::BiasCorrection::Torch">:$bias_correction);
  let results = (outs MPC_FloatTensor:$new_param, MPC_FloatTensor:$new_m,
                      MPC_FloatTensor:$new_v);
}

def MPC_AdagradOp : MPC_OptimizerOp<"adagrad", MPC_DecayingOptimizer>,
    MPC_UpdatePolicy<["Adagrad"]> {
  let summary = "Adagrad";
  let description = [{
    g' = g + weight_decay * p; h' = h + g' * g';
    p' = p - lr / (1 + step * lr_decay) * g' / (sqrt(h') + epsilon). `step`
    counts the updates before this one.

    ```mlir
    %p1, %h1 = mpc.adagrad %p, %g, %h, %lr, %step {epsilon = 1.0e-10 : f64}
        : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i64>)
       -> (tensor<8xf32>, tensor<8xf32>)
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$param, MPC_FloatTensor:$grad,
                       MPC_FloatTensor:$h, MPC_FloatScalar:$lr,
                       MPC_IntTensor:$step, Optional<MPC_BoolTensor>:$apply,
                       F64Attr:$epsilon,
                       DefaultValuedAttr<F64Attr, "0.0">:$lr_decay,
                       DefaultValuedAttr<F64Attr, "0.0">:$weight_decay);
  let results = (outs MPC_FloatTensor:$new_param, MPC_FloatTensor:$new_h);
}

def MPC_RMSpropOp : MPC_TensorOp<"rmsprop", "Elementwise",
    [OptimizerOpInterface, AttrSizedOperandSegments]>, MPC_UpdatePolicy<[]> {
  let summary = "RMSprop, plain or centered, with momentum or without";
  let description = [{
    g' = g + weight_decay * p; v' = alpha * v + (1 - alpha) * g' * g';
    d = g' / (sqrt(v') + epsilon); p' = p - lr * d.

    `centered` also keeps m' = alpha * m + (1 - alpha) * g', and takes the root
    of max(v' - m' * m', 0). A `momentum` other than 0 also keeps u' = momentum
    * u + d, and p' = p - lr * u'. `state` is v, then m and u as far as the op
    has them; `new_state` replaces `state`.

    ```mlir
    %p1, %s1:2 = mpc.rmsprop %p, %g, %v, %u, %lr {alpha = 0.99 : f64,
        epsilon = 1.0e-8 : f64, momentum = 0.9 : f64,
        operandSegmentSizes = array<i32: 1, 1, 2, 1, 0>}
        : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>)
       -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$param, MPC_FloatTensor:$grad,
                       Variadic<MPC_FloatTensor>:$state, MPC_FloatScalar:$lr,
                       Optional<MPC_BoolTensor>:$apply, F64Attr:$alpha,
                       F64Attr:$epsilon,
                       DefaultValuedAttr<F64Attr, "0.0">:$momentum,
                       DefaultValuedAttr<F64Attr, "0.0">:$weight_decay,
                       DefaultValuedAttr<BoolAttr, "false">:$centered);
  let results = (outs MPC_FloatTensor:$new_param,
                      Variadic<MPC_FloatTensor>:$new_state);
}

def MPC_ClipGradNormOp : MPC_GraphOp<"clip_grad_norm", []>,
    MPC_Policy<[], "Fixed", "Fixed", "a sum of squares over all gradients",
               fp32Operands = MPC_All, fp32Results = MPC_All> {
  let summary = "scales all gradients so that their common norm is bounded";
  let description = [{
    `norm` is the L2 norm over all elements of all gradients, in f32. Every
    gradient is multiplied by min(1, max_norm / (norm + 1e-6)), as in PyTorch.
    Without `max_norm` the gradients pass unchanged and only the norm is
    computed.

    ```mlir
    %g0, %g1, %norm = mpc.clip_grad_norm %a, %b {max_norm = 1.0 : f64}
        : (tensor<8xf32>, tensor<4x8xf32>) -> (tensor<8xf32>, tensor<4x8xf32>, tensor<f32>)
    ```
  }];
  let arguments = (ins Variadic<MPC_FloatTensor>:$grads, OptionalAttr<F64Attr>:$max_norm);
  let results = (outs Variadic<MPC_FloatTensor>:$clipped, MPC_FloatTensor:$norm);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDefinition = [{
    ::mpc::RegionRole $cppClass::getRegionRole() {
      return ::mpc::RegionRole::Composite;
    }
  }];
}

def MPC_AllReduceOp : MPC_GraphOp<"all_reduce", []>,
    MPC_Policy<[], "Fixed", "Fixed", "the reduced gradient enters the update",
               fp32Operands = MPC_All, fp32Results = MPC_All> {
  let summary = "reduces tensors over the ranks of a distributed run";
  let description = [{
    Each result is the sum, the mean or the maximum of the operand of the same
    position over all ranks, element by element. With one rank, results equal
    the operands. A mean takes floats only. Several operands travel together, in
    one message, and have one element type.

    With `owners`, a parameter for each operand, the optimizer is sharded: only
    the rank that owns the parameter gets the result. On other ranks the result
    is undefined.

    With `rows`, most rows of the single operand, its slices along axis 0, are
    likely zero: the operand is the gradient of a table of which a step looks up
    few rows. A library may then send the other rows only. `rows` changes no bit
    of the result, and any operand may have it. `owners` exclude `rows`.

    `mpc-add-optimizer` makes an op per gradient; `plan-form-buckets` merges
    them.

    ```mlir
    %g0, %g1 = mpc.all_reduce mean %a, %b
        : (tensor<8xf32>, tensor<4x8xf32>) -> (tensor<8xf32>, tensor<4x8xf32>)
    %g2 = mpc.all_reduce mean %c owners [@fc1.weight]
        : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %g3 = mpc.all_reduce mean %d rows
        : (tensor<50000x64xf32>) -> tensor<50000x64xf32>
    ```
  }];
  let arguments = (ins MPC_ReduceAttr:$kind, Variadic<MPC_NumberTensor>:$inputs,
                       OptionalAttr<FlatSymbolRefArrayAttr>:$owners,
                       UnitAttr:$rows);
  let results = (outs Variadic<MPC_NumberTensor>:$outputs);
  let assemblyFormat = [{
    custom<Word>($kind) $inputs (`owners` $owners^)? (`rows` $rows^)? attr-dict
    `:` functional-type($inputs, $outputs)
  }];
  let hasVerifier = 1;
  let extraClassDefinition = [{
    ::mpc::RegionRole $cppClass::getRegionRole() {
      return ::mpc::RegionRole::Collective;
    }
  }];
}

#endif // MPC_COMPILER_DIALECT_MPC_MPCOPTIMIZEROPS_TD
