// The recipe of a module says what mpc-add-loss and mpc-add-optimizer add.
// Options replace the fields that they name, and the changed recipe stays.
//
// RUN: mpc-opt %s -mpc-add-loss -mpc-add-optimizer | FileCheck %s --check-prefixes=CHECK,ADAM
// RUN: mpc-opt %s -mpc-add-loss="label-shape=7" -mpc-add-optimizer="optimizer=momentum" | FileCheck %s --check-prefixes=CHECK,MOMENTUM

// CHECK: mpc.recipe = #mpc.recipe<loss = [softmax_cross_entropy]
// ADAM-SAME: label_shape = {"target" = [7]}, optimizer = adam, beta1 = 5.000000e-01>
// MOMENTUM-SAME: label_shape = {"" = [7]}, optimizer = momentum, beta1 = 5.000000e-01>
// CHECK-LABEL: func @step
// CHECK-SAME: tensor<4x7xi64> {mpc.input = "target", mpc.role = #mpc.role<label>}
// ADAM: mpc.adam {{.*}}beta1 = 5.000000e-01
// MOMENTUM: mpc.momentum
module attributes {mpc.recipe = #mpc.recipe<
    loss = [softmax_cross_entropy], label_shape = {"target" = [7]},
    optimizer = adam, beta1 = 0.5>} {
  mpc.variable @w : tensor<5xf32> role parameter
  func.func @forward(%x: tensor<4x7x5xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                     %w: tensor<5xf32> {mpc.state = @w})
      -> (tensor<4x7x5xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
    %y = mpc.mul %x, %w : (tensor<4x7x5xf32>, tensor<5xf32>) -> tensor<4x7x5xf32>
    return %y : tensor<4x7x5xf32>
  }
}
