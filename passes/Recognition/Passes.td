// The passes of the Recognition stage, in the order they run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_RECOGNITION_PASSES_TD
#define MPC_PASSES_RECOGNITION_PASSES_TD

include "mlir/Pass/PassBase.td"

// Each pass replaces groups of ops by a single op that computes the same
// result, if no other op reads the inner values. The new op has the names of
// all replaced nodes, the last node's name first. It gets a precision decision
// of its own, and computes in fp32 inside. Training graphs stay unchanged,
// because their backward ops read inner values.
class RecognitionPass<string flag> : Pass<flag, "::mlir::func::FuncOp"> {
  let dependentDialects = ["::mpc::MPCDialect"];
}

// A recognition pass that reads elements of parameters. Its option names the
// parameters that training changes.
class ElementsRecognitionPass<string flag> : RecognitionPass<flag> {
  let options = [ListOption<
      "train", "train", "std::string",
      "regular expressions of parameters that training changes, whatever the "
      "model calls them: their values are not constants">];
}

def RecognizeLayerNormPass : RecognitionPass<"mpc-recognize-layer-norm"> {
  let summary = "turn spelled-out layer normalisation into mpc.layer_norm";
  let description = [{
    Recognises mean, difference, variance, root and quotient, with an optional
    scale and bias, as exporters of opsets before 17 write them. Also Keras's
    form, which multiplies by scale / sqrt(variance + epsilon) first. Variances
    over other axes than the mean, or without an epsilon, stay.

    Before:

    ```mlir
    func.func @forward(%x: tensor<4x8xf32>, %scale: tensor<8xf32>, %bias: tensor<8xf32>)
        -> tensor<4x8xf32> {
      %epsilon = mpc.constant dense<1.0e-5> : tensor<f32>
      %mean = mpc.reduce_mean %x {axes = array<i64: 1>, keepdims = true}
          : (tensor<4x8xf32>) -> tensor<4x1xf32>
      %d = mpc.sub %x, %mean : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
      %d2 = mpc.mul %d, %d : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      %var = mpc.reduce_mean %d2 {axes = array<i64: 1>, keepdims = true}
          : (tensor<4x8xf32>) -> tensor<4x1xf32>
      %sum = mpc.add %var, %epsilon : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
      %root = mpc.sqrt %sum : (tensor<4x1xf32>) -> tensor<4x1xf32>
      %n = mpc.div %d, %root : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
      %s = mpc.mul %n, %scale : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
      %y = mpc.add %s, %bias : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
      return %y : tensor<4x8xf32>
    }
    ```

    After:

    ```mlir
    %output, %mean, %inv_std = mpc.layer_norm %x, %scale, %bias
        {axes = array<i64: 1>, epsilon = 9.99999...E-6 : f64}
        : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>)
        -> (tensor<4x8xf32>, tensor<4x1xf32>, tensor<4x1xf32>)
    return %output : tensor<4x8xf32>
    ```
  }];
}

def RecognizeRMSNormPass : RecognitionPass<"mpc-recognize-rms-norm"> {
  let summary = "turn spelled-out RMS normalisation into mpc.rms_norm";
  let description = [{
    Runs after `mpc-recognize-layer-norm`: layer normalisation contains the same
    ops.

    Before:

    ```mlir
    func.func @forward(%x: tensor<4x8xf32>, %scale: tensor<8xf32>) -> tensor<4x8xf32> {
      %epsilon = mpc.constant dense<1.0e-5> : tensor<f32>
      %x2 = mpc.mul %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      %mean = mpc.reduce_mean %x2 {axes = array<i64: 1>, keepdims = true}
          : (tensor<4x8xf32>) -> tensor<4x1xf32>
      %sum = mpc.add %mean, %epsilon : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
      %root = mpc.sqrt %sum : (tensor<4x1xf32>) -> tensor<4x1xf32>
      %inv = mpc.reciprocal %root : (tensor<4x1xf32>) -> tensor<4x1xf32>
      %n = mpc.mul %x, %inv : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
      %y = mpc.mul %n, %scale : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
      return %y : tensor<4x8xf32>
    }
    ```

    After:

    ```mlir
    %output, %inv_rms = mpc.rms_norm %x, %scale
        {axes = array<i64: 1>, epsilon = 9.99999...E-6 : f64}
        : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x1xf32>)
    return %output : tensor<4x8xf32>
    ```
  }];
}

def RecognizeGeluPass : RecognitionPass<"mpc-recognize-gelu"> {
  let summary = "turn spelled-out GELU into mpc.gelu or mpc.gelu_tanh";
  let description = [{
    Recognises GELU by the error function, and by tanh of a cubic polynomial.
    Products may be in any order. Constants must agree to six digits.

    Before:

    ```mlir
    func.func @forward(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %sqrt2 = mpc.constant dense<1.41421354> : tensor<f32>
      %one = mpc.constant dense<1.0> : tensor<f32>
      %half = mpc.constant dense<0.5> : tensor<f32>
      %0 = mpc.div %x, %sqrt2 : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
      %1 = mpc.erf %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
      %2 = mpc.add %1, %one : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
      %3 = mpc.mul %x, %2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      %y = mpc.mul %3, %half : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
      return %y : tensor<4x8xf32>
    }
    ```

    After:

    ```mlir
    %0 = mpc.gelu %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
    ```
  }];
}

def RecognizeSwishPass : RecognitionPass<"mpc-recognize-swish"> {
  let summary = "turn x times its sigmoid into mpc.swish";
  let description = [{
    Recognises SiLU. With a constant in the sigmoid, recognises an approximation
    of GELU.

    Before:

    ```mlir
    func.func @forward(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %0 = mpc.sigmoid %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
      %y = mpc.mul %x, %0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      return %y : tensor<4x8xf32>
    }
    ```

    After:

    ```mlir
    %0 = mpc.swish %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
    ```
  }];
}

def SinkExpandPass : RecognitionPass<"mpc-sink-expand"> {
  let summary = "move broadcasts behind elementwise ops";
  let description = [{
    An elementwise op that reads an `mpc.expand` reads its operand instead. If
    another operand is as large, the op broadcasts; otherwise its result is
    expanded. So the mask of an attention stays small until it is added, even if
    a model repeats it for each query and head first. `mpc.attention` broadcasts
    biases and mask itself. Ops that depend on the position of an element, such
    as `mpc.dropout`, stay.

    Before:

    ```mlir
    func.func @forward(%scores: tensor<2x4x8x8xf32>, %mask: tensor<2x1x1x8xf32>)
        -> tensor<2x4x8x8xf32> {
      %low = mpc.constant dense<-1.0e9> : tensor<f32>
      %all = mpc.expand %mask : (tensor<2x1x1x8xf32>) -> tensor<2x1x8x8xf32>
      %bias = mpc.mul %all, %low : (tensor<2x1x8x8xf32>, tensor<f32>) -> tensor<2x1x8x8xf32>
      %y = mpc.add %scores, %bias : (tensor<2x4x8x8xf32>, tensor<2x1x8x8xf32>) -> tensor<2x4x8x8xf32>
      return %y : tensor<2x4x8x8xf32>
    }
    ```

    After:

    ```mlir
    %bias = mpc.mul %mask, %low : (tensor<2x1x1x8xf32>, tensor<f32>) -> tensor<2x1x1x8xf32>
    %y = mpc.add %scores, %bias : (tensor<2x4x8x8xf32>, tensor<2x1x1x8xf32>) -> tensor<2x4x8x8xf32>
    return %y : tensor<2x4x8x8xf32>
    ```
  }];
}

def RecognizeAttentionPass : ElementsRecognitionPass<"mpc-recognize-attention"> {
  let summary = "turn spelled-out attention into mpc.attention";
  let description = [{
    Recognises the forms of PyTorch's exporters and Hugging Face's models:
    - a constant on query, key or scores,
    - masks and biases that are added to the scores, also as a sum,
    - masks that choose between the scores and a number,
    - a cap by tanh, a guard against rows of NaN, and a dropout.

    A mask in which each query sees the keys up to its own becomes
    `causal_offset`, and takes no memory. Its elements must be constant, frozen,
    or computed from such elements. Heads of keys and values that are expanded
    for several heads of queries, as in Llama, are not repeated: the op has an
    axis for heads that share a key.

    Before:

    ```mlir
    func.func @forward(%q: tensor<2x8x4xf32>, %k: tensor<2x8x4xf32>, %v: tensor<2x8x4xf32>,
                       %bias: tensor<2x1x8xf32>) -> tensor<2x8x4xf32> {
      %two = mpc.constant dense<2.0> : tensor<f32>
      %s = mpc.matmul %q, %k {transB = true}
          : (tensor<2x8x4xf32>, tensor<2x8x4xf32>) -> tensor<2x8x8xf32>
      %scaled = mpc.div %s, %two : (tensor<2x8x8xf32>, tensor<f32>) -> tensor<2x8x8xf32>
      %masked = mpc.add %scaled, %bias
          : (tensor<2x8x8xf32>, tensor<2x1x8xf32>) -> tensor<2x8x8xf32>
      %p = mpc.softmax %masked {axis = 2 : i64} : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
      %y = mpc.matmul %p, %v : (tensor<2x8x8xf32>, tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
      return %y : tensor<2x8x4xf32>
    }
    ```

    After:

    ```mlir
    %0 = mpc.attention %q, %k, %v bias %bias {scale = 5.000000e-01 : f64}
        : (tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<2x1x8xf32>)
        -> tensor<2x8x4xf32>
    return %0 : tensor<2x8x4xf32>
    ```
  }];
}

def RecognizeCrossEntropyPass : RecognitionPass<"mpc-recognize-cross-entropy"> {
  let summary = "turn likelihood losses of a softmax into "
                "mpc.softmax_cross_entropy_loss";
  let description = [{
    The logarithm of a softmax becomes `mpc.log_softmax`. The likelihood loss of
    a log_softmax over axis 1 becomes the cross entropy of the scores. Both keep
    probabilities that a softmax rounds to 0. For a softmax over another axis
    than the last, exporters of opsets before 13 write a softmax of a matrix or
    of transposed scores; the pass recognises both.

    Before:

    ```mlir
    func.func @step(%x: tensor<4x8xf32>, %labels: tensor<4xi64>) -> tensor<f32> {
      %p = mpc.softmax %x {axis = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
      %l = mpc.log %p : (tensor<4x8xf32>) -> tensor<4x8xf32>
      %loss = mpc.nll_loss %l, %labels {reduction = #mpc.reduction<mean>}
          : (tensor<4x8xf32>, tensor<4xi64>) -> tensor<f32>
      return %loss : tensor<f32>
    }
    ```

    After:

    ```mlir
    %loss, %log_prob = mpc.softmax_cross_entropy_loss %x, %labels
        : (tensor<4x8xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<4x8xf32>)
    return %loss : tensor<f32>
    ```
  }];
}

def RecognizeBinaryCrossEntropyPass
    : RecognitionPass<"mpc-recognize-binary-cross-entropy"> {
  let summary = "turn spelled-out binary cross entropy into "
                "mpc.bce_with_logits";
  let description = [{
    Recognises the forms of PyTorch's exporters: logarithms of sigmoid(x) and 1
    - sigmoid(x); max(x, 0) - x * t + log(1 + exp(-|x|)); a softplus. Sums and
    products may be in any order. A loss of probabilities, with logarithms
    bounded below by -100, becomes `mpc.bce`. Any other logarithm of a sigmoid
    becomes a softplus. So probabilities that a sigmoid rounds to 0 or 1 are
    kept.

    Before:

    ```mlir
    func.func @step(%x: tensor<4x3xf32>, %t: tensor<4x3xf32>) -> tensor<4x3xf32> {
      %one = mpc.constant dense<1.0> : tensor<f32>
      %1 = mpc.sub %one, %t : (tensor<f32>, tensor<4x3xf32>) -> tensor<4x3xf32>
      %2 = mpc.mul %1, %x : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
      %3 = mpc.sigmoid %x : (tensor<4x3xf32>) -> tensor<4x3xf32>
      %4 = mpc.log %3 : (tensor<4x3xf32>) -> tensor<4x3xf32>
      %5 = mpc.sub %2, %4 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
      return %5 : tensor<4x3xf32>
    }
    ```

    After:

    ```mlir
    %0 = mpc.bce_with_logits %x, %t : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    return %0 : tensor<4x3xf32>
    ```
  }];
}

def RecognizeEmbeddingBagPass
    : RecognitionPass<"mpc-recognize-embedding-bag"> {
  let summary = "merge one reduction per bag of rows into a single reduction";
  let description = [{
    PyTorch's exporters write a loop over the bags of an EmbeddingBag, which the
    import unrolls. Bags of one length that follow each other become one gather
    and one reduction. Their gradient is then one scatter.

    Before:

    ```mlir
    func.func @forward(%ids: tensor<6xi64>, %table: tensor<10x4xf32>) -> tensor<2x4xf32> {
      %0 = mpc.slice %ids {offsets = array<i64: 0>, sizes = array<i64: 3>}
          : (tensor<6xi64>) -> tensor<3xi64>
      %1 = mpc.gather %table, %0 {axis = 0 : i64}
          : (tensor<10x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
      %2 = mpc.reduce_sum %1 {axes = array<i64: 0>} : (tensor<3x4xf32>) -> tensor<4xf32>
      %3 = mpc.reshape %2 : (tensor<4xf32>) -> tensor<1x4xf32>
      %4 = mpc.slice %ids {offsets = array<i64: 3>, sizes = array<i64: 3>}
          : (tensor<6xi64>) -> tensor<3xi64>
      %5 = mpc.gather %table, %4 {axis = 0 : i64}
          : (tensor<10x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
      %6 = mpc.reduce_sum %5 {axes = array<i64: 0>} : (tensor<3x4xf32>) -> tensor<4xf32>
      %7 = mpc.reshape %6 : (tensor<4xf32>) -> tensor<1x4xf32>
      %y = mpc.concat %3, %7 {axis = 0 : i64} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
      return %y : tensor<2x4xf32>
    }
    ```

    After:

    ```mlir
    %0 = mpc.reshape %ids : (tensor<6xi64>) -> tensor<2x3xi64>
    %1 = mpc.gather %table, %0 {axis = 0 : i64}
        : (tensor<10x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf32>
    %2 = mpc.reduce_sum %1 {axes = array<i64: 1>} : (tensor<2x3x4xf32>) -> tensor<2x4xf32>
    return %2 : tensor<2x4xf32>
    ```
  }];
}

def RecognizeEmbeddingPass
    : ElementsRecognitionPass<"mpc-recognize-embedding"> {
  let summary = "turn products with one-hot rows into mpc.gather";
  let description = [{
    A product of one_hot(ids), in the form `ids == [0, 1, ...]`, and a table is
    a lookup of rows. An id out of range gives zeros, as in the product. Tables
    of fewer than 16 rows stay products.

    Before:

    ```mlir
    func.func @forward(%ids: tensor<8x1xi64>, %table: tensor<16x4xf32>) -> tensor<8x4xf32> {
      %count = mpc.constant dense<[[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]]> : tensor<1x16xi64>
      %0 = mpc.equal %ids, %count : (tensor<8x1xi64>, tensor<1x16xi64>) -> tensor<8x16xi1>
      %1 = mpc.cast %0 : (tensor<8x16xi1>) -> tensor<8x16xf32>
      %y = mpc.matmul %1, %table : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
      return %y : tensor<8x4xf32>
    }
    ```

    After:

    ```mlir
    %0 = mpc.reshape %ids : (tensor<8x1xi64>) -> tensor<8xi64>
    %1 = mpc.constant dense<0> : tensor<i64>
    %2 = mpc.less %0, %1 : (tensor<8xi64>, tensor<i64>) -> tensor<8xi1>
    %3 = mpc.constant dense<16> : tensor<i64>
    %4 = mpc.select %2, %3, %0
        : (tensor<8xi1>, tensor<i64>, tensor<8xi64>) -> tensor<8xi64>
    %y = mpc.gather %table, %4 {axis = 0 : i64}
        : (tensor<16x4xf32>, tensor<8xi64>) -> tensor<8x4xf32>
    return %y : tensor<8x4xf32>
    ```
  }];
}

def RecognizeRotaryEmbeddingPass
    : ElementsRecognitionPass<"mpc-recognize-rotary-embedding"> {
  let summary = "turn spelled-out rotary embeddings into mpc.rotary_embedding";
  let description = [{
    Recognises the forms of Llama and GPT-NeoX, x * cosine + rotate(x) * sine
    with halves of rows; of GPT-J, with even and odd elements; and of complex
    numbers, with real and imaginary parts. If only the front of each row is
    rotated, the op includes the rest. A table with an element for each element
    of a row is accepted if the elements of each pair are provably equal: the
    table joins one table twice, repeats each element, or is known and not
    trained.

    Before:

    ```mlir
    func.func @forward(%x: tensor<2x3x6x8xf32>, %freqs: tensor<6x4xf32>)
        -> tensor<2x3x6x8xf32> {
      %angles = mpc.concat %freqs, %freqs {axis = 1 : i64}
          : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x8xf32>
      %cos = mpc.cos %angles : (tensor<6x8xf32>) -> tensor<6x8xf32>
      %sin = mpc.sin %angles : (tensor<6x8xf32>) -> tensor<6x8xf32>
      %own = mpc.mul %x, %cos
          : (tensor<2x3x6x8xf32>, tensor<6x8xf32>) -> tensor<2x3x6x8xf32>
      %a = mpc.slice %x {offsets = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 3, 6, 4>}
          : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x4xf32>
      %b = mpc.slice %x {offsets = array<i64: 0, 0, 0, 4>, sizes = array<i64: 2, 3, 6, 4>}
          : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x4xf32>
      %n = mpc.neg %b : (tensor<2x3x6x4xf32>) -> tensor<2x3x6x4xf32>
      %r = mpc.concat %n, %a {axis = 3 : i64}
          : (tensor<2x3x6x4xf32>, tensor<2x3x6x4xf32>) -> tensor<2x3x6x8xf32>
      %turned = mpc.mul %r, %sin
          : (tensor<2x3x6x8xf32>, tensor<6x8xf32>) -> tensor<2x3x6x8xf32>
      %y = mpc.add %own, %turned
          : (tensor<2x3x6x8xf32>, tensor<2x3x6x8xf32>) -> tensor<2x3x6x8xf32>
      return %y : tensor<2x3x6x8xf32>
    }
    ```

    After:

    ```mlir
    %0 = mpc.concat %freqs, %freqs {axis = 1 : i64}
        : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x8xf32>
    %1 = mpc.cos %0 : (tensor<6x8xf32>) -> tensor<6x8xf32>
    %2 = mpc.sin %0 : (tensor<6x8xf32>) -> tensor<6x8xf32>
    %3 = mpc.slice %1 {offsets = array<i64: 0, 0>, sizes = array<i64: 6, 4>}
        : (tensor<6x8xf32>) -> tensor<6x4xf32>
    %4 = mpc.slice %2 {offsets = array<i64: 0, 0>, sizes = array<i64: 6, 4>}
        : (tensor<6x8xf32>) -> tensor<6x4xf32>
    %5 = mpc.rotary_embedding %x, %3, %4
        : (tensor<2x3x6x8xf32>, tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<2x3x6x8xf32>
    return %5 : tensor<2x3x6x8xf32>
    ```
  }];
}

#endif // MPC_PASSES_RECOGNITION_PASSES_TD
