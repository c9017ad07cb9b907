// RUN: mpc-opt %s --split-input-file --verify-diagnostics

func.func @wide(%q: tensor<2x3x7x16xf32>) {
  // expected-error@+1 {{expected a query of f16 or bf16, found 'f32'}}
  %y, %s = mpc.library_attention %q, %q, %q : (tensor<2x3x7x16xf32>, tensor<2x3x7x16xf32>, tensor<2x3x7x16xf32>) -> (tensor<2x3x7x16xf32>, tensor<2x3x7xf32>)
  return
}

// -----

func.func @axes(%q: tensor<3x7x16xf16>) {
  // expected-error@+1 {{expected query, key and value of 4 axes, found [3, 7, 16], [3, 7, 16] and [3, 7, 16]}}
  %y, %s = mpc.library_attention %q, %q, %q : (tensor<3x7x16xf16>, tensor<3x7x16xf16>, tensor<3x7x16xf16>) -> (tensor<3x7x16xf16>, tensor<3x7xf32>)
  return
}

// -----

func.func @heads(%q: tensor<2x3x7x16xf16>, %k: tensor<2x2x7x16xf16>) {
  // expected-error@+1 {{expected as many query heads for each key head, found 3 and 2}}
  %y, %s = mpc.library_attention %q, %k, %k : (tensor<2x3x7x16xf16>, tensor<2x2x7x16xf16>, tensor<2x2x7x16xf16>) -> (tensor<2x3x7x16xf16>, tensor<2x3x7xf32>)
  return
}

// -----

func.func @keys(%q: tensor<2x3x7x16xf16>, %v: tensor<2x3x8x16xf16>) {
  // expected-error@+1 {{expected a value of type 'tensor<2x3x7x16xf16>', found 'tensor<2x3x8x16xf16>'}}
  %y, %s = mpc.library_attention %q, %q, %v : (tensor<2x3x7x16xf16>, tensor<2x3x7x16xf16>, tensor<2x3x8x16xf16>) -> (tensor<2x3x7x16xf16>, tensor<2x3x7xf32>)
  return
}

// -----

func.func @statistics(%q: tensor<2x3x7x16xf16>) {
  // expected-error@+1 {{expected statistics of type 'tensor<2x3x7xf32>', found 'tensor<2x3x7xf16>'}}
  %y, %s = mpc.library_attention %q, %q, %q : (tensor<2x3x7x16xf16>, tensor<2x3x7x16xf16>, tensor<2x3x7x16xf16>) -> (tensor<2x3x7x16xf16>, tensor<2x3x7xf16>)
  return
}

// -----

func.func @offset(%q: tensor<2x3x7x16xf16>) {
  // expected-error@+1 {{expected a causal offset of 0 or more, found -1}}
  %y, %s = mpc.library_attention %q, %q, %q {causal_offset = -1 : i64} : (tensor<2x3x7x16xf16>, tensor<2x3x7x16xf16>, tensor<2x3x7x16xf16>) -> (tensor<2x3x7x16xf16>, tensor<2x3x7xf32>)
  return
}

// -----

func.func @bias(%q: tensor<2x3x7x16xf16>, %b: tensor<7x7xf32>) {
  // expected-error@+1 {{expected a bias of 4 axes that broadcasts to the scores' [2, 3, 7, 7], found [7, 7]}}
  %y, %s = mpc.library_attention %q, %q, %q bias %b : (tensor<2x3x7x16xf16>, tensor<2x3x7x16xf16>, tensor<2x3x7x16xf16>, tensor<7x7xf32>) -> (tensor<2x3x7x16xf16>, tensor<2x3x7xf32>)
  return
}

// -----

func.func @gradient(%q: tensor<2x3x7x16xf16>, %dy: tensor<2x3x7x16xf32>, %s: tensor<2x3x7xf32>) {
  // expected-error@+1 {{expected a gradient of the output of type 'tensor<2x3x7x16xf16>', found 'tensor<2x3x7x16xf32>'}}
  %dq, %dk, %dv = mpc.library_attention_grad %dy, %q, %q, %q, %q, %s
      : (tensor<2x3x7x16xf32>, tensor<2x3x7x16xf16>, tensor<2x3x7x16xf16>, tensor<2x3x7x16xf16>, tensor<2x3x7x16xf16>, tensor<2x3x7xf32>)
     -> (tensor<2x3x7x16xf16>, tensor<2x3x7x16xf16>, tensor<2x3x7x16xf16>)
  return
}
