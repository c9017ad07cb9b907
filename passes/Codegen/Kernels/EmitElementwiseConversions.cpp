// Formulas of the casts: the model's own and those of the Precision stage.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/MPC.h"
#include "passes/Codegen/Kernels/ElementwiseTable.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

static bool isUnsigned(Type type) {
  return type.isInteger(1) || type.isUnsignedInteger();
}

static Type signless(Type type) {
  return IntegerType::get(type.getContext(), type.getIntOrFloatBitWidth());
}

static Value toBool(Lanes &l, Value value, Type from) {
  if (isa<FloatType>(from))
    return l.compare(arith::CmpFPredicate::UNE, value, l.constant(0));
  return l.compare(arith::CmpIPredicate::ne, value,
                   l.integer(signless(from), 0));
}

/// Integer to integer: extended by the sign of the source, or cut.
static Value resize(Lanes &l, Value value, Type from, Type to) {
  OpBuilder &b = l.getBuilder();
  Location loc = value.getLoc();
  Type type = Lanes::typeLike(signless(to), value);
  unsigned before = from.getIntOrFloatBitWidth();
  unsigned after = to.getIntOrFloatBitWidth();
  if (before == after)
    return value;
  if (before > after)
    return arith::TruncIOp::create(b, loc, type, value);
  if (isUnsigned(from))
    return arith::ExtUIOp::create(b, loc, type, value);
  return arith::ExtSIOp::create(b, loc, type, value);
}

/// Float to integer by way of i64, so that what lies outside a narrow type
/// wraps as a conversion of integers does.
static Value truncate(Lanes &l, Value value, Type to) {
  ImplicitLocOpBuilder &b = l.getBuilder();
  Value wide =
      arith::FPToSIOp::create(b, Lanes::typeLike(b.getI64Type(), value), value);
  return resize(l, wide, b.getI64Type(), to);
}

static Value toFloat(Lanes &l, Value value, Type from) {
  ImplicitLocOpBuilder &b = l.getBuilder();
  Type type = Lanes::typeLike(l.getComputeType(), value);
  if (isUnsigned(from))
    return arith::UIToFPOp::create(b, type, value);
  return arith::SIToFPOp::create(b, type, value);
}

static Value emitCast(Lanes &l, CastOp op, CastOp::Adaptor in) {
  Type from = op.getInput().getType().getElementType();
  Type to = op.getType().getElementType();
  Value value = in.getInput();
  if (to.isInteger(1))
    return from.isInteger(1) ? value : toBool(l, value, from);
  bool fromFloat = isa<FloatType>(from), toFloatType = isa<FloatType>(to);
  if (fromFloat)
    return toFloatType ? value : truncate(l, value, to);
  return toFloatType ? toFloat(l, value, from) : resize(l, value, from, to);
}

void codegen::addConversionFormulas(ElementwiseTable &table) {
  table.add<CastOp>(emitCast);
  // The rounding is that of any result.
  table.add<amp::CastOp>([](Lanes &, amp::CastOp, amp::CastOp::Adaptor in) {
    return in.getInput();
  });
}
