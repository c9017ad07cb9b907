// Formulas of the casts: casts of the model, and casts that the Precision stage
// has inserted.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/Fold/ConstantElements.h"
#include "passes/Codegen/Kernels/Elementwise/ElementwiseTable.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

static Type signless(Type type) {
  return IntegerType::get(type.getContext(), type.getIntOrFloatBitWidth());
}

static Value toBool(Lanes &l, Value value, Type from) {
  if (isa<FloatType>(from))
    return l.compare(arith::CmpFPredicate::UNE, value, l.constant(0));
  return l.compare(arith::CmpIPredicate::ne, value,
                   l.integer(signless(from), 0));
}

/// Converts between integers: extends by the source's signedness, or truncates.
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
  if (isUnsignedElement(from))
    return arith::ExtUIOp::create(b, loc, type, value);
  return arith::ExtSIOp::create(b, loc, type, value);
}

/// Converts float to integer by way of i64, so that values outside a narrow
/// type wrap like integer conversions. Values outside i64, and NaN, are
/// undefined for the conversion; they give the smallest i64, as on x86.
static Value truncate(Lanes &l, Value value, Type to) {
  ImplicitLocOpBuilder &b = l.getBuilder();
  using Test = arith::CmpFPredicate;
  Type i64 = b.getI64Type();
  Value limit = l.constant(0x1p63), lowest = l.integer(i64, INT64_MIN);
  Value offset; // added to the result for values from 2^63 on
  if (to.isUnsignedInteger(64)) {
    Value isLarge = l.compare(Test::OGE, value, limit);
    offset = l.select(isLarge, lowest, l.integer(i64, 0));
    value = l.select(isLarge, l.sub(value, limit), value);
  }
  Value isInRange =
      arith::AndIOp::create(b, l.compare(Test::OGE, value, l.constant(-0x1p63)),
                            l.compare(Test::OLT, value, limit));
  Value safe = l.select(isInRange, value, l.constant(0));
  Value wide = arith::FPToSIOp::create(b, Lanes::typeLike(i64, safe), safe);
  if (offset)
    wide = l.addInt(wide, offset);
  return resize(l, l.select(isInRange, wide, lowest), i64, to);
}

static Value toFloat(Lanes &l, Value value, Type from) {
  ImplicitLocOpBuilder &b = l.getBuilder();
  Type type = Lanes::typeLike(l.getComputeType(), value);
  if (isUnsignedElement(from))
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

/// Returns the bits that `value` has as a float of type `from`. `value` is held
/// in a wider type. For bfloat16, the result is the upper half of the f32 bits,
/// since conversions lose subnormals on some CPUs.
static Value toBits(Lanes &l, Value value, FloatType from) {
  OpBuilder &b = l.getBuilder();
  Location loc = value.getLoc();
  Type bits = Lanes::typeLike(signless(from), value);
  if (!from.isBF16())
    return arith::BitcastOp::create(b, loc, bits, l.convert(value, from));
  Value single = l.convert(value, b.getF32Type());
  Value wide = arith::BitcastOp::create(
      b, loc, Lanes::typeLike(b.getI32Type(), value), single);
  Value high = arith::ShRUIOp::create(
      b, loc, wide, l.broadcast(l.integer(b.getI32Type(), 16), wide));
  return arith::TruncIOp::create(b, loc, bits, high);
}

static Value emitBitCast(Lanes &l, BitCastOp op, BitCastOp::Adaptor in) {
  Value value = in.getInput();
  if (auto from = dyn_cast<FloatType>(op.getInput().getType().getElementType()))
    value = toBits(l, value, from);
  auto to = dyn_cast<FloatType>(op.getType().getElementType());
  if (!to)
    return value;
  Value number = arith::BitcastOp::create(l.getBuilder(), value.getLoc(),
                                          Lanes::typeLike(to, value), value);
  return l.convert(number, l.getComputeType());
}

void codegen::addConversionFormulas(ElementwiseTable &table) {
  table.add<CastOp>(emitCast);
  table.add<BitCastOp>(emitBitCast);
  // amp.cast needs no code: the caller rounds the result of every op to the
  // op's type.
  table.add<amp::CastOp>([](Lanes &, amp::CastOp, amp::CastOp::Adaptor in) {
    return in.getInput();
  });
}
