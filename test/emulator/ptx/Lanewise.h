// Handlers that do the same with each lane's registers.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_PTX_LANEWISE_H
#define MPC_TEST_EMULATOR_PTX_LANEWISE_H

#include "test/emulator/ptx/Warp.h"

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

} // namespace mpc::emulator::ptx

#endif // MPC_TEST_EMULATOR_PTX_LANEWISE_H
