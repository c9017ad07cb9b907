// Formulas of the elementwise gradient ops.
//
// If the input of a function is NaN, so is its gradient, whatever the function.
// Errors of the forward pass must become visible in the parameters too.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"
#include "passes/Codegen/Kernels/Elementwise/ElementwiseTable.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

// Returns 0, or NaN if `x` is NaN.
static Value zeroUnlessNaN(Lanes &l, Value x) {
  Value isNaN = l.compare(arith::CmpFPredicate::UNO, x, x);
  return l.select(isNaN, x, l.constant(0));
}

static Value emitReluGrad(Lanes &l, ReluGradOp, ReluGradOp::Adaptor in) {
  Value zero = l.constant(0);
  Value active = l.compare(arith::CmpFPredicate::OGT, in.getSaved(), zero);
  return l.select(active, in.getDOutput(), zeroUnlessNaN(l, in.getSaved()));
}

static Value emitSigmoidGrad(Lanes &l, SigmoidGradOp,
                             SigmoidGradOp::Adaptor in) {
  Value y = in.getSaved();
  return l.mul(l.mul(in.getDOutput(), y), l.sub(l.constant(1), y));
}

static Value emitTanhGrad(Lanes &l, TanhGradOp, TanhGradOp::Adaptor in) {
  Value y = in.getSaved();
  return l.mul(in.getDOutput(), l.sub(l.constant(1), l.mul(y, y)));
}

static Value emitClipGrad(Lanes &l, ClipGradOp op, ClipGradOp::Adaptor in) {
  Value dx = in.getDOutput(), x = in.getInput(), zero = zeroUnlessNaN(l, x);
  if (op.getMin()) {
    Value min = l.constant(op.getMin()->convertToDouble());
    dx = l.select(l.compare(arith::CmpFPredicate::OGE, x, min), dx, zero);
  }
  if (op.getMax()) {
    Value max = l.constant(op.getMax()->convertToDouble());
    dx = l.select(l.compare(arith::CmpFPredicate::OLE, x, max), dx, zero);
  }
  return dx;
}

static Value emitBCEGrad(Lanes &l, BCEGradOp, BCEGradOp::Adaptor in) {
  Value p = in.getProbabilities();
  Value variance = l.mul(p, l.sub(l.constant(1), p)), least = l.constant(1e-12);
  Value isSmall = l.compare(arith::CmpFPredicate::OLT, variance, least);
  Value divisor = l.select(isSmall, least, variance);
  return l.div(l.mul(in.getDOutput(), l.sub(p, in.getTargets())), divisor);
}

static Value emitBCEWithLogitsGrad(Lanes &l, BCEWithLogitsGradOp,
                                   BCEWithLogitsGradOp::Adaptor in) {
  Value one = l.constant(1);
  Value sigmoid = l.div(one, l.add(one, l.exp(l.neg(in.getLogits()))));
  return l.mul(in.getDOutput(), l.sub(sigmoid, in.getTargets()));
}

void codegen::addGradientFormulas(ElementwiseTable &table) {
  table.add<ReluGradOp>(emitReluGrad);
  table.add<SigmoidGradOp>(emitSigmoidGrad);
  table.add<TanhGradOp>(emitTanhGrad);
  table.add<ClipGradOp>(emitClipGrad);
  table.add<BCEGradOp>(emitBCEGrad);
  table.add<BCEWithLogitsGradOp>(emitBCEWithLogitsGrad);
}
