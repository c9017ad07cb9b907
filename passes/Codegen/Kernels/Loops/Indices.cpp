// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/Kernels/Loops/Indices.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

NamedElement codegen::resolveIndex(ImplicitLocOpBuilder &b, Value index,
                                   int64_t size) {
  Type i64 = b.getI64Type();
  if (index.getType() != i64)
    index = arith::ExtSIOp::create(b, i64, index);
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, b.getI64IntegerAttr(value));
  };
  Value isNegative =
      arith::CmpIOp::create(b, arith::CmpIPredicate::slt, index, constant(0));
  Value fromEnd = arith::AddIOp::create(b, index, constant(size));
  Value place = arith::SelectOp::create(b, isNegative, fromEnd, index);
  // The unsigned comparison also rejects negative indices.
  Value exists = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, place,
                                       constant(size));
  Value safe = arith::SelectOp::create(b, exists, place, constant(0));
  return {arith::IndexCastOp::create(b, b.getIndexType(), safe), exists};
}
