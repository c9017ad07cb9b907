// Handlers that apply one operation to each lane's registers.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_PTX_LANEWISE_H
#define MPC_TEST_EMULATOR_PTX_LANEWISE_H

#include "test/emulator/ptx/Decoder.h"
#include "test/emulator/ptx/Warp.h"

#include <type_traits>

namespace mpc::emulator::ptx {

/// slot 0 = Op(slot 1), for values of type T. Op is a type with a static
/// `apply`.
template <class Op, class T>
void unary(Warp &warp, const Inst &i, uint32_t lanes) {
  T *d = warp.lanes<T>(i.slots[0]);
  const T *a = warp.lanes<T>(i.slots[1]);
  forLanes(lanes, [=](unsigned l) { d[l] = Op::apply(a[l]); });
}

template <class Op, class T>
void binary(Warp &warp, const Inst &i, uint32_t lanes) {
  T *d = warp.lanes<T>(i.slots[0]);
  const T *a = warp.lanes<T>(i.slots[1]);
  const T *b = warp.lanes<T>(i.slots[2]);
  forLanes(lanes, [=](unsigned l) { d[l] = Op::apply(a[l], b[l]); });
}

template <class Op, class T>
void ternary(Warp &warp, const Inst &i, uint32_t lanes) {
  T *d = warp.lanes<T>(i.slots[0]);
  const T *a = warp.lanes<T>(i.slots[1]);
  const T *b = warp.lanes<T>(i.slots[2]);
  const T *c = warp.lanes<T>(i.slots[3]);
  forLanes(lanes, [=](unsigned l) { d[l] = Op::apply(a[l], b[l], c[l]); });
}

// A form of instruction: its handler for each element type.
template <class Op>
struct Unary {
  template <class T>
  static constexpr Handler handler = &unary<Op, T>;
};
template <class Op>
struct Binary {
  template <class T>
  static constexpr Handler handler = &binary<Op, T>;
};
template <class Op>
struct Ternary {
  template <class T>
  static constexpr Handler handler = &ternary<Op, T>;
};

/// The handler of a form for integers, or bits, of 16 to 64 bits.
template <class Form>
Handler selectInteger(Decoder &d, Type type) {
  bool isSigned = type.kind == Type::Signed;
  switch (type.packed ? 0 : type.bits) {
  case 16:
    return isSigned ? Form::template handler<int16_t>
                    : Form::template handler<uint16_t>;
  case 32:
    return isSigned ? Form::template handler<int32_t>
                    : Form::template handler<uint32_t>;
  case 64:
    return isSigned ? Form::template handler<int64_t>
                    : Form::template handler<uint64_t>;
  default:
    d.fail("no such integer type");
  }
}

/// A wide unsigned type: overflow wraps, and 16-bit operands are not promoted
/// to int.
template <class T>
using Wrapping =
    std::conditional_t<(sizeof(T) < 4), uint32_t, std::make_unsigned_t<T>>;

/// Defines an operation on two such values, `a` and `b`.
#define MPC_WRAPPING(name, expression)                                         \
  struct name {                                                                \
    template <class T>                                                         \
    static T apply(T x, T y) {                                                 \
      Wrapping<T> a = static_cast<Wrapping<T>>(x);                             \
      Wrapping<T> b = static_cast<Wrapping<T>>(y);                             \
      return static_cast<T>(expression);                                       \
    }                                                                          \
  };

} // namespace mpc::emulator::ptx

#endif // MPC_TEST_EMULATOR_PTX_LANEWISE_H
