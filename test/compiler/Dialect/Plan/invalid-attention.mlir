// RUN: mpc-opt %s --split-input-file --verify-diagnostics

plan.program @f {
  %p = plan.arena : memref<1x16x24xbf16>
  %o = plan.arena : memref<1x16x8xbf16>
  // expected-error @below {{an extent is out of range}}
  plan.attention forward query(%p : memref<1x16x24xbf16>) key(%p : memref<1x16x24xbf16>) value(%p : memref<1x16x24xbf16>) output(%o : memref<1x16x8xbf16>)
      shape <batch = 1, heads = 1, key_heads = 1, queries = 16, keys = 16, size = 0, columns = 8,
             query_at = <token = 24>, key_at = <offset = 8, token = 24>, value_at = <offset = 16, token = 24>,
             output_at = <token = 8>> {scale = 1.0 : f64}
}

// -----

plan.program @f {
  %p = plan.arena : memref<1x16x24xbf16>
  %o = plan.arena : memref<1x16x8xbf16>
  // expected-error @below {{expected a multiple of 2 heads, found 1}}
  plan.attention forward query(%p : memref<1x16x24xbf16>) key(%p : memref<1x16x24xbf16>) value(%p : memref<1x16x24xbf16>) output(%o : memref<1x16x8xbf16>)
      shape <batch = 1, heads = 1, key_heads = 2, queries = 16, keys = 16, size = 8, columns = 8,
             query_at = <token = 24>, key_at = <offset = 8, token = 24>, value_at = <offset = 16, token = 24>,
             output_at = <token = 8>> {scale = 1.0 : f64}
}

// -----

plan.program @f {
  %p = plan.arena : memref<1x16x24xbf16>
  %o = plan.arena : memref<1x16x8xbf16>
  %f = plan.arena : memref<1x16x24xf32>
  // expected-error @below {{expected f16 or bf16, found 'f32'}}
  plan.attention forward query(%f : memref<1x16x24xf32>) key(%p : memref<1x16x24xbf16>) value(%p : memref<1x16x24xbf16>) output(%o : memref<1x16x8xbf16>)
      shape <batch = 1, heads = 1, key_heads = 1, queries = 16, keys = 16, size = 8, columns = 8,
             query_at = <token = 24>, key_at = <offset = 8, token = 24>, value_at = <offset = 16, token = 24>,
             output_at = <token = 8>> {scale = 1.0 : f64}
}

// -----

plan.program @f {
  %p = plan.arena : memref<1x16x24xbf16>
  %o = plan.arena : memref<1x16x8xbf16>
  %h = plan.arena : memref<1x16x24xf16>
  // expected-error @below {{expected value to have the query's type 'bf16', found 'memref<1x16x24xf16>'}}
  plan.attention forward query(%p : memref<1x16x24xbf16>) key(%p : memref<1x16x24xbf16>) value(%h : memref<1x16x24xf16>) output(%o : memref<1x16x8xbf16>)
      shape <batch = 1, heads = 1, key_heads = 1, queries = 16, keys = 16, size = 8, columns = 8,
             query_at = <token = 24>, key_at = <offset = 8, token = 24>, value_at = <offset = 16, token = 24>,
             output_at = <token = 8>> {scale = 1.0 : f64}
}

// -----

plan.program @f {
  %p = plan.arena : memref<1x16x24xbf16>
  %o = plan.arena : memref<1x16x8xbf16>
  // expected-error @below {{expected a key for every query, found the causal offset -1}}
  plan.attention forward query(%p : memref<1x16x24xbf16>) key(%p : memref<1x16x24xbf16>) value(%p : memref<1x16x24xbf16>) output(%o : memref<1x16x8xbf16>)
      shape <batch = 1, heads = 1, key_heads = 1, queries = 16, keys = 16, size = 8, columns = 8,
             query_at = <token = 24>, key_at = <offset = 8, token = 24>, value_at = <offset = 16, token = 24>,
             output_at = <token = 8>> {scale = 1.0 : f64, causal_offset = -1 : i64}
}

// -----

plan.program @f {
  %p = plan.arena : memref<1x16x24xbf16>
  %o = plan.arena : memref<1x16x8xbf16>
  // expected-error @below {{kind "gradient" needs d_output}}
  plan.attention gradient query(%p : memref<1x16x24xbf16>) key(%p : memref<1x16x24xbf16>) value(%p : memref<1x16x24xbf16>) output(%o : memref<1x16x8xbf16>)
      shape <batch = 1, heads = 1, key_heads = 1, queries = 16, keys = 16, size = 8, columns = 8,
             query_at = <token = 24>, key_at = <offset = 8, token = 24>, value_at = <offset = 16, token = 24>,
             output_at = <token = 8>> {scale = 1.0 : f64}
}

// -----

plan.program @f {
  %p = plan.arena : memref<1x16x24xbf16>
  %o = plan.arena : memref<1x16x8xbf16>
  // expected-error @below {{kind "forward" does not take d_key}}
  plan.attention forward query(%p : memref<1x16x24xbf16>) key(%p : memref<1x16x24xbf16>) value(%p : memref<1x16x24xbf16>) output(%o : memref<1x16x8xbf16>) d_key(%p : memref<1x16x24xbf16>)
      shape <batch = 1, heads = 1, key_heads = 1, queries = 16, keys = 16, size = 8, columns = 8,
             query_at = <token = 24>, key_at = <offset = 8, token = 24>, value_at = <offset = 16, token = 24>,
             output_at = <token = 8>> {scale = 1.0 : f64}
}

// -----

plan.program @f {
  %p = plan.arena : memref<1x16x24xbf16>
  %o = plan.arena : memref<1x16x8xbf16>
  // expected-error @below {{expected the elements of value to lie within 'memref<1x16x24xbf16>', found strides that reach 385 elements}}
  plan.attention forward query(%p : memref<1x16x24xbf16>) key(%p : memref<1x16x24xbf16>) value(%p : memref<1x16x24xbf16>) output(%o : memref<1x16x8xbf16>)
      shape <batch = 1, heads = 1, key_heads = 1, queries = 16, keys = 16, size = 8, columns = 8,
             query_at = <token = 24>, key_at = <offset = 8, token = 24>, value_at = <offset = 17, token = 24>,
             output_at = <token = 8>> {scale = 1.0 : f64}
}

// -----

plan.program @f {
  %p = plan.arena : memref<1x16x24xbf16>
  %o = plan.arena : memref<1x16x8xbf16>
  // expected-error @below {{found strides that reach too many elements}}
  plan.attention forward query(%p : memref<1x16x24xbf16>) key(%p : memref<1x16x24xbf16>) value(%p : memref<1x16x24xbf16>) output(%o : memref<1x16x8xbf16>)
      shape <batch = 1, heads = 1, key_heads = 1, queries = 16, keys = 16, size = 8, columns = 8,
             query_at = <token = 24>, key_at = <offset = 8, token = 24>, value_at = <offset = 16, token = -24>,
             output_at = <token = 8>> {scale = 1.0 : f64}
}

// -----

plan.program @f {
  %p = plan.arena : memref<1x16x24xbf16>
  %o = plan.arena : memref<1x16x8xbf16>
  // expected-error @below {{found strides that let elements of output overlap}}
  plan.attention forward query(%p : memref<1x16x24xbf16>) key(%p : memref<1x16x24xbf16>) value(%p : memref<1x16x24xbf16>) output(%o : memref<1x16x8xbf16>)
      shape <batch = 1, heads = 1, key_heads = 1, queries = 16, keys = 16, size = 8, columns = 8,
             query_at = <token = 24>, key_at = <offset = 8, token = 24>, value_at = <offset = 16, token = 24>,
             output_at = <token = 4>> {scale = 1.0 : f64}
}

// -----

plan.program @f {
  %p = plan.arena : memref<1x16x24xbf16>
  %o = plan.arena : memref<1x16x8xbf16>
  %s = plan.arena : memref<16xf32>
  // expected-error @below {{expected statistics of 'memref<1x1x16xf32>', found 'memref<16xf32>'}}
  plan.attention forward query(%p : memref<1x16x24xbf16>) key(%p : memref<1x16x24xbf16>) value(%p : memref<1x16x24xbf16>) output(%o : memref<1x16x8xbf16>) statistics(%s : memref<16xf32>)
      shape <batch = 1, heads = 1, key_heads = 1, queries = 16, keys = 16, size = 8, columns = 8,
             query_at = <token = 24>, key_at = <offset = 8, token = 24>, value_at = <offset = 16, token = 24>,
             output_at = <token = 8>> {scale = 1.0 : f64}
}

// -----

plan.program @f {
  %p = plan.arena : memref<1x16x24xbf16>
  %o = plan.arena : memref<1x16x8xbf16>
  %i = plan.input "i" role data : memref<1x16x8xbf16>
  // expected-error @below {{writes to an input or a constant, found plan.input}}
  plan.attention forward query(%p : memref<1x16x24xbf16>) key(%p : memref<1x16x24xbf16>) value(%p : memref<1x16x24xbf16>) output(%i : memref<1x16x8xbf16>)
      shape <batch = 1, heads = 1, key_heads = 1, queries = 16, keys = 16, size = 8, columns = 8,
             query_at = <token = 24>, key_at = <offset = 8, token = 24>, value_at = <offset = 16, token = 24>,
             output_at = <token = 8>> {scale = 1.0 : f64}
}
