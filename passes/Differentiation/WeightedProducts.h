// Finds the layers of a model: products of data with a weight.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_DIFFERENTIATION_WEIGHTEDPRODUCTS_H
#define MPC_PASSES_DIFFERENTIATION_WEIGHTEDPRODUCTS_H

#include "compiler/Dialect/MPC/FunctionPorts.h"

namespace mpc {

/// A matmul, gemm or conv of data with a weight.
struct WeightedProduct {
  mlir::Operation *op;
  /// The operand that is the weight, perhaps transposed or cast.
  mlir::OpOperand *weight;
  /// The value before all transposes and casts: an argument with a variable, or
  /// the result of an op that computes the weight.
  mlir::Value source;
  /// True if axis 0 of `source` counts the layer's inputs: [in, out]. False for
  /// [out, in], and for filters.
  bool inputsFirst = false;
  /// True if no other weighted product uses the result: the last layer of the
  /// model, such as a classifier.
  bool isHead = false;
};

/// Returns the weighted products in the body of `function`, in order. Looks
/// into no loop.
llvm::SmallVector<WeightedProduct>
findWeightedProducts(const FunctionEditor &function);

/// True if all readers of `weight`, an argument of `function`, are ops of
/// `products`, perhaps behind transposes and casts.
bool isReadByProductsOnly(mlir::Value weight,
                          llvm::ArrayRef<WeightedProduct> products);

} // namespace mpc

#endif // MPC_PASSES_DIFFERENTIATION_WEIGHTEDPRODUCTS_H
