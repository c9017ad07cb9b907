// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/Kernels/Loops/Lanes.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

Type Lanes::typeLike(Type element, Value like) {
  if (auto vector = dyn_cast<VectorType>(like.getType()))
    return VectorType::get(vector.getShape(), element);
  return element;
}

Value Lanes::broadcast(Value value, Value like) {
  if (!isa<VectorType>(like.getType()) || isa<VectorType>(value.getType()))
    return value;
  return vector::BroadcastOp::create(b, typeLike(value.getType(), like), value);
}

Value Lanes::constant(FloatType type, double value) {
  return arith::ConstantOp::create(b, b.getFloatAttr(type, value));
}

Value Lanes::integer(Type type, int64_t value) {
  return arith::ConstantOp::create(b, b.getIntegerAttr(type, value));
}

template <typename OpTy>
Value Lanes::binary(Value x, Value y) {
  assert(getElementTypeOrSelf(x.getType()) ==
             getElementTypeOrSelf(y.getType()) &&
         "operands have one element type");
  return OpTy::create(b, broadcast(x, y), broadcast(y, x));
}

Value Lanes::add(Value x, Value y) { return binary<arith::AddFOp>(x, y); }
Value Lanes::sub(Value x, Value y) { return binary<arith::SubFOp>(x, y); }
Value Lanes::mul(Value x, Value y) { return binary<arith::MulFOp>(x, y); }
Value Lanes::div(Value x, Value y) { return binary<arith::DivFOp>(x, y); }

Value Lanes::multiplyAdd(Value x, Value y, Value sum) {
  auto contract = arith::FastMathFlags::contract;
  x = broadcast(x, y);
  y = broadcast(y, x);
  Value product = arith::MulFOp::create(b, x, y, contract);
  return arith::AddFOp::create(b, sum, product, contract);
}

Value Lanes::neg(Value x) { return arith::NegFOp::create(b, x); }
Value Lanes::abs(Value x) { return math::AbsFOp::create(b, x); }
Value Lanes::exp(Value x) { return math::ExpOp::create(b, x); }
Value Lanes::log(Value x) {
  if (!compute.isF32())
    return math::LogOp::create(b, x);
  // The f32 polynomial treats subnormal numbers as the smallest normal number,
  // so scale them by 2^24 first.
  constexpr double scale = 0x1p24, logOfScale = 0x1.0a2b23f3bab73p+4;
  Value isTiny = compare(arith::CmpFPredicate::OLT, x, constant(0x1p-126));
  Value logarithm =
      math::LogOp::create(b, select(isTiny, mul(x, constant(scale)), x));
  return select(isTiny, sub(logarithm, constant(logOfScale)), logarithm);
}
Value Lanes::sqrt(Value x) { return math::SqrtOp::create(b, x); }
Value Lanes::pow(Value x, Value y, arith::FastMathFlags flags) {
  x = broadcast(x, y);
  y = broadcast(y, x);
  return math::PowFOp::create(b, x, y, flags);
}

Value Lanes::maximum(Value x, Value y) {
  return binary<arith::MaximumFOp>(x, y);
}
Value Lanes::minimum(Value x, Value y) {
  return binary<arith::MinimumFOp>(x, y);
}

Value Lanes::addInt(Value x, Value y) { return binary<arith::AddIOp>(x, y); }
Value Lanes::mulInt(Value x, Value y) { return binary<arith::MulIOp>(x, y); }
Value Lanes::xorInt(Value x, Value y) { return binary<arith::XOrIOp>(x, y); }

Value Lanes::compare(arith::CmpFPredicate predicate, Value x, Value y) {
  return arith::CmpFOp::create(b, predicate, broadcast(x, y), broadcast(y, x));
}

Value Lanes::compare(arith::CmpIPredicate predicate, Value x, Value y) {
  return arith::CmpIOp::create(b, predicate, broadcast(x, y), broadcast(y, x));
}

Value Lanes::select(Value condition, Value onTrue, Value onFalse) {
  onTrue = broadcast(broadcast(onTrue, onFalse), condition);
  onFalse = broadcast(onFalse, onTrue);
  return arith::SelectOp::create(b, condition, onTrue, onFalse);
}

// Converts f64 to f32 so that rounding again, to a type with at least two bits
// less, equals one rounding of the original. An inexact result gets its last
// bit set.
Value Lanes::roundToOdd(Value wide) {
  assert(getElementTypeOrSelf(wide.getType()).isF64() && "rounds f64 to f32");
  Type narrowType = typeLike(b.getF32Type(), wide);
  Type bitsType = typeLike(b.getI32Type(), wide);
  Value nearest = arith::TruncFOp::create(b, narrowType, wide);
  Value back = arith::ExtFOp::create(b, wide.getType(), nearest);
  Value bits = arith::BitcastOp::create(b, bitsType, nearest);
  Value one = integer(b.getI32Type(), 1);
  Value isEven = compare(arith::CmpIPredicate::eq,
                         arith::AndIOp::create(b, bits, broadcast(one, bits)),
                         integer(b.getI32Type(), 0));
  // The predicate is false for NaN, which thus stays unchanged.
  Value inexact = compare(arith::CmpFPredicate::ONE, back, wide);
  // Adding 1 to the bits of a float moves the float away from zero.
  Value tooSmall = compare(arith::CmpFPredicate::OLT, abs(back), abs(wide));
  Value moved = addInt(bits, select(tooSmall, broadcast(one, bits),
                                    integer(b.getI32Type(), -1)));
  Value fix = arith::AndIOp::create(b, isEven, inexact);
  return arith::BitcastOp::create(b, narrowType, select(fix, moved, bits));
}

Value Lanes::convert(Value value, FloatType type) {
  auto from = cast<FloatType>(getElementTypeOrSelf(value.getType()));
  if (from == type)
    return value;
  Type to = typeLike(type, value);
  if (from.getWidth() < type.getWidth())
    return arith::ExtFOp::create(b, to, value);
  if (from.isF64() && type.getWidth() < 32)
    return arith::TruncFOp::create(b, to, roundToOdd(value));
  if (from.getWidth() == type.getWidth()) // bf16 <-> f16
    return arith::TruncFOp::create(
        b, to,
        arith::ExtFOp::create(b, typeLike(b.getF32Type(), value), value));
  return arith::TruncFOp::create(b, to, value);
}
