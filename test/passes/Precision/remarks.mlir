// Every decision is a remark: passed if an op goes low, missed if a flag could
// lower it, analysis if nothing can. The record says the same.
// RUN: mpc-opt %S/Inputs/mlp.mlir --mpc-attach-target=name=zen5 -amp-assign-precision="mode=16-mixed" -remarks-filter=amp -remark-policy=all -o /dev/null 2>&1 | FileCheck %s

// CHECK: remark: loc("fc1"): [Passed] mpc.gemm | Category:amp | Function=step | Node=fc1, Precision=f16, Reason="f16 (compute f16, accumulate f32), allow: on the allow list; rule default:gemm: products of low operands are exact in fp32 sums; the target has no fast kernel for f16"
// CHECK: [Passed] mpc.relu {{.*}} Reason="f16 (compute f32, accumulate f32), clear: between low ops (fc1 -> relu1 -> fc2); rule default:relu: exact"
// CHECK: [Analysis] mpc.softmax_cross_entropy_loss {{.*}} Node=loss, Precision=f32, Reason="f32 (compute f32, accumulate f32), deny: part of the loss or of its gradient; rule default:softmax_cross_entropy_loss: a loss: exponentials, a logarithm and a sum"
// CHECK: [Analysis] mpc.sgd {{.*}} Node=w1, Precision=f32, Reason="f32 (compute f32, accumulate f32), fixed: part of the parameter update or of loss scaling; rule default:sgd: updates are smaller than a low parameter's last digit"
// CHECK: Function=eval
