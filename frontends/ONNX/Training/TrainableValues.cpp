// What values of a forward model are, as far as that says which initializers
// are weights: numbers, vectors, tables, branches.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Model/HostTensor.h"
#include "frontends/ONNX/Model/Metadata.h"
#include "frontends/ONNX/Training/TrainableSearch.h"
#include "frontends/ONNX/Training/WeightedOps.h"

using namespace mpc::onnx_frontend;
using llvm::StringRef;

// The value that `value` is a view of.
StringRef TrainableSearch::skipViews(StringRef value) {
  const Node *view = graph.getProducer(value);
  while (view && isView(view->op_type()) && view->input_size() > 0) {
    value = view->input(0);
    view = graph.getProducer(value);
  }
  return value;
}

bool TrainableSearch::walkReaders(
    StringRef value,
    llvm::function_ref<Walk(const Node &reader, StringRef value)> visit) {
  llvm::SmallVector<StringRef> worklist = {value};
  llvm::StringSet<> visited;
  while (!worklist.empty()) {
    StringRef current = worklist.pop_back_val();
    if (!visited.insert(current).second)
      continue;
    for (const Node *reader : readers.lookup(current)) {
      const Walk next = visit(*reader, current);
      if (next == Walk::Stop)
        return true;
      if (next == Walk::Follow)
        worklist.append(reader->output().begin(), reader->output().end());
    }
  }
  return false;
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
                   cast->input_size() > 0 &&
                   isIntegerInput(skipViews(cast->input(0)));
    if (!getFacts(input).isFixed && !isGiven)
      return false;
  }
  return isOnlyTurned(product);
}

// Whether all that is done with a product, behind views and factors, is to take
// sines and cosines of it.
bool TrainableSearch::isOnlyTurned(const Node &product) {
  bool turns = false;
  const bool isReadOtherwise =
      walkReaders(product.output(0), [&](const Node &reader, StringRef) {
        StringRef op = reader.op_type();
        if (isView(op) || op == "Mul")
          return Walk::Follow;
        const bool isTurn = op == "Sin" || op == "Cos";
        turns |= isTurn;
        return isTurn || op == "Shape" ? Walk::Skip : Walk::Stop;
      });
  return turns && !isReadOtherwise;
}

// Whether a value is an initializer of one number for each channel.
bool TrainableSearch::isStoredVector(StringRef value) {
  auto shape = getStoredShape(skipViews(value));
  return shape && llvm::count_if(*shape, [](int64_t n) { return n > 1; }) == 1;
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
  bool scales = false;
  const bool isReadOtherwise = walkReaders(value, [&](const Node &reader,
                                                      StringRef read) {
    if (isView(reader.op_type()))
      return Walk::Follow;
    StringRef other = reader.op_type() == "Mul" && reader.input_size() == 2
                          ? reader.input(reader.input(0) == read)
                          : StringRef();
    // By a constant, an embedding itself is scaled; of two rows, such as a
    // user's and an item's, neither is the scale.
    if (other.empty() || getStoredShape(other) || !graph.getProducer(other) ||
        graph.getProducer(other)->op_type() == "Constant" || isRow(other))
      return Walk::Stop;
    scales = true;
    return Walk::Skip;
  });
  return scales && !isReadOtherwise;
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
