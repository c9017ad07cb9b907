// Formulas of the ops that depend on where they are: one_hot and dropout.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"
#include "passes/Codegen/Kernels/ElementwiseTable.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <array>
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

// The four outputs of the generator for the group of elements that `index` is
// in: 4 * group to 4 * group + 3. Key: the two halves of the seed. Counter: the
// two halves of the group, the id, the micro-step.
static std::array<Value, 4> drawGroup(Lanes &l, DropoutOp op,
                                      DropoutOp::Adaptor in, Value index) {
  Philox philox(l);
  Value seed = toI64(l, in.getSeed());
  Value group = philox.shiftRight(index, 2);
  std::array<Value, 4> words = {
      philox.low(group), philox.high(group),
      philox.low(l.integer(l.getBuilder().getI64Type(), op.getId())),
      philox.low(toI64(l, in.getMicroStep()))};
  philox.run(words, philox.low(seed), philox.high(seed));
  return words;
}

// The random bits of an element: output i % 4 of its group.
static Value drawOne(Lanes &l, DropoutOp op, DropoutOp::Adaptor in,
                     Value index) {
  ImplicitLocOpBuilder &b = l.getBuilder();
  std::array<Value, 4> words = drawGroup(l, op, in, index);
  Value three = l.integer(b.getI64Type(), 3);
  Value lane = arith::AndIOp::create(b, index, l.broadcast(three, index));
  Value bits = words[3];
  for (int64_t i = 2; i >= 0; --i)
    bits = l.select(
        l.compare(arith::CmpIPredicate::eq, lane, l.integer(b.getI64Type(), i)),
        words[i], bits);
  return bits;
}

// The random bits of adjacent elements, from one run of the generator for each
// group instead of one for each element. Where the first element need not be
// the first of its group, the runs are of twice as many groups, and what is in
// front of it is left out.
static Value drawGroups(Lanes &l, DropoutOp op, DropoutOp::Adaptor in,
                        Value index, bool isAligned) {
  ImplicitLocOpBuilder &b = l.getBuilder();
  int64_t width = cast<VectorType>(index.getType()).getDimSize(0);
  int64_t groups = isAligned ? width / 4 : std::max<int64_t>(width / 2, 2);
  // An element of each group.
  Value start = vector::ExtractOp::create(b, index, 0);
  auto type = VectorType::get(groups, b.getI64Type());
  SmallVector<int64_t> steps;
  for (int64_t group = 0; group < groups; ++group)
    steps.push_back(4 * group);
  Value starts = arith::AddIOp::create(
      b, vector::BroadcastOp::create(b, type, start),
      arith::ConstantOp::create(b, type, b.getI64VectorAttr(steps)));
  std::array<Value, 4> words = drawGroup(l, op, in, starts);
  // From a0 a1, b0 b1 to a0 b0 a1 b1; and pairs of pairs alike.
  SmallVector<int64_t> pairs, quadruples;
  for (int64_t group = 0; group < groups; ++group) {
    llvm::append_values(pairs, group, groups + group);
    for (int64_t pair : {2 * group, 2 * groups + 2 * group})
      llvm::append_values(quadruples, pair, pair + 1);
  }
  Value low = vector::ShuffleOp::create(b, words[0], words[1], pairs);
  Value high = vector::ShuffleOp::create(b, words[2], words[3], pairs);
  Value bits = vector::ShuffleOp::create(b, low, high, quadruples);
  if (isAligned)
    return bits;
  Value place = arith::AndIOp::create(b, start, l.integer(start.getType(), 3));
  Value found;
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

static Value emitDropout(Lanes &l, DropoutOp op, DropoutOp::Adaptor in,
                         ElementIndex at) {
  ImplicitLocOpBuilder &b = l.getBuilder();
  Value index = at.value;
  if (in.getGroup()) {
    Value four = l.integer(b.getI64Type(), 4);
    index = l.addInt(index, l.mulInt(toI64(l, in.getGroup()), four));
  }
  bool isGrouped = at.multiple > 0;
  Value bits = isGrouped ? drawGroups(l, op, in, index,
                                      /*isAligned=*/at.multiple % 4 == 0)
                         : drawOne(l, op, in, index);

  // "The upper 24 bits as a fraction are not below ratio", in integers.
  double ratio = op.getRatio().convertToDouble();
  auto threshold = static_cast<int64_t>(std::ceil(std::ldexp(ratio, 24)));
  Value keep =
      l.compare(arith::CmpIPredicate::uge, Philox(l).shiftRight(bits, 8),
                l.integer(b.getI32Type(), threshold));
  Value scaled = l.div(in.getInput(), l.constant(1 - ratio));
  return l.select(keep, scaled, l.constant(0));
}

void codegen::addIndexedFormulas(ElementwiseTable &table) {
  table.addIndexed<OneHotOp>(emitOneHot);
  table.addIndexed<DropoutOp>(emitDropout);
}
