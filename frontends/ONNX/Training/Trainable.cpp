// Finds the weights of a forward model by what its nodes do.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Training/Trainable.h"

#include "frontends/ONNX/Model/HostTensor.h"
#include "frontends/ONNX/Model/Metadata.h"
#include "frontends/ONNX/Training/Origins.h"
#include "frontends/ONNX/Training/WeightedOps.h"

using namespace mpc::onnx_frontend;
using llvm::ArrayRef;
using llvm::StringRef;

using Kind = WeightedOp::Kind;

//===----------------------------------------------------------------------===//
// The search
//===----------------------------------------------------------------------===//

namespace {
/// What is known of a value of the graph.
struct Facts {
  /// It depends on no input of the model: initializers, shapes, and what is
  /// computed from them.
  bool isFixed = false;
  /// A product with weights, a normalization or a looked up row, perhaps
  /// reshaped or summed with other values: what is added to it is a bias.
  bool takesBias = false;
  /// Such a value times a number, as embeddings are: what is added to it is a
  /// table of positions.
  bool takesPositions = false;
  /// A normalization without scale and bias yet.
  bool isNormalized = false;
  /// A root of data, such as the standard deviation that a normalization spelt
  /// out divides by; and its reciprocal.
  bool isRoot = false, isInverseRoot = false;
  /// Rows of a table at indices that depend on no input.
  bool isLookup = false;
  /// Computed from data by weights, whatever came after.
  bool isLearned = false;
};

class TrainableSearch {
public:
  TrainableSearch(const Graph &graph, const TensorMap &given);

  llvm::StringSet<> run();

private:
  using Node = proto::NodeProto;
  std::optional<llvm::SmallVector<int64_t>> getStoredShape(StringRef name);
  Facts getFacts(StringRef value) const { return facts.lookup(value); }
  Facts infer(const Node &node);
  void inferNormalization(const Node &node, Facts &result);
  void findWeights(const Node &node);
  void findAddends(const Node &node);
  bool onlyScales(StringRef value);
  bool isRow(StringRef value);
  bool isFakeQuantization(const Node &node);
  StringRef skipQuantization(StringRef value);
  bool isBranch(const Node &product);
  bool isStoredVector(StringRef value);
  bool isModulesNumber(StringRef value);
  bool isAngles(const Node &product);
  void useFactors(StringRef value);
  bool isIntegerInput(StringRef value);
  StringRef skipViews(StringRef value);
  bool isTable(const Node &gather);
  bool isEmbedding(const Node &gather);
  bool isNumber(StringRef value);
  bool multipliesByOne(const Node &node);
  bool isPositions(StringRef value);
  void use(StringRef value, bool orScalar = true);

  const Graph &graph;
  const TensorMap &given;
  /// All nodes, those of a node's bodies before it.
  std::vector<const Node *> nodes;
  llvm::StringMap<Facts> facts;
  llvm::StringMap<llvm::SmallVector<const Node *, 1>> readers;
  llvm::StringSet<> weights;
  /// Running means and variances, which weights may be computed with.
  llvm::StringSet<> statistics;
  /// Values whose origin has been searched, as weights and as what weights are
  /// computed from.
  llvm::StringSet<> searched, searchedWithin;
};
} // namespace

// Appends the nodes of the bodies of `node`, then itself.
static void addNodes(const proto::NodeProto &node,
                     std::vector<const proto::NodeProto *> &nodes) {
  for (const proto::GraphProto *body : getBodies(node))
    for (const proto::NodeProto &nested : body->node())
      addNodes(nested, nodes);
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

Facts TrainableSearch::infer(const Node &node) {
  StringRef op = node.op_type();
  Facts result;
  // Shapes are known when the model is imported, whatever has them.
  result.isFixed = op == "Shape" || op == "Size" ||
                   llvm::all_of(node.input(), [&](const std::string &input) {
                     return input.empty() || getFacts(input).isFixed;
                   });
  result.isFixed &= !op.starts_with("Random");
  // A value is learned if any operand is.
  result.isLearned = llvm::any_of(node.input(), [&](const std::string &input) {
    return getFacts(input).isLearned;
  });
  // What a contraction or a normalization gives may have a bias added, which is
  // learned.
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
      bool scalesBranch = other.takesBias && !other.isFixed &&
                          isStoredVector(node.input(index)) && isBranch(node);
      if (other.isNormalized || other.isInverseRoot || scalesBranch)
        use(node.input(index), /*orScalar=*/false);
      if (other.isLearned && isModulesNumber(node.input(index)) &&
          isBranch(node))
        use(node.input(index));
    }
}

// Of a product, the factors that have one number for each channel.
void TrainableSearch::useFactors(StringRef value) {
  const Node *product = graph.getProducer(value);
  if (product && product->op_type() == "Mul")
    for (const std::string &factor : product->input())
      if (isStoredVector(factor))
        use(factor, /*orScalar=*/false);
}

// The value that `value` is a view of.
StringRef TrainableSearch::skipViews(StringRef value) {
  const Node *view = graph.getProducer(value);
  while (view && isView(view->op_type()) && view->input_size() > 0) {
    value = view->input(0);
    view = graph.getProducer(value);
  }
  return value;
}

// Whether `value` is an initializer of one number that PyTorch's older exporter
// has of a module: its constants are nodes, and what it computes has names of
// its own.
bool TrainableSearch::isModulesNumber(StringRef value) {
  StringRef name = skipViews(value);
  const proto::TensorProto *tensor = graph.getInitializer(name);
  return tensor && holdsFloats(*tensor) && isProgramsName(name) &&
         graph.getModel().getProto().producer_name() == "pytorch" &&
         llvm::all_of(tensor->dims(), [](int64_t n) { return n == 1; });
}

bool TrainableSearch::isIntegerInput(StringRef value) {
  return llvm::any_of(graph.getInputs(), [&](const auto *input) {
    const int type = input->type().tensor_type().elem_type();
    return input->name() == value && (type == proto::TensorProto::INT64 ||
                                      type == proto::TensorProto::INT32);
  });
}

// Whether a product of places and frequencies, as of a rotary embedding, whose
// sines and cosines are all that is taken: the frequencies are computed.
bool TrainableSearch::isAngles(const Node &product) {
  StringRef op = product.op_type();
  if ((op != "Einsum" && op != "MatMul") || product.input_size() != 2)
    return false;
  // Places are counted, or integers that are given.
  for (StringRef input : product.input()) {
    const Node *cast = graph.getProducer(input);
    while (cast && isView(cast->op_type()) && cast->op_type() != "Cast" &&
           cast->input_size() > 0)
      cast = graph.getProducer(cast->input(0));
    bool isGiven = cast && cast->op_type() == "Cast" &&
                   isIntegerInput(skipViews(cast->input(0)));
    if (!getFacts(input).isFixed && !isGiven)
      return false;
  }
  // All that is done with the product, behind views and factors.
  llvm::SmallVector<StringRef> worklist = {product.output(0)};
  llvm::StringSet<> visited;
  bool turns = false;
  while (!worklist.empty()) {
    StringRef current = worklist.pop_back_val();
    if (!visited.insert(current).second)
      continue;
    for (const Node *reader : readers.lookup(current)) {
      if (reader->op_type() == "Sin" || reader->op_type() == "Cos")
        turns = true;
      else if (isView(reader->op_type()) || reader->op_type() == "Mul")
        worklist.append(reader->output().begin(), reader->output().end());
      else if (reader->op_type() != "Shape")
        return false;
    }
  }
  return turns;
}

// Whether a value is an initializer of one number for each channel.
bool TrainableSearch::isStoredVector(StringRef value) {
  auto shape = getStoredShape(skipViews(value));
  return shape && llvm::count_if(*shape, [](int64_t n) { return n > 1; }) == 1;
}

// Whether a product is added to data, as a scaled branch is in
// x + scale * f(x); the scale of an output is a unit of its.
bool TrainableSearch::isBranch(const Node &product) {
  llvm::SmallVector<StringRef> worklist = {product.output(0)};
  llvm::StringSet<> visited;
  while (!worklist.empty()) {
    StringRef current = worklist.pop_back_val();
    if (!visited.insert(current).second)
      continue;
    for (const Node *reader : readers.lookup(current)) {
      if (isView(reader->op_type()))
        worklist.append(reader->output().begin(), reader->output().end());
      else if (reader->op_type() == "Add" && reader->input_size() == 2) {
        StringRef other = reader->input(reader->input(0) == current);
        if (!getFacts(other).isFixed)
          return true;
      }
    }
  }
  return false;
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
}

// Whether `value` is one number that no input decides.
bool TrainableSearch::isNumber(StringRef value) {
  if (auto shape = getStoredShape(value))
    return llvm::all_of(*shape, [](int64_t n) { return n == 1; });
  const Node *node = graph.getProducer(value);
  while (node && isView(node->op_type()) && node->input_size() == 1)
    node = graph.getProducer(node->input(0));
  if (!node || node->op_type() != "Constant")
    return false;
  return llvm::all_of(node->attribute(), [](const auto &attribute) {
    return attribute.name() != "value" ||
           llvm::all_of(attribute.t().dims(), [](int64_t n) { return n == 1; });
  });
}

// Whether a factor is a node's constant 1, as PyTorch's older exporter writes
// addcmul: bias + scale * x * 1.
bool TrainableSearch::multipliesByOne(const Node &node) {
  if (node.op_type() != "Mul")
    return false;
  return llvm::any_of(node.input(), [&](const std::string &input) {
    const Node *producer = graph.getProducer(input);
    if (!producer || producer->op_type() != "Constant" ||
        producer->attribute_size() != 1 || !isNumber(input) ||
        !producer->attribute(0).has_t())
      return false;
    auto number = graph.getModel().decode(producer->attribute(0).t(), "value");
    if (!number) // the import says what is wrong with it
      return llvm::consumeError(number.takeError()), false;
    return number->getNumElements() == 1 && number->isFloat() &&
           number->getDouble(0) == 1;
  });
}

// Sines and cosines of places, whose first row is that of zeros and ones: those
// are computed, and not learned.
static bool isSinusoidal(const HostTensor &table) {
  const int64_t width = table.getShape().back();
  int64_t zeros = 0, ones = 0;
  for (int64_t i = 0; i < table.getNumElements(); ++i) {
    const double value = table.getDouble(i);
    if (!(value >= -1 && value <= 1))
      return false;
    zeros += i < width && value == 0;
    ones += i < width && value == 1;
  }
  return zeros + ones == width && zeros > 0 && ones > 0;
}

// Whether `value` is a part of an initializer with a row for each place.
bool TrainableSearch::isPositions(StringRef value) {
  const proto::TensorProto *tensor = graph.getInitializer(skipViews(value));
  if (!tensor || !holdsFloats(*tensor) ||
      llvm::count_if(tensor->dims(), [](int64_t n) { return n > 1; }) < 2)
    return false;
  const Model &model = graph.getModel();
  llvm::Expected<HostTensor> table =
      model.decode(*tensor, "initializer '" + tensor->name() + "'");
  if (table)
    return !isSinusoidal(*table);
  // The import says what is wrong with it.
  llvm::consumeError(table.takeError());
  return false;
}

// Whether the Gather looks up rows, as of an embedding: not elements of a
// vector, such as the weights of classes, nor factors of data.
bool TrainableSearch::isTable(const Node &gather) {
  if (gather.input_size() != 2 || gather.output_size() != 1)
    return false;
  auto shape = getStoredShape(skipQuantization(gather.input(0)));
  return shape && shape->size() > 1 &&
         (isEmbedding(gather) || !onlyScales(gather.output(0)));
}

// Whether PyTorch's older exporter has named the node and its table as it does
// those of nn.Embedding: "/model/places/Gather" and "model.places.weight".
bool TrainableSearch::isEmbedding(const Node &gather) {
  if (graph.getModel().getProto().producer_name() != "pytorch")
    return false;
  StringRef table = skipQuantization(gather.input(0)), node = gather.name();
  if (!table.consume_back(".weight") || !node.starts_with("/"))
    return false;
  // The last scope of "/model/layer.0/places/Gather" is "places", the module's
  // name; of a list's element it has the list's name too, as in "places.3".
  StringRef scope = node.rsplit('/').first.rsplit('/').second;
  StringRef module = table.rsplit('.').second;
  if (module.empty())
    module = table;
  return scope == module || scope.ends_with(("." + module).str());
}

// Whether all that is done with `value` is to multiply data by it, as with the
// cosines and sines that rotate embeddings.
bool TrainableSearch::onlyScales(StringRef value) {
  llvm::SmallVector<StringRef> worklist = {value};
  llvm::StringSet<> visited;
  bool scales = false;
  while (!worklist.empty()) {
    StringRef current = worklist.pop_back_val();
    if (!visited.insert(current).second)
      continue;
    for (const Node *reader : readers.lookup(current)) {
      if (isView(reader->op_type())) {
        worklist.append(reader->output().begin(), reader->output().end());
        continue;
      }
      StringRef other = reader->op_type() == "Mul" && reader->input_size() == 2
                            ? reader->input(reader->input(0) == current)
                            : StringRef();
      // By a constant, an embedding itself is scaled; of two rows, such as a
      // user's and an item's, neither is the scale.
      if (other.empty() || getStoredShape(other) || !graph.getProducer(other) ||
          graph.getProducer(other)->op_type() == "Constant" || isRow(other))
        return false;
      scales = true;
    }
  }
  return scales;
}

// Whether `value` is what a Gather looks up at indices that an input gives.
bool TrainableSearch::isRow(StringRef value) {
  const Node *node = graph.getProducer(value);
  while (node && isView(node->op_type()) && node->input_size() > 0)
    node = graph.getProducer(node->input(0));
  if (!node || node->op_type() != "Gather" || node->input_size() != 2)
    return false;
  auto shape = getStoredShape(skipQuantization(node->input(0)));
  return shape && shape->size() > 1 && !getFacts(node->input(1)).isFixed;
}

// Whether the node is a half of a fake quantisation: scales are no weights
// beside what they quantize. Integers of the file are weights by their scales.
bool TrainableSearch::isFakeQuantization(const Node &node) {
  return node.input_size() > 1 && (node.op_type() == "QuantizeLinear" ||
                                   (node.op_type() == "DequantizeLinear" &&
                                    !getStoredShape(skipViews(node.input(0)))));
}

// What a fake quantisation, perhaps with a Clip of its integers, is of; the
// value itself where it is none.
StringRef TrainableSearch::skipQuantization(StringRef value) {
  const Node *node = graph.getProducer(value);
  if (!node || node->op_type() != "DequantizeLinear" ||
      !isFakeQuantization(*node))
    return value;
  node = graph.getProducer(node->input(0));
  while (node && node->op_type() == "Clip" && node->input_size() > 0)
    node = graph.getProducer(node->input(0));
  return node && node->op_type() == "QuantizeLinear" && node->input_size() > 0
             ? StringRef(node->input(0))
             : value;
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
      // what it is computed from.
      bool isFactor = within && (isSingle || statistics.contains(current));
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

llvm::StringSet<> mpc::onnx_frontend::findTrainable(const Graph &graph,
                                                    const TensorMap &given) {
  llvm::StringSet<> weights = TrainableSearch(graph, given).run();
  for (const auto &entry : findOrigins(graph))
    if (entry.second == kParameterOrigin)
      weights.insert(entry.first());
    else
      weights.erase(entry.first());
  return weights;
}
