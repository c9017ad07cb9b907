// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Model/RandomMasks.h"

#include "frontends/ONNX/Model/Graph.h"
#include "frontends/ONNX/Model/HostTensor.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"

#include <array>
#include <cmath>

using namespace mpc::onnx_frontend;
using llvm::ArrayRef;
using llvm::StringRef;

//===----------------------------------------------------------------------===//
// Facts about a value
//===----------------------------------------------------------------------===//

namespace {
using Chain = llvm::SmallSetVector<const proto::NodeProto *, 8>;

/// Random numbers in [low, high), and the nodes that compute them.
struct Uniform {
  double low = 0, high = 1;
  Chain chain;
};

/// scale[b] * base + bias[b], where b is 1 with probability p and else 0. A
/// mask has no base; what has no chain is not random.
struct Choice {
  std::string base;
  std::array<double, 2> scale = {0, 0}, bias = {0, 0};
  double p = 0;
  Chain chain;

  bool isMask() const { return base.empty() && !chain.empty(); }
};

/// A node whose result is to be its base in evaluation.
struct Replacement {
  const proto::NodeProto *root;
  Choice choice;
};

/// Works on one graph.
class MaskReplacer {
public:
  explicit MaskReplacer(Model &model);

  /// Returns the names of the random nodes that are gone.
  std::vector<std::string> run();

private:
  // Constants.
  const proto::TensorProto *findTensor(StringRef value) const;
  std::optional<double> readNumber(StringRef value, unsigned depth = 0) const;
  std::optional<double> readSplat(StringRef value) const;

  // From random numbers to choices.
  void visit(const proto::NodeProto &node);
  bool visitSource(const proto::NodeProto &node);
  bool visitUniform(const proto::NodeProto &node);
  void addMask(const proto::NodeProto &node, const Chain &chain, double p,
               double at0, double at1);
  std::optional<Choice> find(StringRef value, bool isWhole) const;
  std::optional<Choice> compute(const proto::NodeProto &node,
                                bool areWhole) const;
  bool isClosed(const Choice &choice) const;

  // The nodes that replace them.
  std::string addValue(StringRef hint);
  std::string addNode(StringRef op, ArrayRef<std::string> inputs);
  std::string addNumber(double number);
  bool replace(const Replacement &replacement);

  Model &model;
  proto::GraphProto &graph;
  llvm::StringMap<const proto::NodeProto *> producers;
  llvm::StringMap<const proto::TensorProto *> tensors;
  llvm::StringMap<unsigned> readers;
  llvm::StringMap<Uniform> uniforms;
  llvm::StringMap<Choice> choices;
  std::vector<Replacement> found;
  /// Names of values, and the nodes that are added before a root.
  llvm::StringSet<> names;
  std::string prefix;
  std::vector<proto::NodeProto> added;
  llvm::DenseMap<const proto::NodeProto *, std::vector<proto::NodeProto>>
      replacements;
  llvm::SmallPtrSet<const proto::NodeProto *, 16> dropped;
};
} // namespace

static const proto::AttributeProto *findAttribute(const proto::NodeProto &node,
                                                  StringRef name) {
  for (const proto::AttributeProto &attribute : node.attribute())
    if (attribute.name() == name)
      return &attribute;
  return nullptr;
}

MaskReplacer::MaskReplacer(Model &model)
    : model(model), graph(*model.getProto().mutable_graph()) {
  for (const proto::TensorProto &tensor : graph.initializer()) {
    tensors.try_emplace(tensor.name(), &tensor);
    names.insert(tensor.name());
  }
  for (const proto::ValueInfoProto &input : graph.input())
    names.insert(input.name());
  for (const proto::GraphProto *each : findGraphs(std::as_const(graph)))
    for (const proto::NodeProto &node : each->node())
      names.insert(node.output().begin(), node.output().end());
  for (const proto::NodeProto &node : graph.node()) {
    for (const std::string &output : node.output())
      producers.try_emplace(output, &node);
    for (StringRef value : getReadValues(node))
      ++readers[value];
  }
  for (const proto::ValueInfoProto &output : graph.output())
    ++readers[output.name()];
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

const proto::TensorProto *MaskReplacer::findTensor(StringRef value) const {
  if (const proto::TensorProto *tensor = tensors.lookup(value))
    return tensor;
  const proto::NodeProto *node = producers.lookup(value);
  const proto::AttributeProto *attribute =
      node && (node->op_type() == "Constant" ||
               node->op_type() == "ConstantOfShape")
          ? findAttribute(*node, "value")
          : nullptr;
  return attribute && attribute->has_t() ? &attribute->t() : nullptr;
}

// The number that all elements of a float tensor are.
std::optional<double> MaskReplacer::readSplat(StringRef value) const {
  if (const proto::TensorProto *tensor = findTensor(value)) {
    llvm::Expected<HostTensor> elements = model.decode(*tensor, "value");
    if (elements && elements->isFloat() && elements->getNumElements() > 0 &&
        elements->isSplat())
      return elements->getDouble(0);
    // The import says what is wrong with it.
    llvm::consumeError(elements.takeError());
    return std::nullopt;
  }
  const proto::NodeProto *node = producers.lookup(value);
  if (node && node->op_type() == "Expand" && node->input_size() == 2)
    return readNumber(node->input(0));
  return readNumber(value);
}

// The float that a tensor of one element is, or a cast or sum of such.
std::optional<double> MaskReplacer::readNumber(StringRef value,
                                               unsigned depth) const {
  const proto::NodeProto *node = producers.lookup(value);
  if (node && node->op_type() == "Constant")
    if (const proto::AttributeProto *number =
            findAttribute(*node, "value_float"))
      return number->f();
  if (const proto::TensorProto *tensor = findTensor(value)) {
    if (!llvm::all_of(tensor->dims(), [](int64_t dim) { return dim == 1; }))
      return std::nullopt;
    llvm::Expected<HostTensor> number = model.decode(*tensor, "value");
    if (number && number->getNumElements() == 1 && number->isFloat())
      return number->getDouble(0);
    if (number && number->getNumElements() == 1 &&
        tensor->data_type() == proto::TensorProto::INT64)
      return number->getInteger(0);
    llvm::consumeError(number.takeError());
    return std::nullopt;
  }
  // Deeper than Cast(1 - p) nothing is looked for.
  constexpr unsigned kDeepest = 3;
  if (!node || depth == kDeepest || node->input_size() == 0)
    return std::nullopt;
  const StringRef op = node->op_type();
  std::optional<double> left = readNumber(node->input(0), depth + 1);
  if (!left || op == "Cast" || op == "CastLike" || op == "Identity")
    return left;
  std::optional<double> right = node->input_size() == 2
                                    ? readNumber(node->input(1), depth + 1)
                                    : std::nullopt;
  if (!right)
    return std::nullopt;
  return llvm::StringSwitch<std::optional<double>>(op)
      .Case("Add", *left + *right)
      .Case("Sub", *left - *right)
      .Case("Mul", *left * *right)
      .Case("Div", *left / *right)
      .Default(std::nullopt);
}

//===----------------------------------------------------------------------===//
// Random numbers
//===----------------------------------------------------------------------===//

// A mask of less than two values is none.
void MaskReplacer::addMask(const proto::NodeProto &node, const Chain &chain,
                           double p, double at0, double at1) {
  if (!(p > 0 && p < 1))
    return;
  Choice mask;
  mask.bias = {at0, at1};
  mask.p = p;
  mask.chain = chain;
  mask.chain.insert(&node);
  choices[node.output(0)] = std::move(mask);
}

bool MaskReplacer::visitSource(const proto::NodeProto &node) {
  const StringRef op = node.op_type();
  if (op == "Bernoulli" && node.input_size() == 1) {
    if (std::optional<double> p = readSplat(node.input(0)))
      addMask(node, {}, *p, 0, 1);
    return true;
  }
  if (op != "RandomUniform" && op != "RandomUniformLike")
    return false;
  Uniform uniform;
  if (const proto::AttributeProto *low = findAttribute(node, "low"))
    uniform.low = low->f();
  if (const proto::AttributeProto *high = findAttribute(node, "high"))
    uniform.high = high->f();
  uniform.chain.insert(&node);
  if (uniform.low < uniform.high)
    uniforms[node.output(0)] = std::move(uniform);
  return true;
}

// Values computed of uniform numbers: others, or a mask.
bool MaskReplacer::visitUniform(const proto::NodeProto &node) {
  int place = 0;
  while (place < node.input_size() && !uniforms.contains(node.input(place)))
    ++place;
  if (place == node.input_size())
    return false;
  const StringRef op = node.op_type();
  Uniform uniform = uniforms[node.input(place)];
  uniform.chain.insert(&node);
  // One operand:
  if (op == "Cast" || op == "CastLike" || op == "Identity") {
    if (place == 0)
      uniforms[node.output(0)] = std::move(uniform);
    return true;
  }
  const double extent = uniform.high - uniform.low;
  if (op == "Floor") {
    const double next = std::floor(uniform.low) + 1;
    if (next + 1 >= uniform.high)
      addMask(node, uniform.chain, (uniform.high - next) / extent, next - 1,
              next);
    return true;
  }
  // or a number besides.
  std::optional<double> number =
      node.input_size() == 2 ? readNumber(node.input(1 - place)) : std::nullopt;
  if (!number)
    return true;
  // A number may be cast to the type of those that it is compared with.
  const proto::NodeProto *like = producers.lookup(node.input(1 - place));
  if (like && like->op_type() == "CastLike" && like->input_size() == 2 &&
      like->input(1) == node.input(place))
    uniform.chain.insert(like);
  auto move = [&](double low, double high) {
    uniform.low = std::min(low, high);
    uniform.high = std::max(low, high);
    uniforms[node.output(0)] = std::move(uniform);
  };
  const double low = uniform.low, high = uniform.high;
  if (op == "Add")
    move(low + *number, high + *number);
  else if (op == "Sub" && place == 0)
    move(low - *number, high - *number);
  else if (op == "Sub")
    move(*number - high, *number - low);
  else if (op == "Mul" && *number != 0)
    move(low * *number, high * *number);
  // The smaller of both; equality has no probability.
  const bool isLess = op == "Less" || op == "LessOrEqual";
  if (isLess || op == "Greater" || op == "GreaterOrEqual") {
    const double below = (*number - low) / extent;
    addMask(node, uniform.chain, isLess == (place == 0) ? below : 1 - below, 0,
            1);
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Choices
//===----------------------------------------------------------------------===//

// Facts about an operand. With `isWhole` any value that is not random is a base
// as it is, else also a multiple of one.
std::optional<Choice> MaskReplacer::find(StringRef value, bool isWhole) const {
  if (uniforms.contains(value))
    return std::nullopt;
  auto known = choices.find(value);
  if (known != choices.end() && (!isWhole || !known->second.chain.empty()))
    return known->second;
  Choice choice;
  if (std::optional<double> number = readNumber(value)) {
    choice.bias = {*number, *number};
    return choice;
  }
  choice.base = value.str();
  choice.scale = {1, 1};
  return choice;
}

// The result of an elementwise op on choices of one mask and one base.
std::optional<Choice> MaskReplacer::compute(const proto::NodeProto &node,
                                            bool areWhole) const {
  const StringRef op = node.op_type();
  llvm::SmallVector<Choice> operands;
  Choice result;
  for (const std::string &input : node.input()) {
    std::optional<Choice> operand = find(input, areWhole);
    if (!operand)
      return std::nullopt;
    // Each of several masks has a first node of its own.
    if (!operand->chain.empty() && !result.chain.empty() &&
        operand->chain.front() != result.chain.front())
      return std::nullopt;
    if (!operand->chain.empty())
      result.p = operand->p;
    result.chain.insert(operand->chain.begin(), operand->chain.end());
    operands.push_back(std::move(*operand));
  }
  // Another type holds a mask as well.
  if (op == "Cast" || op == "CastLike" || op == "Identity") {
    if (!operands[0].isMask())
      return std::nullopt;
    result.bias = operands[0].bias;
    result.chain.insert(&node);
    return result;
  }
  if (op == "Not") {
    result.bias = {1 - operands[0].bias[0], 1 - operands[0].bias[1]};
    result.chain.insert(&node);
    return operands[0].isMask() ? std::optional(result) : std::nullopt;
  }
  const bool isWhere = op == "Where" && operands.size() == 3;
  if (!isWhere && operands.size() != 2)
    return std::nullopt;
  if (isWhere && !operands[0].isMask())
    return std::nullopt;
  // All that have a base have the same.
  for (const Choice &operand : operands) {
    if (!operand.base.empty() && !result.base.empty() &&
        operand.base != result.base)
      return std::nullopt;
    if (!operand.base.empty())
      result.base = operand.base;
  }
  const bool isProduct = op == "Mul" || op == "Div";
  if (isProduct && !operands[1].base.empty() &&
      (op == "Div" || !operands[0].base.empty()))
    return std::nullopt;
  for (unsigned b : {0u, 1u}) {
    const Choice &left = operands[0], &right = operands[1];
    if (isWhere) {
      const Choice &chosen = operands[left.bias[b] != 0 ? 1 : 2];
      result.scale[b] = chosen.scale[b];
      result.bias[b] = chosen.bias[b];
    } else if (op == "Add" || op == "Sub") {
      const double sign = op == "Add" ? 1 : -1;
      result.scale[b] = left.scale[b] + sign * right.scale[b];
      result.bias[b] = left.bias[b] + sign * right.bias[b];
    } else if (op == "Mul") {
      result.scale[b] =
          left.scale[b] * right.bias[b] + left.bias[b] * right.scale[b];
      result.bias[b] = left.bias[b] * right.bias[b];
    } else if (op == "Div" && right.bias[b] != 0) {
      result.scale[b] = left.scale[b] / right.bias[b];
      result.bias[b] = left.bias[b] / right.bias[b];
    } else {
      return std::nullopt;
    }
  }
  if (!result.chain.empty())
    result.chain.insert(&node);
  return result;
}

// Numbers are written with the digits of float32.
static bool isNear(double number, double expected) {
  return std::abs(number - expected) < 1e-4;
}

// True if the base is left out, or divided by the probability that it is not.
static bool isDropout(const Choice &choice) {
  return choice.scale[0] == 0 && isNear(choice.p * choice.scale[1], 1) &&
         choice.bias[0] == 0 && choice.bias[1] == 0;
}

// True if another number replaces the base, and both together have the mean and
// the variance of a base that has 0 and 1.
static bool isAlphaDropout(const Choice &choice) {
  const double p = choice.p, q = 1 - p;
  auto square = [](double number) { return number * number; };
  return choice.scale[0] == 0 && choice.bias[0] != 0 &&
         isNear(p * choice.bias[1] + q * choice.bias[0], 0) &&
         isNear(p * square(choice.scale[1]) + p * square(choice.bias[1]) +
                    q * square(choice.bias[0]),
                1);
}

// True if only the nodes of the choice read the random values.
bool MaskReplacer::isClosed(const Choice &choice) const {
  llvm::StringMap<unsigned> inside;
  for (const proto::NodeProto *node : choice.chain)
    for (const std::string &input : node->input())
      ++inside[input];
  return llvm::all_of(
      ArrayRef(choice.chain.getArrayRef()).drop_back(), [&](auto *node) {
        return llvm::all_of(node->output(), [&](const std::string &output) {
          return inside.lookup(output) == readers.lookup(output);
        });
      });
}

void MaskReplacer::visit(const proto::NodeProto &node) {
  const bool isElementwise = llvm::StringSwitch<bool>(node.op_type())
                                 .Cases("Add", "Sub", "Mul", "Div", true)
                                 .Cases("Where", "Not", "Identity", true)
                                 .Cases("Cast", "CastLike", true)
                                 .Default(false);
  if (!normalizeDomain(node.domain()).empty() || node.output_size() != 1 ||
      visitSource(node) || visitUniform(node) || !isElementwise)
    return;
  // A base is taken as it is where it can be: a factor in front of it may be
  // one that is trained. Else it is divided in front of its mask.
  for (bool areWhole : {true, false}) {
    std::optional<Choice> choice = compute(node, areWhole);
    if (!choice || (choice->chain.empty() && choice->base.empty()))
      continue;
    const bool isFound = !choice->base.empty() && !choice->chain.empty() &&
                         (isDropout(*choice) || isAlphaDropout(*choice));
    if (isFound && isClosed(*choice)) {
      found.push_back({&node, std::move(*choice)});
      choices.erase(node.output(0));
      return;
    }
    choices[node.output(0)] = std::move(*choice);
  }
}

//===----------------------------------------------------------------------===//
// In their place
//===----------------------------------------------------------------------===//

std::string MaskReplacer::addValue(StringRef hint) {
  std::string name = prefix + "_" + hint.lower();
  while (!names.insert(name).second)
    name += "_";
  return name;
}

std::string MaskReplacer::addNode(StringRef op, ArrayRef<std::string> inputs) {
  proto::NodeProto &node = added.emplace_back();
  node.set_op_type(op.str());
  for (const std::string &input : inputs)
    node.add_input(input);
  node.add_output(addValue(op));
  node.set_name(node.output(0));
  return node.output(0);
}

std::string MaskReplacer::addNumber(double number) {
  std::string name = addNode("Constant", {});
  proto::AttributeProto &value = *added.back().add_attribute();
  value.set_name("value_float");
  value.set_type(proto::AttributeProto::FLOAT);
  value.set_f(static_cast<float>(number));
  return name;
}

// A tensor attribute of one element.
static proto::TensorProto &addTensor(proto::NodeProto &node) {
  proto::AttributeProto &value = *node.add_attribute();
  value.set_name("value");
  value.set_type(proto::AttributeProto::TENSOR);
  return *value.mutable_t();
}

bool MaskReplacer::replace(const Replacement &replacement) {
  // Before opset 15 nothing casts to the type of a value that is not known.
  constexpr int64_t kFirstWithMode = 12, kFirstCastLike = 15;
  const proto::NodeProto *root = replacement.root;
  const Choice &choice = replacement.choice;
  const int64_t opset = model.getOpset(*root);
  if (opset < kFirstWithMode)
    return false;
  const bool isFloat =
      llvm::any_of(choice.chain, [](const proto::NodeProto *node) {
        const proto::AttributeProto *to =
            findAttribute(*node, node->op_type() == "Cast" ? "to" : "dtype");
        return to && to->i() == proto::TensorProto::FLOAT;
      });
  if (opset < kFirstCastLike && !isFloat)
    return false;
  added.clear();
  prefix = root->output(0) + "_mask";
  // Ones of the shape of the random numbers,
  const proto::NodeProto &source = *choice.chain.front();
  std::string shape;
  if (source.input_size() == 1) {
    shape = addNode("Shape", {source.input(0)});
  } else {
    shape = addNode("Constant", {});
    proto::TensorProto &numbers = addTensor(added.back());
    numbers.set_data_type(proto::TensorProto::INT64);
    if (const proto::AttributeProto *given = findAttribute(source, "shape"))
      *numbers.mutable_int64_data() = given->ints();
    numbers.add_dims(numbers.int64_data_size());
  }
  std::string ones = addNode("ConstantOfShape", {shape});
  proto::TensorProto &fill = addTensor(added.back());
  fill.set_data_type(proto::TensorProto::FLOAT);
  fill.add_dims(1);
  fill.add_float_data(1);
  // of which each is dropped or divided by p.
  std::string ratio = addNumber(1 - choice.p);
  std::string mode = addNode("Constant", {});
  proto::TensorProto &isTraining = addTensor(added.back());
  isTraining.set_data_type(proto::TensorProto::BOOL);
  isTraining.add_int32_data(1);
  std::string mask = addNode("Dropout", {ones, ratio, mode});
  auto cast = [&](const std::string &value) {
    return opset < kFirstCastLike ? value
                                  : addNode("CastLike", {value, choice.base});
  };
  std::string left = choice.base, right = cast(mask), op = "Mul";
  if (choice.bias[0] != 0) {
    // If m is 0, 1 / p, or 1 in evaluation, then m * (1 + share * (m - 1)) is
    // 0, scale[1] or 1, and other * m - other is bias[0], bias[1] or 0.
    const double p = choice.p;
    const double share = (choice.scale[1] * p - 1) / (1 / p - 1);
    std::string one = addNumber(1), other = addNumber(-choice.bias[0]);
    std::string factor = addNode("Sub", {mask, one});
    factor = addNode("Mul", {factor, addNumber(share)});
    factor = addNode("Add", {factor, one});
    factor = addNode("Mul", {mask, factor});
    left = addNode("Mul", {choice.base, cast(factor)});
    std::string sum = addNode("Mul", {mask, other});
    right = cast(addNode("Sub", {sum, other}));
    op = "Add";
  }
  // The root keeps its name and its output.
  proto::NodeProto node = *root;
  node.set_op_type(op);
  node.clear_attribute();
  node.clear_input();
  node.add_input(left);
  node.add_input(right);
  added.push_back(std::move(node));
  replacements[root] = std::move(added);
  dropped.insert(choice.chain.begin(), choice.chain.end());
  return true;
}

std::vector<std::string> MaskReplacer::run() {
  for (const proto::NodeProto &node : graph.node())
    visit(node);
  std::vector<std::string> done;
  for (const Replacement &each : found)
    if (replace(each))
      done.push_back("'" + getNodeName(*each.choice.chain.front()) + "'");
  if (done.empty())
    return done;
  llvm::StringSet<> gone;
  for (const proto::NodeProto *node : dropped)
    if (!replacements.contains(node))
      gone.insert(node->output().begin(), node->output().end());
  // In the order of the file, new nodes in front of their readers.
  std::remove_reference_t<decltype(*graph.mutable_node())> nodes;
  for (proto::NodeProto &node : *graph.mutable_node()) {
    for (proto::NodeProto &one : replacements[&node])
      nodes.Add()->Swap(&one);
    if (!dropped.contains(&node))
      nodes.Add()->Swap(&node);
  }
  graph.mutable_node()->Swap(&nodes);
  // Nothing is said of values that are gone.
  auto &infos = *graph.mutable_value_info();
  for (int i = infos.size() - 1; i >= 0; --i)
    if (gone.contains(infos.Get(i).name()))
      infos.DeleteSubrange(i, 1);
  return done;
}

std::string mpc::onnx_frontend::replaceRandomMasks(Model &model) {
  // Most models draw nothing.
  auto draws = [](const proto::NodeProto &node) {
    const StringRef op = node.op_type();
    return op == "Bernoulli" || op == "RandomUniform" ||
           op == "RandomUniformLike";
  };
  if (llvm::none_of(model.getProto().graph().node(), draws))
    return {};
  std::vector<std::string> done = MaskReplacer(model).run();
  if (done.empty())
    return {};
  return "random masks are taken as Dropout, which evaluation leaves out: " +
         listFirst(done, 2);
}
