// The recipe of a module prints as it reads, without fields that have their
// default.
//
// RUN: mpc-opt %s -split-input-file | FileCheck %s
// RUN: mpc-opt %s -split-input-file | mpc-opt -split-input-file | FileCheck %s

// CHECK: mpc.recipe = #mpc.recipe<loss = [mse("y"), softmax_cross_entropy("z:1") * 5.000000e-01, output("total")],
// CHECK-SAME: reduction = sum, ignore_index = -100, label_smoothing = 1.000000e-01,
// CHECK-SAME: class_weights = [1.000000e+00, 2.500000e+00], train_accuracy = true,
// CHECK-SAME: target_array = ["label", "z" = "class"],
// CHECK-SAME: label_shape = {"class" = [], "label" = [7, 5]},
// CHECK-SAME: optimizer = adamw, momentum = 0.000000e+00, eps = 9.9999999999999993E-12,
// CHECK-SAME: accumulate_grad_batches = 4, accumulate_reduction = mean,
// CHECK-SAME: train = ["^w"], lr_scale = ["b=0.1"]>}
module attributes {mpc.recipe = #mpc.recipe<
    lr_scale = ["b=0.1"],
    loss = [mse("y"), softmax_cross_entropy("z:1") * 5.0e-01, output("total")],
    reduction = sum, ignore_index = -100, label_smoothing = 0.1,
    class_weights = [1.0, 2.5], pos_weight = [], train_accuracy = true,
    target_array = ["label", "z" = "class"],
    label_shape = {"label" = [7, 5], "class" = []},
    optimizer = adamw, momentum = 0.0, beta1 = 0.9, eps = 1.0e-11,
    accumulate_grad_batches = 4, accumulate_reduction = mean,
    train = ["^w"]>} {
}

// -----

// CHECK: mpc.recipe = #mpc.recipe<>
module attributes {mpc.recipe = #mpc.recipe<optimizer = sgd>} {
}
