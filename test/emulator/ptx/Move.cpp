// Moves, packing, address conversion, comparison and selection.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/ptx/Decoder.h"
#include "test/emulator/ptx/Lanewise.h"

#include <cmath>
#include <cstring>

using namespace mpc::emulator::ptx;

namespace {

struct Copy {
  template <class T>
  static T apply(T a) {
    return a;
  }
};

void copyPredicate(Warp &warp, const Inst &i, uint32_t lanes) {
  uint32_t &d = warp.predicate(i.slots[0]);
  d = (d & ~lanes) | (warp.predicate(i.slots[1]) & lanes);
}

/// A vector's elements are the parts of one register, the first lowest.
template <bool Packs>
void repack(Warp &warp, const Inst &i, uint32_t lanes) {
  unsigned part = i.elementBytes, whole = part * i.count;
  uint8_t *one = warp.file + i.slots[0];
  for (unsigned e = 0; e < i.count; ++e) {
    uint8_t *element = warp.file + i.slots[1 + e];
    forLanes(lanes, [=](unsigned l) {
      uint8_t *a = one + l * whole + e * part, *b = element + l * part;
      std::memcpy(Packs ? a : b, Packs ? b : a, part);
    });
  }
}

/// A register that is both whole and part would be overwritten while it is
/// read. Their sizes differ, so this cannot happen.
void decodeRepack(Decoder &d, Type type, bool packs) {
  const Operand &vector = d.operand(packs ? 1 : 0);
  const Operand &whole = d.operand(packs ? 0 : 1);
  size_t count = vector.elements.size();
  if (count != 2 && count != 4)
    d.fail("expected a vector of 2 or 4");
  unsigned part = type.bytes() / static_cast<unsigned>(count);
  d.inst->count = static_cast<uint8_t>(count);
  d.inst->elementBytes = static_cast<uint8_t>(part);
  d.inst->slots[0] = packs ? d.destination(whole, type.bytes())
                           : d.source(whole, type.bytes());
  for (size_t e = 0; e < count; ++e)
    d.inst->slots[1 + e] = packs ? d.source(vector.elements[e], part)
                                 : d.destination(vector.elements[e], part);
  d.inst->run = packs ? &repack<true> : &repack<false>;
}

Handler selectCopy(Decoder &d, unsigned bytes) {
  switch (bytes) {
  case 2:
    return &unary<Copy, uint16_t>;
  case 4:
    return &unary<Copy, uint32_t>;
  case 8:
    return &unary<Copy, uint64_t>;
  default:
    d.fail("no such type");
  }
}

void decodeMove(Decoder &d) {
  Type type = d.takeType();
  d.operands(2);
  if (type.kind == Type::Pred) {
    d.inst->slots[0] = d.predicateDestination(d.operand(0));
    d.inst->slots[1] = d.predicateSource(d.operand(1));
    d.inst->run = &copyPredicate;
  } else if (d.operand(0).kind == Operand::Vector) {
    decodeRepack(d, type, false);
  } else if (d.operand(1).kind == Operand::Vector) {
    decodeRepack(d, type, true);
  } else {
    d.plain(type.bytes(), 1);
    d.inst->run = selectCopy(d, type.bytes());
  }
}

//===----------------------------------------------------------------------===//
// Addresses
//===----------------------------------------------------------------------===//

/// Adds the window of a space in generic addresses.
template <class From>
void addWindow(Warp &warp, const Inst &i, uint32_t lanes) {
  uint64_t *d = warp.lanes<uint64_t>(i.slots[0]);
  const From *a = warp.lanes<From>(i.slots[1]);
  auto window = static_cast<uint64_t>(i.offset);
  forLanes(lanes, [=](unsigned l) { d[l] = a[l] + window; });
}

template <class To>
void dropWindow(Warp &warp, const Inst &i, uint32_t lanes) {
  To *d = warp.lanes<To>(i.slots[0]);
  const uint64_t *a = warp.lanes<uint64_t>(i.slots[1]);
  auto window = static_cast<uint64_t>(i.offset);
  forLanes(lanes, [=](unsigned l) {
    if ((a[l] & kWindowMask) != window)
      throw KernelFault{KernelFault::IllegalAddress,
                        "cvta: the address is not of that space", l};
    d[l] = static_cast<To>(a[l] - window);
  });
}

void decodeConvertAddress(Decoder &d) {
  bool to = d.take("to");
  bool shared = d.take("shared"), local = !shared && d.take("local");
  d.take("cta");
  if (!shared && !local && !d.take("global") && !d.take("const") &&
      !d.take("param"))
    d.fail("unknown space");
  Type type = d.takeType();
  d.operands(2);
  bool narrow = type.bits == 32;
  if (narrow && !shared && !local)
    d.fail("addresses have 64 bits");
  d.inst->offset = static_cast<int64_t>(shared  ? kSharedWindow
                                        : local ? kLocalWindow
                                                : 0);
  d.inst->slots[0] = d.destination(d.operand(0), to ? type.bytes() : 8);
  d.inst->slots[1] = d.source(d.operand(1), to ? 8 : type.bytes());
  if (to)
    d.inst->run = narrow ? &dropWindow<uint32_t> : &dropWindow<uint64_t>;
  else
    d.inst->run = narrow ? &addWindow<uint32_t> : &addWindow<uint64_t>;
}

//===----------------------------------------------------------------------===//
// Comparison
//===----------------------------------------------------------------------===//

// The comparisons of all types. Ordered float comparisons are false with a NaN,
// unordered ones (..u) true.
struct EQ {
  template <class T>
  static bool apply(T a, T b) {
    return a == b;
  }
};
struct NE {
  template <class T>
  static bool apply(T a, T b) {
    return a < b || a > b;
  }
};
struct LT {
  template <class T>
  static bool apply(T a, T b) {
    return a < b;
  }
};
struct LE {
  template <class T>
  static bool apply(T a, T b) {
    return a <= b;
  }
};
struct GT {
  template <class T>
  static bool apply(T a, T b) {
    return a > b;
  }
};
struct GE {
  template <class T>
  static bool apply(T a, T b) {
    return a >= b;
  }
};
struct EQU {
  template <class T>
  static bool apply(T a, T b) {
    return !NE::apply(a, b);
  }
};
struct NEU {
  template <class T>
  static bool apply(T a, T b) {
    return !(a == b);
  }
};
struct LTU {
  template <class T>
  static bool apply(T a, T b) {
    return !(a >= b);
  }
};
struct LEU {
  template <class T>
  static bool apply(T a, T b) {
    return !(a > b);
  }
};
struct GTU {
  template <class T>
  static bool apply(T a, T b) {
    return !(a <= b);
  }
};
struct GEU {
  template <class T>
  static bool apply(T a, T b) {
    return !(a < b);
  }
};
struct NUM {
  template <class T>
  static bool apply(T a, T b) {
    return !(a != a) && !(b != b);
  }
};
struct NAN_ {
  template <class T>
  static bool apply(T a, T b) {
    return a != a || b != b;
  }
};

template <class T>
T valueOf(T raw) {
  return raw;
}
inline float valueOf(F16 raw) { return raw.value(); }
inline float valueOf(BF16 raw) { return raw.value(); }

/// setp: slot 0 holds the result of a register's first half, slot 3 (if
/// requested) that of the second half, or else the opposite. `mode` combines
/// the result with the predicate of slot 4 (1 and, 2 or, 3 xor; 4: negated).
template <class Op, class T, unsigned Halves = 1>
void compare(Warp &warp, const Inst &i, uint32_t lanes) {
  const T *a = warp.lanes<T>(i.slots[1]);
  const T *b = warp.lanes<T>(i.slots[2]);
  auto compareHalf = [=](unsigned half) {
    uint32_t result = 0;
    forLanes(lanes, [&](unsigned l) {
      unsigned e = l * Halves + half;
      result |= uint32_t(Op::apply(valueOf(a[e]), valueOf(b[e]))) << l;
    });
    return result;
  };
  uint32_t result = compareHalf(0);
  uint32_t other = Halves == 2 ? compareHalf(1) : ~result;
  if (i.mode) {
    uint32_t with = warp.predicate(i.slots[4]);
    with = i.mode & 4 ? ~with : with;
    auto combine = [&](uint32_t value) {
      unsigned how = i.mode & 3;
      return how == 1 ? value & with : how == 2 ? value | with : value ^ with;
    };
    result = combine(result);
    other = combine(other);
  }
  auto set = [&](uint32_t slot, uint32_t value) {
    uint32_t &d = warp.predicate(slot);
    d = (d & ~lanes) | (value & lanes);
  };
  set(i.slots[0], result);
  if (i.count == 2)
    set(i.slots[3], other);
}

template <class Op>
Handler selectCompare(Decoder &d, Type type) {
  bool isSigned = type.kind == Type::Signed;
  if (type.is(Type::Float, 32))
    return &compare<Op, float>;
  if (type.is(Type::Float, 64))
    return &compare<Op, double>;
  if (type.is(Type::Float, 16))
    return &compare<Op, F16>;
  if (type.is(Type::BFloat, 16))
    return &compare<Op, BF16>;
  if (type.packed)
    return type.kind == Type::BFloat ? &compare<Op, BF16, 2>
                                     : &compare<Op, F16, 2>;
  if (type.isFloat())
    d.fail("no such comparison");
  switch (type.bits) {
  case 16:
    return isSigned ? &compare<Op, int16_t> : &compare<Op, uint16_t>;
  case 32:
    return isSigned ? &compare<Op, int32_t> : &compare<Op, uint32_t>;
  case 64:
    return isSigned ? &compare<Op, int64_t> : &compare<Op, uint64_t>;
  default:
    d.fail("no such comparison");
  }
}

using SelectCompare = Handler (*)(Decoder &, Type);

SelectCompare takeComparison(Decoder &d) {
  // lo, ls, hi, hs are the unsigned names of lt, le, gt, ge.
  static const std::pair<const char *, SelectCompare> all[] = {
      {"eq", selectCompare<EQ>},   {"ne", selectCompare<NE>},
      {"lt", selectCompare<LT>},   {"le", selectCompare<LE>},
      {"gt", selectCompare<GT>},   {"ge", selectCompare<GE>},
      {"lo", selectCompare<LT>},   {"ls", selectCompare<LE>},
      {"hi", selectCompare<GT>},   {"hs", selectCompare<GE>},
      {"equ", selectCompare<EQU>}, {"neu", selectCompare<NEU>},
      {"ltu", selectCompare<LTU>}, {"leu", selectCompare<LEU>},
      {"gtu", selectCompare<GTU>}, {"geu", selectCompare<GEU>},
      {"num", selectCompare<NUM>}, {"nan", selectCompare<NAN_>}};
  for (auto [name, select] : all)
    if (d.take(name))
      return select;
  d.fail("unknown comparison");
}

void decodeCompare(Decoder &d) {
  SelectCompare select = takeComparison(d);
  uint16_t mode = d.take("and") ? 1 : d.take("or") ? 2 : d.take("xor") ? 3 : 0;
  Type type = d.takeType();
  d.operands(mode ? 4 : 3);
  const Operand &result = d.operand(0);
  d.inst->slots[0] = d.predicateDestination(result);
  if (type.packed && result.predicate.empty())
    d.fail("expected a predicate for each half");
  if (!result.predicate.empty()) {
    d.inst->count = 2;
    d.inst->slots[3] = d.predicate(result.predicate);
  }
  d.inst->slots[1] = d.source(d.operand(1), type.bytes());
  d.inst->slots[2] = d.source(d.operand(2), type.bytes());
  if (mode) {
    d.inst->slots[4] = d.predicate(d.operand(3).name);
    mode |= d.operand(3).negated ? 4 : 0;
  }
  d.inst->mode = mode;
  d.inst->run = select(d, type);
}

//===----------------------------------------------------------------------===//
// Selection
//===----------------------------------------------------------------------===//

template <class T>
void select(Warp &warp, const Inst &i, uint32_t lanes) {
  T *d = warp.lanes<T>(i.slots[0]);
  const T *a = warp.lanes<T>(i.slots[1]);
  const T *b = warp.lanes<T>(i.slots[2]);
  uint32_t which = warp.predicate(i.slots[3]);
  forLanes(lanes, [=](unsigned l) { d[l] = which >> l & 1 ? a[l] : b[l]; });
}

void decodeSelect(Decoder &d) {
  Type type = d.takeType();
  unsigned bytes = type.bytes();
  d.operands(4);
  d.inst->slots[0] = d.destination(d.operand(0), bytes);
  d.inst->slots[1] = d.source(d.operand(1), bytes);
  d.inst->slots[2] = d.source(d.operand(2), bytes);
  d.inst->slots[3] = d.predicateSource(d.operand(3));
  if (bytes == 2)
    d.inst->run = &select<uint16_t>;
  else if (bytes == 4)
    d.inst->run = &select<uint32_t>;
  else if (bytes == 8)
    d.inst->run = &select<uint64_t>;
  else
    d.fail("no such type");
}

} // namespace

void mpc::emulator::ptx::addMoves(DecodeTable &table) {
  table["mov"] = decodeMove;
  table["cvta"] = decodeConvertAddress;
  table["setp"] = decodeCompare;
  table["selp"] = decodeSelect;
}
