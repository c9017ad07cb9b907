// Integer arithmetic.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/ptx/Lanewise.h"

using namespace mpc::emulator::ptx;

namespace {

MPC_WRAPPING(Add, a + b)
MPC_WRAPPING(Sub, a - b)
MPC_WRAPPING(MulLow, (a * b))

struct MulHigh {
  template <class T>
  static T apply(T a, T b) {
    using Wide =
        std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
    return static_cast<T>((Wide(a) * Wide(b)) >> (8 * sizeof(T)));
  }
};

struct MadLow {
  template <class T>
  static T apply(T a, T b, T c) {
    return Add::apply(MulLow::apply(a, b), c);
  }
};

struct MadHigh {
  template <class T>
  static T apply(T a, T b, T c) {
    return Add::apply(MulHigh::apply(a, b), c);
  }
};

// Follows devices for division by zero: the quotient is all ones, the remainder
// is a.
struct Div {
  template <class T>
  static T apply(T a, T b) {
    if (b == 0)
      return static_cast<T>(-1);
    if (std::is_signed_v<T> && b == static_cast<T>(-1))
      return Sub::apply(T(0), a);
    return static_cast<T>(a / b);
  }
};

struct Rem {
  template <class T>
  static T apply(T a, T b) {
    if (b == 0)
      return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1))
      return 0;
    return static_cast<T>(a % b);
  }
};

struct Min {
  template <class T>
  static T apply(T a, T b) {
    return a < b ? a : b;
  }
};
struct Max {
  template <class T>
  static T apply(T a, T b) {
    return a < b ? b : a;
  }
};
struct Neg {
  template <class T>
  static T apply(T a) {
    return Sub::apply(T(0), a);
  }
};
struct Abs {
  template <class T>
  static T apply(T a) {
    return a < 0 ? Neg::apply(a) : a;
  }
};

/// An instruction for integers and floats.
template <class Form, size_t Sources>
void decodeArithmetic(Decoder &d) {
  std::optional<Type> type = d.peekType();
  if (!type || !type->isInteger())
    return decodeFloatArithmetic(d);
  d.takeType();
  d.plain(type->bytes(), Sources);
  d.inst->run = selectInteger<Form>(d, *type);
}

/// Op on both halves of a word, each a number of type T.
template <class Op, class T>
struct Halves {
  static uint32_t apply(uint32_t a, uint32_t b) {
    auto half = [=](unsigned shift) {
      auto result = static_cast<uint16_t>(
          Op::apply(static_cast<T>(a >> shift), static_cast<T>(b >> shift)));
      return static_cast<uint32_t>(result) << shift;
    };
    return half(0) | half(16);
  }
};

/// An instruction for integers and floats, and for two 16-bit integers in a
/// register.
template <class Op>
void decodePairable(Decoder &d) {
  std::optional<Type> type = d.peekType();
  if (!type || !type->isInteger() || !type->packed)
    return decodeArithmetic<Binary<Op>, 2>(d);
  d.takeType();
  d.plain(type->bytes(), 2);
  d.inst->run = type->kind == Type::Signed
                    ? &binary<Halves<Op, int16_t>, uint32_t>
                    : &binary<Halves<Op, uint16_t>, uint32_t>;
}
//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

template <class T, class Wide>
void mulWide(Warp &warp, const Inst &i, uint32_t lanes) {
  Wide *d = warp.lanes<Wide>(i.slots[0]);
  const T *a = warp.lanes<T>(i.slots[1]);
  const T *b = warp.lanes<T>(i.slots[2]);
  const Wide *c = i.count == 3 ? warp.lanes<Wide>(i.slots[3]) : nullptr;
  forLanes(lanes, [=](unsigned l) {
    Wide product = MulLow::apply(Wide(a[l]), Wide(b[l]));
    d[l] = c ? Add::apply(product, c[l]) : product;
  });
}

void decodeWide(Decoder &d, Type type, size_t sources) {
  d.operands(sources + 1);
  d.inst->count = static_cast<uint8_t>(sources);
  d.inst->slots[0] = d.destination(d.operand(0), 2 * type.bytes());
  for (size_t i = 1; i <= sources; ++i)
    d.inst->slots[i] = d.source(d.operand(i), type.bytes() * (i == 3 ? 2 : 1));
  if (type.is(Type::Signed, 16))
    d.inst->run = &mulWide<int16_t, int32_t>;
  else if (type.is(Type::Unsigned, 16))
    d.inst->run = &mulWide<uint16_t, uint32_t>;
  else if (type.is(Type::Signed, 32))
    d.inst->run = &mulWide<int32_t, int64_t>;
  else if (type.is(Type::Unsigned, 32))
    d.inst->run = &mulWide<uint32_t, uint64_t>;
  else
    d.fail("no such product");
}

template <bool IsMad>
void decodeProduct(Decoder &d) {
  constexpr size_t sources = IsMad ? 3 : 2;
  if (d.take("wide"))
    return decodeWide(d, d.takeType(), sources);
  bool low = d.take("lo"), high = !low && d.take("hi");
  if (!low && !high)
    return decodeFloatArithmetic(d);
  Type type = d.takeType();
  if (!type.isInteger())
    d.fail("expected an integer type");
  d.plain(type.bytes(), sources);
  d.inst->run = IsMad ? (low ? selectInteger<Ternary<MadLow>>
                             : selectInteger<Ternary<MadHigh>>)(d, type)
                      : (low ? selectInteger<Binary<MulLow>>
                             : selectInteger<Binary<MulHigh>>)(d, type);
}

} // namespace

void mpc::emulator::ptx::addIntegerInstructions(DecodeTable &table) {
  table["add"] = decodePairable<Add>;
  table["sub"] = decodeArithmetic<Binary<Sub>, 2>;
  table["div"] = decodeArithmetic<Binary<Div>, 2>;
  table["rem"] = decodeArithmetic<Binary<Rem>, 2>;
  table["min"] = decodePairable<Min>;
  table["max"] = decodePairable<Max>;
  table["neg"] = decodeArithmetic<Unary<Neg>, 1>;
  table["abs"] = decodeArithmetic<Unary<Abs>, 1>;
  table["mul"] = decodeProduct<false>;
  table["mad"] = decodeProduct<true>;
}
