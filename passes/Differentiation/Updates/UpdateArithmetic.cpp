// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/Updates/UpdateArithmetic.h"

#include "compiler/Dialect/MPC/MPC.h"

using namespace mlir;
using namespace mpc;

Value mpc::createScalar(OpBuilder &b, Location loc, double value,
                        Type element) {
  auto type = RankedTensorType::get({}, element);
  return ConstantOp::create(
      b, loc, DenseElementsAttr::get(type, b.getFloatAttr(element, value)));
}

Value mpc::scaleBy(OpBuilder &b, Location loc, Value value, double factor) {
  auto type = cast<RankedTensorType>(value.getType());
  return MulOp::create(b, loc, type, value,
                       createScalar(b, loc, factor, type.getElementType()));
}

Value mpc::averageOf(OpBuilder &b, Location loc, Value old, Value next,
                     double beta) {
  return AddOp::create(b, loc, old.getType(), scaleBy(b, loc, old, beta),
                       scaleBy(b, loc, next, 1.0 - beta));
}

Value mpc::normOf(OpBuilder &b, Location loc, Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  auto axes = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  Value square = MulOp::create(b, loc, type, value, value);
  auto scalarType = type.clone(ArrayRef<int64_t>());
  Value sum = ReduceSumOp::create(b, loc, scalarType, square, axes, false);
  return SqrtOp::create(b, loc, scalarType, sum);
}
