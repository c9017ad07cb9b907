// Restores absolute values left out by PyTorch's exporter.
//
// PyTorch's older exporter writes torch.cdist(a, b, p) and
// nn.PairwiseDistance(p) as sum((a - b)^p)^(1 / (p + eps)). The formula is
// right only for an even p. For p = 1 negative differences keep the sign; for
// other p the power of a negative difference is NaN or negative. Inserts an Abs
// before the power, also in bodies of If and Loop. For p = inf the formula
// computes 1, and is replaced by the largest absolute difference.
//
// Before:
//
// ```
// <ir_version: 8, opset_import: ["" : 17], producer_name: "pytorch">
// g (float[2,3] a, float[2,3] b) => (float[2] y)
// <float p = {3}, int64[1] axes = {1}, float root = {0.3333332}>
// {
//   d = Sub (a, b)
//   [power] c = Pow (d, p)
//   s = ReduceSum <keepdims: int = 0> (c, axes)
//   y = Pow (s, root)
// }
// ```
//
// After:
//
// ```
// d = Sub (a, b)
// [power_absolute] d_absolute = Abs (d)
// [power] c = Pow (d_absolute, p)
// ```
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Repair/DroppedAbsolutes.h"

#include "frontends/ONNX/Model/Graph.h"
#include "frontends/ONNX/Model/HostTensor.h"
#include "frontends/ONNX/Repair/Repair.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <cmath>

using namespace mpc::onnx_frontend;
using llvm::StringRef;

namespace {
/// The names of all values in the model, and the names of the powers whose
/// absolute value is restored.
struct Restored {
  llvm::StringSet<> names;
  std::vector<std::string> done;
};

/// Restores absolute values in one graph. A body of If or Loop also reads
/// values of the enclosing graph, which `outer` searches.
class AbsoluteRestorer {
public:
  AbsoluteRestorer(Model &model, proto::GraphProto &graph, Restored &restored,
                   const AbsoluteRestorer *outer = nullptr);

  /// Restores the graph and the bodies of its nodes.
  void run();

private:
  proto::NodeProto *findProducer(StringRef value, StringRef op = "") const;
  const proto::TensorProto *findTensor(StringRef value) const;
  std::optional<double> readNumber(StringRef value, unsigned depth = 0) const;
  std::optional<double> read(const proto::TensorProto &tensor) const;
  bool isVector(StringRef value) const;
  proto::NodeProto *findPower(const proto::NodeProto &root) const;
  void insertAbs(proto::NodeProto &power);
  bool makeLargest(proto::NodeProto &power, proto::NodeProto &root);

  Model &model;
  proto::GraphProto &graph;
  Restored &restored;
  const AbsoluteRestorer *outer;
  /// For each value, the node that computes the value.
  llvm::StringMap<proto::NodeProto *> producers;
  llvm::StringMap<const proto::TensorProto *> tensors;
};
} // namespace

bool mpc::onnx_frontend::isRootOfDistance(double power, double root,
                                          bool isVector) {
  // If eps is 0, 1 / root differs from `power` only by the rounding of float32.
  constexpr double kLargestEps = 0.01, kRoundoff = 1.2e-7;
  const double eps = 1 / root - power, roundoff = kRoundoff * power;
  return power > 0 && eps < kLargestEps &&
         eps > (isVector ? -roundoff : roundoff);
}

AbsoluteRestorer::AbsoluteRestorer(Model &model, proto::GraphProto &graph,
                                   Restored &restored,
                                   const AbsoluteRestorer *outer)
    : model(model), graph(graph), restored(restored), outer(outer) {
  for (const proto::TensorProto &tensor : graph.initializer())
    tensors.try_emplace(tensor.name(), &tensor);
  for (proto::NodeProto &node : *graph.mutable_node())
    for (const std::string &output : node.output())
      producers.try_emplace(output, &node);
}

// Finds the node that computes `value`, in the graph or an outer graph. Null if
// there is none, or if its op is not `op` (any op if empty).
proto::NodeProto *AbsoluteRestorer::findProducer(StringRef value,
                                                 StringRef op) const {
  proto::NodeProto *node = producers.lookup(value);
  if (!node)
    return outer && !tensors.contains(value) ? outer->findProducer(value, op)
                                             : nullptr;
  const bool isOp = op.empty() || node->op_type() == op;
  return isOp ? node : nullptr;
}

const proto::TensorProto *AbsoluteRestorer::findTensor(StringRef value) const {
  if (const proto::TensorProto *tensor = tensors.lookup(value))
    return tensor;
  // The value may be a Constant node, or belong to an outer graph.
  const proto::NodeProto *node = producers.lookup(value);
  if (!node)
    return outer ? outer->findTensor(value) : nullptr;
  const bool isConstant = node->op_type() == "Constant" &&
                          node->attribute_size() == 1 &&
                          node->attribute(0).has_t();
  return isConstant ? &node->attribute(0).t() : nullptr;
}

std::optional<double>
AbsoluteRestorer::read(const proto::TensorProto &tensor) const {
  llvm::Expected<HostTensor> number = model.decode(tensor, "value");
  if (number && number->getNumElements() == 1 && number->isFloat())
    return number->getDouble(0);
  // Drop the error: the import reports undecodable tensors.
  llvm::consumeError(number.takeError());
  return std::nullopt;
}

// Evaluates `value` if it is a constant number: a tensor of one float, or a sum
// or quotient of constant numbers, as in 1 / (1 + 1e-6). nullopt otherwise.
std::optional<double> AbsoluteRestorer::readNumber(StringRef value,
                                                   unsigned depth) const {
  if (const proto::TensorProto *tensor = findTensor(value))
    return read(*tensor);
  // The deepest expression that the exporter writes is 1 / (p + 1e-6).
  constexpr unsigned kDeepest = 3;
  const proto::NodeProto *node = findProducer(value);
  const bool isSum = node && node->op_type() == "Add";
  if (!node || depth == kDeepest || node->input_size() != 2 ||
      !(isSum || node->op_type() == "Div"))
    return std::nullopt;
  auto left = readNumber(node->input(0), depth + 1);
  auto right = readNumber(node->input(1), depth + 1);
  if (!left || !right)
    return std::nullopt;
  return isSum ? *left + *right : *left / *right;
}

// True if `value` is a constant of shape [1]: a tensor, or a Div of a constant
// of shape [1], as the exporter writes.
bool AbsoluteRestorer::isVector(StringRef value) const {
  if (const proto::TensorProto *tensor = findTensor(value))
    return tensor->dims_size() == 1;
  const proto::NodeProto *node = findProducer(value, "Div");
  return node && node->input_size() == 2 && isVector(node->input(0));
}

// If `root` is the outer power in sum(x^p)^(1 / p), where x is a difference and
// p is not even, returns the inner power x^p. Null for any other node.
proto::NodeProto *
AbsoluteRestorer::findPower(const proto::NodeProto &root) const {
  if (root.op_type() != "Pow" || root.input_size() != 2)
    return nullptr;
  // Walk back from the root to the differences.
  const proto::NodeProto *sum = findProducer(root.input(0), "ReduceSum");
  proto::NodeProto *power = sum && sum->input_size() > 0
                                ? findProducer(sum->input(0), "Pow")
                                : nullptr;
  if (!power || power->input_size() != 2 ||
      !findProducer(power->input(0), "Sub"))
    return nullptr;
  const std::optional<double> exponent = readNumber(power->input(1)),
                              inverse = readNumber(root.input(1));
  if (!exponent || !inverse)
    return nullptr;
  // For p = infinity the exponent of the root is 1 / infinity = 0.
  if (std::isinf(*exponent))
    return *exponent > 0 && *inverse == 0 ? power : nullptr;
  // An even power needs no Abs: the power drops the sign.
  const bool isDistance =
      std::fmod(*exponent, 2) != 0 &&
      isRootOfDistance(*exponent, *inverse, isVector(root.input(1)));
  return isDistance ? power : nullptr;
}

// Inserts an Abs before operand 0 of `power`.
void AbsoluteRestorer::insertAbs(proto::NodeProto &power) {
  std::string unique = power.input(0) + "_absolute";
  while (!restored.names.insert(unique).second)
    unique += "_";
  proto::NodeProto &abs = *graph.add_node();
  abs.set_op_type("Abs");
  abs.set_name(power.name() + "_absolute");
  abs.add_input(power.input(0));
  abs.add_output(unique);
  power.set_input(0, unique);
  // Move the new node from the end of the list to just before `power`.
  int i = graph.node_size() - 1;
  do
    graph.mutable_node()->SwapElements(i, i - 1);
  while (&graph.node(i--) != &power);
}

// Turns the nodes of sum(x^inf)^0, which compute 1 or NaN, into the nodes of
// max(|x|): Abs, ReduceMax and Identity. Returns false if the axes of the sum
// are not constant.
bool AbsoluteRestorer::makeLargest(proto::NodeProto &power,
                                   proto::NodeProto &root) {
  proto::NodeProto &sum = *findProducer(root.input(0), "ReduceSum");
  // Before opset 18 the axes of ReduceMax are an attribute.
  constexpr int64_t kFirstWithAxes = 18;
  if (model.getOpset(sum) < kFirstWithAxes && sum.input_size() > 1) {
    const proto::TensorProto *tensor = findTensor(sum.input(1));
    if (!tensor)
      return false;
    llvm::Expected<HostTensor> axes = model.decode(*tensor, "axes");
    if (!axes) {
      llvm::consumeError(axes.takeError());
      return false;
    }
    auto &attributes = *sum.mutable_attribute();
    for (int i = attributes.size() - 1; i >= 0; --i)
      if (attributes.Get(i).name() == "noop_with_empty_axes")
        attributes.DeleteSubrange(i, 1);
    proto::AttributeProto &attribute = *attributes.Add();
    attribute.set_name("axes");
    attribute.set_type(proto::AttributeProto::INTS);
    for (int64_t axis : axes->getIntegers())
      attribute.add_ints(axis);
    sum.mutable_input()->DeleteSubrange(1, 1);
  }
  power.set_op_type("Abs");
  power.mutable_input()->DeleteSubrange(1, 1);
  sum.set_op_type("ReduceMax");
  root.set_op_type("Identity");
  root.mutable_input()->DeleteSubrange(1, 1);
  return true;
}

void AbsoluteRestorer::run() {
  // Collect the pairs (power, root) first, because rewriting adds nodes to the
  // graph.
  llvm::SmallVector<std::pair<proto::NodeProto *, proto::NodeProto *>> found;
  llvm::SmallPtrSet<proto::NodeProto *, 4> seen;
  for (proto::NodeProto &node : *graph.mutable_node()) {
    if (proto::NodeProto *power = findPower(node);
        power && producers.lookup(power->output(0)) == power &&
        seen.insert(power).second)
      found.emplace_back(power, &node);
    for (proto::AttributeProto &attribute : *node.mutable_attribute())
      if (attribute.has_g())
        AbsoluteRestorer(model, *attribute.mutable_g(), restored, this).run();
  }
  for (auto [power, root] : found) {
    const bool isLargest = std::isinf(*readNumber(power->input(1)));
    if (isLargest && !makeLargest(*power, *root))
      continue;
    if (!isLargest)
      insertAbs(*power);
    restored.done.push_back("'" + power->name() + "'");
  }
}

llvm::Error mpc::onnx_frontend::restoreAbsolutes(RepairContext &context) {
  Model &model = context.getModel();
  if (model.getProto().producer_name() != "pytorch")
    return llvm::Error::success();
  Restored restored;
  proto::GraphProto &graph = *model.getProto().mutable_graph();
  restored.names = context.findNames();
  AbsoluteRestorer(model, graph, restored).run();
  if (!restored.done.empty())
    context.note("the exporter left out absolute values inside distances; mpc "
                 "has put them back before " +
                 listFirst(restored.done, 2));
  return llvm::Error::success();
}
