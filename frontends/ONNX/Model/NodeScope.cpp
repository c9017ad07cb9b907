// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Model/NodeScope.h"

#include "frontends/ONNX/Model/Graph.h"
#include "frontends/ONNX/Model/HostTensor.h"

using namespace mpc::onnx_frontend;
using llvm::StringRef;

//===----------------------------------------------------------------------===//
// Construction
//===----------------------------------------------------------------------===//

NodeScope::NodeScope(Model &model)
    : model(model), imports(model.getProto().mutable_opset_import()) {
  proto::ModelProto &file = model.getProto();
  addGraph(*file.mutable_graph());
  for (proto::TrainingInfoProto &info : *file.mutable_training_info()) {
    if (info.has_initialization())
      addGraph(*info.mutable_initialization());
    if (info.has_algorithm())
      addGraph(*info.mutable_algorithm());
  }
}

NodeScope::NodeScope(Model &model, proto::FunctionProto &function)
    : model(model), imports(function.mutable_opset_import()) {
  for (const proto::ValueInfoProto &value : function.value_info())
    addType(value);
  names.insert(function.input().begin(), function.input().end());
  addNodes(*function.mutable_node());
}

// Adds an entry to `map`. If `name` has an entry already, two graphs define the
// name; the entry becomes null, because the name is ambiguous.
template <typename T>
static void addOnce(llvm::StringMap<T> &map, StringRef name, T what) {
  auto [entry, isNew] = map.try_emplace(name, what);
  if (!isNew)
    entry->second = nullptr;
}

void NodeScope::addType(const proto::ValueInfoProto &value) {
  names.insert(value.name());
  if (value.type().has_tensor_type())
    types.try_emplace(value.name(), &value.type());
}

void NodeScope::addGraph(proto::GraphProto &graph) {
  for (const proto::TensorProto &tensor : graph.initializer()) {
    names.insert(tensor.name());
    addOnce<const proto::TensorProto *>(tensors, tensor.name(), &tensor);
  }
  for (const auto *values :
       {&graph.input(), &graph.output(), &graph.value_info()})
    for (const proto::ValueInfoProto &value : *values)
      addType(value);
  addNodes(*graph.mutable_node());
}

static const proto::TensorProto *getTensor(const proto::NodeProto &node) {
  if (node.op_type() != "Constant" || node.output_size() != 1)
    return nullptr;
  for (const proto::AttributeProto &attribute : node.attribute())
    if (attribute.name() == "value" && attribute.has_t())
      return &attribute.t();
  return nullptr;
}

void NodeScope::addNodes(Nodes &nodes) {
  lists.push_back(&nodes);
  for (const proto::NodeProto &node : nodes) {
    names.insert(node.name());
    if (const proto::TensorProto *tensor = getTensor(node))
      addOnce(tensors, node.output(0), tensor);
    for (const std::string &output : node.output()) {
      names.insert(output);
      addOnce<const proto::NodeProto *>(producers, output, &node);
    }
    // The cast is safe: all bodies belong to the mutable model.
    for (const proto::GraphProto *body : getBodies(node))
      addGraph(*const_cast<proto::GraphProto *>(body));
  }
}

int64_t NodeScope::getOpset() const {
  for (const proto::OperatorSetIdProto &import : *imports)
    if (normalizeDomain(import.domain()).empty())
      return import.version();
  return model.getOpset("");
}

void NodeScope::setOpset(int64_t opset) {
  for (proto::OperatorSetIdProto &import : *imports)
    if (normalizeDomain(import.domain()).empty())
      return import.set_version(opset);
  imports->Add()->set_version(opset);
}

void NodeScope::addImport(StringRef domain) {
  for (const proto::OperatorSetIdProto &import : *imports)
    if (import.domain() == domain)
      return;
  proto::OperatorSetIdProto *import = imports->Add();
  import->set_domain(domain.str());
  import->set_version(1);
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

void NodeScope::mendNodes(
    llvm::function_ref<void(proto::NodeProto &,
                            std::vector<proto::NodeProto> &)>
        mend) {
  for (Nodes *list : lists) {
    std::vector<proto::NodeProto *> nodes(list->size());
    list->ExtractSubrange(0, list->size(), nodes.data());
    for (proto::NodeProto *node : nodes) {
      std::vector<proto::NodeProto> before;
      mend(*node, before);
      for (proto::NodeProto &added : before)
        list->Add()->Swap(&added);
      list->AddAllocated(node);
    }
  }
}

void NodeScope::forEach(
    llvm::function_ref<void(const proto::NodeProto &)> act) const {
  for (const Nodes *list : lists)
    for (const proto::NodeProto &node : *list)
      act(node);
}

std::string NodeScope::makeName(StringRef start) {
  std::string name = start.str();
  for (int i = 1; !names.insert(name).second; ++i)
    name = start.str() + "_" + std::to_string(i);
  return name;
}

static proto::TensorProto &addConstant(std::vector<proto::NodeProto> &nodes,
                                       const std::string &name) {
  proto::NodeProto &node = nodes.emplace_back();
  node.set_op_type("Constant");
  node.add_output(name);
  proto::AttributeProto *value = node.add_attribute();
  value->set_name("value");
  value->set_type(proto::AttributeProto::TENSOR);
  return *value->mutable_t();
}

std::string NodeScope::addIntegers(std::vector<proto::NodeProto> &nodes,
                                   StringRef name,
                                   llvm::ArrayRef<int64_t> shape,
                                   llvm::ArrayRef<int64_t> values) {
  std::string result = makeName(name);
  proto::TensorProto &tensor = addConstant(nodes, result);
  tensor.set_data_type(proto::TensorProto::INT64);
  tensor.mutable_dims()->Add(shape.begin(), shape.end());
  tensor.mutable_int64_data()->Add(values.begin(), values.end());
  return result;
}

std::string NodeScope::addFloat(std::vector<proto::NodeProto> &nodes,
                                StringRef name, float value, int32_t type) {
  std::string result = makeName(name);
  proto::TensorProto &tensor = addConstant(nodes, result);
  tensor.set_data_type(proto::TensorProto::FLOAT);
  tensor.add_float_data(value);
  if (type == proto::TensorProto::FLOAT)
    return result;
  proto::NodeProto &cast = nodes.emplace_back();
  cast.set_op_type("Cast");
  cast.add_input(result);
  cast.add_output(makeName(name));
  proto::AttributeProto *to = cast.add_attribute();
  to->set_name("to");
  to->set_type(proto::AttributeProto::INT);
  to->set_i(type);
  return cast.output(0);
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

static const proto::AttributeProto *
lookUpAttribute(const proto::NodeProto &node, StringRef name) {
  for (const proto::AttributeProto &attribute : node.attribute())
    if (attribute.name() == name)
      return &attribute;
  return nullptr;
}

std::optional<llvm::SmallVector<int64_t>>
NodeScope::readIntegers(StringRef value) const {
  if (const proto::TensorProto *tensor = tensors.lookup(value)) {
    llvm::Expected<HostTensor> values = model.decode(*tensor, "tensor");
    // Drop the error: the import reports undecodable tensors.
    if (!values)
      return llvm::consumeError(values.takeError()), std::nullopt;
    return values->isFloat() ? std::nullopt
                             : std::optional(values->getIntegers());
  }
  const proto::NodeProto *node = producers.lookup(value);
  if (!node || node->op_type() != "Constant")
    return std::nullopt;
  if (const proto::AttributeProto *list = lookUpAttribute(*node, "value_ints"))
    return llvm::SmallVector<int64_t>(list->ints().begin(), list->ints().end());
  if (const proto::AttributeProto *one = lookUpAttribute(*node, "value_int"))
    return llvm::SmallVector<int64_t>{one->i()};
  return std::nullopt;
}

std::optional<double> NodeScope::readNumber(StringRef value) const {
  const proto::TensorProto *tensor = tensors.lookup(value);
  if (!tensor)
    return std::nullopt;
  llvm::Expected<HostTensor> values = model.decode(*tensor, "tensor");
  // Drop the error: the import reports undecodable tensors.
  if (!values)
    return llvm::consumeError(values.takeError()), std::nullopt;
  if (!values->isFloat() || values->getNumElements() != 1)
    return std::nullopt;
  return values->getDouble(0);
}

int32_t NodeScope::findElementType(StringRef value) const {
  static const llvm::StringSet<> counts = {"Shape",  "Size",   "NonZero",
                                           "ArgMax", "ArgMin", "Constant"};
  static const llvm::StringSet<> same = {
      "Abs",       "Add",       "Concat",        "Div",        "Expand",
      "Flatten",   "Gather",    "GatherND",      "Identity",   "Max",
      "Min",       "Mod",       "Mul",           "Neg",        "Range",
      "ReduceMax", "ReduceMin", "ReduceSum",     "ReduceProd", "Reshape",
      "Slice",     "Split",     "Squeeze",       "Sub",        "Tile",
      "Transpose", "Unsqueeze", "GatherElements"};
  // Follow input 0 from node to node. Chains that compute shapes have fewer
  // than 100 nodes, and the limit ends a walk around a cycle.
  for (int i = 0; i < 100; ++i) {
    if (const proto::TensorProto *tensor = tensors.lookup(value))
      return tensor->data_type();
    if (const proto::TypeProto *type = types.lookup(value))
      return type->tensor_type().elem_type();
    const proto::NodeProto *node = producers.lookup(value);
    if (!node || !normalizeDomain(node->domain()).empty())
      return 0;
    StringRef op = node->op_type();
    if (op == "Constant")
      return lookUpAttribute(*node, "value_int") ||
                     lookUpAttribute(*node, "value_ints")
                 ? proto::TensorProto::INT64
                 : 0;
    if (counts.contains(op))
      return proto::TensorProto::INT64;
    if (op == "Cast") {
      const proto::AttributeProto *to = lookUpAttribute(*node, "to");
      return to ? to->i() : 0;
    }
    if (op == "ConstantOfShape") {
      const proto::AttributeProto *filling = lookUpAttribute(*node, "value");
      return filling ? filling->t().data_type() : proto::TensorProto::FLOAT;
    }
    const int operand = op == "Where" || op == "CastLike" ? 1 : 0;
    if ((operand == 0 && !same.contains(op)) || operand >= node->input_size())
      return 0;
    value = node->input(operand);
  }
  return 0;
}

//===----------------------------------------------------------------------===//
// Ranks
//===----------------------------------------------------------------------===//

std::optional<int64_t> NodeScope::findRank(StringRef value) const {
  if (const proto::TensorProto *tensor = tensors.lookup(value))
    return tensor->dims_size();
  if (auto found = ranks.find(value); found != ranks.end())
    return found->second;
  const proto::TypeProto *type = types.lookup(value);
  if (!type || !type->tensor_type().has_shape())
    return std::nullopt;
  return type->tensor_type().shape().dim_size();
}

// Counts the elements of an integer vector, such as a shape that Concat
// assembles from parts; nullopt if unknown.
std::optional<int64_t> NodeScope::findLength(StringRef vector) const {
  // Shape arithmetic has fewer values. The limit ends a walk around a cycle,
  // which no check has refused yet, and walks that double at each node.
  unsigned left = 256;
  return findLength(vector, left);
}

// Does the work of `findLength`. `left` is the number of values that the search
// may still visit; nullopt if there are more.
std::optional<int64_t> NodeScope::findLength(StringRef vector,
                                             unsigned &left) const {
  if (left == 0)
    return std::nullopt;
  --left;
  if (const proto::TensorProto *tensor = tensors.lookup(vector))
    return tensor->dims_size() == 1 ? std::optional(tensor->dims(0))
                                    : std::nullopt;
  const proto::NodeProto *node = producers.lookup(vector);
  if (!node)
    return std::nullopt;
  if (std::optional<llvm::SmallVector<int64_t>> integers = readIntegers(vector))
    return integers->size();
  if (node->op_type() == "Shape" && node->attribute_size() == 0 &&
      node->input_size() == 1)
    return findRank(node->input(0));
  // In shape arithmetic, Unsqueeze makes a vector of one number.
  if (node->op_type() == "Unsqueeze")
    return 1;
  static const llvm::StringSet<> same = {"Abs", "Cast", "Identity", "Neg"};
  if (same.contains(node->op_type()) && node->input_size() > 0)
    return findLength(node->input(0), left);
  if (node->op_type() == "Gather" && node->input_size() > 1)
    return findLength(node->input(1), left);
  static const llvm::StringSet<> elementwise = {"Add", "Div", "Max",
                                                "Min", "Mul", "Sub"};
  if (node->op_type() != "Concat" && !elementwise.contains(node->op_type()))
    return std::nullopt;
  int64_t sum = 0, most = 0;
  for (StringRef part : node->input()) {
    std::optional<int64_t> length = findLength(part, left);
    if (!length && findRank(part) == 0)
      length = 1;
    if (!length)
      return std::nullopt;
    sum += *length;
    most = std::max(most, *length);
  }
  return node->op_type() == "Concat" ? sum : most;
}

std::optional<int64_t>
NodeScope::inferRank(const proto::NodeProto &node) const {
  // Results of these ops have the broadcast shape of their operands.
  static const llvm::StringSet<> elementwise = {
      "Add", "Div", "Max", "Mean", "Min", "Mul", "Pow", "Sub", "Sum", "Where"};
  static const llvm::StringSet<> same = {"Abs",
                                         "AveragePool",
                                         "BatchNormalization",
                                         "BiasGelu",
                                         "Cast",
                                         "Clip",
                                         "Concat",
                                         "Conv",
                                         "Dropout",
                                         "Elu",
                                         "Erf",
                                         "Exp",
                                         "FastGelu",
                                         "Gelu",
                                         "GlobalAveragePool",
                                         "HardSigmoid",
                                         "HardSwish",
                                         "Identity",
                                         "LeakyRelu",
                                         "LayerNormalization",
                                         "Log",
                                         "LogSoftmax",
                                         "MaxPool",
                                         "Mish",
                                         "Neg",
                                         "PRelu",
                                         "Pad",
                                         "QuickGelu",
                                         "Relu",
                                         "Selu",
                                         "Sigmoid",
                                         "SimplifiedLayerNormalization",
                                         "SkipLayerNormalization",
                                         "Slice",
                                         "Softmax",
                                         "Softplus",
                                         "Softsign",
                                         "Split",
                                         "Sqrt",
                                         "Swish",
                                         "Tanh",
                                         "Transpose"};
  StringRef op = node.op_type();
  if (node.input_size() == 0)
    return std::nullopt;
  const std::optional<int64_t> first = findRank(node.input(0));
  const std::optional<int64_t> second =
      node.input_size() > 1 ? findRank(node.input(1)) : std::nullopt;
  if (same.contains(op))
    return first;
  if (elementwise.contains(op)) {
    int64_t rank = 0;
    for (StringRef input : node.input()) {
      const std::optional<int64_t> found = findRank(input);
      if (!found)
        return std::nullopt;
      rank = std::max(rank, *found);
    }
    return rank;
  }
  if (op == "Flatten")
    return 2;
  if (op == "Reshape" && node.input_size() > 1)
    return findLength(node.input(1));
  if ((op == "MatMul" || op == "Gemm" || op == "FusedMatMul") && first &&
      second && *first > 1 && *second > 1)
    return std::max(*first, *second);
  if (op == "Gather" && first && second)
    return *first + *second - 1;
  const proto::AttributeProto *axes = lookUpAttribute(node, "axes");
  std::optional<int64_t> count;
  if (axes)
    count = axes->ints_size();
  else if (node.input_size() > 1)
    if (auto list = readIntegers(node.input(1)))
      count = list->size();
  if (op == "Unsqueeze" && first && count)
    return *first + *count;
  if (op == "Squeeze" && first && count)
    return *first - *count;
  if (!op.starts_with("Reduce") || !first)
    return std::nullopt;
  const proto::AttributeProto *keeps = lookUpAttribute(node, "keepdims");
  if (!keeps || keeps->i() != 0)
    return first;
  return count ? std::optional(*first - *count) : std::nullopt;
}

void NodeScope::inferRanks() {
  forEach([&](const proto::NodeProto &node) {
    const std::optional<int64_t> rank = inferRank(node);
    for (const std::string &output : node.output())
      if (rank && !output.empty())
        ranks.try_emplace(output, *rank);
  });
}
