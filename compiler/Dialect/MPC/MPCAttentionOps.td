// Attention, its gradient, and rotary embeddings.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_MPCATTENTIONOPS_TD
#define MPC_COMPILER_DIALECT_MPC_MPCATTENTIONOPS_TD

include "compiler/Dialect/MPC/MPC.td"

// What an attention is beside its tensors; the gradient has the same.
defvar MPC_AttentionAttrs = (ins
    DefaultValuedAttr<F64Attr, "1.0">:$scale,
    DefaultValuedAttr<F64Attr, "0.0">:$softcap,
    OptionalAttr<I64Attr>:$causal_offset,
    DefaultValuedAttr<F64Attr, "-std::numeric_limits<double>::infinity()">:$hidden,
    UnitAttr:$zero_empty_rows,
    DefaultValuedAttr<F64Attr, "0.0">:$dropout,
    OptionalAttr<I64Attr>:$dropout_id);

// `multiplied` operands are factors of the op's products; `leading` is the assembly
// of those in front of the query.
class MPC_AttentionLikeOp<string mnemonic, string multiplied, string leading>
    : MPC_TensorOp<mnemonic, "Composite", [AttrSizedOperandSegments]> {
  let assemblyFormat = leading # [{ $query `,` $key `,` $value
    (`bias` $biases^)? (`mask` $mask^)? (`random` $seed^ `,` $micro_step)?
    attr-dict `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = [{
    static bool isCompatibleReturnTypes(::mlir::TypeRange inferred,
                                        ::mlir::TypeRange actual) {
      return ::mpc::areCompatibleTypes(inferred, actual);
    }
    static unsigned getNumContractedOperands() { return }] # multiplied # [{; }
    /// The scores' shape: [..., queries, keys].
    ::llvm::SmallVector<int64_t> getScoresShape();
    double countFlops();
  }];
}

def MPC_AttentionOp : MPC_AttentionLikeOp<"attention", "3", "">,
    MPC_Policy<["Attention"], "Allow", "Allow",
               "products of low operands are exact in fp32 sums, and the softmax "
               "between them is in fp32", fp32Operands = [3]> {
  let summary = "scaled dot-product attention";
  let description = [{
    softmax(mask(cap(`scale` * query key^T) + biases)) value over the last two axes;
    leading axes broadcast, so that a head of keys may serve several of queries:
    query [..., queries, size], key [..., keys, size], value [..., keys, columns].
    In order:

    - Scores are products of query and key, times `scale`, summed in f32 (f64 in
      f64). Where `softcap` c is not 0, they become c * tanh(score / c).
    - `biases`, each of any shape that broadcasts to the scores, are added in
      turn: a bias of positions and a mask of numbers need not be summed before,
      to a tensor of the scores' shape.
    - Where `mask` is false, a score becomes `hidden`, minus infinity by default.
      With `causal_offset` o, query i sees the keys up to i + o alone: 0 for
      square scores, the number of earlier keys where some come from a cache.
    - Their softmax over the keys. With `zero_empty_rows` a query that sees no
      key gets zeros; without, NaN.
    - With `dropout` p, the op `mpc.dropout` of that ratio, of `dropout_id`,
      `seed` and `micro_step`, on the softmax.
    - The product with `value`.

    Low operands are what its two products multiply; everything in between is
    computed in f32. The gradient computes it again, and no tensor of the scores'
    shape is kept where it is large.

    ```mlir
    %y = mpc.attention %q, %k, %v {scale = 0.125 : f64, causal_offset = 0 : i64}
        : (tensor<8x12x128x64xf32>, tensor<8x12x128x64xf32>, tensor<8x12x128x64xf32>) -> tensor<8x12x128x64xf32>
    ```
  }];
  let arguments = !con((ins MPC_FloatTensor:$query, MPC_FloatTensor:$key,
                            MPC_FloatTensor:$value,
                            Variadic<MPC_FloatTensor>:$biases,
                            Optional<MPC_BoolTensor>:$mask,
                            Optional<MPC_IntTensor>:$seed,
                            Optional<MPC_IntTensor>:$micro_step),
                       MPC_AttentionAttrs);
  let results = (outs MPC_FloatTensor:$output);
}

def MPC_AttentionGradOp : MPC_AttentionLikeOp<"attention_grad", "4", "$d_output `,`">,
    MPC_PolicyOf<MPC_AttentionOp, fp32Operands = [4], fp32Results = [3]> {
  let summary = "gradient of attention";
  let description = [{
    The gradients of query, key, value and each bias from that of the output. With P the softmax and G = d_output value^T,
    D = P * (G - sum(G * P)) over the keys, d_query = scale * D key,
    d_key = scale * D^T query, d_value = P^T d_output and d_bias = D, each summed
    over the axes it broadcasts along.

    ```mlir
    %dq, %dk, %dv = mpc.attention_grad %dy, %q, %k, %v {scale = 0.125 : f64}
        : (tensor<8x12x128x64xf32>, tensor<8x12x128x64xf32>, tensor<8x12x128x64xf32>, tensor<8x12x128x64xf32>)
       -> (tensor<8x12x128x64xf32>, tensor<8x12x128x64xf32>, tensor<8x12x128x64xf32>)
    ```
  }];
  let arguments = !con((ins MPC_FloatTensor:$d_output, MPC_FloatTensor:$query,
                            MPC_FloatTensor:$key, MPC_FloatTensor:$value,
                            Variadic<MPC_FloatTensor>:$biases,
                            Optional<MPC_BoolTensor>:$mask,
                            Optional<MPC_IntTensor>:$seed,
                            Optional<MPC_IntTensor>:$micro_step),
                       MPC_AttentionAttrs);
  let results = (outs MPC_FloatTensor:$d_query, MPC_FloatTensor:$d_key,
                      MPC_FloatTensor:$d_value,
                      Variadic<MPC_FloatTensor>:$d_biases);
}

// Angles are few, and an error of theirs is one of every head: they stay fp32.
def MPC_RotaryEmbeddingOp : MPC_TensorOp<"rotary_embedding", "Elementwise",
    [DeclareOpInterfaceMethods<IndexedOpInterface,
                               ["readsMemory", "getIndexedAxes"]>]>,
    MPC_Policy<["RotaryEmbedding"], "Infer", "Infer",
               "one rounding per element, by angles that stay fp32", fp32Operands = [1, 2]> {
  let summary = "turns pairs of elements by the angles of their positions";
  let description = [{
    ONNX RotaryEmbedding with its tables given: of a row of the last axis, pair j
    (a, b) becomes

      (a * cosine[j] - b * sine[j], b * cosine[j] + a * sine[j])

    The tables have one element for each pair, and as many pairs are turned, the
    first 2 * pairs elements of a row; the rest stays as it is. Pair j is the
    elements j and j + pairs, as in Llama and GPT-NeoX, or with `interleaved` 2 j
    and 2 j + 1, as in GPT-J. Leading axes of the tables, which have one shape,
    broadcast to those of the input: [tokens, pairs] serves
    [batch, heads, tokens, size], and [batch, tokens, 1, pairs]
    [batch, tokens, heads, size].

    With `transposed` pairs are turned back, by the sine negated. That is the
    gradient, whatever the tables are.

    ```mlir
    %y = mpc.rotary_embedding %x, %cosine, %sine
        : (tensor<2x8x16x64xf32>, tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<2x8x16x64xf32>
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$input, MPC_FloatTensor:$cosine,
                       MPC_FloatTensor:$sine, UnitAttr:$interleaved,
                       UnitAttr:$transposed);
  let results = (outs MPC_FloatTensor:$output);
  let extraClassDeclaration = [{
    static bool isCompatibleReturnTypes(::mlir::TypeRange inferred,
                                        ::mlir::TypeRange actual) {
      return ::mpc::areCompatibleTypes(inferred, actual);
    }
    /// How many pairs of a row are turned.
    int64_t getNumPairs();
  }];
}

#endif // MPC_COMPILER_DIALECT_MPC_MPCATTENTIONOPS_TD
