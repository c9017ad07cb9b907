// RUN: mpc-opt %s -split-input-file -amp-insert-casts -verify-diagnostics

func.func @undecided(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error@+1 {{'mpc.relu' op expected an amp.decision}}
  %0 = mpc.relu %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

func.func @operand_without_type(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error@+1 {{expected an amp.decision with a type for each float operand and result, found 0 operands and 1 results}}
  %0 = mpc.relu %x {amp.decision = #amp.decision<operands = [], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
