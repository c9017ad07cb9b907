// Formulas of ops whose elements depend on their position: one_hot, dropout and
// random numbers.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Dialect/MPC/Target.h"
#include "passes/Codegen/Kernels/Elementwise/ElementwiseTable.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

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
  return l.select(l.compare(arith::CmpIPredicate::eq, label, index.value),
                  l.constant(1), l.constant(0));
}

namespace {
/// The random generator Philox-4x32-10 (Salmon et al., 2011). On a GPU, a word
/// is an i32. On a CPU, a word is the lower half of an i64, the type in which
/// vectors multiply words. The upper bits are cleared only when needed.
class Philox {
public:
  Philox(Lanes &lanes, bool isWide = true)
      : l(lanes), b(lanes.getBuilder()), isWide(isWide) {}

  /// Returns the low 32 bits of an i64.
  Value low(Value wide) {
    return arith::TruncIOp::create(b, Lanes::typeLike(b.getI32Type(), wide),
                                   wide);
  }
  /// Conversions. lowWord and highWord turn the low and high 32 bits of an i64
  /// into a word, and bitsOf turns a word into an i32.
  Value lowWord(Value wide) { return isWide ? wide : low(wide); }
  Value highWord(Value wide) { return lowWord(shiftRight(wide, 32)); }
  Value bitsOf(Value word) { return isWide ? low(word) : word; }

  Value shiftRight(Value value, int64_t bits) {
    Value amount = l.integer(getElementTypeOrSelf(value.getType()), bits);
    return arith::ShRUIOp::create(b, value, l.broadcast(amount, value));
  }

  /// Runs ten rounds, and replaces `counter` by the four outputs.
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
    return isWide ? l.integer(b.getI64Type(), value)
                  : l.integer(b.getI32Type(), static_cast<int32_t>(value));
  }

  std::pair<Value, Value> multiply(Value x, uint32_t factor) {
    Type wide = Lanes::typeLike(b.getI64Type(), x);
    Value product = l.mulInt(arith::ExtUIOp::create(b, wide, bitsOf(x)),
                             l.integer(b.getI64Type(), factor));
    return {highWord(product), lowWord(product)};
  }

  Lanes &l;
  ImplicitLocOpBuilder &b;
  const bool isWide;
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
/// The four 32-bit outputs of one run of Philox, one for each of four adjacent
/// elements (a group).
struct RandomWords {
  Value words[4];

  /// Selects the output with number `lane` (i64).
  Value pick(Lanes &l, Value lane) const {
    Value bits = words[3];
    for (int64_t i = 2; i >= 0; --i)
      bits = l.select(l.compare(arith::CmpIPredicate::eq, lane,
                                l.integer(l.getBuilder().getI64Type(), i)),
                      words[i], bits);
    return bits;
  }
};

/// The random numbers of one op. They depend on the seed, the micro-step and
/// the op's id.
struct RandomStream {
  Value seed, microStep;
  int64_t id;
  bool isWide; ///< see Philox

  RandomWords run(Lanes &l, Value group) const;
  Value draw(Lanes &l, ElementIndex index) const;

private:
  Value drawOne(Lanes &l, Value index) const;
  Value drawGroups(Lanes &l, Value index, bool isAligned) const;
};
} // namespace

// Runs Philox. The key is the two halves of the seed. The counter is the two
// halves of the group's number, the op's id, and the micro-step.
RandomWords RandomStream::run(Lanes &l, Value group) const {
  Philox philox(l, isWide);
  Value key = toI64(l, seed);
  RandomWords result = {
      {philox.lowWord(group), philox.highWord(group),
       philox.lowWord(l.integer(l.getBuilder().getI64Type(), id)),
       philox.lowWord(toI64(l, microStep))}};
  philox.run(result.words, philox.lowWord(key), philox.highWord(key));
  for (Value &word : result.words)
    word = philox.bitsOf(word);
  return result;
}

// Returns the position of `index` in a group of `size` elements, a power of
// two.
static Value placeInGroup(Lanes &l, Value index, int64_t size) {
  ImplicitLocOpBuilder &b = l.getBuilder();
  Value mask = l.integer(b.getI64Type(), size - 1);
  return arith::AndIOp::create(b, index, l.broadcast(mask, index));
}

// Draws random bits for elements one by one: element i takes output i % 4 of
// group i / 4.
Value RandomStream::drawOne(Lanes &l, Value index) const {
  return run(l, Philox(l).shiftRight(index, 2))
      .pick(l, placeInGroup(l, index, 4));
}

// Draws random bits for adjacent elements, with one run of the generator per
// group instead of one per element. If the first element may lie inside a
// group, runs twice as many groups and skips the outputs before it.
Value RandomStream::drawGroups(Lanes &l, Value index, bool isAligned) const {
  ImplicitLocOpBuilder &b = l.getBuilder();
  int64_t width = cast<VectorType>(index.getType()).getDimSize(0);
  int64_t groups = isAligned ? width / 4 : std::max<int64_t>(width / 2, 2);
  // Run the generator for all groups of 4 elements that the vector may touch.
  Value start = vector::ExtractOp::create(b, index, 0);
  auto type = VectorType::get(groups, b.getI64Type());
  auto numbers = llvm::to_vector(llvm::seq<int64_t>(0, groups));
  Value group = arith::AddIOp::create(
      b, vector::BroadcastOp::create(b, type, Philox(l).shiftRight(start, 2)),
      arith::ConstantOp::create(b, type, b.getI64VectorAttr(numbers)));
  RandomWords random = run(l, group);
  // Each output is a vector with a lane per group. With outputs a, b, c and d,
  // the elements need the order a0 b0 c0 d0 a1 b1 c1 d1. Interleave a with b
  // and c with d, then the pairs.
  SmallVector<int64_t> pairs, quadruples;
  for (int64_t number : numbers) {
    llvm::append_values(pairs, number, groups + number);
    for (int64_t pair : {2 * number, 2 * groups + 2 * number})
      llvm::append_values(quadruples, pair, pair + 1);
  }
  Value low =
      vector::ShuffleOp::create(b, random.words[0], random.words[1], pairs);
  Value high =
      vector::ShuffleOp::create(b, random.words[2], random.words[3], pairs);
  Value bits = vector::ShuffleOp::create(b, low, high, quadruples);
  if (isAligned)
    return bits;
  // The first element may be at position 0, 1, 2 or 3 of its group. Extract the
  // elements for each of these positions, and select the right vector.
  Value place = placeInGroup(l, start, 4), found;
  for (int64_t first = 0; first < 4; ++first) {
    auto lanes = llvm::to_vector(llvm::seq(first, first + width));
    Value shifted = vector::ShuffleOp::create(b, bits, bits, lanes);
    Value isFirst = l.compare(arith::CmpIPredicate::eq, place,
                              l.integer(start.getType(), first));
    found =
        found ? arith::SelectOp::create(b, isFirst, shifted, found) : shifted;
  }
  return found;
}

// Draws 32 random bits for each element.
Value RandomStream::draw(Lanes &l, ElementIndex index) const {
  bool isAligned = index.multiple % 4 == 0;
  return index.multiple > 0 ? drawGroups(l, index.value, isAligned)
                            : drawOne(l, index.value);
}

static Value emitDropout(Lanes &l, DropoutOp op, DropoutOp::Adaptor in,
                         ElementIndex index) {
  ImplicitLocOpBuilder &b = l.getBuilder();
  if (in.getGroup()) {
    Value four = l.integer(b.getI64Type(), 4);
    index.value =
        l.addInt(index.value, l.mulInt(toI64(l, in.getGroup()), four));
  }
  RandomStream stream = {in.getSeed(), in.getMicroStep(),
                         static_cast<int64_t>(op.getId()),
                         !getTarget(op).isGPU()};
  Value bits = stream.draw(l, index);

  // Keep an element if its upper 24 random bits, as a fraction, are at least
  // `ratio`. A comparison of integers is exact.
  double ratio = op.getRatio().convertToDouble();
  auto threshold = static_cast<int64_t>(std::ceil(std::ldexp(ratio, 24)));
  Value keep =
      l.compare(arith::CmpIPredicate::uge, Philox(l).shiftRight(bits, 8),
                l.integer(b.getI32Type(), threshold));
  Value scaled = l.div(in.getInput(), l.constant(1 - ratio));
  return l.select(keep, scaled, l.constant(0));
}

// Returns a random double below 1, made of the upper 53 bits of two 32-bit
// outputs.
static Value emitRandomDouble(Lanes &l, const RandomStream &stream,
                              Value index) {
  ImplicitLocOpBuilder &b = l.getBuilder();
  Philox philox(l);
  // Each group of Philox gives four 32-bit words: two doubles, from words 0 and
  // 1, and from words 2 and 3.
  Value one = l.integer(b.getI64Type(), 1);
  RandomWords random = stream.run(l, philox.shiftRight(index, 1));
  Value place = placeInGroup(l, index, 2);
  Value lower = l.addInt(place, place);
  // Double p of a group (0 or 1) takes words 2 p and 2 p + 1; the second word
  // is the upper half.
  auto widen = [&](Value lane) -> Value {
    Type wide = Lanes::typeLike(b.getI64Type(), index);
    return arith::ExtUIOp::create(b, wide, random.pick(l, lane));
  };
  Value high = widen(l.addInt(lower, l.broadcast(one, lower)));
  Value shift = l.broadcast(l.integer(b.getI64Type(), 32), high);
  Value word = arith::OrIOp::create(b, arith::ShLIOp::create(b, high, shift),
                                    widen(lower));
  // 53 bits are exact in f64, so the result is k / 2^53 for an integer k.
  Value whole = arith::SIToFPOp::create(
      b, Lanes::typeLike(b.getF64Type(), word), philox.shiftRight(word, 11));
  return l.mul(whole, l.constant(0x1p-53));
}

// Emits random numbers of [0, 1). Draws as many bits as the result type has
// digits, so that conversions never round a number up to 1.
static Value emitRandomUniform(Lanes &l, RandomUniformOp op,
                               RandomUniformOp::Adaptor in,
                               ElementIndex index) {
  RandomStream stream = {in.getSeed(), in.getMicroStep(),
                         static_cast<int64_t>(op.getId()),
                         !getTarget(op).isGPU()};
  auto type = cast<FloatType>(op.getType().getElementType());
  if (type.isF64())
    return emitRandomDouble(l, stream, index.value);
  Value bits = stream.draw(l, index);
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
