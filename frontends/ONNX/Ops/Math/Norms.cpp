// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Ops/Math/Norms.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

LogicalResult
mpc::onnx_frontend::defineInF32(NodeImporter &node,
                                llvm::function_ref<Value(Value)> compute) {
  Value x = node.operand(0);
  Type element = elementTypeOf(x);
  if (!element.isF16() && !element.isBF16())
    return node.define(0, compute(x));
  Value wide = castTo(node, x, node.attributes().getF32Type());
  return node.define(0, castTo(node, compute(wide), element));
}

Value mpc::onnx_frontend::powerOf(NodeImporter &node, Value x, int64_t p) {
  if (!x || p == 2)
    return x ? node.emit<MulOp>({x, x}) : Value();
  Value size = node.emit<AbsOp>({x});
  if (!size || p == 1)
    return size;
  return node.emit<PowOp>({size, numberConstant(node, p, elementTypeOf(x))});
}

Value mpc::onnx_frontend::flatRoot(NodeImporter &node, Value x, int64_t p) {
  if (!x || p == 1)
    return x;
  Type element = elementTypeOf(x);
  Value zero = numberConstant(node, 0.0, element);
  Value isZero = node.emit<EqualOp>({x, zero});
  Value steep =
      node.emit<SelectOp>({isZero, numberConstant(node, 1.0, element), x});
  Value root =
      p == 2
          ? node.emit<SqrtOp>({steep})
          : node.emit<PowOp>({steep, numberConstant(node, 1.0 / p, element)});
  return node.emit<SelectOp>({isZero, zero, root});
}

FailureOr<int64_t> mpc::onnx_frontend::readPower(NodeImporter &node) {
  int64_t p = node.integer("p", 2);
  if (p < 1)
    return node.invalid("expected attribute 'p' of at least 1, found " +
                        Twine(p));
  return p;
}
