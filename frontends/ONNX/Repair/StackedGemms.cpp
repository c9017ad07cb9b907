// Replaces Gemm nodes whose operands have more than two axes.
//
// ONNX allows only matrices in a Gemm. Tools that fuse MatMul and Add produce
// Gemm nodes with operands like [batch, rows, columns]. Replaces the node by
// MatMul and Add.
//
// Before:
//
// ```
// <ir_version: 8, opset_import: ["" : 17]>
// g (float[4,3,2] x) => (float[4,3,2] y)
// <float[2,2] w = {1, 2, 3, 4}, float[2] b = {1, 2}>
// {
//   y = Gemm (x, w, b)
// }
// ```
//
// After:
//
// ```
// y_matmul = MatMul (x, w)
// y = Add (y_matmul, b)
// ```
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Repair/Repair.h"

#include "frontends/ONNX/Model/Graph.h"
#include "frontends/ONNX/Model/NodeScope.h"

using namespace mpc::onnx_frontend;
using llvm::Error;
using llvm::StringRef;

namespace {
/// Replaces a Gemm by several nodes. The Gemm becomes the last of the nodes;
/// the other nodes go to `before`.
class GemmSplitter {
public:
  GemmSplitter(NodeScope &scope, proto::NodeProto &gemm,
               std::vector<proto::NodeProto> &before)
      : scope(scope), gemm(gemm), before(before) {}

  /// Returns false, without changes, if the Gemm is valid or cannot be
  /// replaced.
  bool run();

private:
  void transpose(int input, int64_t rank);
  proto::NodeProto &start(StringRef op, llvm::ArrayRef<std::string> inputs);
  std::string scale(std::string value, double factor);

  NodeScope &scope;
  proto::NodeProto &gemm;
  std::vector<proto::NodeProto> &before;
  int32_t elementType = 0;
};
} // namespace

static double findNumber(const proto::NodeProto &node, StringRef name,
                         double byDefault) {
  for (const proto::AttributeProto &attribute : node.attribute())
    if (attribute.name() == name)
      return attribute.type() == proto::AttributeProto::INT ? attribute.i()
                                                            : attribute.f();
  return byDefault;
}

// Adds a node with `inputs` before the Gemm. The node and the output get new
// names.
proto::NodeProto &GemmSplitter::start(StringRef op,
                                      llvm::ArrayRef<std::string> inputs) {
  std::string output = scope.makeName(gemm.output(0) + "_" + op.lower());
  proto::NodeProto &node = before.emplace_back();
  node.set_op_type(op.str());
  if (!gemm.name().empty())
    node.set_name(scope.makeName(gemm.name() + "_" + op.lower()));
  for (const std::string &input : inputs)
    node.add_input(input);
  node.add_output(output);
  return node;
}

// Inserts a Transpose that exchanges the last two axes of operand `input`,
// which has `rank` axes.
void GemmSplitter::transpose(int input, int64_t rank) {
  proto::NodeProto &node = start("Transpose", {gemm.input(input)});
  proto::AttributeProto *order = node.add_attribute();
  order->set_name("perm");
  order->set_type(proto::AttributeProto::INTS);
  for (int64_t axis = 0; axis + 2 < rank; ++axis)
    order->add_ints(axis);
  order->add_ints(rank - 1);
  order->add_ints(rank - 2);
  gemm.set_input(input, node.output(0));
}

std::string GemmSplitter::scale(std::string value, double factor) {
  if (factor == 1)
    return value;
  std::string number =
      scope.addFloat(before, gemm.output(0) + "_factor", factor, elementType);
  return start("Mul", {std::move(value), std::move(number)}).output(0);
}

bool GemmSplitter::run() {
  const std::optional<int64_t> a = scope.findRank(gemm.input(0));
  const std::optional<int64_t> b = scope.findRank(gemm.input(1));
  const bool hasTerm = gemm.input_size() > 2 && !gemm.input(2).empty();
  const std::optional<int64_t> c =
      hasTerm ? scope.findRank(gemm.input(2)) : std::nullopt;
  if (!a || !b || std::min(*a, *b) < 2 || std::max(*a, *b) == 2 ||
      c.value_or(0) > std::max(*a, *b))
    return false;
  const double alpha = findNumber(gemm, "alpha", 1);
  const double beta = findNumber(gemm, "beta", 1);
  elementType = scope.findElementType(gemm.input(1));
  if (elementType == 0)
    elementType = scope.findElementType(gemm.input(0));
  if ((alpha != 1 || beta != 1) && elementType == 0)
    return false;
  if (findNumber(gemm, "transA", 0) != 0)
    transpose(0, *a);
  if (findNumber(gemm, "transB", 0) != 0)
    transpose(1, *b);
  const bool adds = hasTerm && beta != 0;
  // The Gemm becomes the last node and keeps the output, so readers need no
  // change.
  if (!adds && alpha == 1) {
    gemm.set_op_type("MatMul");
    while (gemm.input_size() > 2)
      gemm.mutable_input()->RemoveLast();
  } else {
    std::string product =
        start("MatMul", {gemm.input(0), gemm.input(1)}).output(0);
    std::string other = adds
                            ? scale(gemm.input(2), beta)
                            : scope.addFloat(before, gemm.output(0) + "_factor",
                                             alpha, elementType);
    if (adds)
      product = scale(std::move(product), alpha);
    gemm.set_op_type(adds ? "Add" : "Mul");
    gemm.clear_input();
    gemm.add_input(product);
    gemm.add_input(other);
  }
  gemm.clear_attribute();
  return true;
}

Error mpc::onnx_frontend::splitStackedGemms(RepairContext &context) {
  auto isGemm = [](const proto::NodeProto &node) {
    return node.op_type() == "Gemm" && normalizeDomain(node.domain()).empty() &&
           node.input_size() > 1 && node.output_size() == 1;
  };
  NodeScope scope(context.getModel());
  bool hasGemm = false;
  scope.forEach([&](const proto::NodeProto &node) { hasGemm |= isGemm(node); });
  if (!hasGemm)
    return Error::success();
  scope.inferRanks();
  bool isFirst = true;
  scope.mendNodes(
      [&](proto::NodeProto &node, std::vector<proto::NodeProto> &before) {
        if (!isGemm(node))
          return;
        const std::string what = "node '" + getNodeName(node) + "' (Gemm)";
        const std::optional<int64_t> a = scope.findRank(node.input(0));
        const std::optional<int64_t> b = scope.findRank(node.input(1));
        if (!GemmSplitter(scope, node, before).run())
          return;
        if (isFirst)
          context.warn(what + ": expected matrices, found operands of ranks " +
                       std::to_string(*a) + " and " + std::to_string(*b) +
                       "; taken as MatMul of the last two axes, and Add");
        isFirst = false;
      });
  return Error::success();
}
