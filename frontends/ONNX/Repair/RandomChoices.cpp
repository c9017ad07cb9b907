// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Repair/RandomChoices.h"

#include "frontends/ONNX/Model/ExportedProgram.h"
#include "frontends/ONNX/Model/Graph.h"
#include "frontends/ONNX/Model/HostTensor.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringSwitch.h"

#include <cmath>

using namespace mpc::onnx_frontend;
using llvm::ArrayRef;
using llvm::StringRef;

const proto::AttributeProto *
mpc::onnx_frontend::findNodeAttribute(const proto::NodeProto &node,
                                      StringRef name) {
  for (const proto::AttributeProto &attribute : node.attribute())
    if (attribute.name() == name)
      return &attribute;
  return nullptr;
}

RandomChoices::RandomChoices(Model &model, const DrawingScope &scope)
    : model(model) {
  auto add = [&](const proto::GraphProto &graph) {
    // Exclude parameters, which change in training: names in the metadata, and
    // dotted names, as of modules' parameters. Exclude names that two graphs
    // define, which are ambiguous.
    for (const proto::TensorProto &tensor : graph.initializer()) {
      StringRef name = tensor.name();
      const bool isLearned =
          model.getProgram().parameters.contains(name) || name.contains('.');
      auto [entry, isNew] =
          tensors.try_emplace(name, isLearned ? nullptr : &tensor);
      if (!isNew)
        entry->second = nullptr;
    }
  };
  for (const proto::GraphProto *graph : scope.graphs)
    add(*graph);
  for (const proto::NodeProto &node : *scope.nodes) {
    for (const std::string &output : node.output())
      producers.try_emplace(output, &node);
    for (StringRef value : getReadValues(node))
      ++readers[value];
  }
  for (const std::string &output : scope.outputs)
    ++readers[output];
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

const proto::TensorProto *RandomChoices::findTensor(StringRef value) const {
  if (const proto::TensorProto *tensor = tensors.lookup(value))
    return tensor;
  const proto::NodeProto *node = producers.lookup(value);
  const proto::AttributeProto *attribute =
      node && (node->op_type() == "Constant" ||
               node->op_type() == "ConstantOfShape")
          ? findNodeAttribute(*node, "value")
          : nullptr;
  return attribute && attribute->has_t() ? &attribute->t() : nullptr;
}

// Returns the value of all elements of a constant float tensor; nullopt if the
// elements differ or are unknown.
std::optional<double> RandomChoices::readSplat(StringRef value) const {
  if (const proto::TensorProto *tensor = findTensor(value)) {
    llvm::Expected<HostTensor> elements = model.decode(*tensor, "value");
    if (elements && elements->isFloat() && elements->getNumElements() > 0 &&
        elements->isSplat())
      return elements->getDouble(0);
    // Drop the error: the import reports undecodable tensors.
    llvm::consumeError(elements.takeError());
    return std::nullopt;
  }
  const proto::NodeProto *node = producers.lookup(value);
  if (node && node->op_type() == "Expand" && node->input_size() == 2)
    return readNumber(node->input(0));
  return readNumber(value);
}

// Evaluates a constant number: a tensor of one element, or a cast, sum,
// difference, product or quotient of constant numbers. nullopt for other
// values.
std::optional<double> RandomChoices::readNumber(StringRef value,
                                                unsigned depth) const {
  const proto::NodeProto *node = producers.lookup(value);
  if (node && node->op_type() == "Constant")
    if (const proto::AttributeProto *number =
            findNodeAttribute(*node, "value_float"))
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
  // The deepest expression that programs write is Cast(1 - p).
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

// Records that `node` computes a random mask, whose elements are `at1` with
// probability `p` and otherwise `at0`. Ignores p <= 0 and p >= 1: the mask is
// constant.
void RandomChoices::addMask(const proto::NodeProto &node, const Chain &chain,
                            double p, double at0, double at1) {
  if (!(p > 0 && p < 1))
    return;
  Choice mask;
  mask.bias = {at0, at1};
  mask.p = p;
  mask.chain = chain;
  mask.chain.insert(&node);
  mask.mask = &node;
  choices[node.output(0)] = std::move(mask);
}

bool RandomChoices::visitSource(const proto::NodeProto &node) {
  const StringRef op = node.op_type();
  if (op == "Bernoulli" && node.input_size() == 1) {
    if (std::optional<double> p = readSplat(node.input(0)))
      addMask(node, {}, *p, 0, 1);
    return true;
  }
  if (op != "RandomUniform" && op != "RandomUniformLike")
    return false;
  Uniform uniform;
  if (const proto::AttributeProto *low = findNodeAttribute(node, "low"))
    uniform.low = low->f();
  if (const proto::AttributeProto *high = findNodeAttribute(node, "high"))
    uniform.high = high->f();
  uniform.chain.insert(&node);
  if (uniform.low < uniform.high)
    uniforms[node.output(0)] = std::move(uniform);
  return true;
}

// Handles an op with an operand of uniform random numbers: the result is
// uniform too (r + 1), or a mask (r < 0.3). Returns false if no operand is
// uniform.
bool RandomChoices::visitUniform(const proto::NodeProto &node) {
  int place = 0;
  while (place < node.input_size() && !uniforms.contains(node.input(place)))
    ++place;
  if (place == node.input_size())
    return false;
  const StringRef op = node.op_type();
  Uniform uniform = uniforms[node.input(place)];
  uniform.chain.insert(&node);
  // Casts and Identity keep the numbers uniform; Floor makes a mask.
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
  // All other ops combine the uniform numbers with a constant.
  std::optional<double> number =
      node.input_size() == 2 ? readNumber(node.input(1 - place)) : std::nullopt;
  if (!number)
    return true;
  // A CastLike may cast the constant to the type of the uniform numbers, and
  // then belongs to the chain.
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
  // Less and LessOrEqual are equivalent, because equality has probability 0.
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

// Describes an operand as a choice. A value that is not random is its own base.
// With `isWhole`, a value known as a multiple of another base also counts as
// its own base. nullopt for uniform numbers.
std::optional<RandomChoices::Choice> RandomChoices::find(StringRef value,
                                                         bool isWhole) const {
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

// Computes the choice that results from the elementwise op `node`. nullopt
// unless the random operands share a mask, and the operands share a base.
std::optional<RandomChoices::Choice>
RandomChoices::compute(const proto::NodeProto &node, bool areWhole) const {
  const StringRef op = node.op_type();
  llvm::SmallVector<Choice> operands;
  Choice result;
  for (const std::string &input : node.input()) {
    std::optional<Choice> operand = find(input, areWhole);
    if (!operand)
      return std::nullopt;
    // Compare masks, not random numbers: a random number compared with two
    // bounds gives two masks.
    if (!operand->chain.empty() && !result.chain.empty() &&
        operand->mask != result.mask)
      return std::nullopt;
    if (!operand->chain.empty()) {
      result.mask = operand->mask;
      result.p = operand->p;
    }
    result.chain.insert(operand->chain.begin(), operand->chain.end());
    operands.push_back(std::move(*operand));
  }
  if (operands.empty())
    return std::nullopt;
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
  // scale[b] * base + bias[b] can only describe the result if all operands
  // share a base.
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

// Compares up to the rounding of numbers in files, which have the digits of
// float32.
static bool isNear(double number, double expected) {
  return std::abs(number - expected) < 1e-4;
}

// True if the choice is 0 or base / p, as Dropout computes.
static bool isDropout(const RandomChoices::Choice &choice) {
  return choice.scale[0] == 0 && isNear(choice.p * choice.scale[1], 1) &&
         choice.bias[0] == 0 && choice.bias[1] == 0;
}

// True if the choice is 0 or the base without a factor.
static bool isUnscaled(const RandomChoices::Choice &choice) {
  return choice.scale[0] == 0 && choice.scale[1] == 1 && choice.bias[0] == 0 &&
         choice.bias[1] == 0;
}

// Exchanges b = 0 and b = 1 if needed: b = 0 becomes the case without the base.
static RandomChoices::Choice order(RandomChoices::Choice choice) {
  if (choice.scale[1] == 0 && choice.scale[0] != 0) {
    std::swap(choice.scale[0], choice.scale[1]);
    std::swap(choice.bias[0], choice.bias[1]);
    choice.p = 1 - choice.p;
  }
  return choice;
}

// True if the choice is an AlphaDropout: b = 0 gives a constant instead of the
// base, and the result has mean 0 and variance 1 if the base has.
static bool isAlphaDropout(const RandomChoices::Choice &choice) {
  const double p = choice.p, q = 1 - p;
  auto square = [](double number) { return number * number; };
  return choice.scale[0] == 0 && choice.bias[0] != 0 &&
         isNear(p * choice.bias[1] + q * choice.bias[0], 0) &&
         isNear(p * square(choice.scale[1]) + p * square(choice.bias[1]) +
                    q * square(choice.bias[0]),
                1);
}

// True if no node outside the choice's chain reads the random values: then the
// chain can be replaced.
bool RandomChoices::isClosed(const RandomChoices::Choice &choice) const {
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

// True if the choice has a single random number per sample: a shape of [N, 1,
// 1, ...].
bool RandomChoices::isOfSamples(const Choice &choice) const {
  const proto::NodeProto &source = *choice.chain.front();
  auto isOfSamples = [](auto &&extents) {
    return extents.size() > 1 &&
           llvm::all_of(llvm::drop_begin(extents),
                        [](int64_t extent) { return extent == 1; });
  };
  if (const proto::AttributeProto *shape = findNodeAttribute(source, "shape"))
    return isOfSamples(shape->ints());
  // RandomUniformLike and Bernoulli take the shape of an input: find the shape
  // through casts.
  const proto::NodeProto *like = &source;
  constexpr unsigned kDeepest = 4;
  for (unsigned i = 0; i < kDeepest && like->input_size() > 0; ++i) {
    const std::string &input = like->input(0);
    like = producers.lookup(input);
    if (const proto::TensorProto *tensor = findTensor(input);
        tensor && !(like && like->op_type() == "ConstantOfShape"))
      return isOfSamples(tensor->dims());
    if (!like)
      return false;
    const bool isFilled = like->op_type() == "ConstantOfShape";
    if (isFilled || like->op_type() == "Expand") {
      const proto::TensorProto *shape =
          findTensor(like->input(isFilled ? 0 : 1));
      if (!shape)
        return false;
      llvm::Expected<HostTensor> extents = model.decode(*shape, "value");
      if (extents && !extents->isFloat())
        return isOfSamples(extents->getIntegers());
      llvm::consumeError(extents.takeError());
      return false;
    }
  }
  return false;
}

// Recognises DropBlock: 1 - max_pool(mask). The pooling spreads each 1 in the
// mask to a block, so the result drops blocks.
bool RandomChoices::visitBlock(const proto::NodeProto &node) {
  const StringRef op = node.op_type();
  const bool isMinuend = op == "Sub" && node.input_size() == 2;
  if (node.input_size() < 1)
    return false;
  const std::string &input = node.input(isMinuend ? 1 : 0);
  if (readers.lookup(input) != 1)
    return false;
  auto known = blocks.find(input);
  if (isMinuend) {
    if (known == blocks.end() || !known->second.isPooled ||
        readNumber(node.input(0)) != 1.0)
      return false;
    const Choice &choice = known->second.choice;
    found.push_back({choice.chain.back(), choice, /*isBlock=*/true});
    return true;
  }
  const bool isPool = op == "MaxPool", isPad = op == "Pad";
  if (!isPool && !isPad &&
      !(known != blocks.end() &&
        (op == "Cast" || op == "CastLike" || op == "Identity")))
    return false;
  Block block;
  if (known != blocks.end()) {
    block = known->second;
  } else {
    auto mask = choices.find(input);
    if (mask == choices.end() || !mask->second.isMask() ||
        mask->second.bias != std::array<double, 2>{0, 1} ||
        !isClosed(mask->second))
      return false;
    block = {mask->second, false};
  }
  // Skip a Pad that fills with other numbers than zeros: only zeros drop
  // nothing.
  const proto::AttributeProto *fill = findNodeAttribute(node, "value");
  if (isPad && ((fill && fill->f() != 0) ||
                (node.input_size() > 2 && readNumber(node.input(2)) != 0.0)))
    return false;
  block.isPooled |= isPool;
  blocks[node.output(0)] = std::move(block);
  return true;
}

void RandomChoices::visit(const proto::NodeProto &node) {
  const bool isElementwise = llvm::StringSwitch<bool>(node.op_type())
                                 .Cases("Add", "Sub", "Mul", "Div", true)
                                 .Cases("Where", "Not", "Identity", true)
                                 .Cases("Cast", "CastLike", true)
                                 .Default(false);
  if (!normalizeDomain(node.domain()).empty() || node.output_size() != 1 ||
      visitBlock(node) || visitSource(node) || visitUniform(node) ||
      !isElementwise)
    return;
  // First take whole operands as bases, because a constant factor in an operand
  // may be a trained parameter. Otherwise split constant factors off the bases.
  std::optional<Found> whole;
  for (bool areWhole : {true, false}) {
    std::optional<Choice> choice = compute(node, areWhole);
    if (!choice || (choice->chain.empty() && choice->base.empty()))
      continue;
    const bool isChosen = !choice->base.empty() && !choice->chain.empty();
    const Choice ordered = isChosen ? order(*choice) : *choice;
    if (isChosen && (isDropout(ordered) || isAlphaDropout(ordered)) &&
        isClosed(ordered)) {
      found.push_back({&node, ordered});
      choices.erase(node.output(0));
      return;
    }
    if (isChosen && areWhole && isUnscaled(ordered) && isClosed(ordered) &&
        isOfSamples(ordered))
      whole = Found{&node, ordered};
    choices[node.output(0)] = std::move(*choice);
  }
  if (whole)
    unscaled.push_back(std::move(*whole));
}

std::vector<RandomChoices::Found> RandomChoices::takeFound() {
  // Drop an unscaled choice inside another choice: a later node scales the
  // result.
  llvm::SmallPtrSet<const proto::NodeProto *, 16> inner;
  auto addInner = [&](const Choice &choice) {
    for (const proto::NodeProto *node :
         ArrayRef(choice.chain.getArrayRef()).drop_back())
      inner.insert(node);
  };
  for (const auto &entry : choices)
    if (!entry.second.chain.empty())
      addInner(entry.second);
  for (const Found &each : found)
    addInner(each.choice);
  for (Found &each : unscaled)
    if (!inner.contains(each.root))
      found.push_back(std::move(each));
  return std::move(found);
}
