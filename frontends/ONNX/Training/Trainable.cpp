// Finds the weights of a forward model by the ops that read them.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Training/Trainable.h"

#include "frontends/ONNX/Repair/Origins.h"
#include "frontends/ONNX/Training/ParameterNames.h"
#include "frontends/ONNX/Training/TrainableSearch.h"
#include "frontends/ONNX/Training/WeightedOps.h"

using namespace mpc::onnx_frontend;
using llvm::ArrayRef;
using llvm::StringRef;

using Kind = WeightedOp::Kind;

//===----------------------------------------------------------------------===//
// The search
//===----------------------------------------------------------------------===//

// Appends to `nodes` the nodes in bodies of `node`, then `node`. Skips nodes
// without a result; the import reports them.
static void addNodes(const proto::NodeProto &node,
                     std::vector<const proto::NodeProto *> &nodes) {
  for (const proto::GraphProto *body : getBodies(node))
    for (const proto::NodeProto &nested : body->node())
      addNodes(nested, nodes);
  if (node.output_size() > 0)
    nodes.push_back(&node);
}

TrainableSearch::TrainableSearch(const Graph &graph, const TensorMap &given)
    : graph(graph), given(given) {
  for (const Node *node : graph.getNodes())
    addNodes(*node, nodes);
  for (const Node *node : nodes)
    for (const std::string &input : node->input())
      readers[input].push_back(node);
  for (const Node *node : nodes)
    findBuffers(*node);
}

// Collects operands that are not trained: running statistics, scales and zero
// points of quantized values, and class weights.
void TrainableSearch::findBuffers(const Node &node) {
  StringRef op = node.op_type();
  int first = node.input_size(), end = node.input_size();
  if (op == "BatchNormalization" && node.input_size() == 5)
    first = 3;
  else if (op == "QuantizeLinear" || op == "DequantizeLinear")
    first = 1;
  else if (op == "MatMulNBits") {
    first = 2;
    end = std::min(end, 5); // input 5 is a bias
  } else if (op == "SoftmaxCrossEntropyLoss" ||
             op == "NegativeLogLikelihoodLoss")
    first = 2;
  for (int index = first; index < end; ++index)
    buffers.insert(skipViews(node.input(index)));
}

// Finds a stored tensor: an initializer or the floats of a Constant.
const proto::TensorProto *TrainableSearch::findTensor(StringRef name) const {
  if (const proto::TensorProto *tensor = graph.getInitializer(name))
    return tensor;
  const Node *producer = graph.getProducer(name);
  return producer ? findConstantTensor(*producer) : nullptr;
}

// Returns the shape of a stored tensor or of an input whose value the user
// gives; nullopt for other values.
std::optional<llvm::SmallVector<int64_t>>
TrainableSearch::getStoredShape(StringRef name) {
  if (const proto::TensorProto *tensor = findTensor(name))
    return llvm::SmallVector<int64_t>(tensor->dims().begin(),
                                      tensor->dims().end());
  if (auto it = given.find(name); it != given.end())
    return llvm::SmallVector<int64_t>(it->second.getShape());
  return std::nullopt;
}

llvm::StringSet<> TrainableSearch::run() {
  for (const Node *node : nodes)
    for (const std::string &input : node->input())
      if (getStoredShape(input))
        facts[input].isFixed = true;
  for (const Node *node : nodes) {
    findWeights(*node);
    findAddends(*node);
    Facts result = infer(*node);
    for (const std::string &output : node->output())
      facts[output] = result;
  }
  findNamed();
  return std::move(weights);
}

// Adds floats with a name that a module gave, such as "layers.0.scale", unless
// they are buffers.
void TrainableSearch::findNamed() {
  for (const auto &entry : readers) {
    StringRef name = entry.first();
    if (isModulesName(name) && isFloat(name) && !isBuffer(name))
      weights.insert(name);
  }
}

// Lists float initializers that are read but not trained, and have no origin in
// the metadata.
void TrainableSearch::listOthers(const llvm::StringMap<std::string> &origins,
                                 Trainables &found) {
  // If metadata name the parameters, no other initializer is a parameter.
  const bool isKnown = llvm::any_of(origins, [](const auto &entry) {
    return entry.second == kParameterOrigin;
  });
  const bool isPyTorchs =
      graph.getModel().getProto().producer_name() == "pytorch";
  for (const auto &tensor : graph.getModel().getProto().graph().initializer()) {
    StringRef name = tensor.name();
    if (!holdsFloats(tensor) || !readers.contains(name) ||
        found.parameters.contains(name) || origins.contains(name) ||
        buffers.contains(name))
      continue;
    if (isNumbered(name) && isOneNumber(name))
      found.numbers.insert(name);
    if (isKnown)
      continue;
    const bool isNamed =
        (isPyTorchs || name.contains('.')) && !isNumbered(name);
    StringRef evidence = findEvidence(name);
    if (evidence.empty() && frequencies.contains(name))
      evidence = "only sines and cosines read its products with positions";
    if (!evidence.empty())
      found.evidence[name] = evidence;
    (isNamed && evidence.empty() ? found.named : found.constants)
        .push_back(name.str());
  }
}

//===----------------------------------------------------------------------===//
// Facts about the results of nodes
//===----------------------------------------------------------------------===//

// Sets `takesBias` if a value added to the result of `node` is a learned bias.
// This holds for contractions with weights, normalizations and embedded rows.
void TrainableSearch::inferBias(const Node &node, Facts &result) {
  StringRef op = node.op_type();
  const WeightedOp *weighted = findWeightedOp(op);
  if (weighted && weighted->kind == Kind::Contraction && !isAngles(node))
    result.takesBias = llvm::any_of(weighted->weights, [&](int index) {
      return index < node.input_size() && getFacts(node.input(index)).isFixed;
    });
  if (weighted && weighted->kind == Kind::Normalization) {
    result.takesBias = true;
    // A group normalization is exported as an InstanceNormalization with scale
    // 1, followed by the product with the true scale.
    result.isNormalized =
        weighted->weights.size() == 0 || op == "InstanceNormalization";
  }
  // Gather reads rows of a table. A constant table with constant indices is a
  // lookup, any other Gather an embedding.
  if (op == "Gather" && readsRows(node))
    (result.isFixed ? result.isLookup : result.takesBias) = true;
}

Facts TrainableSearch::infer(const Node &node) {
  StringRef op = node.op_type();
  Facts result;
  // The import folds all shapes to constants, even the shapes of data.
  result.isFixed = op == "Shape" || op == "Size" ||
                   llvm::all_of(node.input(), [&](const std::string &input) {
                     return input.empty() || getFacts(input).isFixed;
                   });
  inferBias(node, result);
  // Views and sums pass on `takesBias` from their operands.
  if (isView(op) || isSum(op))
    for (const std::string &input : node.input())
      result.takesBias |= getFacts(input).takesBias;
  // The result of a view, such as a reshape, has the facts of its first
  // operand.
  if (isView(op) && node.input_size() > 0) {
    Facts source = getFacts(node.input(0));
    result.isNormalized = source.isNormalized;
    result.isRoot = source.isRoot;
    result.isInverseRoot = source.isInverseRoot;
    result.isLookup = source.isLookup;
  }
  inferNormalization(node, result);
  return result;
}

// Recognises a normalization that consists of single ops: data divided by a
// root of data, such as Div(Sub(x, mean), Sqrt(Add(variance, epsilon))), then a
// scale.
void TrainableSearch::inferNormalization(const Node &node, Facts &result) {
  StringRef op = node.op_type();
  auto get = [&](int index) {
    return index < node.input_size() ? getFacts(node.input(index)) : Facts();
  };
  // An epsilon added to a root keeps it above 0: the result still counts as a
  // root. So does the mean of roots.
  bool isStabilized = op == "ReduceMean" || (isSum(op) && get(1).isFixed);
  if (op == "Sqrt" || op == "ReduceL2")
    result.isRoot = !result.isFixed;
  else if (isStabilized)
    result.isRoot |= get(0).isRoot;
  else if (op == "Reciprocal")
    result.isInverseRoot = get(0).isRoot;
  else if (op == "Div" && get(1).isRoot)
    (get(0).isFixed ? result.isInverseRoot : result.isNormalized) = true;
  else if (op == "Mul" && node.input_size() == 2)
    for (int index : {0, 1}) {
      Facts value = get(index), factor = get(1 - index);
      result.isInverseRoot |= value.isInverseRoot && factor.isFixed;
      result.isNormalized |=
          (value.isInverseRoot || value.isNormalized) && !factor.isFixed;
      result.takesBias |= value.isNormalized && factor.isFixed;
    }
  result.takesBias |= result.isNormalized;
}

//===----------------------------------------------------------------------===//
// Operands that are weights
//===----------------------------------------------------------------------===//

void TrainableSearch::findWeights(const Node &node) {
  StringRef op = node.op_type();
  const WeightedOp *weighted = findWeightedOp(op);
  const bool isTurn = isAngles(node);
  if (weighted)
    for (int index : weighted->weights) {
      if (index >= node.input_size())
        continue;
      if (isTurn)
        frequencies.insert(skipViews(node.input(index)));
      else
        use(node.input(index), Use::Operand);
    }
  if (op == "Gather" && readsRows(node) && !getFacts(node.input(1)).isFixed)
    use(node.input(0), Use::Operand);
  // Find the scale of a normalization in single ops: scale * (x / root), or
  // (scale * x) / root.
  if ((op == "Mul" || op == "Div") && node.input_size() == 2)
    for (int index : {0, 1}) {
      Facts other = getFacts(node.input(1 - index));
      if (op == "Mul" ? other.isInverseRoot : index == 0 && other.isRoot)
        useFactors(node.input(index));
      if (op == "Mul" && (other.isNormalized || other.isInverseRoot))
        use(node.input(index), Use::Bias);
    }
}

// Marks the factors of the product `value` as scales of a normalization if they
// are stored vectors.
void TrainableSearch::useFactors(StringRef value) {
  const Node *product = graph.getProducer(value);
  if (product && product->op_type() == "Mul")
    for (const std::string &factor : product->input())
      if (isStoredVector(factor))
        use(factor, Use::Bias);
}

// Finds weights among the operands of a sum or a Concat: a bias added to a
// value with `takesBias`, or a class token joined to it. Also a row of a
// lookup, such as a relative position that is added to attention scores.
void TrainableSearch::findAddends(const Node &node) {
  const bool isJoin = node.op_type() == "Concat";
  if (!isSum(node.op_type()) && !isJoin)
    return;
  bool takesBias = llvm::any_of(node.input(), [&](const std::string &input) {
    return getFacts(input).takesBias;
  });
  for (const std::string &input : node.input())
    if (getFacts(input).isLookup)
      use(input, Use::Joined);
    else if (takesBias)
      use(input, isJoin ? Use::Joined : Use::Bias);
}

// True if the stored value `name` acts as a weight when used in the way `how`.
// A scalar that is added or joined is a constant of the program. A value with a
// numbered name is a weight only if a layer reads it as an operand, or if it is
// a bias and a vector.
bool TrainableSearch::mayBe(StringRef name, Use how) {
  // A layer's operand is a weight unless a module has named it as a buffer. A
  // value in `buffers` may still be a bias that an exporter merged with an
  // equal statistic.
  if (how == Use::Operand)
    return buffers.contains(name) || !isModulesName(name) ||
           !isNamedAsBuffer(name);
  return !isBuffer(name) &&
         (isNumbered(name) ? how == Use::Bias && isStoredVector(name)
                           : !getStoredShape(name)->empty());
}

// Marks the initializers from which `value` is computed as weights. If ops
// other than views lie between, scales and masks are left out.
void TrainableSearch::use(StringRef value, Use how) {
  // `within` is true if an op other than a view lies between `current` and
  // `value`.
  llvm::SmallVector<std::pair<StringRef, bool>> worklist = {{value, false}};
  while (!worklist.empty()) {
    auto [current, within] = worklist.pop_back_val();
    if (!getFacts(current).isFixed ||
        !(within ? searchedWithin : searched).insert(current).second)
      continue;
    if (getStoredShape(current)) {
      // A mask over the elements of a weight, or a number that scales the
      // weight, is not trained.
      const bool isScale = isOneNumber(current) ||
                           (isNumbered(current) && isStoredVector(current));
      const bool isFactor = within && (isScale || isBuffer(current));
      if (!isFactor && mayBe(current, how))
        weights.insert(current);
      continue;
    }
    const Node *producer = graph.getProducer(current);
    if (!producer || producer->op_type() == "Shape")
      continue;
    // The operand of a view may be a whole weight. The operands of other ops
    // may also be scales and masks, which are not trained.
    const bool isWhole = isView(producer->op_type());
    for (const std::string &input : producer->input()) {
      worklist.push_back({input, within || !isWhole});
      // A view reads its other inputs as shapes, scales or values for padding.
      if (isWhole && producer->op_type() != "Concat")
        break;
    }
  }
}

Trainables
mpc::onnx_frontend::findTrainable(const Graph &graph, const TensorMap &given,
                                  const llvm::StringMap<std::string> &origins) {
  TrainableSearch search(graph, given);
  Trainables found;
  found.parameters = search.run();
  for (const auto &entry : origins)
    if (entry.second == kParameterOrigin)
      found.parameters.insert(entry.first());
    else
      found.parameters.erase(entry.first());
  // If metadata name the parameters, Constants are not parameters. PyTorch's
  // exporters store all parameters as initializers, with or without metadata.
  const bool isKnown =
      graph.getModel().getProto().producer_name() == "pytorch" ||
      llvm::any_of(origins, [](const auto &entry) {
        return entry.second == kParameterOrigin;
      });
  if (isKnown)
    for (const proto::NodeProto *node : graph.getNodes())
      if (findConstantTensor(*node))
        found.parameters.erase(node->output(0));
  search.listOthers(origins, found);
  return found;
}
