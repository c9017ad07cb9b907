// RUN: mpc-opt %s -amp-insert-master-weights -verify-diagnostics

// expected-error@+1 {{the model has a parameter 'w.low', the name of the low copy of 'w'; rename it}}
mpc.variable @w : tensor<8xf32> role parameter
mpc.variable @w.low : tensor<8xf32> role parameter

func.func @forward(%w: tensor<8xf32> {mpc.state = @w}) -> tensor<8xbf16> {
  %0 = amp.cast %w : (tensor<8xf32>) -> tensor<8xbf16>
  return %0 : tensor<8xbf16>
}
