// Finds the weights of a forward model by what its nodes do.
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

// Appends the nodes of the bodies of `node`, then itself: one without a result
// says nothing, and the import says what is wrong with it.
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

// Running statistics, scales and zero points of integers, weights of classes.
void TrainableSearch::findBuffers(const Node &node) {
  StringRef op = node.op_type();
  int first = node.input_size();
  if (op == "BatchNormalization" && node.input_size() == 5)
    first = 3;
  else if (isQuantization(op))
    first = 1;
  else if (op == "SoftmaxCrossEntropyLoss" || op == "NegativeLogLikelihoodLoss")
    first = 2;
  for (int index = first; index < node.input_size(); ++index)
    buffers.insert(skipViews(node.input(index)));
}

// An initializer, or floats of a Constant node.
const proto::TensorProto *TrainableSearch::findTensor(StringRef name) const {
  if (const proto::TensorProto *tensor = graph.getInitializer(name))
    return tensor;
  const Node *producer = graph.getProducer(name);
  return producer ? findConstantTensor(*producer) : nullptr;
}

// The shape of such a tensor, or of an input with a given value.
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

// Values that a module has named.
void TrainableSearch::findNamed() {
  auto isStored = [&](StringRef name) { return graph.getInitializer(name); };
  for (const auto &entry : readers) {
    StringRef name = entry.first();
    if ((isModulesName(name) || isListElement(name, isStored)) &&
        isFloat(name) && !isBuffer(name))
      weights.insert(name);
  }
}

// An initializer that is read and no parameter, and of which the file says
// nothing, is a constant.
void TrainableSearch::listOthers(const llvm::StringMap<std::string> &origins,
                                 Trainables &found) {
  // If the exporter tells parameters, nothing else is one.
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
    (isNamed && !isBuffer(name) ? found.named : found.constants)
        .push_back(name.str());
  }
}

//===----------------------------------------------------------------------===//
// What is known of a node's results
//===----------------------------------------------------------------------===//

// What a contraction or a normalization gives may have a bias added, which is
// learned.
void TrainableSearch::inferBias(const Node &node, Facts &result) {
  StringRef op = node.op_type();
  const WeightedOp *weighted = findWeightedOp(op);
  if (weighted && weighted->kind == Kind::Contraction && !isAngles(node))
    result.takesBias = llvm::any_of(weighted->weights, [&](int index) {
      return index < node.input_size() && getFacts(node.input(index)).isFixed;
    });
  if (weighted && weighted->kind == Kind::Normalization) {
    result.takesBias = true;
    // A group normalization is exported as one of instances, with ones as its
    // scale, and a product behind it.
    result.isNormalized =
        weighted->weights.size() == 0 || op == "InstanceNormalization";
  }
  // A row of a table is picked by indices: a lookup if table and indices are
  // fixed, else an embedding.
  if (op == "Gather" && isTable(node))
    (result.isFixed ? result.isLookup : result.takesBias) = true;
}

Facts TrainableSearch::infer(const Node &node) {
  StringRef op = node.op_type();
  Facts result;
  // Shapes are known when the model is imported, whatever has them.
  result.isFixed = op == "Shape" || op == "Size" ||
                   llvm::all_of(node.input(), [&](const std::string &input) {
                     return input.empty() || getFacts(input).isFixed;
                   });
  result.isFixed &= !op.starts_with("Random") && op != "Bernoulli";
  inferBias(node, result);
  // Views and sums pass on what their operands are.
  if (isView(op) || isSum(op) || isQuantization(op))
    for (const std::string &input : node.input())
      result.takesBias |= getFacts(input).takesBias;
  // Of a view the facts are its operand's.
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

// A normalization that is spelt out: data over a root of data, such as
// Div(Sub(x, mean), Sqrt(Add(variance, epsilon))), then its scale.
void TrainableSearch::inferNormalization(const Node &node, Facts &result) {
  StringRef op = node.op_type();
  auto get = [&](int index) {
    return index < node.input_size() ? getFacts(node.input(index)) : Facts();
  };
  // A number that keeps the root from 0; a mean of roots is one as well.
  bool isStabilized =
      op == "ReduceMean" || ((isSum(op) || op == "Max" || op == "Clip") &&
                             (get(1).isFixed || node.input_size() == 1));
  // Roots, their inverses, and what is multiplied or divided by them.
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
// Which operands are weights
//===----------------------------------------------------------------------===//

void TrainableSearch::findWeights(const Node &node) {
  StringRef op = node.op_type();
  const WeightedOp *weighted = findWeightedOp(op);
  if (weighted && !isAngles(node))
    for (int index : weighted->weights)
      if (index < node.input_size())
        use(node.input(index), Use::Operand);
  if (op == "Gather" && isTable(node) && !getFacts(node.input(1)).isFixed)
    use(node.input(0), Use::Operand);
  // The scale of a normalization that is spelt out, before or behind it; also
  // that of what is divided by the root, as in scale * x / root.
  if ((op == "Mul" || op == "Div") && node.input_size() == 2)
    for (int index : {0, 1}) {
      Facts other = getFacts(node.input(1 - index));
      if (op == "Mul" ? other.isInverseRoot : index == 0 && other.isRoot)
        useFactors(node.input(index));
      if (op == "Mul" && (other.isNormalized || other.isInverseRoot))
        use(node.input(index), Use::Bias);
    }
}

// Of a product, the factors that have one number for each channel.
void TrainableSearch::useFactors(StringRef value) {
  const Node *product = graph.getProducer(value);
  if (product && product->op_type() == "Mul")
    for (const std::string &factor : product->input())
      if (isStoredVector(factor))
        use(factor, Use::Bias);
}

// What is added to a value that takes a bias, or joined to it as class tokens
// are to patches; looked up rows that are added to anything, as relative
// positions are to attention scores.
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

// True if a stored value that is read so acts as a weight. A scalar beside an
// operand of a layer is a constant of the program, and what a tool has numbered
// is a bias only as a vector.
bool TrainableSearch::mayBe(StringRef name, Use how) {
  // A bias that an exporter merged with a statistic is trained.
  if (how == Use::Operand)
    return buffers.contains(name) || !isModulesName(name) ||
           !isNamedAsBuffer(name);
  if (isNumbered(name))
    return how == Use::Bias && isStoredVector(name) && !buffers.contains(name);
  return !getStoredShape(name)->empty() && !isBuffer(name);
}

// `value` is read so: the initializers that it is a view of act as weights, and
// so do those of more than one element that an operand is computed from.
void TrainableSearch::use(StringRef value, Use how) {
  // From the value back through what computes it.
  llvm::SmallVector<std::pair<StringRef, bool>> worklist = {{value, false}};
  while (!worklist.empty()) {
    auto [current, within] = worklist.pop_back_val();
    if (!getFacts(current).isFixed ||
        !(within ? searchedWithin : searched).insert(current).second)
      continue;
    if (getStoredShape(current)) {
      // A mask that hides elements of a weight is none, and neither are numbers
      // that scale it.
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
    if (isFakeQuantization(*producer)) {
      worklist.push_back({producer->input(0), within});
      continue;
    }
    // Views hand on all of a weight, others only what is computed from it.
    bool isComputed = within || !isView(producer->op_type());
    for (const std::string &input : producer->input())
      worklist.push_back({input, isComputed});
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
  // If the exporter tells parameters, the values of nodes are none.
  // PyTorch's exporters keep all parameters in initializers, with and without
  // metadata.
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
