// Operations between the lanes of a warp, and barriers.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/ptx/Decoder.h"
#include "test/emulator/ptx/Lanewise.h"

using namespace mpc::emulator::ptx;

namespace {

//===----------------------------------------------------------------------===//
// Shuffles
//===----------------------------------------------------------------------===//

enum ShuffleMode : uint16_t { Up, Down, Butterfly, Index };

/// Follows the PTX definition: slot 0 = the value of the lane that `b` and the
/// segments of `c` select. Slot 5 (if there is one) says if that lane exists.
void shuffle(Warp &warp, const Inst &i, uint32_t lanes) {
  uint32_t *d = warp.lanes<uint32_t>(i.slots[0]);
  const uint32_t *a = warp.lanes<uint32_t>(i.slots[1]);
  const uint32_t *b = warp.lanes<uint32_t>(i.slots[2]);
  const uint32_t *c = warp.lanes<uint32_t>(i.slots[3]);
  uint32_t values[kLanes], exists = 0;
  std::copy(a, a + kLanes, values);
  forLanes(lanes, [&](unsigned lane) {
    uint32_t value = b[lane] & 31, clamp = c[lane] & 31;
    uint32_t segment = c[lane] >> 8 & 31;
    uint32_t last = (lane & segment) | (clamp & ~segment);
    uint32_t first = lane & segment;
    int64_t from = lane;
    bool valid = false;
    switch (static_cast<ShuffleMode>(i.mode)) {
    case Up:
      from = int64_t(lane) - value;
      valid = from >= int64_t(last);
      break;
    case Down:
      from = lane + value;
      valid = from <= int64_t(last);
      break;
    case Butterfly:
      from = lane ^ value;
      valid = from <= int64_t(last);
      break;
    case Index:
      from = first | (value & ~segment);
      valid = from <= int64_t(last);
      break;
    }
    if (!valid)
      from = lane;
    if (!(lanes >> from & 1))
      throw KernelFault{KernelFault::LaunchFailed,
                        "shfl reads lane " + std::to_string(from) +
                            ", which does not take part",
                        lane};
    d[lane] = values[from];
    exists |= uint32_t(valid) << lane;
  });
  if (i.count == 2) {
    uint32_t &p = warp.predicate(i.slots[5]);
    p = (p & ~lanes) | exists;
  }
}

void decodeShuffle(Decoder &d) {
  d.expect("sync");
  d.inst->mode = d.take("up")     ? Up
                 : d.take("down") ? Down
                 : d.take("bfly") ? Butterfly
                                  : Index;
  if (d.inst->mode == Index)
    d.expect("idx");
  d.expect("b32");
  d.operands(5);
  d.inst->slots[0] = d.destination(d.operand(0), 4);
  if (!d.operand(0).predicate.empty()) {
    d.inst->count = 2;
    d.inst->slots[5] = d.predicate(d.operand(0).predicate);
  }
  for (size_t i = 1; i <= 3; ++i)
    d.inst->slots[i] = d.source(d.operand(i), 4);
  d.inst->members = d.source(d.operand(4), 4);
  d.inst->flow = Flow::Converge;
  d.inst->run = &shuffle;
}

//===----------------------------------------------------------------------===//
// Votes
//===----------------------------------------------------------------------===//

enum VoteMode : uint16_t { All, Any, Uniform, Ballot };

void vote(Warp &warp, const Inst &i, uint32_t lanes) {
  uint32_t value = warp.predicate(i.slots[1]);
  if (i.count == 2) // the operand is negated
    value = ~value;
  value &= lanes;
  if (i.mode == Ballot) {
    uint32_t *d = warp.lanes<uint32_t>(i.slots[0]);
    forLanes(lanes, [=](unsigned l) { d[l] = value; });
    return;
  }
  bool result = i.mode == All   ? value == lanes
                : i.mode == Any ? value != 0
                                : value == 0 || value == lanes;
  uint32_t &d = warp.predicate(i.slots[0]);
  d = (d & ~lanes) | (result ? lanes : 0);
}

void decodeVote(Decoder &d) {
  d.expect("sync");
  d.inst->mode = d.take("all")   ? All
                 : d.take("any") ? Any
                 : d.take("uni") ? Uniform
                                 : Ballot;
  if (d.inst->mode == Ballot)
    d.expect("ballot");
  d.expect(d.inst->mode == Ballot ? "b32" : "pred");
  d.operands(3);
  d.inst->slots[0] = d.inst->mode == Ballot
                         ? d.destination(d.operand(0), 4)
                         : d.predicateDestination(d.operand(0));
  d.inst->slots[1] = d.predicate(d.operand(1).name);
  d.inst->count = d.operand(1).negated ? 2 : 1;
  d.inst->members = d.source(d.operand(2), 4);
  d.inst->flow = Flow::Converge;
  d.inst->run = &vote;
}

/// The sum, minimum, maximum or logic of the members' integers.
template <class T>
void reduce(Warp &warp, const Inst &i, uint32_t lanes) {
  T *d = warp.lanes<T>(i.slots[0]);
  const T *a = warp.lanes<T>(i.slots[1]);
  T result = a[__builtin_ctz(lanes)];
  forLanes(lanes & (lanes - 1), [&](unsigned l) {
    switch (i.mode) {
    case 0:
      result = static_cast<T>(uint32_t(result) + uint32_t(a[l]));
      break;
    case 1:
      result = std::min(result, a[l]);
      break;
    case 2:
      result = std::max(result, a[l]);
      break;
    case 3:
      result &= a[l];
      break;
    case 4:
      result |= a[l];
      break;
    default:
      result ^= a[l];
    }
  });
  forLanes(lanes, [=](unsigned l) { d[l] = result; });
}

void decodeReduce(Decoder &d) {
  d.expect("sync");
  uint16_t mode = 0;
  for (const char *name : {"add", "min", "max", "and", "or", "xor"}) {
    if (d.take(name))
      break;
    ++mode;
  }
  Type type = d.takeType();
  if (mode == 6 || type.bits != 32 || type.isFloat())
    d.fail("no such reduction");
  d.operands(3);
  d.inst->mode = mode;
  d.inst->slots[0] = d.destination(d.operand(0), 4);
  d.inst->slots[1] = d.source(d.operand(1), 4);
  d.inst->members = d.source(d.operand(2), 4);
  d.inst->flow = Flow::Converge;
  d.inst->run =
      type.kind == Type::Signed ? &reduce<int32_t> : &reduce<uint32_t>;
}

//===----------------------------------------------------------------------===//
// Barriers
//===----------------------------------------------------------------------===//

/// Supports only barriers of the whole block: the choice among the sixteen then
/// makes no difference.
void decodeBarrier(Decoder &d) {
  d.take("cta");
  if (d.take("warp")) {
    d.expect("sync");
    d.operands(1);
    d.inst->members = d.source(d.operand(0), 4);
    d.inst->flow = Flow::Converge;
    d.inst->run = [](Warp &warp, const Inst &, uint32_t) { ++warp.syncs; };
    return;
  }
  d.expect("sync");
  d.take("aligned");
  d.take("all");
  d.operands(1);
  if (d.immediate(d.operand(0)) > 15)
    d.fail("a block has 16 barriers");
  d.inst->flow = Flow::Barrier;
}

} // namespace

void mpc::emulator::ptx::addWarpInstructions(DecodeTable &table) {
  table["shfl"] = decodeShuffle;
  table["vote"] = decodeVote;
  table["redux"] = decodeReduce;
  table["bar"] = table["barrier"] = decodeBarrier;
  table["activemask"] = [](Decoder &d) {
    d.expect("b32");
    d.operands(1);
    d.inst->slots[0] = d.destination(d.operand(0), 4);
    d.inst->run = [](Warp &warp, const Inst &i, uint32_t lanes) {
      uint32_t *result = warp.lanes<uint32_t>(i.slots[0]);
      forLanes(lanes, [=](unsigned l) { result[l] = lanes; });
    };
  };
}
