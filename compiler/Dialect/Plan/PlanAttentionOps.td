// The step for attention, which only a GPU's library computes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_PLAN_PLANATTENTIONOPS_TD
#define MPC_COMPILER_DIALECT_PLAN_PLANATTENTIONOPS_TD

include "compiler/Dialect/Plan/Plan.td"

def Plan_AttentionOp : Plan_StepOp<"attention", [AttrSizedOperandSegments]> {
  let summary = "attention or its gradients, computed by a GPU's library";
  let description = [{
    Computes softmax(scale * q k^T + bias) v for each sample and head, from f16
    or bf16 operands, with scores and sums in fp32. With `causal_offset` c,
    query i sees the keys up to i + c. Query head h reads key head h / (heads /
    key_heads).

    | kind | reads | writes |
    |---|---|---|
    | forward | query, key, value, bias | output, statistics |
    | gradient | query, key, value, bias, output, statistics, d_output | d_query, d_key, d_value |

    The statistics are f32 `[batch, heads, queries]`: the logarithm of the sum
    of the exponentials of a query's scores. A forward step without a gradient
    needs none. The bias has the type of the query, or f32.

    runtime/PlanSchema.def defines the fields of `shape`. `query_at` and the
    like give the place of the heads in the buffer: an offset, and the strides
    of samples, heads and tokens, all in elements. The last axis is contiguous.
    So heads may be columns of a projection. A bias has four strides, which are
    0 along an axis that the bias does not have. Several operands may lie in one
    buffer, but no result may overlap another operand.

    Two samples of 3 heads of 8 columns, 16 tokens each. Queries, keys and
    values are columns of one projection:

    ```mlir
    plan.attention forward query(%p : memref<2x16x72xbf16>)
        key(%p : memref<2x16x72xbf16>) value(%p : memref<2x16x72xbf16>)
        output(%o : memref<2x16x24xbf16>) statistics(%s : memref<2x3x16xf32>)
        shape <batch = 2, heads = 3, key_heads = 3, queries = 16, keys = 16,
               size = 8, columns = 8,
               query_at = <batch = 1152, head = 8, token = 72>,
               key_at = <offset = 24, batch = 1152, head = 8, token = 72>,
               value_at = <offset = 48, batch = 1152, head = 8, token = 72>,
               output_at = <batch = 384, head = 8, token = 24>>
        {scale = 0.35 : f64, causal_offset = 0 : i64}
    ```

    The gradients, written as columns of the projection's gradient:

    ```mlir
    plan.attention gradient query(%p : memref<2x16x72xbf16>)
        key(%p : memref<2x16x72xbf16>) value(%p : memref<2x16x72xbf16>)
        output(%o : memref<2x16x24xbf16>) statistics(%s : memref<2x3x16xf32>)
        d_output(%do : memref<2x16x24xbf16>) d_query(%dp : memref<2x16x72xbf16>)
        d_key(%dp : memref<2x16x72xbf16>) d_value(%dp : memref<2x16x72xbf16>)
        shape <batch = 2, heads = 3, key_heads = 3, queries = 16, keys = 16,
               size = 8, columns = 8,
               query_at = <batch = 1152, head = 8, token = 72>,
               key_at = <offset = 24, batch = 1152, head = 8, token = 72>,
               value_at = <offset = 48, batch = 1152, head = 8, token = 72>,
               output_at = <batch = 384, head = 8, token = 24>,
               d_output_at = <batch = 384, head = 8, token = 24>,
               d_query_at = <batch = 1152, head = 8, token = 72>,
               d_key_at = <offset = 24, batch = 1152, head = 8, token = 72>,
               d_value_at = <offset = 48, batch = 1152, head = 8, token = 72>>
        {scale = 0.35 : f64, causal_offset = 0 : i64}
    ```
  }];
  let arguments = (ins Plan_AttentionKindAttr:$kind, Plan_Buffer:$query,
                       Plan_Buffer:$key, Plan_Buffer:$value,
                       Optional<Plan_Buffer>:$bias, Plan_Buffer:$output,
                       Optional<Plan_Buffer>:$statistics,
                       Optional<Plan_Buffer>:$d_output,
                       Optional<Plan_Buffer>:$d_query,
                       Optional<Plan_Buffer>:$d_key,
                       Optional<Plan_Buffer>:$d_value,
                       Plan_AttentionShapeAttr:$shape, F64Attr:$scale,
                       OptionalAttr<I64Attr>:$causal_offset);
  let assemblyFormat = [{
    custom<Word>($kind) `query` `(` $query `:` type($query) `)`
    `key` `(` $key `:` type($key) `)` `value` `(` $value `:` type($value) `)`
    (`bias` `(` $bias^ `:` type($bias) `)`)?
    `output` `(` $output `:` type($output) `)`
    (`statistics` `(` $statistics^ `:` type($statistics) `)`)?
    (`d_output` `(` $d_output^ `:` type($d_output) `)`)?
    (`d_query` `(` $d_query^ `:` type($d_query) `)`)?
    (`d_key` `(` $d_key^ `:` type($d_key) `)`)?
    (`d_value` `(` $d_value^ `:` type($d_value) `)`)?
    `shape` $shape attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Returns the buffer of an operand; null if the op does not have it.
    ::mlir::Value getBuffer(::mpc::runtime::AttentionOperand operand);

    /// Counts the multiplications and additions of all products: two of the
    /// forward step, five of the gradient. Counts only scores that a query
    /// sees.
    double countOperations();

    /// Counts the bytes that the step moves: all operands, and for the gradient
    /// the scores' gradients, which the library writes and reads.
    double countBytes();
  }];
}

#endif // MPC_COMPILER_DIALECT_PLAN_PLANATTENTIONOPS_TD
