// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Ops/NN/AttentionHeads.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

FailureOr<Value> mpc::onnx_frontend::splitHeads(NodeImporter &node, Value value,
                                                int64_t heads) {
  ArrayRef<int64_t> shape = NodeImporter::shapeOf(value);
  if (heads < 1 || shape[2] % heads != 0)
    return node.invalid(
        Twine(heads) + " heads do not divide the " + Twine(shape[2]) +
        " elements of a token, in an operand of shape " + printShape(shape));
  return node.reshape(value, {shape[0], shape[1], heads, shape[2] / heads});
}

Value mpc::onnx_frontend::joinHeads(NodeImporter &node, Value value) {
  if (!value)
    return {};
  ArrayRef<int64_t> shape = NodeImporter::shapeOf(value);
  return node.reshape(transpose(node, value, {0, 2, 1, 3}),
                      {shape[0], shape[2], shape[1] * shape[3]});
}

Value mpc::onnx_frontend::attend(NodeImporter &node,
                                 const AttentionOperands &operands,
                                 SmallVector<NamedAttribute> attributes) {
  const auto &[query, key, value, bias, mask] = operands;
  attributes.push_back(node.attribute(
      "operandSegmentSizes", node.attributes().getDenseI32ArrayAttr(
                                 {1, 1, 1, bias ? 1 : 0, mask ? 1 : 0, 0, 0})));
  auto op =
      node.create<AttentionOp>({query, key, value, bias, mask}, attributes);
  return op ? op.getOutput() : Value();
}
