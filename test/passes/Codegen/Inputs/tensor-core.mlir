// A product for each orientation and type, with and without edges.
func.func private @nn(%a: tensor<4096x1024xbf16>, %b: tensor<1024x4096xbf16>,
    %bias: tensor<4096xf32>, %residual: tensor<4096x4096xbf16>)
    -> tensor<4096x4096xbf16> attributes {mpc.kernel = #mpc.kernel<contraction>} {
  %0 = mpc.matmul %a, %b
      : (tensor<4096x1024xbf16>, tensor<1024x4096xbf16>) -> tensor<4096x4096xf32>
  %1 = mpc.add %0, %bias
      : (tensor<4096x4096xf32>, tensor<4096xf32>) -> tensor<4096x4096xf32>
  %2 = mpc.add %1, %residual
      : (tensor<4096x4096xf32>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  return %2 : tensor<4096x4096xbf16>
}
func.func private @nt(%a: tensor<4096x1024xf16>, %b: tensor<4096x1024xf16>)
    -> tensor<4096x4096xf32> attributes {mpc.kernel = #mpc.kernel<contraction>} {
  %0 = mpc.matmul %a, %b {transB = true}
      : (tensor<4096x1024xf16>, tensor<4096x1024xf16>) -> tensor<4096x4096xf32>
  return %0 : tensor<4096x4096xf32>
}
func.func private @tn(%a: tensor<1000x4000xbf16>, %b: tensor<1000x4000xbf16>)
    -> (tensor<4000x4000xf32>, tensor<4000x4000xi1>)
    attributes {mpc.kernel = #mpc.kernel<contraction>} {
  %0 = mpc.matmul %a, %b {transA = true}
      : (tensor<1000x4000xbf16>, tensor<1000x4000xbf16>) -> tensor<4000x4000xf32>
  %1 = mpc.relu %0 : (tensor<4000x4000xf32>) -> tensor<4000x4000xf32>
  %2 = mpc.cast %1 : (tensor<4000x4000xf32>) -> tensor<4000x4000xi1>
  return %1, %2 : tensor<4000x4000xf32>, tensor<4000x4000xi1>
}
func.func private @tt(%a: tensor<12x64x500xf16>, %b: tensor<12x300x64xf16>)
    -> tensor<12x500x300xf16> attributes {mpc.kernel = #mpc.kernel<contraction>} {
  %0 = mpc.matmul %a, %b {transA = true, transB = true}
      : (tensor<12x64x500xf16>, tensor<12x300x64xf16>) -> tensor<12x500x300xf32>
  %1 = mpc.tanh %0 : (tensor<12x500x300xf32>) -> tensor<12x500x300xf16>
  return %1 : tensor<12x500x300xf16>
}
func.func private @narrow(%a: tensor<33x40xf16>, %b: tensor<40x10xf16>)
    -> tensor<33x10xf32> attributes {mpc.kernel = #mpc.kernel<contraction>} {
  %0 = mpc.matmul %a, %b
      : (tensor<33x40xf16>, tensor<40x10xf16>) -> tensor<33x10xf32>
  return %0 : tensor<33x10xf32>
}
