// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Model/Functions.h"

#include "frontends/ONNX/Model/Graph.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mpc::onnx_frontend;
using google::protobuf::RepeatedPtrField;
using llvm::Error;
using llvm::StringMap;

/// Limits the nodes that inlining may add, and the depth of calls: functions
/// that call functions can multiply exponentially.
static constexpr int64_t kMostNodes = 300000;
static constexpr size_t kMostDepth = 64;

namespace {
/// Replaces each call of a function by the function's nodes, under new unique
/// names.
class Inliner {
public:
  explicit Inliner(Model &model) : model(model) {}
  Error run();

private:
  using Nodes = RepeatedPtrField<proto::NodeProto>;
  /// Maps names in a function's body to the new names in the graph.
  using Names = StringMap<std::string>;

  Error readFunctions();
  void collectNames(const proto::GraphProto &graph);
  const proto::FunctionProto *findFunction(const proto::NodeProto &node) const;
  Error checkCall(const proto::NodeProto &call,
                  const proto::FunctionProto &function) const;
  Error expandGraph(proto::GraphProto &graph, const Model::Opsets *opsets);
  Error expandNodes(Nodes &nodes, const Model::Opsets *opsets);
  Error expandCall(const proto::NodeProto &call,
                   const proto::FunctionProto &function, Nodes &result);
  Names bindNames(const proto::NodeProto &call,
                  const proto::FunctionProto &function, Nodes &copies);

  std::string makeName(StringRef prefix, StringRef name);
  void renameNode(proto::NodeProto &node, StringRef prefix, Names &names);
  void renameGraph(proto::GraphProto &graph, StringRef prefix, Names &names);
  std::string rename(StringRef name, StringRef prefix, Names &names);

  Error error(ErrorKind kind, const proto::NodeProto &call,
              const Twine &message) const {
    return model.error(kind, "node '" + getNodeName(call) + "': " + message);
  }

  Model &model;
  StringMap<const proto::FunctionProto *> functions;
  StringMap<const Model::Opsets *> opsets;
  /// The names of all values of the model.
  llvm::StringSet<> taken;
  /// The functions whose calls are being expanded, outermost first.
  SmallVector<const proto::FunctionProto *> active;
  int64_t added = 0;
};
} // namespace

//===----------------------------------------------------------------------===//
// Functions and names of the model
//===----------------------------------------------------------------------===//

static std::string makeKey(StringRef domain, StringRef name,
                           StringRef overload) {
  return (normalizeDomain(domain) + "\n" + name + "\n" + overload).str();
}

static std::string makeKey(const proto::FunctionProto &function) {
  return makeKey(function.domain(), function.name(), function.overload());
}

static std::string describe(const proto::FunctionProto &function) {
  return "function '" + function.domain() + "." + function.name() + "'";
}

Error Inliner::readFunctions() {
  for (const proto::FunctionProto &function : model.getProto().functions()) {
    std::string key = makeKey(function);
    if (!functions.try_emplace(key, &function).second)
      return model.error(ErrorKind::InvalidInput,
                         "the file defines " + describe(function) + " twice");
    auto read = model.addOpsets(function.opset_import(), describe(function));
    if (!read)
      return read.takeError();
    opsets[key] = *read;
  }
  return Error::success();
}

// The recursion is safe: protobuf limits how deep graphs may nest.
void Inliner::collectNames(const proto::GraphProto &graph) {
  for (const proto::ValueInfoProto &input : graph.input())
    taken.insert(input.name());
  for (const proto::TensorProto &tensor : graph.initializer())
    taken.insert(tensor.name());
  for (const proto::NodeProto &node : graph.node()) {
    taken.insert(node.output().begin(), node.output().end());
    for (const proto::GraphProto *body : getBodies(node))
      collectNames(*body);
  }
}

const proto::FunctionProto *
Inliner::findFunction(const proto::NodeProto &node) const {
  return functions.lookup(
      makeKey(node.domain(), node.op_type(), node.overload()));
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

std::string Inliner::makeName(StringRef prefix, StringRef name) {
  std::string made = (prefix + "/" + name).str();
  while (!taken.insert(made).second)
    made += "_";
  return made;
}

std::string Inliner::rename(StringRef name, StringRef prefix, Names &names) {
  if (name.empty())
    return {};
  auto [entry, isNew] = names.try_emplace(name);
  if (isNew)
    entry->second = makeName(prefix, name);
  return entry->second;
}

void Inliner::renameGraph(proto::GraphProto &graph, StringRef prefix,
                          Names &names) {
  for (auto *values : {graph.mutable_input(), graph.mutable_output(),
                       graph.mutable_value_info()})
    for (proto::ValueInfoProto &value : *values)
      value.set_name(rename(value.name(), prefix, names));
  for (proto::TensorProto &tensor : *graph.mutable_initializer())
    tensor.set_name(rename(tensor.name(), prefix, names));
  for (proto::NodeProto &node : *graph.mutable_node())
    renameNode(node, prefix, names);
}

void Inliner::renameNode(proto::NodeProto &node, StringRef prefix,
                         Names &names) {
  for (auto *list : {node.mutable_input(), node.mutable_output()})
    for (std::string &name : *list)
      name = rename(name, prefix, names);
  if (!node.name().empty())
    node.set_name((prefix + "/" + node.name()).str());
  for (proto::AttributeProto &attribute : *node.mutable_attribute()) {
    if (attribute.has_g())
      renameGraph(*attribute.mutable_g(), prefix, names);
    for (proto::GraphProto &graph : *attribute.mutable_graphs())
      renameGraph(graph, prefix, names);
    // A Gradient node also names values in its text attributes.
    if (node.op_type() != "Gradient")
      continue;
    if (attribute.has_s())
      attribute.set_s(rename(attribute.s(), prefix, names));
    for (std::string &name : *attribute.mutable_strings())
      name = rename(name, prefix, names);
  }
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

static const proto::AttributeProto *
findAttribute(const RepeatedPtrField<proto::AttributeProto> &attributes,
              StringRef name) {
  for (const proto::AttributeProto &attribute : attributes)
    if (attribute.name() == name)
      return &attribute;
  return nullptr;
}

static void bindAttributes(proto::NodeProto &node, const proto::NodeProto &call,
                           const proto::FunctionProto &function);

static void bindAttributes(proto::GraphProto &graph,
                           const proto::NodeProto &call,
                           const proto::FunctionProto &function) {
  for (proto::NodeProto &inner : *graph.mutable_node())
    bindAttributes(inner, call, function);
}

// Binds the attributes of `node`, a copy of a node in the function's body. An
// attribute that refers to an attribute parameter of the function gets the
// value from the call, or else the function's default. If there is neither,
// drops the attribute.
static void bindAttributes(proto::NodeProto &node, const proto::NodeProto &call,
                           const proto::FunctionProto &function) {
  // `ref_attr_name` names the function's parameter that gives the attribute's
  // value. An attribute without `ref_attr_name` has a value already.
  RepeatedPtrField<proto::AttributeProto> bound;
  for (proto::AttributeProto &attribute : *node.mutable_attribute()) {
    if (attribute.ref_attr_name().empty()) {
      // Nodes in subgraphs of the function may refer to its parameters, too.
      // Nodes of a graph that the call passes may not: the graph could refer to
      // itself forever.
      if (attribute.has_g())
        bindAttributes(*attribute.mutable_g(), call, function);
      for (proto::GraphProto &graph : *attribute.mutable_graphs())
        bindAttributes(graph, call, function);
      bound.Add()->Swap(&attribute);
      continue;
    }
    const proto::AttributeProto *value =
        findAttribute(call.attribute(), attribute.ref_attr_name());
    if (!value)
      value =
          findAttribute(function.attribute_proto(), attribute.ref_attr_name());
    if (!value)
      continue;
    proto::AttributeProto *copy = bound.Add();
    copy->CopyFrom(*value);
    copy->set_name(attribute.name());
  }
  node.mutable_attribute()->Swap(&bound);
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

Error Inliner::checkCall(const proto::NodeProto &call,
                         const proto::FunctionProto &function) const {
  // A recursive call would be expanded without end.
  std::string what = describe(function);
  if (llvm::is_contained(active, &function))
    return error(ErrorKind::InvalidInput, call, what + " calls itself");
  if (active.size() == kMostDepth)
    return error(ErrorKind::Unsupported, call,
                 "functions call each other more than " + Twine(kMostDepth) +
                     " deep");
  // A call may omit trailing inputs and outputs of the function, but not have
  // more.
  if (call.input_size() > function.input_size() ||
      call.output_size() > function.output_size())
    return error(ErrorKind::InvalidInput, call,
                 what + " has " + Twine(function.input_size()) +
                     " inputs and " + Twine(function.output_size()) +
                     " outputs, but the call has " + Twine(call.input_size()) +
                     " inputs and " + Twine(call.output_size()) + " outputs");
  for (const proto::AttributeProto &attribute : call.attribute())
    if (!llvm::is_contained(function.attribute(), attribute.name()) &&
        !findAttribute(function.attribute_proto(), attribute.name()))
      return error(ErrorKind::InvalidInput, call,
                   what + " has no attribute '" + attribute.name() + "'");
  return Error::success();
}

// Maps the names of the function's inputs and outputs to the names in the call.
// If an output is also an input, or appears twice, adds an Identity to
// `copies`, because one value cannot have two names.
Inliner::Names Inliner::bindNames(const proto::NodeProto &call,
                                  const proto::FunctionProto &function,
                                  Nodes &copies) {
  Names names;
  // An omitted input gets the empty name, as in any node.
  for (int i = 0; i < function.input_size(); ++i)
    names[function.input(i)] =
        i < call.input_size() ? call.input(i) : std::string();
  for (int i = 0; i < function.output_size(); ++i) {
    if (i >= call.output_size() || call.output(i).empty())
      continue;
    // A function may return one value twice, as in `return x, x`: the second
    // output becomes a copy of the first.
    auto [entry, isNew] = names.try_emplace(function.output(i), call.output(i));
    if (isNew)
      continue;
    proto::NodeProto *copy = copies.Add();
    copy->set_op_type("Identity");
    copy->add_input(entry->second);
    copy->add_output(call.output(i));
  }
  return names;
}

Error Inliner::expandCall(const proto::NodeProto &call,
                          const proto::FunctionProto &function, Nodes &result) {
  if (Error error = checkCall(call, function))
    return error;
  added += function.node_size();
  if (added > kMostNodes)
    return error(ErrorKind::Unsupported, call,
                 "the functions of the model make more than " +
                     Twine(kMostNodes) + " nodes");
  std::string prefix = getNodeName(call);
  Nodes body, copies;
  Names names = bindNames(call, function, copies);
  for (const proto::NodeProto &node : function.node()) {
    proto::NodeProto *copy = body.Add();
    copy->CopyFrom(node);
    // Rename before binding attributes: a graph passed as an attribute must
    // keep the caller's names.
    renameNode(*copy, prefix, names);
    bindAttributes(*copy, call, function);
  }
  active.push_back(&function);
  if (Error error = expandNodes(body, opsets.lookup(makeKey(function))))
    return error;
  active.pop_back();
  for (Nodes *nodes : {&body, &copies}) {
    std::vector<proto::NodeProto *> moved(nodes->size());
    nodes->ExtractSubrange(0, nodes->size(), moved.data());
    for (proto::NodeProto *node : moved)
      result.AddAllocated(node);
  }
  return Error::success();
}

// Replaces the calls among `nodes` by nodes of functions. Records `opsets` as
// the opsets of all other nodes.
Error Inliner::expandNodes(Nodes &nodes, const Model::Opsets *opsets) {
  // Build a new list, because one call may become many nodes.
  Nodes result;
  for (proto::NodeProto &node : nodes) {
    if (const proto::FunctionProto *function = findFunction(node)) {
      if (Error error = expandCall(node, *function, result))
        return error;
      continue;
    }
    proto::NodeProto *kept = result.Add();
    kept->Swap(&node);
    model.setOpsets(*kept, opsets);
    // Bodies of branches and loops may call functions too.
    for (proto::AttributeProto &attribute : *kept->mutable_attribute()) {
      if (attribute.has_g())
        if (Error error = expandGraph(*attribute.mutable_g(), opsets))
          return error;
      for (proto::GraphProto &graph : *attribute.mutable_graphs())
        if (Error error = expandGraph(graph, opsets))
          return error;
    }
  }
  nodes.Swap(&result);
  return Error::success();
}

Error Inliner::expandGraph(proto::GraphProto &graph,
                           const Model::Opsets *opsets) {
  return expandNodes(*graph.mutable_node(), opsets);
}

Error Inliner::run() {
  if (Error error = readFunctions())
    return error;
  proto::ModelProto &file = model.getProto();
  std::vector<proto::GraphProto *> graphs = {file.mutable_graph()};
  for (proto::TrainingInfoProto &info : *file.mutable_training_info()) {
    if (info.has_initialization())
      graphs.push_back(info.mutable_initialization());
    if (info.has_algorithm())
      graphs.push_back(info.mutable_algorithm());
  }
  // Collect all names first, so that no new name clashes.
  for (proto::GraphProto *graph : graphs)
    collectNames(*graph);
  for (proto::GraphProto *graph : graphs) {
    model.keepCalls(*graph);
    if (Error error = expandGraph(*graph, nullptr))
      return error;
  }
  return Error::success();
}

Error mpc::onnx_frontend::inlineFunctions(Model &model) {
  if (model.getProto().functions_size() == 0)
    return Error::success();
  return Inliner(model).run();
}
