// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Model/DroppedAbsolutes.h"

#include "frontends/ONNX/Model/Graph.h"
#include "frontends/ONNX/Model/HostTensor.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <cmath>

using namespace mpc::onnx_frontend;
using llvm::StringRef;

namespace {
class AbsoluteRestorer {
public:
  explicit AbsoluteRestorer(Model &model)
      : model(model), graph(*model.getProto().mutable_graph()) {}

  std::string run();

private:
  void collect();
  const proto::NodeProto *findProducer(StringRef value, StringRef op);
  std::optional<double> readNumber(StringRef value, unsigned depth = 0);
  std::optional<double> read(const proto::TensorProto &tensor);
  bool isVector(StringRef value);
  int findPower(const proto::NodeProto &root);
  void insertAbs(int index);

  Model &model;
  proto::GraphProto &graph;
  /// Where values are computed, and the floats that the file has.
  llvm::StringMap<int> producers;
  llvm::StringMap<const proto::TensorProto *> tensors;
  llvm::StringSet<> names;
  std::vector<std::string> done;
};
} // namespace

bool mpc::onnx_frontend::isRootOfDistance(double power, double root,
                                          bool isVector) {
  // The inverse of a float32 is as exact as that.
  constexpr double kLargestEps = 0.01, kRoundoff = 1.2e-7;
  const double eps = 1 / root - power, roundoff = kRoundoff * power;
  return power > 0 && eps < kLargestEps &&
         eps > (isVector ? -roundoff : roundoff);
}

void AbsoluteRestorer::collect() {
  for (const proto::TensorProto &tensor : graph.initializer()) {
    tensors.try_emplace(tensor.name(), &tensor);
    names.insert(tensor.name());
  }
  for (const proto::ValueInfoProto &input : graph.input())
    names.insert(input.name());
  for (int i = 0; i < graph.node_size(); ++i)
    for (const std::string &output : graph.node(i).output()) {
      producers.try_emplace(output, i);
      names.insert(output);
    }
}

// The node of that kind which computes `value`, or null.
const proto::NodeProto *AbsoluteRestorer::findProducer(StringRef value,
                                                       StringRef op) {
  auto it = producers.find(value);
  if (it == producers.end())
    return nullptr;
  const proto::NodeProto &node = graph.node(it->second);
  const bool isOp = op.empty() || node.op_type() == op;
  return isOp && node.input_size() > 0 ? &node : nullptr;
}

std::optional<double> AbsoluteRestorer::read(const proto::TensorProto &tensor) {
  llvm::Expected<HostTensor> number = model.decode(tensor, "value");
  if (number && number->getNumElements() == 1 && number->isFloat())
    return number->getDouble(0);
  // The import says what is wrong with it.
  llvm::consumeError(number.takeError());
  return std::nullopt;
}

// The number that a value is: of a tensor, a Constant node, or a sum or
// quotient of such, as in 1 / (1 + 1e-6).
std::optional<double> AbsoluteRestorer::readNumber(StringRef value,
                                                   unsigned depth) {
  // A number as it is.
  if (auto it = tensors.find(value); it != tensors.end())
    return read(*it->second);
  auto it = producers.find(value);
  if (it == producers.end())
    return std::nullopt;
  const proto::NodeProto &node = graph.node(it->second);
  if (node.op_type() == "Constant" && node.attribute_size() == 1 &&
      node.attribute(0).has_t())
    return read(node.attribute(0).t());
  // Deeper than 1 / (p + 1e-6) nothing is looked for.
  constexpr unsigned kDeepest = 3;
  const bool isSum = node.op_type() == "Add";
  if (depth == kDeepest || node.input_size() != 2 ||
      !(isSum || node.op_type() == "Div"))
    return std::nullopt;
  auto left = readNumber(node.input(0), depth + 1);
  auto right = readNumber(node.input(1), depth + 1);
  if (!left || !right)
    return std::nullopt;
  return isSum ? *left + *right : *left / *right;
}

// Whether a number has a shape of [1]: of a tensor or a Constant node, or a
// quotient, which the exporter makes of such a 1.
bool AbsoluteRestorer::isVector(StringRef value) {
  if (auto it = tensors.find(value); it != tensors.end())
    return it->second->dims_size() == 1;
  auto it = producers.find(value);
  if (it == producers.end())
    return false;
  const proto::NodeProto &node = graph.node(it->second);
  if (node.op_type() == "Div" && node.input_size() == 2)
    return isVector(node.input(0));
  return node.op_type() == "Constant" && node.attribute_size() == 1 &&
         node.attribute(0).t().dims_size() == 1;
}

// The index of the power whose sum `root` is the root of, of differences and to
// what is no even number; -1 where it is none.
int AbsoluteRestorer::findPower(const proto::NodeProto &root) {
  if (root.op_type() != "Pow" || root.input_size() != 2)
    return -1;
  // From the root back to the differences.
  const proto::NodeProto *sum = findProducer(root.input(0), "ReduceSum");
  const proto::NodeProto *power =
      sum ? findProducer(sum->input(0), "Pow") : nullptr;
  if (!power || power->input_size() != 2 ||
      !findProducer(power->input(0), "Sub"))
    return -1;
  // Of an even power the signs do not matter.
  const std::optional<double> exponent = readNumber(power->input(1)),
                              inverse = readNumber(root.input(1));
  if (!exponent || !inverse || std::fmod(*exponent, 2) == 0 ||
      !isRootOfDistance(*exponent, *inverse, isVector(root.input(1))))
    return -1;
  return producers.lookup(sum->input(0));
}

// Puts an Abs before the node at `index`.
void AbsoluteRestorer::insertAbs(int index) {
  proto::NodeProto &power = *graph.mutable_node(index);
  std::string unique = power.input(0) + "_absolute";
  while (!names.insert(unique).second)
    unique += "_";
  proto::NodeProto &abs = *graph.add_node();
  abs.set_op_type("Abs");
  abs.set_name(power.name() + "_absolute");
  abs.add_input(power.input(0));
  abs.add_output(unique);
  power.set_input(0, unique);
  for (int i = graph.node_size() - 1; i > index; --i)
    graph.mutable_node()->SwapElements(i, i - 1);
}

std::string AbsoluteRestorer::run() {
  if (model.getProto().producer_name() != "pytorch")
    return {};
  collect();
  llvm::SmallVector<int> powers;
  for (const proto::NodeProto &node : graph.node())
    if (int index = findPower(node); index >= 0)
      powers.push_back(index);
  // From the last on, so that indices stay what they are.
  llvm::sort(powers, std::greater<int>());
  powers.erase(llvm::unique(powers), powers.end());
  for (int index : powers) {
    done.push_back("'" + graph.node(index).name() + "'");
    insertAbs(index);
  }
  if (done.empty())
    return {};
  return "the exporter left out the absolute values of which distances are, "
         "which are there again, before " +
         listFirst(done, 2);
}

std::string mpc::onnx_frontend::restoreAbsolutes(Model &model) {
  return AbsoluteRestorer(model).run();
}
