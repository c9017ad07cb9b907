// Checks the structure of a graph and sorts its nodes. The checks take linear
// time and do not recurse along the graph, because an untrusted file decides
// how deep the graph is.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Model/Graph.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/JSON.h"

#include <functional>
#include <queue>

using namespace mlir;
using namespace mpc::onnx_frontend;
using llvm::Error;
using llvm::Expected;

std::string mpc::onnx_frontend::getNodeName(const proto::NodeProto &node) {
  if (!node.name().empty())
    return node.name();
  for (const std::string &output : node.output())
    if (!output.empty())
      return node.op_type() + "_" + output;
  return node.op_type();
}

std::string mpc::onnx_frontend::getOpName(const proto::NodeProto &node) {
  StringRef domain = normalizeDomain(node.domain());
  return domain.empty() ? node.op_type()
                        : (domain + "." + node.op_type()).str();
}

std::vector<const proto::GraphProto *>
mpc::onnx_frontend::getBodies(const proto::NodeProto &node) {
  std::vector<const proto::GraphProto *> bodies;
  for (const proto::AttributeProto &attribute : node.attribute()) {
    if (attribute.has_g())
      bodies.push_back(&attribute.g());
    for (const proto::GraphProto &graph : attribute.graphs())
      bodies.push_back(&graph);
  }
  return bodies;
}

std::vector<const proto::GraphProto *>
mpc::onnx_frontend::findGraphs(const proto::GraphProto &graph) {
  std::vector<const proto::GraphProto *> graphs = {&graph};
  for (size_t i = 0; i < graphs.size(); ++i)
    for (const proto::NodeProto &node : graphs[i]->node())
      llvm::append_range(graphs, getBodies(node));
  return graphs;
}

std::vector<proto::GraphProto *>
mpc::onnx_frontend::findGraphs(proto::ModelProto &model) {
  std::vector<proto::GraphProto *> graphs;
  auto add = [&](proto::GraphProto *graph) {
    llvm::append_range(graphs, findGraphs(*graph));
  };
  add(model.mutable_graph());
  for (proto::TrainingInfoProto &info : *model.mutable_training_info()) {
    if (info.has_initialization())
      add(info.mutable_initialization());
    if (info.has_algorithm())
      add(info.mutable_algorithm());
  }
  // A function is no GraphProto, but its nodes may have bodies.
  for (proto::FunctionProto &function : *model.mutable_functions())
    for (proto::NodeProto &node : *function.mutable_node())
      for (const proto::GraphProto *body : getBodies(node))
        add(const_cast<proto::GraphProto *>(body));
  return graphs;
}

std::vector<proto::GraphProto *>
mpc::onnx_frontend::findGraphs(proto::GraphProto &graph) {
  std::vector<proto::GraphProto *> graphs;
  // The cast is safe: each body belongs to `graph`, which is mutable.
  for (const proto::GraphProto *part : findGraphs(std::as_const(graph)))
    graphs.push_back(const_cast<proto::GraphProto *>(part));
  return graphs;
}

// Adds the names of all inputs, initializers and node outputs of `body` to
// `defined`.
static void addDefined(const proto::GraphProto &body,
                       llvm::StringSet<> &defined) {
  for (const proto::ValueInfoProto &input : body.input())
    defined.insert(input.name());
  for (const proto::TensorProto &tensor : body.initializer())
    defined.insert(tensor.name());
  for (const proto::NodeProto &node : body.node())
    defined.insert(node.output().begin(), node.output().end());
}

llvm::StringSet<>
mpc::onnx_frontend::findBodyNames(const proto::GraphProto &graph) {
  llvm::StringSet<> names;
  const auto graphs = findGraphs(graph);
  for (const proto::GraphProto *body : llvm::drop_begin(graphs)) {
    addDefined(*body, names);
    for (const proto::ValueInfoProto &output : body->output())
      names.insert(output.name());
  }
  return names;
}

// Adds the names that `body` reads but does not define to `values`. The
// recursion through nested bodies is safe: protobuf allows at most 31 levels.
static void addCaptured(const proto::GraphProto &body,
                        std::vector<StringRef> &values) {
  llvm::StringSet<> defined;
  addDefined(body, defined);
  auto add = [&](StringRef name) {
    if (!name.empty() && !defined.contains(name))
      values.push_back(name);
  };
  for (const proto::NodeProto &node : body.node())
    for (StringRef name : getReadValues(node))
      add(name);
  for (const proto::ValueInfoProto &output : body.output())
    add(output.name());
}

const proto::TensorProto *
mpc::onnx_frontend::findConstantTensor(const proto::NodeProto &node) {
  if (node.op_type() != "Constant" || node.output_size() != 1)
    return nullptr;
  for (const proto::AttributeProto &attribute : node.attribute())
    if (attribute.name() == "value" && attribute.has_t() &&
        holdsFloats(attribute.t()))
      return &attribute.t();
  return nullptr;
}

std::vector<StringRef>
mpc::onnx_frontend::getReadValues(const proto::NodeProto &node) {
  std::vector<StringRef> values;
  for (const std::string &input : node.input())
    if (!input.empty())
      values.push_back(input);
  for (const proto::GraphProto *body : getBodies(node))
    addCaptured(*body, values);
  if (node.op_type() != "Gradient")
    return values;
  for (const proto::AttributeProto &attribute : node.attribute())
    if (attribute.name() == "y" && !attribute.s().empty())
      values.push_back(attribute.s());
  return values;
}

Expected<Graph> Graph::check(const Model &model,
                             ArrayRef<const proto::GraphProto *> parts) {
  Graph graph(model);
  for (const proto::GraphProto *part : parts) {
    if (Error error = graph.addPart(*part))
      return error;
    graph.addOutputs(*part);
  }
  if (Error error = graph.checkUses([](StringRef) { return false; }))
    return error;
  if (Error error = graph.sortNodes())
    return error;
  return graph;
}

Expected<Graph>
Graph::checkBody(const Model &model, const proto::GraphProto &body,
                 llvm::function_ref<bool(StringRef)> isDefinedOutside) {
  Graph graph(model);
  if (Error error = graph.addPart(body))
    return error;
  // Keep repeated outputs: the node of a body reads outputs by position, and a
  // loop may carry and stack the same value.
  for (const proto::ValueInfoProto &output : body.output())
    graph.outputs.push_back(&output);
  if (Error error = graph.checkUses(isDefinedOutside))
    return error;
  if (Error error = graph.sortNodes())
    return error;
  return graph;
}

//===----------------------------------------------------------------------===//
// Definitions
//===----------------------------------------------------------------------===//

Error Graph::define(StringRef name, const Twine &by) {
  auto [entry, isNew] = definitions.try_emplace(name, by.str());
  if (isNew)
    return Error::success();
  return model->error(ErrorKind::InvalidInput,
                      "value '" + name + "' is defined twice, by " +
                          entry->second + " and by " + by);
}

// Fails if a name of an initializer, input or output is not UTF-8: artifacts,
// weights and checkpoints store these names.
static Error checkNames(const Model &model, const proto::GraphProto &part) {
  auto check = [&](const auto &values, StringRef kind) {
    Error errors = Error::success();
    for (const auto &value : values)
      if (!llvm::json::isUTF8(value.name()))
        errors =
            llvm::joinErrors(std::move(errors),
                             model.error(ErrorKind::InvalidInput,
                                         "the name of " + kind + " '" +
                                             value.name() + "' is not UTF-8"));
    return errors;
  };
  return llvm::joinErrors(
      llvm::joinErrors(check(part.initializer(), "initializer"),
                       check(part.input(), "graph input")),
      check(part.output(), "graph output"));
}

Error Graph::addPart(const proto::GraphProto &part) {
  if (Error error = checkNames(*model, part))
    return error;
  if (part.sparse_initializer_size() != 0)
    return model->error(ErrorKind::Unsupported,
                        "sparse initializers are not supported, found " +
                            Twine(part.sparse_initializer_size()) +
                            "; store them as dense initializers");
  // Initializers, inputs and nodes share one namespace.
  for (const proto::TensorProto &tensor : part.initializer()) {
    if (tensor.name().empty())
      return model->error(ErrorKind::InvalidInput,
                          "an initializer has no name");
    if (Error error = define(tensor.name(), "an initializer"))
      return error;
    initializers[tensor.name()] = &tensor;
  }
  llvm::StringSet<> inputNames;
  for (const proto::ValueInfoProto &input : part.input()) {
    if (input.name().empty())
      return model->error(ErrorKind::InvalidInput, "a graph input has no name");
    if (!inputNames.insert(input.name()).second)
      return model->error(ErrorKind::InvalidInput, "graph input '" +
                                                       input.name() +
                                                       "' is declared twice");
    // An input with an initializer is state with an initial value.
    if (initializers.contains(input.name()))
      continue;
    if (Error error = define(input.name(), "a graph input"))
      return error;
    inputs.push_back(&input);
  }
  // An omitted output has an empty name.
  for (const proto::NodeProto &node : part.node()) {
    nodes.push_back(&node);
    for (const std::string &output : node.output()) {
      if (output.empty())
        continue;
      if (Error error = define(output, "node '" + getNodeName(node) + "'"))
        return error;
      producers[output] = &node;
    }
  }
  return Error::success();
}

// Adds the outputs of `part`. Drops repeated declarations with a warning,
// because callers identify an output by name.
void Graph::addOutputs(const proto::GraphProto &part) {
  for (const proto::ValueInfoProto &output : part.output()) {
    if (outputNames.insert(output.name()).second)
      outputs.push_back(&output);
    else
      model->warn("graph output '" + output.name() +
                  "' is declared twice; the second declaration is left out");
  }
}

//===----------------------------------------------------------------------===//
// Uses
//===----------------------------------------------------------------------===//

std::string Graph::suggestName(StringRef name) const {
  // Edit distance is quadratic in the length of the names, so limit the number
  // and length of names.
  constexpr unsigned kMostNames = 5000;
  if (definitions.size() > kMostNames || name.size() > 200)
    return {};
  StringRef best;
  unsigned bestDistance = std::max<size_t>(2, name.size() / 4);
  for (StringRef candidate : definitions.keys()) {
    unsigned distance = name.edit_distance(candidate, true, bestDistance + 1);
    if (distance <= bestDistance &&
        (best.empty() || distance < bestDistance ||
         (distance == bestDistance && candidate < best)))
      best = candidate, bestDistance = distance;
  }
  return best.empty() ? "" : ("; did you mean '" + best + "'?").str();
}

Error Graph::checkUses(
    llvm::function_ref<bool(StringRef)> isDefinedOutside) const {
  Error errors = Error::success();
  // Report all errors at once: a broken file often has several.
  auto report = [&](const Twine &message) {
    errors = llvm::joinErrors(std::move(errors),
                              model->error(ErrorKind::InvalidInput, message));
  };
  for (const proto::NodeProto *node : nodes) {
    if (node->op_type().empty())
      report("node '" + getNodeName(*node) + "' has no op_type");
    // getReadValues includes values of outer graphs that a node's body reads.
    for (StringRef input : getReadValues(*node))
      if (!definitions.contains(input) && !isDefinedOutside(input))
        report("node '" + getNodeName(*node) + "' (" + getOpName(*node) +
               "): input '" + input + "' is never defined" +
               suggestName(input));
  }
  // An output of a body may be a value of an outer graph.
  for (const proto::ValueInfoProto *output : outputs)
    if (!definitions.contains(output->name()) &&
        !isDefinedOutside(output->name()))
      report("graph output '" + output->name() + "' is never defined" +
             suggestName(output->name()));
  return errors;
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

Error Graph::sortNodes() {
  llvm::DenseMap<const proto::NodeProto *, unsigned> indices;
  for (auto [index, node] : llvm::enumerate(nodes))
    indices[node] = index;
  std::vector<std::vector<unsigned>> users(nodes.size());
  std::vector<unsigned> pendingInputs(nodes.size());
  for (auto [index, node] : llvm::enumerate(nodes))
    for (StringRef input : getReadValues(*node))
      if (const proto::NodeProto *producer = getProducer(input)) {
        assert(indices.contains(producer) && "a producer is a node");
        users[indices[producer]].push_back(index);
        ++pendingInputs[index];
      }

  // Always take the ready node with the lowest index: this keeps the order of a
  // file that is sorted already.
  std::priority_queue<unsigned, std::vector<unsigned>, std::greater<>> ready;
  for (unsigned index = 0; index < nodes.size(); ++index)
    if (pendingInputs[index] == 0)
      ready.push(index);
  std::vector<const proto::NodeProto *> sorted;
  sorted.reserve(nodes.size());
  while (!ready.empty()) {
    unsigned index = ready.top();
    ready.pop();
    sorted.push_back(nodes[index]);
    for (unsigned user : users[index])
      if (--pendingInputs[user] == 0)
        ready.push(user);
  }
  // Nodes on a cycle, and their users, never become ready.
  if (sorted.size() != nodes.size())
    return model->error(ErrorKind::InvalidInput,
                        "the graph has a cycle: " +
                            describeCycle(pendingInputs));
  nodes = std::move(sorted);
  return Error::success();
}

// Describes one cycle of the graph. Walks from an unsorted node to an unsorted
// producer of an input, until a node repeats. `pending` holds, for each node,
// the number of inputs whose producer is unsorted.
std::string Graph::describeCycle(ArrayRef<unsigned> pending) const {
  // Start at any unsorted node: it lies on a cycle or depends on one, so the
  // walk reaches a cycle.
  llvm::DenseMap<const proto::NodeProto *, unsigned> indices;
  for (auto [index, node] : llvm::enumerate(nodes))
    indices[node] = index;
  auto isPending = [&](unsigned index) { return pending[index] != 0; };
  unsigned index = 0;
  while (!isPending(index))
    ++index;
  llvm::DenseMap<unsigned, size_t> position;
  std::vector<unsigned> path;
  while (position.try_emplace(index, path.size()).second) {
    path.push_back(index);
    for (StringRef input : getReadValues(*nodes[index])) {
      const proto::NodeProto *producer = getProducer(input);
      if (producer && isPending(indices[producer])) {
        index = indices[producer];
        break;
      }
    }
  }
  // The message lists only the nodes on the cycle, not the nodes that led to
  // it.
  constexpr size_t kMostNames = 12;
  std::string text = "'" + getNodeName(*nodes[index]) + "'";
  size_t length = path.size() - position[index];
  for (size_t i = 0; i < std::min(length, kMostNames); ++i)
    text += " <- '" +
            getNodeName(*nodes[path[position[index] + (i + 1) % length]]) + "'";
  return length > kMostNames ? text + " <- ..." : text;
}

std::vector<const proto::NodeProto *>
Graph::getNodesFor(ArrayRef<StringRef> values) const {
  llvm::StringSet<> needed;
  for (StringRef value : values)
    needed.insert(value);
  std::vector<const proto::NodeProto *> result;
  for (const proto::NodeProto *node : llvm::reverse(nodes)) {
    bool isNeeded = llvm::any_of(node->output(), [&](const std::string &name) {
      return !name.empty() && needed.contains(name);
    });
    if (!isNeeded)
      continue;
    result.push_back(node);
    for (StringRef input : getReadValues(*node))
      needed.insert(input);
  }
  std::reverse(result.begin(), result.end());
  return result;
}
