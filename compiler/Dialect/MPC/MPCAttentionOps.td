// Attention, its gradient, rotary embeddings, and attention of a library.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_MPCATTENTIONOPS_TD
#define MPC_COMPILER_DIALECT_MPC_MPCATTENTIONOPS_TD

include "compiler/Dialect/MPC/MPC.td"

// Attributes of mpc.attention, which mpc.attention_grad has too.
defvar MPC_AttentionAttrs = (ins
    DefaultValuedAttr<F64Attr, "1.0">:$scale,
    DefaultValuedAttr<F64Attr, "0.0">:$softcap,
    OptionalAttr<I64Attr>:$causal_offset,
    DefaultValuedAttr<F64Attr, "-std::numeric_limits<double>::infinity()">:$hidden,
    UnitAttr:$zero_empty_rows,
    DefaultValuedAttr<F64Attr, "0.0">:$dropout,
    OptionalAttr<I64Attr>:$dropout_id);

// Base class of mpc.attention and mpc.attention_grad. The first `multiplied`
// operands are factors of matrix products. `leading` is the assembly format of
// the operands before the query.
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
    /// Returns the shape of the scores: [..., queries, keys].
    ::llvm::SmallVector<int64_t> getScoresShape();
    double countFlops();
  }];
}

def MPC_AttentionOp : MPC_AttentionLikeOp<"attention", "3", "">,
    MPC_Policy<["Attention"], "Allow", "Allow",
               "products of low operands are exact in fp32 sums, and the softmax "
               "between them is in fp32", fp32Operands = [3, 4, 5, 6]> {
  let summary = "scaled dot-product attention";
  let description = [{
    softmax(mask(cap(`scale` * query key^T) + biases)) value over the last two
    axes. Leading axes broadcast, so several query heads may share a key head.
    Shapes: query [..., queries, size], key [..., keys, size], value [..., keys,
    columns]. The steps, in order:

    - Scores are products of query and key, times `scale`, summed in f32 (f64
      for f64). If `softcap` c is not 0, scores become c * tanh(score / c).
    - `biases` are added one after the other. Each may have any shape that
      broadcasts to the scores, so a position bias and a numeric mask need not
      be summed to a full-size tensor first.
    - If `mask` is false, a score becomes `hidden`, minus infinity by default.
      With `causal_offset` o, query i sees only keys up to i + o. The offset is
      0 for square scores, and the number of cached keys if earlier keys come
      from a cache.
    - Softmax of the scores over the keys. A query that sees no key gets zeros
      with `zero_empty_rows`, NaN without.
    - With `dropout` p, the softmax passes through `mpc.dropout` of ratio p with
      `dropout_id`, `seed` and `micro_step`.
    - The product with `value`.

    In mixed precision only the factors of the two matrix products are low; all
    steps between are in f32. The gradient recomputes the steps, so no large
    tensor of the scores' shape is kept.

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
    MPC_PolicyOf<MPC_AttentionOp, fp32Operands = [4, 5, 6, 7],
                 fp32Results = [3, 4, 5, 6]>, MPC_Linear {
  let summary = "gradient of attention";
  let description = [{
    The gradients of query, key, value and each bias from the gradient of the
    output. With P the softmax, G = d_output value^T and D = P * (G - sum(G *
    P)) over the keys: d_query = scale * D key, d_key = scale * D^T query,
    d_value = P^T d_output and d_bias = D. Each is summed over the axes along
    which its operand broadcasts.

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

// The tables of cosines and sines stay fp32: they are small, and an error in an
// angle affects all attention heads.
def MPC_RotaryEmbeddingOp : MPC_TensorOp<"rotary_embedding", "Elementwise",
    [DeclareOpInterfaceMethods<IndexedOpInterface,
                               ["readsMemory", "getIndexedAxes"]>]>,
    MPC_Policy<["RotaryEmbedding"], "Infer", "Infer",
               "one rounding per element, by angles that stay fp32", fp32Operands = [1, 2]>,
    MPC_Linear {
  let summary = "turns pairs of elements by the angles of their positions";
  let description = [{
    ONNX RotaryEmbedding with given tables. Pair j = (a, b) of a row of the last
    axis becomes

      (a * cosine[j] - b * sine[j], b * cosine[j] + a * sine[j])

    The tables have one element per pair. They turn the first 2 * pairs elements
    of a row; the rest stays unchanged. Pair j is the elements j and j + pairs,
    as in Llama and GPT-NeoX, or with `interleaved` the elements 2 j and 2 j +
    1, as in GPT-J. Both tables have one shape, whose leading axes broadcast to
    those of the input: [tokens, pairs] serves [batch, heads, tokens, size], and
    [batch, tokens, 1, pairs] serves [batch, tokens, heads, size].

    With `transposed` the sine is negated, so pairs turn back. The result is the
    gradient for any tables.

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
    /// Returns the number of pairs per row that the op rotates: the last extent
    /// of the tables.
    int64_t getNumPairs();
  }];
}

//===----------------------------------------------------------------------===//
// Attention of a GPU's library
//===----------------------------------------------------------------------===//

// Base class of the attention that a GPU's library computes as a whole, and of
// its gradient. `leading` and `trailing` are the assembly formats of the
// operands before the query and behind the value.
class MPC_LibraryAttentionLikeOp<string mnemonic, string leading, string trailing>
    : MPC_Op<mnemonic, [Pure, DeclareOpInterfaceMethods<RegionOpInterface>]> {
  let assemblyFormat = leading # [{ $query `,` $key `,` $value }] # trailing # [{
    (`bias` $bias^)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Returns the shape of the scores: [batch, heads, queries, keys].
    ::llvm::SmallVector<int64_t> getScoresShape() {
      ::llvm::SmallVector<int64_t> shape(::mpc::shapeOf(getQuery()));
      shape.back() = ::mpc::shapeOf(getKey())[2];
      return shape;
    }
  }];
  let extraClassDefinition = [{
    ::mpc::RegionRole $cppClass::getRegionRole() {
      return ::mpc::RegionRole::Library;
    }
  }];
}

def MPC_LibraryAttentionOp
    : MPC_LibraryAttentionLikeOp<"library_attention", "", ""> {
  let summary = "attention that a GPU's library computes as a whole";
  let description = [{
    softmax(`scale` * query key^T + bias) value, as in `mpc.attention`, of
    16-bit operands of one type. `mpc-place-attention` of the Fusion stage makes
    the op. Scores, softmax and all sums are in f32; the library rounds the
    softmax once, as a factor of the product with `value`.

    | value | shape |
    |---|---|
    | query | [batch, heads, queries, size] |
    | key | [batch, key heads, keys, size] |
    | value | [batch, key heads, keys, columns] |
    | bias | broadcasts to [batch, heads, queries, keys] |
    | output | [batch, heads, queries, columns] |
    | statistics | f32 [batch, heads, queries] |

    Adjacent query heads share a key head. With `causal_offset` o, query i sees
    only keys up to i + o. `statistics` is the logarithm of the sum of
    exp(score) over the keys, from which the gradient computes the softmax
    again. No tensor of the scores' shape is in memory.

    ```mlir
    %y, %s = mpc.library_attention %q, %k, %v {scale = 0.125 : f64, causal_offset = 0 : i64}
        : (tensor<8x12x128x64xbf16>, tensor<8x12x128x64xbf16>, tensor<8x12x128x64xbf16>)
       -> (tensor<8x12x128x64xbf16>, tensor<8x12x128xf32>)
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$query, MPC_FloatTensor:$key,
                       MPC_FloatTensor:$value, Optional<MPC_FloatTensor>:$bias,
                       DefaultValuedAttr<F64Attr, "1.0">:$scale,
                       OptionalAttr<I64Attr>:$causal_offset);
  let results = (outs MPC_FloatTensor:$output, MPC_FloatTensor:$statistics);
}

def MPC_LibraryAttentionGradOp
    : MPC_LibraryAttentionLikeOp<"library_attention_grad", "$d_output `,`",
                                 "`,` $output `,` $statistics">,
      MPC_Linear {
  let summary = "gradient of attention that a GPU's library computes as a whole";
  let description = [{
    The gradients of query, key and value from the gradient of the output, by
    the formulas of `mpc.attention_grad`. `output` and `statistics` are the
    results of the `mpc.library_attention`. The library computes the softmax
    again from `statistics`, and adds the products' terms in a fixed order.

    ```mlir
    %dq, %dk, %dv = mpc.library_attention_grad %dy, %q, %k, %v, %y, %s {scale = 0.125 : f64}
        : (tensor<8x12x128x64xbf16>, tensor<8x12x128x64xbf16>, tensor<8x12x128x64xbf16>,
           tensor<8x12x128x64xbf16>, tensor<8x12x128x64xbf16>, tensor<8x12x128xf32>)
       -> (tensor<8x12x128x64xbf16>, tensor<8x12x128x64xbf16>, tensor<8x12x128x64xbf16>)
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$d_output, MPC_FloatTensor:$query,
                       MPC_FloatTensor:$key, MPC_FloatTensor:$value,
                       MPC_FloatTensor:$output, MPC_FloatTensor:$statistics,
                       Optional<MPC_FloatTensor>:$bias,
                       DefaultValuedAttr<F64Attr, "1.0">:$scale,
                       OptionalAttr<I64Attr>:$causal_offset);
  let results = (outs MPC_FloatTensor:$d_query, MPC_FloatTensor:$d_key,
                      MPC_FloatTensor:$d_value);
}

#endif // MPC_COMPILER_DIALECT_MPC_MPCATTENTIONOPS_TD
