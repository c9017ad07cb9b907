// Formulas of mpc.fake_quantize and its gradients.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"
#include "passes/Codegen/Kernels/Elementwise/ElementwiseTable.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;
using Predicate = arith::CmpFPredicate;

namespace {
/// The steps of quantizing one element x. All members except the quotient are
/// whole numbers, held as floats. A NaN passes through all steps.
struct Quantized {
  /// x / scale, and the nearest whole number.
  Value quotient, rounded;
  /// `rounded` plus the zero point, before and after clamping.
  Value place, bounded;
  /// True if `bounded` equals `place`: clamping changes nothing.
  Value isWithin;
};
} // namespace

template <typename OpTy>
static Quantized quantize(Lanes &l, OpTy op, typename OpTy::Adaptor in) {
  Quantized q;
  q.quotient = l.div(in.getInput(), in.getScale());
  q.rounded = math::RoundEvenOp::create(l.getBuilder(), q.quotient);
  q.place = l.add(q.rounded, in.getZeroPoint());
  Value low = l.constant(static_cast<int64_t>(op.getLow()));
  Value high = l.constant(static_cast<int64_t>(op.getHigh()));
  Value isBelow = l.compare(Predicate::OLT, q.place, low);
  Value isAbove = l.compare(Predicate::OGT, q.place, high);
  q.bounded = l.select(isBelow, low, l.select(isAbove, high, q.place));
  q.isWithin = l.compare(Predicate::OEQ, q.place, q.bounded);
  return q;
}

static Value emitFakeQuantize(Lanes &l, FakeQuantizeOp op,
                              FakeQuantizeOp::Adaptor in) {
  Quantized q = quantize(l, op, in);
  return l.mul(l.sub(q.bounded, in.getZeroPoint()), in.getScale());
}

// If the input is NaN, so is the gradient: errors of the forward pass must
// become visible in the parameters too.
static Value emitFakeQuantizeGrad(Lanes &l, FakeQuantizeGradOp op,
                                  FakeQuantizeGradOp::Adaptor in) {
  Quantized q = quantize(l, op, in);
  Value isNaN = l.compare(Predicate::UNO, q.place, q.place);
  Value outside = l.select(isNaN, q.place, l.constant(0));
  return l.select(q.isWithin, in.getDOutput(), outside);
}

static Value emitFakeQuantizeScaleGrad(Lanes &l, FakeQuantizeScaleGradOp op,
                                       FakeQuantizeScaleGradOp::Adaptor in) {
  Quantized q = quantize(l, op, in);
  Value slope = l.select(q.isWithin, l.sub(q.rounded, q.quotient),
                         l.sub(q.bounded, in.getZeroPoint()));
  return l.mul(in.getDOutput(), slope);
}

void codegen::addQuantizeFormulas(ElementwiseTable &table) {
  table.add<FakeQuantizeOp>(emitFakeQuantize);
  table.add<FakeQuantizeGradOp>(emitFakeQuantizeGrad);
  table.add<FakeQuantizeScaleGradOp>(emitFakeQuantizeScaleGrad);
}
