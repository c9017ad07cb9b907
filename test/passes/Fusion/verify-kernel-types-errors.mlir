// RUN: mpc-opt %s --split-input-file --mpc-verify-kernel-types --verify-diagnostics

// Each graph is a kernel of a ResNet or of a transformer, as Fusion makes it,
// with one change. verify-kernel-types.mlir has kernels without a change.

// The loss of each sample is stored in 16 bits.
module attributes {amp.mode = #amp.mode<"bf16-mixed">} {
  func.func @loss(%x: tensor<32x10xf32>, %hot: tensor<32x10xf32>) -> tensor<32x1xbf16> {
    %0 = mpc.region row_reduce(%x, %hot) {kernel = "loss_0"} : (tensor<32x10xf32>, tensor<32x10xf32>) -> tensor<32x1xbf16> {
    ^bb0(%a: tensor<32x10xf32>, %b: tensor<32x10xf32>):
      %1 = mpc.mul %a, %b : (tensor<32x10xf32>, tensor<32x10xf32>) -> tensor<32x10xf32> loc(#loss)
      // expected-error@unknown {{'mpc.reduce_sum' op of node 'loss': rule stored-type: stores result 0 as 'bf16', but the Precision stage keeps the value in fp32 (loss_region)}}
      %2 = mpc.reduce_sum %1 {axes = array<i64: 1>, keepdims = true} : (tensor<32x10xf32>) -> tensor<32x1xbf16> loc(#loss)
      mpc.yield %2 : tensor<32x1xbf16>
    }
    return %0 : tensor<32x1xbf16>
  }
}
#loss = loc(fused<{reason = "loss_region"}>["loss"])

// -----

// A statistic of a normalization of 16-bit images is stored in 16 bits.
module attributes {amp.mode = #amp.mode<"bf16-mixed">} {
  func.func @mean(%x: tensor<32x8x8x16xbf16>) -> tensor<1x1x1x16xbf16> {
    %0 = mpc.region column_reduce(%x) {kernel = "mean_0"} : (tensor<32x8x8x16xbf16>) -> tensor<1x1x1x16xbf16> {
    ^bb0(%a: tensor<32x8x8x16xbf16>):
      // expected-error@unknown {{'mpc.reduce_mean' op of node 'bn': rule stored-type: stores result 0 as 'bf16'}}
      %1 = mpc.reduce_mean %a {axes = array<i64: 0, 1, 2>, keepdims = true} : (tensor<32x8x8x16xbf16>) -> tensor<1x1x1x16xbf16> loc(#bn)
      mpc.yield %1 : tensor<1x1x1x16xbf16>
    }
    return %0 : tensor<1x1x1x16xbf16>
  }
}
#bn = loc(fused<{elements = array<i64: 32768>, loads = [bf16], op = 9 : i64, reason = "between_low", stores = [bf16]}>["bn"])

// -----

// A normalization rounds the centred images, too.
module attributes {amp.mode = #amp.mode<"bf16-mixed">} {
  func.func @centred(%x: tensor<32x8x8x16xbf16>, %m: tensor<16xf32>, %i: tensor<16xf32>) -> tensor<32x8x8x16xbf16> {
    %0 = mpc.region pointwise(%x, %m, %i) {kernel = "centred_0"} : (tensor<32x8x8x16xbf16>, tensor<16xf32>, tensor<16xf32>) -> tensor<32x8x8x16xbf16> {
    ^bb0(%a: tensor<32x8x8x16xbf16>, %b: tensor<16xf32>, %c: tensor<16xf32>):
      %1 = mpc.sub %a, %b : (tensor<32x8x8x16xbf16>, tensor<16xf32>) -> tensor<32x8x8x16xbf16> loc(#bn)
      // expected-error@unknown {{'mpc.mul' op of node 'bn': rule single-rounding: reads operand 0 in 'bf16' from another op of its node}}
      %2 = mpc.mul %1, %c : (tensor<32x8x8x16xbf16>, tensor<16xf32>) -> tensor<32x8x8x16xbf16> loc(#bn)
      mpc.yield %2 : tensor<32x8x8x16xbf16>
    }
    return %0 : tensor<32x8x8x16xbf16>
  }
}
#bn = loc(fused<{elements = array<i64: 32768>, loads = [bf16], op = 9 : i64, reason = "between_low", stores = [bf16]}>["bn"])

// -----

// The product is rounded before the sum with the bias.
module attributes {amp.mode = #amp.mode<"bf16-mixed">} {
  func.func @bias(%x: tensor<32x32xbf16>, %w: tensor<10x32xbf16>, %b: tensor<10xf32>) -> tensor<32x10xbf16> {
    %0 = mpc.region contraction(%x, %w, %b) {kernel = "bias_0"} : (tensor<32x32xbf16>, tensor<10x32xbf16>, tensor<10xf32>) -> tensor<32x10xbf16> {
    ^bb0(%a: tensor<32x32xbf16>, %c: tensor<10x32xbf16>, %d: tensor<10xf32>):
      %1 = mpc.matmul %a, %c {transB = true} : (tensor<32x32xbf16>, tensor<10x32xbf16>) -> tensor<32x10xbf16> loc(#fc)
      // expected-error@unknown {{'mpc.add' op of node 'fc': rule single-rounding}}
      %2 = mpc.add %1, %d : (tensor<32x10xbf16>, tensor<10xf32>) -> tensor<32x10xbf16> loc(#fc)
      mpc.yield %2 : tensor<32x10xbf16>
    }
    return %0 : tensor<32x10xbf16>
  }
}
#fc = loc(fused<{loads = [bf16], op = 29 : i64, stores = [bf16]}>["fc"])

// -----

// The gradient of a weight is rounded before the update, which reads the
// rounded gradient.
module attributes {amp.mode = #amp.mode<"bf16-mixed">} {
  func.func @update(%dy: tensor<32x10xbf16>, %x: tensor<32x32xbf16>, %w: tensor<10x32xf32>, %lr: tensor<f32>) -> tensor<10x32xf32> {
    %0 = mpc.region contraction(%dy, %x, %w, %lr) {kernel = "update_0"} : (tensor<32x10xbf16>, tensor<32x32xbf16>, tensor<10x32xf32>, tensor<f32>) -> tensor<10x32xf32> {
    ^bb0(%a: tensor<32x10xbf16>, %b: tensor<32x32xbf16>, %c: tensor<10x32xf32>, %d: tensor<f32>):
      // expected-error@unknown {{'mpc.matmul' op of node 'fc#dw': rule stored-type: rounds, in a register, result 0 as 'bf16', but the Precision stage keeps the value in fp32 (allow_list)}}
      %1 = mpc.matmul %a, %b {transA = true} : (tensor<32x10xbf16>, tensor<32x32xbf16>) -> tensor<10x32xbf16> loc(#dw)
      // expected-error@unknown {{'mpc.sgd' op of node 'fc.weight#update': rule wide-reader: expected fp32 at least, found operand 1 in 'tensor<10x32xbf16>'}}
      %2 = mpc.sgd %c, %1, %d : (tensor<10x32xf32>, tensor<10x32xbf16>, tensor<f32>) -> tensor<10x32xf32> loc(#update)
      mpc.yield %2 : tensor<10x32xf32>
    }
    return %0 : tensor<10x32xf32>
  }
}
#dw = loc(fused<{loads = [bf16], op = 32 : i64, reason = "allow_list"}>["fc#dw"])
#update = loc(fused<{reason = "update"}>["fc.weight#update"])

// -----

// The optimizer starts from the low copy instead of the parameter.
module attributes {amp.mode = #amp.mode<"bf16-mixed">} {
  mpc.variable @w.low : tensor<10x32xbf16> role derived loc(#low)
  func.func @master(%w: tensor<10x32xbf16> {mpc.state = @w.low}, %g: tensor<10x32xf32>, %lr: tensor<f32>) -> tensor<10x32xf32> {
    %0 = mpc.region pointwise(%w, %g, %lr) {kernel = "master_0"} : (tensor<10x32xbf16>, tensor<10x32xf32>, tensor<f32>) -> tensor<10x32xf32> {
    ^bb0(%a: tensor<10x32xbf16>, %b: tensor<10x32xf32>, %c: tensor<f32>):
      // expected-error@unknown {{'mpc.sgd' op of node 'w#update': rule wide-reader: expected fp32 at least, found operand 0 in 'tensor<10x32xbf16>'}}
      %1 = mpc.sgd %a, %b, %c : (tensor<10x32xbf16>, tensor<10x32xf32>, tensor<f32>) -> tensor<10x32xf32> loc(#update)
      mpc.yield %1 : tensor<10x32xf32>
    }
    return %0 : tensor<10x32xf32>
  }
}
#low = loc(fused<{op = 0 : i64, stores = [bf16]}>["w.low"])
#update = loc(fused<{reason = "update"}>["w#update"])

// -----

// The gradient of the bias reads what was rounded for a product.
module attributes {amp.mode = #amp.mode<"bf16-mixed">} {
  func.func @bias_gradient(%x: tensor<32x10xf32>) -> tensor<1x10xf32> {
    %0 = mpc.region pointwise(%x) {kernel = "bias_gradient_0"} : (tensor<32x10xf32>) -> tensor<32x10xbf16> {
    ^bb0(%a: tensor<32x10xf32>):
      %2 = amp.cast %a : (tensor<32x10xf32>) -> tensor<32x10xbf16> loc(#cast)
      mpc.yield %2 : tensor<32x10xbf16>
    }
    %1 = mpc.region column_reduce(%0) {kernel = "bias_gradient_1"} : (tensor<32x10xbf16>) -> tensor<1x10xf32> {
    ^bb0(%a: tensor<32x10xbf16>):
      // expected-error@unknown {{'mpc.reduce_sum' op of node 'fc#db': rule rounding-cast: reads operand 0 through a cast that rounds, but does not multiply it}}
      %2 = mpc.reduce_sum %a {axes = array<i64: 0>, keepdims = true} : (tensor<32x10xbf16>) -> tensor<1x10xf32> loc(#db)
      mpc.yield %2 : tensor<1x10xf32>
    }
    return %1 : tensor<1x10xf32>
  }
}
#cast = loc(fused<{op = 30 : i64, rounds, stores = [bf16]}>["fc#dx"])
#db = loc(fused<{loads = [bf16], op = 33 : i64, reason = "after_denied"}>["fc#db"])

// -----

// A product reads the low copy of another parameter.
module attributes {amp.mode = #amp.mode<"bf16-mixed">} {
  mpc.variable @v.low : tensor<10x32xbf16> role derived loc(#v)
  mpc.variable @w.low : tensor<10x32xbf16> role derived loc(#w)
  func.func @copies(%dy: tensor<32x10xbf16>, %v: tensor<10x32xbf16> {mpc.state = @v.low}) -> tensor<32x32xbf16> {
    %0 = mpc.region contraction(%dy, %v) {kernel = "copies_0"} : (tensor<32x10xbf16>, tensor<10x32xbf16>) -> tensor<32x32xbf16> {
    ^bb0(%a: tensor<32x10xbf16>, %b: tensor<10x32xbf16>):
      // expected-error@unknown {{'mpc.matmul' op of node 'fc#dx': rule low-copy: reads operand 1 from @v.low, a low copy that the Precision stage does not let the op read}}
      %1 = mpc.matmul %a, %b : (tensor<32x10xbf16>, tensor<10x32xbf16>) -> tensor<32x32xbf16> loc(#dx)
      mpc.yield %1 : tensor<32x32xbf16>
    }
    return %0 : tensor<32x32xbf16>
  }
}
#v = loc(fused<{op = 0 : i64, stores = [bf16]}>["v.low"])
#w = loc(fused<{op = 1 : i64, stores = [bf16]}>["w.low"])
#dx = loc(fused<{copies = [@w.low], loads = [bf16], op = 31 : i64, stores = [bf16]}>["fc#dx"])

// -----

// A rewrite has dropped the location of a cast.
module attributes {amp.mode = #amp.mode<"bf16-mixed">} {
  func.func @dropped(%x: tensor<4xf32>) -> tensor<4xbf16> {
    %0 = mpc.region pointwise(%x) {kernel = "dropped_0"} : (tensor<4xf32>) -> tensor<4xbf16> {
    ^bb0(%a: tensor<4xf32>):
      // expected-error@unknown {{'amp.cast' op rule known-op: expected a location with limits of types, since the op has 16-bit values}}
      %1 = amp.cast %a : (tensor<4xf32>) -> tensor<4xbf16> loc(unknown)
      mpc.yield %1 : tensor<4xbf16>
    }
    return %0 : tensor<4xbf16>
  }
}

// -----

// A kernel of two nodes leaves open which limits hold for an op between.
#a = loc(fused<{loads = [bf16], op = 1 : i64, stores = [bf16]}>["a"])
#b = loc(fused<{loads = [bf16], op = 2 : i64, stores = [bf16]}>["b"])
module attributes {amp.mode = #amp.mode<"bf16-mixed">} {
  func.func @ambiguous(%x: tensor<4xbf16>) -> tensor<4xbf16> {
    %0 = mpc.region pointwise(%x) {kernel = "ambiguous_0"} : (tensor<4xbf16>) -> tensor<4xbf16> {
    ^bb0(%a: tensor<4xbf16>):
      // expected-error@unknown {{'mpc.relu' op of node 'a': rule known-op}}
      %1 = mpc.relu %a : (tensor<4xbf16>) -> tensor<4xbf16> loc(fused[#a, #b])
      mpc.yield %1 : tensor<4xbf16>
    }
    return %0 : tensor<4xbf16>
  }
}

// -----

// A cast for a product leaves the function, although the result is no low copy.
module attributes {amp.mode = #amp.mode<"bf16-mixed">} {
  func.func @returned(%x: tensor<4xf32>) -> (tensor<4xbf16> {mpc.output = "y"}) {
    %0 = mpc.region pointwise(%x) {kernel = "returned_0"} : (tensor<4xf32>) -> tensor<4xbf16> {
    ^bb0(%a: tensor<4xf32>):
      %1 = amp.cast %a : (tensor<4xf32>) -> tensor<4xbf16> loc(#cast)
      mpc.yield %1 : tensor<4xbf16>
    }
    // expected-error@+1 {{'func.return' op rule rounding-cast: returns a value that a cast has rounded to 'bf16' as result 0}}
    return %0 : tensor<4xbf16>
  }
}
#cast = loc(fused<{op = 30 : i64, rounds, stores = [bf16]}>["fc#dx"])

// -----

// A moment of the optimizer has become a 16-bit variable.
module attributes {amp.mode = #amp.mode<"bf16-mixed">} {
  // expected-error@unknown {{'mpc.variable' op of node 'w.m': rule stored-type: holds 'bf16', which the Precision stage has not decided}}
  mpc.variable @w.m : tensor<10x32xbf16> role optimizer_state loc(#m)
}
#m = loc(fused<{}>["w.m"])

// -----

// The scores of an attention are stored in 16 bits.
module attributes {amp.mode = #amp.mode<"16-mixed">} {
  func.func @scores(%q: tensor<8x8x8xf16>, %k: tensor<8x8x8xf16>) -> tensor<8x8x8xf16> {
    %0 = mpc.region contraction(%q, %k) {kernel = "scores_0"} : (tensor<8x8x8xf16>, tensor<8x8x8xf16>) -> tensor<8x8x8xf16> {
    ^bb0(%a: tensor<8x8x8xf16>, %b: tensor<8x8x8xf16>):
      // expected-error@unknown {{'mpc.matmul' op of node 'attention': rule stored-type: stores result 0 as 'f16', but the Precision stage keeps the value in fp32 (allow_list)}}
      %1 = mpc.matmul %a, %b {transB = true} : (tensor<8x8x8xf16>, tensor<8x8x8xf16>) -> tensor<8x8x8xf16> loc(#attention)
      mpc.yield %1 : tensor<8x8x8xf16>
    }
    return %0 : tensor<8x8x8xf16>
  }
}
#attention = loc(fused<{factors = [f16], loads = [f16], op = 22 : i64, reason = "allow_list"}>["attention"])

// -----

// The sum of a softmax is rounded. Only the softmax itself is a factor.
module attributes {amp.mode = #amp.mode<"16-mixed">} {
  func.func @softmax(%x: tensor<8x8x8xf32>, %v: tensor<8x8x8xf16>) -> tensor<8x8x8xf32> {
    %0 = mpc.region row_reduce(%x) {kernel = "softmax_0"} : (tensor<8x8x8xf32>) -> tensor<8x8x8xf16> {
    ^bb0(%a: tensor<8x8x8xf32>):
      %2 = mpc.exp %a : (tensor<8x8x8xf32>) -> tensor<8x8x8xf32> loc(#attention)
      // expected-error@unknown {{'mpc.reduce_sum' op of node 'attention': rule stored-type: rounds, in a register, result 0 as 'f16'}}
      %3 = mpc.reduce_sum %2 {axes = array<i64: 2>, keepdims = true} : (tensor<8x8x8xf32>) -> tensor<8x8x1xf16> loc(#attention)
      // expected-error@unknown {{'mpc.div' op of node 'attention': rule single-rounding: reads operand 1 in 'f16'}}
      %4 = mpc.div %2, %3 : (tensor<8x8x8xf32>, tensor<8x8x1xf16>) -> tensor<8x8x8xf16> loc(#attention)
      mpc.yield %4 : tensor<8x8x8xf16>
    }
    %1 = mpc.region contraction(%0, %v) {kernel = "softmax_1"} : (tensor<8x8x8xf16>, tensor<8x8x8xf16>) -> tensor<8x8x8xf32> {
    ^bb0(%a: tensor<8x8x8xf16>, %b: tensor<8x8x8xf16>):
      %2 = mpc.matmul %a, %b : (tensor<8x8x8xf16>, tensor<8x8x8xf16>) -> tensor<8x8x8xf32> loc(#attention)
      mpc.yield %2 : tensor<8x8x8xf32>
    }
    return %1 : tensor<8x8x8xf32>
  }
}
#attention = loc(fused<{factors = [f16], loads = [f16], op = 22 : i64}>["attention"])

// -----

// A denied normalization reads a widened value.
module attributes {amp.mode = #amp.mode<"16-mixed">} {
  func.func @denied(%x: tensor<4x16xf16>) -> tensor<4x1xf32> {
    %0 = mpc.region row_reduce(%x) {kernel = "denied_0"} : (tensor<4x16xf16>) -> tensor<4x1xf32> {
    ^bb0(%a: tensor<4x16xf16>):
      // expected-error@unknown {{'amp.cast' op of node 'layer_norm': rule wide-reader: reads operand 0 in 'f16', but the Precision stage lets the op read no value of this type}}
      %1 = amp.cast %a : (tensor<4x16xf16>) -> tensor<4x16xf32> loc(#norm)
      %2 = mpc.reduce_mean %1 {axes = array<i64: 1>, keepdims = true} : (tensor<4x16xf32>) -> tensor<4x1xf32> loc(#norm)
      mpc.yield %2 : tensor<4x1xf32>
    }
    return %0 : tensor<4x1xf32>
  }
}
#norm = loc(fused<{reason = "deny_list"}>["layer_norm"])

// -----

// A gradient is rounded before it is unscaled.
module attributes {amp.mode = #amp.mode<"16-mixed">} {
  func.func @unscale(%dy: tensor<32x16xf16>, %x: tensor<32x64xf16>, %s: tensor<f32>) -> tensor<16x64xf32> {
    %0 = mpc.region contraction(%dy, %x, %s) {kernel = "unscale_0"} : (tensor<32x16xf16>, tensor<32x64xf16>, tensor<f32>) -> tensor<16x64xf32> {
    ^bb0(%a: tensor<32x16xf16>, %b: tensor<32x64xf16>, %c: tensor<f32>):
      // expected-error@unknown {{'mpc.matmul' op of node 'fc#dw': rule stored-type}}
      %1 = mpc.matmul %a, %b {transA = true} : (tensor<32x16xf16>, tensor<32x64xf16>) -> tensor<16x64xf16> loc(#dw)
      // expected-error@unknown {{'amp.unscale' op of node 'w#update': rule wide-reader: reads operand 0 in 'f16'}}
      %2 = amp.unscale %1, %c : (tensor<16x64xf16>, tensor<f32>) -> tensor<16x64xf32> loc(#unscale)
      mpc.yield %2 : tensor<16x64xf32>
    }
    return %0 : tensor<16x64xf32>
  }
}
#dw = loc(fused<{loads = [f16], op = 71 : i64, reason = "allow_list"}>["fc#dw"])
#unscale = loc(fused<{}>["w#update"])

// -----

// The gradient of an embedding is summed in 16 bits.
module attributes {amp.mode = #amp.mode<"16-mixed">} {
  func.func @embedding(%z: tensor<29x16xf16>, %i: tensor<32xi64>, %dy: tensor<32x16xf16>) -> tensor<29x16xf16> {
    %0 = mpc.region scatter(%z, %i, %dy) {kernel = "embedding_0"} : (tensor<29x16xf16>, tensor<32xi64>, tensor<32x16xf16>) -> tensor<29x16xf16> {
    ^bb0(%a: tensor<29x16xf16>, %b: tensor<32xi64>, %c: tensor<32x16xf16>):
      // expected-error@unknown {{'mpc.scatter' op of node 'embedding#dx': rule wide-sum: expected sums in fp32 at least, found 'f16'}}
      %1 = mpc.scatter %a, %b, %c {axis = 0 : i64, reduction = #mpc.scatter<add>} : (tensor<29x16xf16>, tensor<32xi64>, tensor<32x16xf16>) -> tensor<29x16xf16> loc(#dx)
      mpc.yield %1 : tensor<29x16xf16>
    }
    return %0 : tensor<29x16xf16>
  }
}
#dx = loc(fused<{loads = [f16], op = 12 : i64, stores = [f16]}>["embedding#dx"])

// -----

// A loop of a tiled product carries sums in 16 bits, and rounds each summand.
module attributes {amp.mode = #amp.mode<"16-mixed">} {
  func.func @tiled(%s: tensor<8x8xf16>, %p: tensor<4x8x8xf16>) -> tensor<8x8xf16> {
    // expected-error@unknown {{'mpc.scan_call' op of node 'attention#dx': rule wide-sum: carries value 0 in 'f16', which the Precision stage has not decided}}
    %0 = mpc.scan_call @tiled_scan 4 carried(%s : tensor<8x8xf16>) scanned(%p : tensor<4x8x8xf16>)
        {reversed_inputs = array<i1: false>, reversed_outputs = array<i1>} -> (tensor<8x8xf16>) loc(#dx)
    return %0 : tensor<8x8xf16>
  }
  func.func private @tiled_scan(%s: tensor<8x8xf16>, %p: tensor<8x8xf16>) -> tensor<8x8xf16> {
    %0 = mpc.region contraction(%p, %s) {kernel = "tiled_scan_0"} : (tensor<8x8xf16>, tensor<8x8xf16>) -> tensor<8x8xf16> {
    ^bb0(%a: tensor<8x8xf16>, %b: tensor<8x8xf16>):
      // expected-error@unknown {{'mpc.matmul' op of node 'attention#dx': rule stored-type}}
      %1 = mpc.matmul %a, %a : (tensor<8x8xf16>, tensor<8x8xf16>) -> tensor<8x8xf16> loc(#dx)
      // expected-error@unknown {{'mpc.add' op of node 'attention#dx': rule stored-type}}
      // expected-error@unknown {{'mpc.add' op of node 'attention#dx': rule single-rounding: reads operand 1}}
      %2 = mpc.add %b, %1 : (tensor<8x8xf16>, tensor<8x8xf16>) -> tensor<8x8xf16> loc(#dx)
      mpc.yield %2 : tensor<8x8xf16>
    }
    return %0 : tensor<8x8xf16>
  }
}
#dx = loc(fused<{factors = [f16], loads = [f16], op = 22 : i64}>["attention#dx"])
