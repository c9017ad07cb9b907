// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/WeightedProducts.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace mpc;

// True for ops that a weight may pass on the way to a product.
static bool isPassed(Operation *op) {
  if (isa<mpc::CastOp>(op))
    return isa<FloatType>(
        cast<RankedTensorType>(op->getOperand(0).getType()).getElementType());
  auto transpose = dyn_cast_or_null<TransposeOp>(op);
  return transpose && transpose.getPerm() == ArrayRef<int64_t>{1, 0};
}

// Returns the two factors of a product; null if `op` is none.
static std::pair<OpOperand *, OpOperand *> getFactors(Operation *op) {
  if (!isa<MatMulOp, GemmOp, ConvOp>(op))
    return {nullptr, nullptr};
  return {&op->getOpOperand(0), &op->getOpOperand(1)};
}

// Returns the values that depend on an input of the function.
static DenseSet<Value> findData(const FunctionEditor &function) {
  DenseSet<Value> data;
  for (Value argument : function.getBody().getArguments())
    if (function.variableOf(argument).empty())
      data.insert(argument);
  for (Operation &op : function.getBody())
    if (llvm::any_of(op.getOperands(),
                     [&](Value operand) { return data.contains(operand); }))
      data.insert(op.result_begin(), op.result_end());
  return data;
}

// True if axis 0 of the operand `weight` counts the inputs of the layer.
static bool hasInputsFirst(OpOperand &weight) {
  bool isRight = weight.getOperandNumber() == 1;
  auto decide = [&](bool transA, bool transB) {
    return isRight ? !transB : transA;
  };
  if (auto matmul = dyn_cast<MatMulOp>(weight.getOwner()))
    return decide(matmul.getTransA(), matmul.getTransB());
  if (auto gemm = dyn_cast<GemmOp>(weight.getOwner()))
    return decide(gemm.getTransA(), gemm.getTransB());
  return false;
}

// Describes the product `op` of a weight, the operand `weight`.
static WeightedProduct describe(Operation *op, OpOperand *weight) {
  WeightedProduct product{op, weight, weight->get()};
  product.inputsFirst = hasInputsFirst(*weight);
  while (Operation *passed = product.source.getDefiningOp()) {
    if (!isPassed(passed))
      break;
    product.inputsFirst ^= isa<TransposeOp>(passed);
    product.source = passed->getOperand(0);
  }
  return product;
}

// Sets `isHead` of all products.
static void findHeads(Block &body, MutableArrayRef<WeightedProduct> products) {
  DenseSet<Operation *> layers, reaching;
  for (const WeightedProduct &product : products)
    layers.insert(product.op);
  // A loop may have layers in its body, so a layer before a loop is no head.
  for (Operation &op : body)
    if (isa<BodyOpInterface>(op))
      layers.insert(&op);
  for (Operation &op : llvm::reverse(body))
    if (llvm::any_of(op.getUsers(), [&](Operation *user) {
          return layers.contains(user) || reaching.contains(user);
        }))
      reaching.insert(&op);
  for (WeightedProduct &product : products)
    product.isHead = !reaching.contains(product.op);
}

SmallVector<WeightedProduct>
mpc::findWeightedProducts(const FunctionEditor &function) {
  DenseSet<Value> data = findData(function);
  SmallVector<WeightedProduct> products;
  for (Operation &op : function.getBody()) {
    auto [left, right] = getFactors(&op);
    if (!left || data.contains(left->get()) == data.contains(right->get()))
      continue;
    products.push_back(
        describe(&op, data.contains(left->get()) ? right : left));
  }
  findHeads(function.getBody(), products);
  return products;
}

bool mpc::isReadByProductsOnly(Value weight,
                               ArrayRef<WeightedProduct> products) {
  return llvm::all_of(weight.getUses(), [&](OpOperand &use) {
    if (isPassed(use.getOwner()))
      return isReadByProductsOnly(use.getOwner()->getResult(0), products);
    return llvm::any_of(products, [&](const WeightedProduct &product) {
      return product.weight == &use;
    });
  });
}
