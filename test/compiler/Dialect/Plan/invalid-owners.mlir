// RUN: mpc-opt %s -split-input-file -verify-diagnostics

mpc.variable @w : tensor<4xf32> role parameter
func.func @f(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // expected-error @+1 {{expected an owner for each of 2 operands, found 1}}
  %0:2 = mpc.all_reduce mean %a, %b owners [@w] : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xf32>
}

// -----

mpc.variable @w : tensor<4xf32> role parameter
plan.program @step {
  %x = plan.arena at 0 : memref<4xf32>
  // expected-error @+1 {{expected parts with an owner each, found 1 parts and 2 owners}}
  plan.all_gather %x owners [@w, @w] : memref<4xf32>
}

// -----

mpc.variable @w : tensor<4xf32> role parameter
plan.program @step {
  %x = plan.arena at 0 : memref<4xf32>
  // expected-error @+1 {{expected a step of all ranks, found the owner @w}}
  plan.all_gather %x owners [@w] {plan.owner = @w} : memref<4xf32>
}

// -----

mpc.variable @w : tensor<4xi32> role parameter
plan.program @step {
  %x = plan.arena at 0 : memref<4xi32>
  // expected-error @+1 {{expected floats of one type, found 'memref<4xi32>'}}
  plan.reduce_scatter mean %x owners [@w] : memref<4xi32>
}

// -----

mpc.variable @w : tensor<4xf32> role parameter
plan.program @step {
  %x = plan.input "x" role data : memref<4xf32>
  // expected-error @+1 {{writes to an input or a constant}}
  plan.reduce_scatter mean %x owners [@w] : memref<4xf32>
}

// -----

// expected-error @+1 {{expected the name of a parameter, such as @fc1.weight, found 3 : i64}}
mpc.variable @m : tensor<4xf32> role optimizer_state {plan.owner = 3 : i64}
