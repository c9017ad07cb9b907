// Finds the weights of a forward model by what its nodes do.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Training/Trainable.h"

#include "frontends/ONNX/Training/Origins.h"
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
    if (node->op_type() == "BatchNormalization" && node->input_size() == 5)
      for (int index : {3, 4})
        statistics.insert(node->input(index));
  findReachingWeights();
}

// The shape of an initializer or of an input with a given value.
std::optional<llvm::SmallVector<int64_t>>
TrainableSearch::getStoredShape(StringRef name) {
  if (const proto::TensorProto *tensor = graph.getInitializer(name))
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
  return std::move(weights);
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
  if (op == "Mul" && node.input_size() == 2)
    result.takesBias |= isOuterProduct(node, 0) || isOuterProduct(node, 1);
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
  const bool drawsNumbers = op.starts_with("Random") || op == "Bernoulli";
  result.isFixed &= !drawsNumbers;
  result.isRandom = drawsNumbers;
  // What numbers make of random numbers is random, too.
  if (!drawsNumbers && !result.isFixed)
    result.isRandom = llvm::all_of(node.input(), [&](const std::string &input) {
      return input.empty() || getFacts(input).isFixed ||
             getFacts(input).isRandom;
    });
  // A value is learned if any operand is.
  result.isLearned = llvm::any_of(node.input(), [&](const std::string &input) {
    return getFacts(input).isLearned;
  });
  inferBias(node, result);
  // Views and sums pass on what their operands are.
  if (isView(op) || isSum(op) || isQuantization(op) || multipliesByOne(node))
    for (const std::string &input : node.input()) {
      result.takesBias |= getFacts(input).takesBias;
      result.takesPositions |= getFacts(input).takesPositions;
    }
  // Positions are added to a product that is scaled, as in sqrt(d) * embedding
  // + position.
  if ((op == "Mul" || op == "Div") && node.input_size() == 2)
    for (int index : {0, 1})
      result.takesPositions |= getFacts(node.input(index)).takesBias &&
                               isNumber(node.input(1 - index)) &&
                               (op == "Mul" || index == 0);
  // Of a view the facts are its operand's.
  if (isView(op) && node.input_size() > 0) {
    Facts source = getFacts(node.input(0));
    result.isNormalized = source.isNormalized;
    result.isRoot = source.isRoot;
    result.isInverseRoot = source.isInverseRoot;
    result.isLookup = source.isLookup;
  }
  inferNormalization(node, result);
  result.isLearned |= result.takesBias && !result.isFixed;
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
        use(node.input(index));
  // What stands in for learned data, as the token of a masked place does.
  if (op == "Where" && node.input_size() == 3)
    for (int index : {1, 2})
      if (getFacts(node.input(3 - index)).isLearned &&
          isModulesVector(node.input(index)))
        use(node.input(index), /*orScalar=*/false);
  // The exponent of a pooling: constant ones are nodes.
  if (op == "Pow" && node.input_size() == 2 &&
      (isModulesNumber(node.input(1)) || isModulesTensor(node.input(1))))
    use(node.input(1));
  // What a function bends, such as the exponential of a temperature, is mostly
  // learned: whoever has a constant can store the result.
  if (bends(op) && node.input_size() > 0 &&
      graph.getInitializer(skipViews(node.input(0))))
    use(node.input(0));
  if (op == "Gather" && isTable(node) &&
      (!getFacts(node.input(1)).isFixed || isEmbedding(node)))
    use(node.input(0));
  // The scale of a normalization that is spelt out, before or behind it; also
  // that of what is divided by the root, as in scale * x / root.
  if ((op == "Mul" || op == "Div") && node.input_size() == 2)
    for (int index : {0, 1}) {
      Facts other = getFacts(node.input(1 - index));
      if (op == "Mul" ? other.isInverseRoot : index == 0 && other.isRoot)
        useFactors(node.input(index));
      if (op == "Div")
        continue;
      if (isOuterProduct(node, index))
        use(node.input(index), /*orScalar=*/false);
      bool scalesBranch = other.takesBias && !other.isFixed &&
                          isStoredVector(node.input(index)) && isBranch(node);
      if (other.isNormalized || other.isInverseRoot || scalesBranch)
        use(node.input(index), /*orScalar=*/false);
      if (other.isLearned && isModulesNumber(node.input(index)) &&
          isBranch(node))
        use(node.input(index));
      if (!isModulesVector(node.input(index)))
        continue;
      if (other.isLearned)
        findScale(node, node.input(index));
      if (!other.isFixed && isPeriod(node, node.input(index)))
        use(node.input(index), /*orScalar=*/false);
    }
}

// What scales learned data by one number for each channel of a module: a
// branch, what a Softmax reads, or data that a vector of the same module is
// added to within the network.
void TrainableSearch::findScale(const Node &product, StringRef scale) {
  const StringRef shift = findShift(product, scale);
  const bool isAffine =
      !shift.empty() && reachingWeights.contains(product.output(0));
  if (isAffine || isBranch(product) || isSharpened(product))
    use(scale, /*orScalar=*/false);
  if (isAffine)
    use(shift, /*orScalar=*/false);
}

// Of a product, the factors that have one number for each channel.
void TrainableSearch::useFactors(StringRef value) {
  const Node *product = graph.getProducer(value);
  if (product && product->op_type() == "Mul")
    for (const std::string &factor : product->input())
      if (isStoredVector(factor))
        use(factor, /*orScalar=*/false);
}

// What is added to a value that takes a bias, or joined to it as class tokens
// are to patches; looked up rows that are added to anything, as relative
// positions are to attention scores. A scalar is a constant of the program.
void TrainableSearch::findAddends(const Node &node) {
  if (!isSum(node.op_type()) && node.op_type() != "Concat")
    return;
  bool takesBias = llvm::any_of(node.input(), [&](const std::string &input) {
    return getFacts(input).takesBias;
  });
  bool takesPositions =
      llvm::any_of(node.input(), [&](const std::string &input) {
        return getFacts(input).takesPositions;
      });
  for (const std::string &input : node.input())
    if (takesBias || getFacts(input).isLookup ||
        (takesPositions && isPositions(input)))
      use(input, /*orScalar=*/false);
  if (node.op_type() == "Add" && node.input_size() == 2)
    for (int index : {0, 1})
      if (isInnerBias(node, index))
        use(node.input(index), /*orScalar=*/false);
}

// `value` acts as a weight: so do the initializers that it is a view of, of
// rank 0 only with `orScalar`, and those of more than one element that it is
// computed from.
void TrainableSearch::use(StringRef value, bool orScalar) {
  // From the value back through what computes it.
  llvm::SmallVector<std::pair<StringRef, bool>> worklist = {{value, false}};
  while (!worklist.empty()) {
    auto [current, within] = worklist.pop_back_val();
    if (!getFacts(current).isFixed ||
        !(within ? searchedWithin : searched).insert(current).second)
      continue;
    // An initializer is a weight, unless it is a number.
    if (auto shape = getStoredShape(current)) {
      bool isSingle = llvm::all_of(*shape, [](int64_t n) { return n == 1; });
      bool isScalar = shape->empty() && !orScalar;
      // A statistic that a weight is an Identity of, of equal values, is not
      // what it is computed from, and neither is the mask that hides some of
      // its elements.
      const proto::TensorProto *tensor = graph.getInitializer(current);
      bool isFactor = within && (isSingle || statistics.contains(current) ||
                                 (tensor && isMask(graph.getModel(), *tensor)));
      if (!isScalar && !isFactor)
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

llvm::StringSet<>
mpc::onnx_frontend::findTrainable(const Graph &graph, const TensorMap &given,
                                  const llvm::StringMap<std::string> &origins) {
  llvm::StringSet<> weights = TrainableSearch(graph, given).run();
  for (const auto &entry : origins)
    if (entry.second == kParameterOrigin)
      weights.insert(entry.first());
    else
      weights.erase(entry.first());
  return weights;
}
