// RUN: split-file %s %t
// RUN: not mpc-opt %t/model.mlir -amp-assign-precision="mode=fp16" 2>&1 | FileCheck %s --check-prefix=MODE
// MODE: unknown precision 'fp16', expected 32-true, 16-mixed, bf16-mixed or 64-true
// RUN: not mpc-opt %t/model.mlir -amp-assign-precision="mode=bf16-true" 2>&1 | FileCheck %s --check-prefix=LATER
// LATER: precision 'bf16-true' is not supported, expected 32-true, 16-mixed, bf16-mixed or 64-true
// RUN: not mpc-opt %t/model.mlir -amp-assign-precision="mode=16-mixed keep-fp32=fc9" 2>&1 | FileCheck %s --check-prefix=KEEP
// KEEP: --keep-fp32: expression 'fc9' matches no node
// RUN: not mpc-opt %t/model.mlir -amp-assign-precision="mode=16-mixed force-low=^w1$" 2>&1 | FileCheck %s --check-prefix=FIXED
// FIXED: --force-low: expression '^w1$' matches only nodes whose precision is fixed
// RUN: not mpc-opt %t/model.mlir -amp-assign-precision="mode=16-mixed keep-fp32=[" 2>&1 | FileCheck %s --check-prefix=REGEX
// REGEX: --keep-fp32: '[' is not a regular expression: brackets

// RUN: not mpc-opt %t/model.mlir -amp-assign-precision="mode=16-mixed policy=%t/missing.json" 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: missing.json: cannot read the policy file
// RUN: not mpc-opt %t/model.mlir -amp-assign-precision="mode=16-mixed policy=%t/syntax.json" 2>&1 | FileCheck %s --check-prefix=SYNTAX
// SYNTAX: syntax.json: [2:0
// RUN: not mpc-opt %t/model.mlir -amp-assign-precision="mode=16-mixed policy=%t/key.json" 2>&1 | FileCheck %s --check-prefix=KEY
// KEY: key.json:rules[0]: unknown key "ops", expected one of op, node, type, class, unbounded, optional, reason
// RUN: not mpc-opt %t/model.mlir -amp-assign-precision="mode=16-mixed policy=%t/op.json" 2>&1 | FileCheck %s --check-prefix=OP
// OP: op.json:rules[0]: op: unknown op "Gem"; did you mean "Gemm"?
// RUN: not mpc-opt %t/model.mlir -amp-assign-precision="mode=16-mixed policy=%t/class.json" 2>&1 | FileCheck %s --check-prefix=CLASS
// CLASS: class.json:rules[0]: class: expected allow, infer, deny or clear, found "low"
// RUN: not mpc-opt %t/model.mlir -amp-assign-precision="mode=16-mixed policy=%t/condition.json" 2>&1 | FileCheck %s --check-prefix=CONDITION
// CONDITION: condition.json:rules[0]: expected a condition: op, node or type
// RUN: not mpc-opt %t/model.mlir -amp-assign-precision="mode=16-mixed policy=%t/type.json" 2>&1 | FileCheck %s --check-prefix=TYPE
// TYPE: type.json:rules[0]: type: expected fp16 or bf16, found "f16"
// RUN: not mpc-opt %t/model.mlir -amp-assign-precision="mode=16-mixed policy=%t/unmatched.json" 2>&1 | FileCheck %s --check-prefix=UNMATCHED
// UNMATCHED: unmatched.json:rules[1]: matches no node of the model; there are 'gemm'; with "optional": true, the rule may match none
// RUN: mpc-opt %t/model.mlir -amp-assign-precision="mode=16-mixed policy=%t/optional.json" | FileCheck %s --check-prefix=OPTIONAL
// OPTIONAL: rule = "{{.*}}optional.json:rules[0]"
// RUN: not mpc-opt %t/model.mlir -amp-assign-precision="mode=16-mixed policy=%t/boolean.json" 2>&1 | FileCheck %s --check-prefix=BOOLEAN
// BOOLEAN: boolean.json:rules[0]: optional: expected true or false
// RUN: not mpc-opt %t/model.mlir -amp-assign-precision="mode=16-mixed policy=%t/preset.json" 2>&1 | FileCheck %s --check-prefix=PRESET
// PRESET: preset.json: preset: unknown preset "caffe", expected one of torch, tensorflow
// RUN: not mpc-opt %t/gradient.mlir -amp-assign-precision="mode=16-mixed" 2>&1 | FileCheck %s --check-prefix=GRADIENT
// GRADIENT: 'mpc.gradient' op expected gradients to be expanded before precision is assigned

//--- model.mlir
func.func @step(%x: tensor<4x4xf32>, %lr: tensor<f32>) -> tensor<4x4xf32> {
  %0 = mpc.gemm %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("fc1")
  %1 = mpc.sgd %x, %0, %lr : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32> loc("w1")
  return %1 : tensor<4x4xf32>
}

//--- gradient.mlir
func.func @step(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = mpc.relu %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = mpc.gradient %0 wrt %x : tensor<4x4xf32>, (tensor<4x4xf32>) -> (tensor<4x4xf32>)
  return %1 : tensor<4x4xf32>
}

//--- syntax.json
{"rules": [
//--- key.json
{"rules": [{"ops": "Gemm", "class": "deny"}]}
//--- op.json
{"rules": [{"op": "Gem", "class": "deny"}]}
//--- class.json
{"rules": [{"op": "Gemm", "class": "low"}]}
//--- condition.json
{"rules": [{"class": "deny"}]}
//--- type.json
{"rules": [{"op": "Gemm", "type": "f16", "class": "deny"}]}
//--- unmatched.json
{"rules": [{"op": "Gemm", "class": "deny"}, {"op": "Conv", "class": "deny"}]}
//--- optional.json
{"rules": [{"op": "Gemm", "class": "deny", "optional": true}, {"op": "Conv", "class": "deny", "optional": true}]}
//--- boolean.json
{"rules": [{"op": "Gemm", "class": "deny", "optional": 1}]}
//--- preset.json
{"preset": "caffe"}
