// Logic, shifts, bit fields and bytes.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/ptx/Lanewise.h"

#include <algorithm>

using namespace mpc::emulator::ptx;

namespace {

MPC_WRAPPING(And, (a & b))
MPC_WRAPPING(Or, a | b)
MPC_WRAPPING(Xor, a ^ b)

struct Not {
  template <class T>
  static T apply(T a) {
    return static_cast<T>(~a);
  }
};

//===----------------------------------------------------------------------===//
// Logic and shifts
//===----------------------------------------------------------------------===//

template <class Op>
void logicOfPredicates(Warp &warp, const Inst &i, uint32_t lanes) {
  uint32_t a = warp.predicate(i.slots[1]), b = warp.predicate(i.slots[2]);
  uint32_t &d = warp.predicate(i.slots[0]);
  d = (d & ~lanes) | (Op::apply(a, b) & lanes);
}

template <class Op>
void decodeLogic(Decoder &d) {
  Type type = d.takeType();
  if (type.kind == Type::Pred) {
    d.operands(3);
    d.inst->slots[0] = d.predicateDestination(d.operand(0));
    d.inst->slots[1] = d.predicateSource(d.operand(1));
    d.inst->slots[2] = d.predicateSource(d.operand(2));
    d.inst->run = &logicOfPredicates<Op>;
    return;
  }
  if (type.kind != Type::Bits)
    d.fail("expected a type of bits");
  d.plain(type.bytes(), 2);
  d.inst->run = selectInteger<Binary<Op>>(d, type);
}

void decodeNot(Decoder &d) {
  Type type = d.takeType();
  if (type.kind == Type::Pred) {
    d.operands(2);
    d.inst->slots[0] = d.predicateDestination(d.operand(0));
    d.inst->slots[1] = d.predicateSource(d.operand(1));
    d.inst->run = [](Warp &warp, const Inst &i, uint32_t lanes) {
      uint32_t a = warp.predicate(i.slots[1]);
      uint32_t &result = warp.predicate(i.slots[0]);
      result = (result & ~lanes) | (~a & lanes);
    };
    return;
  }
  d.plain(type.bytes(), 1);
  d.inst->run = selectInteger<Unary<Not>>(d, type);
}

struct ShiftLeft {
  template <class T>
  static T apply(T a, uint32_t n) {
    return n >= 8 * sizeof(T) ? T(0) : static_cast<T>(Wrapping<T>(a) << n);
  }
};

/// Amounts of at least the width shift everything out.
struct ShiftRight {
  template <class T>
  static T apply(T a, uint32_t n) {
    constexpr uint32_t width = 8 * sizeof(T);
    if (n >= width)
      return std::is_signed_v<T> && a < 0 ? static_cast<T>(-1) : T(0);
    return static_cast<T>(a >> n);
  }
};

template <class Op, class T>
void shift(Warp &warp, const Inst &i, uint32_t lanes) {
  T *d = warp.lanes<T>(i.slots[0]);
  const T *a = warp.lanes<T>(i.slots[1]);
  const uint32_t *n = warp.lanes<uint32_t>(i.slots[2]);
  forLanes(lanes, [=](unsigned l) { d[l] = Op::apply(a[l], n[l]); });
}

template <class Op>
struct Shift {
  template <class T>
  static constexpr Handler handler = &shift<Op, T>;
};

template <class Op>
void decodeShift(Decoder &d) {
  Type type = d.takeType();
  d.operands(3);
  d.inst->slots[0] = d.destination(d.operand(0), type.bytes());
  d.inst->slots[1] = d.source(d.operand(1), type.bytes());
  d.inst->slots[2] = d.source(d.operand(2), 4);
  d.inst->run = selectInteger<Shift<Op>>(d, type);
}

/// shf: the upper (left) or lower (right) half of the shifted pair c:b.
struct Funnel {
  template <bool Left>
  static uint32_t apply(uint32_t low, uint32_t high, uint32_t n) {
    uint64_t pair = uint64_t(high) << 32 | low;
    return static_cast<uint32_t>(Left ? (pair << n) >> 32 : pair >> n);
  }
};

template <bool Left, bool Wrap>
struct FunnelShift {
  static uint32_t apply(uint32_t low, uint32_t high, uint32_t n) {
    return Funnel::apply<Left>(low, high, Wrap ? n & 31 : (n > 32 ? 32 : n));
  }
};

void decodeFunnel(Decoder &d) {
  bool left = d.take("l");
  if (!left)
    d.expect("r");
  bool wrap = d.take("wrap");
  if (!wrap)
    d.expect("clamp");
  d.expect("b32");
  d.plain(4, 3);
  d.inst->run = left ? (wrap ? &ternary<FunnelShift<true, true>, uint32_t>
                             : &ternary<FunnelShift<true, false>, uint32_t>)
                     : (wrap ? &ternary<FunnelShift<false, true>, uint32_t>
                             : &ternary<FunnelShift<false, false>, uint32_t>);
}

//===----------------------------------------------------------------------===//
// Bits
//===----------------------------------------------------------------------===//

struct ReverseBits {
  template <class T>
  static T apply(T a) {
    T reversed = 0;
    for (unsigned i = 0; i < 8 * sizeof(T); ++i)
      reversed |= (a >> i & 1) << (8 * sizeof(T) - 1 - i);
    return reversed;
  }
};

template <class T>
struct CountLeading {
  static uint32_t apply(T a) {
    constexpr unsigned width = 8 * sizeof(T);
    return a == 0 ? width
                  : static_cast<uint32_t>(__builtin_clzll(a)) - (64 - width);
  }
};
template <class T>
struct CountOnes {
  static uint32_t apply(T a) {
    return static_cast<uint32_t>(__builtin_popcountll(a));
  }
};

template <template <class> class Op, class T>
void count(Warp &warp, const Inst &i, uint32_t lanes) {
  uint32_t *d = warp.lanes<uint32_t>(i.slots[0]);
  const T *a = warp.lanes<T>(i.slots[1]);
  forLanes(lanes, [=](unsigned l) { d[l] = Op<T>::apply(a[l]); });
}

template <template <class> class Op>
void decodeCount(Decoder &d) {
  Type type = d.takeType();
  d.operands(2);
  d.inst->slots[0] = d.destination(d.operand(0), 4);
  d.inst->slots[1] = d.source(d.operand(1), type.bytes());
  if (type.is(Type::Bits, 32))
    d.inst->run = &count<Op, uint32_t>;
  else if (type.is(Type::Bits, 64))
    d.inst->run = &count<Op, uint64_t>;
  else
    d.fail("no such type");
}

template <class T>
void extractField(Warp &warp, const Inst &i, uint32_t lanes) {
  T *d = warp.lanes<T>(i.slots[0]);
  const T *a = warp.lanes<T>(i.slots[1]);
  const uint32_t *at = warp.lanes<uint32_t>(i.slots[2]);
  const uint32_t *length = warp.lanes<uint32_t>(i.slots[3]);
  constexpr uint32_t width = 8 * sizeof(T);
  forLanes(lanes, [=](unsigned l) {
    uint32_t begin = at[l] & 0xff, bits = length[l] & 0xff;
    // Bits beyond the word copy its sign, or the field's last bit.
    uint32_t last = std::min(begin + bits - 1, width - 1);
    bool sign = std::is_signed_v<T> && bits && (a[l] >> last & 1);
    T field =
        ShiftRight::apply(static_cast<std::make_unsigned_t<T>>(a[l]), begin);
    T mask = bits >= width
                 ? T(-1)
                 : static_cast<T>((std::make_unsigned_t<T>(1) << bits) - 1);
    field &= mask;
    uint32_t have = begin >= width ? 0 : std::min(bits, width - begin);
    if (sign && have < width)
      field |= ShiftLeft::apply(T(-1), have);
    d[l] = field;
  });
}

template <class T>
void insertField(Warp &warp, const Inst &i, uint32_t lanes) {
  T *d = warp.lanes<T>(i.slots[0]);
  const T *a = warp.lanes<T>(i.slots[1]), *b = warp.lanes<T>(i.slots[2]);
  const uint32_t *at = warp.lanes<uint32_t>(i.slots[3]);
  const uint32_t *length = warp.lanes<uint32_t>(i.slots[4]);
  forLanes(lanes, [=](unsigned l) {
    T ones = ShiftLeft::apply(T(-1), length[l] & 0xff);
    T mask = ShiftLeft::apply(static_cast<T>(~ones), at[l] & 0xff);
    d[l] = (b[l] & ~mask) | (ShiftLeft::apply(a[l], at[l] & 0xff) & mask);
  });
}

void decodeExtractField(Decoder &d) {
  Type type = d.takeType();
  d.operands(4);
  d.inst->slots[0] = d.destination(d.operand(0), type.bytes());
  d.inst->slots[1] = d.source(d.operand(1), type.bytes());
  d.inst->slots[2] = d.source(d.operand(2), 4);
  d.inst->slots[3] = d.source(d.operand(3), 4);
  d.inst->run = type.is(Type::Signed, 32)     ? &extractField<int32_t>
                : type.is(Type::Unsigned, 32) ? &extractField<uint32_t>
                : type.is(Type::Signed, 64)   ? &extractField<int64_t>
                                              : &extractField<uint64_t>;
  if (!type.isInteger() || type.bits < 32)
    d.fail("no such type");
}

void decodeInsertField(Decoder &d) {
  Type type = d.takeType();
  d.operands(5);
  d.inst->slots[0] = d.destination(d.operand(0), type.bytes());
  d.inst->slots[1] = d.source(d.operand(1), type.bytes());
  d.inst->slots[2] = d.source(d.operand(2), type.bytes());
  d.inst->slots[3] = d.source(d.operand(3), 4);
  d.inst->slots[4] = d.source(d.operand(4), 4);
  if (type.is(Type::Bits, 32))
    d.inst->run = &insertField<uint32_t>;
  else if (type.is(Type::Bits, 64))
    d.inst->run = &insertField<uint64_t>;
  else
    d.fail("no such type");
}

void decodeReverse(Decoder &d) {
  Type type = d.takeType();
  d.plain(type.bytes(), 1);
  if (type.is(Type::Bits, 32))
    d.inst->run = &unary<ReverseBits, uint32_t>;
  else if (type.is(Type::Bits, 64))
    d.inst->run = &unary<ReverseBits, uint64_t>;
  else
    d.fail("no such type");
}

//===----------------------------------------------------------------------===//
// Bytes and three-input logic
//===----------------------------------------------------------------------===//

/// prmt: each byte of the result is one of the eight of b:a, or its sign.
struct Permute {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t selector) {
    uint64_t pair = uint64_t(b) << 32 | a;
    uint32_t result = 0;
    for (unsigned i = 0; i < 4; ++i) {
      uint32_t pick = selector >> (4 * i) & 0xf;
      uint32_t byte = pair >> (8 * (pick & 7)) & 0xff;
      if (pick & 8)
        byte = byte & 0x80 ? 0xff : 0;
      result |= byte << (8 * i);
    }
    return result;
  }
};

void lookUp(Warp &warp, const Inst &i, uint32_t lanes) {
  uint32_t *d = warp.lanes<uint32_t>(i.slots[0]);
  const uint32_t *a = warp.lanes<uint32_t>(i.slots[1]);
  const uint32_t *b = warp.lanes<uint32_t>(i.slots[2]);
  const uint32_t *c = warp.lanes<uint32_t>(i.slots[3]);
  uint32_t table = i.mode;
  forLanes(lanes, [=](unsigned l) {
    uint32_t result = 0;
    for (unsigned bits = 0; bits < 8; ++bits)
      if (table >> bits & 1)
        result |= (bits & 4 ? a[l] : ~a[l]) & (bits & 2 ? b[l] : ~b[l]) &
                  (bits & 1 ? c[l] : ~c[l]);
    d[l] = result;
  });
}

void decodeLookUp(Decoder &d) {
  d.expect("b32");
  d.operands(5);
  d.inst->slots[0] = d.destination(d.operand(0), 4);
  for (size_t i = 1; i <= 3; ++i)
    d.inst->slots[i] = d.source(d.operand(i), 4);
  d.inst->mode = static_cast<uint16_t>(d.immediate(d.operand(4)) & 0xff);
  d.inst->run = &lookUp;
}

} // namespace

void mpc::emulator::ptx::addBitInstructions(DecodeTable &table) {
  table["and"] = decodeLogic<And>;
  table["or"] = decodeLogic<Or>;
  table["xor"] = decodeLogic<Xor>;
  table["not"] = decodeNot;
  table["shl"] = decodeShift<ShiftLeft>;
  table["shr"] = decodeShift<ShiftRight>;
  table["shf"] = decodeFunnel;
  table["clz"] = decodeCount<CountLeading>;
  table["popc"] = decodeCount<CountOnes>;
  table["bfe"] = decodeExtractField;
  table["bfi"] = decodeInsertField;
  table["brev"] = decodeReverse;
  table["lop3"] = decodeLookUp;
  table["prmt"] = [](Decoder &d) {
    d.expect("b32");
    d.plain(4, 3);
    d.inst->run = &ternary<Permute, uint32_t>;
  };
}
