// Recipes that no text of flags stands for.
//
// RUN: mpc-opt %s -split-input-file -verify-diagnostics

// expected-error@+1 {{a recipe has no field 'loses'}}
module attributes {mpc.recipe = #mpc.recipe<loses = [mse]>} {
}

// -----

// expected-error@+1 {{unknown loss "hinge", expected one of softmax_cross_entropy, nll, mse}}
module attributes {mpc.recipe = #mpc.recipe<loss = [hinge]>} {
}

// -----

// expected-error@+1 {{unknown optimizer "sophia", expected one of sgd, momentum}}
module attributes {mpc.recipe = #mpc.recipe<optimizer = sophia>} {
}

// -----

// expected-error@+1 {{expected a factor above 0 of --loss mse, found 0}}
module attributes {mpc.recipe = #mpc.recipe<loss = [mse * 0.0]>} {
}

// -----

// expected-error@+1 {{expected sizes of at least 0 in the label shape of 'x', found -1}}
module attributes {mpc.recipe = #mpc.recipe<label_shape = {"x" = [-1]}>} {
}

// -----

// expected-error@+1 {{expected --accumulate-grad-batches of at least 1, found 0}}
module attributes {mpc.recipe = #mpc.recipe<accumulate_grad_batches = 0>} {
}

// -----

// expected-error@+1 {{expected the recipe of a module, such as #mpc.recipe<loss = [mse]>, found 1 : i64}}
module attributes {mpc.recipe = 1} {
}

// -----

// expected-error@+1 {{expected the recipe of a module, such as #mpc.recipe<loss = [mse]>, found #mpc.recipe<>}}
func.func @recipe() attributes {mpc.recipe = #mpc.recipe<>} {
  return
}
