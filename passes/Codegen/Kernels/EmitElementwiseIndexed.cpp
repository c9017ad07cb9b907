// Formulas of the ops that depend on where they are: one_hot, dropout and
// random numbers.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"
#include "passes/Codegen/Kernels/ElementwiseTable.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

static Value emitOneHot(Lanes &l, OneHotOp op, OneHotOp::Adaptor in,
                        ElementIndex index) {
  ImplicitLocOpBuilder &b = l.getBuilder();
  Value label = in.getLabels();
  if (!getElementTypeOrSelf(label.getType()).isInteger(64))
    label = arith::ExtSIOp::create(b, Lanes::typeLike(b.getI64Type(), label),
                                   label);
  return l.select(l.compare(arith::CmpIPredicate::eq, label, index),
                  l.constant(1), l.constant(0));
}

namespace {
/// Philox-4x32-10 (Salmon et al., 2011) over lanes of i32.
class Philox {
public:
  Philox(Lanes &lanes) : l(lanes), b(lanes.getBuilder()) {}

  /// The low and the high 32 bits of an i64.
  Value low(Value wide) {
    return arith::TruncIOp::create(b, Lanes::typeLike(b.getI32Type(), wide),
                                   wide);
  }
  Value high(Value wide) { return low(shiftRight(wide, 32)); }

  Value shiftRight(Value value, int64_t bits) {
    Value amount = l.integer(getElementTypeOrSelf(value.getType()), bits);
    return arith::ShRUIOp::create(b, value, l.broadcast(amount, value));
  }

  /// Ten rounds; `counter` is replaced by the four outputs.
  void run(MutableArrayRef<Value> counter, Value key0, Value key1) {
    for (unsigned round = 0; round < 10; ++round) {
      if (round > 0) {
        key0 = l.addInt(key0, word(0x9E3779B9));
        key1 = l.addInt(key1, word(0xBB67AE85));
      }
      auto [high0, low0] = multiply(counter[0], 0xD2511F53);
      auto [high1, low1] = multiply(counter[2], 0xCD9E8D57);
      counter[0] = l.xorInt(l.xorInt(high1, counter[1]), key0);
      counter[1] = low1;
      counter[2] = l.xorInt(l.xorInt(high0, counter[3]), key1);
      counter[3] = low0;
    }
  }

private:
  Value word(uint32_t value) {
    return l.integer(b.getI32Type(), static_cast<int32_t>(value));
  }

  std::pair<Value, Value> multiply(Value x, uint32_t factor) {
    Type wide = Lanes::typeLike(b.getI64Type(), x);
    Value product = l.mulInt(arith::ExtUIOp::create(b, wide, x),
                             l.integer(b.getI64Type(), factor));
    return {high(product), low(product)};
  }

  Lanes &l;
  ImplicitLocOpBuilder &b;
};
} // namespace

static Value toI64(Lanes &l, Value value) {
  ImplicitLocOpBuilder &b = l.getBuilder();
  if (getElementTypeOrSelf(value.getType()).isInteger(64))
    return value;
  return arith::ExtSIOp::create(b, Lanes::typeLike(b.getI64Type(), value),
                                value);
}

namespace {
/// The four outputs of Philox for element `index`, whose group takes them all.
struct RandomWords {
  Value words[4];

  /// Output `lane` (i64).
  Value pick(Lanes &l, Value lane) const {
    Value bits = words[3];
    for (int64_t i = 2; i >= 0; --i)
      bits = l.select(l.compare(arith::CmpIPredicate::eq, lane,
                                l.integer(l.getBuilder().getI64Type(), i)),
                      words[i], bits);
    return bits;
  }
};
} // namespace

// Key: the two halves of the seed. Counter: the two halves of the number of the
// group, the id, the micro-step.
static RandomWords runPhilox(Lanes &l, Value seed, Value microStep, int64_t id,
                             Value group) {
  ImplicitLocOpBuilder &b = l.getBuilder();
  Philox philox(l);
  seed = toI64(l, seed);
  RandomWords result = {{philox.low(group), philox.high(group),
                         philox.low(l.integer(b.getI64Type(), id)),
                         philox.low(toI64(l, microStep))}};
  philox.run(result.words, philox.low(seed), philox.high(seed));
  return result;
}

// What is left of `index` in a group of `size` elements, a power of two.
static Value placeInGroup(Lanes &l, ElementIndex index, int64_t size) {
  ImplicitLocOpBuilder &b = l.getBuilder();
  Value mask = l.integer(b.getI64Type(), size - 1);
  return arith::AndIOp::create(b, index, l.broadcast(mask, index));
}

// Element i takes output i % 4 of group i / 4.
static Value emitRandomWord(Lanes &l, Value seed, Value microStep, int64_t id,
                            ElementIndex index) {
  Value group = Philox(l).shiftRight(index, 2);
  return runPhilox(l, seed, microStep, id, group)
      .pick(l, placeInGroup(l, index, 4));
}

static Value emitDropout(Lanes &l, DropoutOp op, DropoutOp::Adaptor in,
                         ElementIndex index) {
  ImplicitLocOpBuilder &b = l.getBuilder();
  Philox philox(l);
  Value bits =
      emitRandomWord(l, in.getSeed(), in.getMicroStep(), op.getId(), index);

  // "The upper 24 bits as a fraction are not below ratio", in integers.
  double ratio = op.getRatio().convertToDouble();
  auto threshold = static_cast<int64_t>(std::ceil(std::ldexp(ratio, 24)));
  Value keep = l.compare(arith::CmpIPredicate::uge, philox.shiftRight(bits, 8),
                         l.integer(b.getI32Type(), threshold));
  Value scaled = l.div(in.getInput(), l.constant(1 - ratio));
  return l.select(keep, scaled, l.constant(0));
}

// The upper 53 bits of two outputs.
static Value emitRandomDouble(Lanes &l, RandomUniformOp op,
                              RandomUniformOp::Adaptor in, ElementIndex index) {
  ImplicitLocOpBuilder &b = l.getBuilder();
  Philox philox(l);
  Value one = l.integer(b.getI64Type(), 1);
  RandomWords random = runPhilox(l, in.getSeed(), in.getMicroStep(), op.getId(),
                                 philox.shiftRight(index, 1));
  Value place = placeInGroup(l, index, 2);
  Value lower = l.addInt(place, place);
  auto widen = [&](Value lane) -> Value {
    Type wide = Lanes::typeLike(b.getI64Type(), index);
    return arith::ExtUIOp::create(b, wide, random.pick(l, lane));
  };
  Value high = widen(l.addInt(lower, l.broadcast(one, lower)));
  Value shift = l.broadcast(l.integer(b.getI64Type(), 32), high);
  Value word = arith::OrIOp::create(b, arith::ShLIOp::create(b, high, shift),
                                    widen(lower));
  Value whole = arith::SIToFPOp::create(
      b, Lanes::typeLike(b.getF64Type(), word), philox.shiftRight(word, 11));
  return l.mul(whole, l.constant(0x1p-53));
}

// As many bits as the result has digits, so that it is exact, and below 1.
static Value emitRandomUniform(Lanes &l, RandomUniformOp op,
                               RandomUniformOp::Adaptor in,
                               ElementIndex index) {
  auto type = cast<FloatType>(op.getType().getElementType());
  if (type.isF64())
    return emitRandomDouble(l, op, in, index);
  Value bits =
      emitRandomWord(l, in.getSeed(), in.getMicroStep(), op.getId(), index);
  int digits = type.getFPMantissaWidth();
  Value whole = arith::SIToFPOp::create(
      l.getBuilder(), Lanes::typeLike(l.getComputeType(), bits),
      Philox(l).shiftRight(bits, 32 - digits));
  return l.mul(whole, l.constant(std::ldexp(1.0, -digits)));
}

void codegen::addIndexedFormulas(ElementwiseTable &table) {
  table.addIndexed<OneHotOp>(emitOneHot);
  table.addIndexed<DropoutOp>(emitDropout);
  table.addIndexed<RandomUniformOp>(emitRandomUniform);
}
