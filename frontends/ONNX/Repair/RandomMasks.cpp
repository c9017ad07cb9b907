// Replaces random masks that a program computes without Dropout.
//
// Finds results whose elements have one of two values, chosen at random with a
// constant probability p:
//   - 0 or x / p: DropPath, Dropout2d;
//   - 0 or x for whole samples: DropPath without a scale;
//   - a * x + b or a constant, with the mean and variance of a normal x:
//     AlphaDropout;
//   - DropBlock, x * (1 - max_pool(mask)).
//
// Replaces the random mask by a Dropout of a tensor of ones. In training the
// results have the same distribution. In evaluation Dropout does nothing, so
// the result is x, and the mask of a DropBlock is 0. Also searches bodies and
// functions. A mask that other nodes read stays.
//
// Before:
//
// ```
// <ir_version: 8, opset_import: ["" : 17]>
// g (float[4,3] x) => (float[4,3] y)
// <float keep = {0.75}>
// {
//   r = RandomUniform <shape: ints = [4, 3]> ()
//   b = Less (r, keep)
//   m = Cast <to: int = 1> (b)
//   k = Mul (x, m)
//   y = Div (k, keep)
// }
// ```
//
// After:
//
// ```
// ... = Constant <value: tensor = int64[2] {4, 3}> ()
// ... = ConstantOfShape <value: tensor = float[1] {1}> (...)
// ... = Constant <value: tensor = float {0.25}> ()
// ... = Constant <value: tensor = bool {1}> ()
// ... y_mask_dropout = Dropout (...)
// ... y_mask_castlike = CastLike (y_mask_dropout, x)
// y = Mul (x, y_mask_castlike)
// ```
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Repair/Repair.h"

#include "frontends/ONNX/Model/Graph.h"
#include "frontends/ONNX/Repair/RandomChoices.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringSet.h"

using namespace mpc::onnx_frontend;
using llvm::ArrayRef;
using llvm::StringRef;

using Choice = RandomChoices::Choice;

namespace {
/// Replaces the random masks in one scope: a graph, a body or a function.
class MaskReplacer {
public:
  MaskReplacer(Model &model, const DrawingScope &scope,
               llvm::StringSet<> &names)
      : model(model), scope(scope), names(names) {}

  /// Replaces the masks. Returns the names of the nodes that drew the random
  /// numbers, for the note. Adds the names of removed values to `gone`.
  std::vector<std::string> run(llvm::StringSet<> &gone);

private:
  std::string addValue(StringRef hint);
  std::string addNode(StringRef op, ArrayRef<std::string> inputs);
  std::string addNumber(double number);
  std::string addDropout(const Choice &choice, double ratio);
  bool replace(const proto::NodeProto &root, const Choice &choice);
  bool replaceBlock(const proto::NodeProto &root, const Choice &choice);

  Model &model;
  const DrawingScope &scope;
  /// The names of all values of the model. `prefix` is the start of the names
  /// of added nodes.
  llvm::StringSet<> &names;
  std::string prefix;
  std::vector<proto::NodeProto> added;
  llvm::DenseMap<const proto::NodeProto *, std::vector<proto::NodeProto>>
      replacements;
  llvm::SmallPtrSet<const proto::NodeProto *, 16> dropped;
};
} // namespace

// The first opsets with ConstantOfShape, Dropout's mode as an input, and
// CastLike.
static constexpr int64_t kFirstWithOnes = 9, kFirstWithMode = 12,
                         kFirstCastLike = 15;

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

// Adds a tensor attribute `value` to the node.
static proto::TensorProto &addTensor(proto::NodeProto &node) {
  proto::AttributeProto &value = *node.add_attribute();
  value.set_name("value");
  value.set_type(proto::AttributeProto::TENSOR);
  return *value.mutable_t();
}

std::string MaskReplacer::addNumber(double number) {
  std::string name = addNode("Constant", {});
  proto::TensorProto &value = addTensor(added.back());
  value.set_data_type(proto::TensorProto::FLOAT);
  value.add_float_data(static_cast<float>(number));
  return name;
}

// Adds a Dropout of a tensor filled with 1, in the shape of the random numbers.
// In training each element is 0 or 1 / (1 - ratio).
std::string MaskReplacer::addDropout(const Choice &choice, double ratio) {
  const proto::NodeProto &source = *choice.chain.front();
  std::string shape;
  if (source.input_size() == 1) {
    shape = addNode("Shape", {source.input(0)});
  } else {
    shape = addNode("Constant", {});
    proto::TensorProto &numbers = addTensor(added.back());
    numbers.set_data_type(proto::TensorProto::INT64);
    if (const proto::AttributeProto *given = findNodeAttribute(source, "shape"))
      *numbers.mutable_int64_data() = given->ints();
    numbers.add_dims(numbers.int64_data_size());
  }
  std::string ones = addNode("ConstantOfShape", {shape});
  proto::TensorProto &fill = addTensor(added.back());
  fill.set_data_type(proto::TensorProto::FLOAT);
  fill.add_dims(1);
  fill.add_float_data(1);
  if (scope.opset < kFirstWithMode) {
    std::string mask = addNode("Dropout", {ones});
    proto::AttributeProto &attribute = *added.back().add_attribute();
    attribute.set_name("ratio");
    attribute.set_type(proto::AttributeProto::FLOAT);
    attribute.set_f(static_cast<float>(ratio));
    return mask;
  }
  std::string number = addNumber(ratio);
  std::string mode = addNode("Constant", {});
  proto::TensorProto &isTraining = addTensor(added.back());
  isTraining.set_data_type(proto::TensorProto::BOOL);
  isTraining.add_int32_data(1);
  return addNode("Dropout", {ones, number, mode});
}

bool MaskReplacer::replace(const proto::NodeProto &root, const Choice &choice) {
  const int64_t opset = scope.opset;
  // Without CastLike, the type of the result must be known: only float32 is.
  const bool isFloat =
      llvm::any_of(choice.chain, [](const proto::NodeProto *node) {
        const proto::AttributeProto *to = findNodeAttribute(
            *node, node->op_type() == "Cast" ? "to" : "dtype");
        return to && to->i() == proto::TensorProto::FLOAT;
      });
  if (opset < kFirstWithOnes || (opset < kFirstCastLike && !isFloat))
    return false;
  std::string mask = addDropout(choice, 1 - choice.p);
  auto cast = [&](const std::string &value) {
    return opset < kFirstCastLike ? value
                                  : addNode("CastLike", {value, choice.base});
  };
  std::string left = choice.base, right, op = "Mul";
  const bool isAlpha = choice.bias[0] != 0;
  if (!isAlpha && choice.scale[1] != 1) {
    right = cast(mask);
  } else {
    // m, the Dropout's result, is 0 or 1 / p in training and 1 in evaluation.
    // So m * (1 + share * (m - 1)) is 0, scale[1] or 1. And other * m - other
    // is bias[0], bias[1] or 0.
    const double p = choice.p;
    const double share = (choice.scale[1] * p - 1) / (1 / p - 1);
    std::string one = addNumber(1);
    std::string factor = addNode("Sub", {mask, one});
    factor = addNode("Mul", {factor, addNumber(share)});
    factor = addNode("Add", {factor, one});
    right = cast(addNode("Mul", {mask, factor}));
    if (isAlpha) {
      left = addNode("Mul", {choice.base, right});
      std::string other = addNumber(-choice.bias[0]);
      std::string sum = addNode("Mul", {mask, other});
      right = cast(addNode("Sub", {sum, other}));
      op = "Add";
    }
  }
  // Keep the name and output of the root: readers then need no change.
  proto::NodeProto node = root;
  node.set_op_type(op);
  node.clear_attribute();
  node.clear_input();
  node.add_input(left);
  node.add_input(right);
  added.push_back(std::move(node));
  return true;
}

// Replaces the mask of a DropBlock by a mask with 1 where a Dropout drops the
// element, and so 0 in evaluation.
bool MaskReplacer::replaceBlock(const proto::NodeProto &root,
                                const Choice &choice) {
  const StringRef op = root.op_type();
  if (scope.opset < kFirstWithOnes || (op != "Cast" && op != "CastLike"))
    return false;
  std::string kept = addNode("Cast", {addDropout(choice, choice.p)});
  proto::AttributeProto &to = *added.back().add_attribute();
  to.set_name("to");
  to.set_type(proto::AttributeProto::INT);
  to.set_i(proto::TensorProto::BOOL);
  std::string isDropped = addNode("Not", {kept});
  proto::NodeProto node = root;
  node.set_input(0, isDropped);
  added.push_back(std::move(node));
  return true;
}

std::vector<std::string> MaskReplacer::run(llvm::StringSet<> &gone) {
  RandomChoices choices(model, scope);
  for (const proto::NodeProto &node : *scope.nodes)
    choices.visit(node);
  std::vector<std::string> done;
  for (const RandomChoices::Found &each : choices.takeFound()) {
    added.clear();
    prefix = each.root->output(0) + "_mask";
    if (!(each.isBlock ? replaceBlock(*each.root, each.choice)
                       : replace(*each.root, each.choice)))
      continue;
    replacements[each.root] = std::move(added);
    dropped.insert(each.choice.chain.begin(), each.choice.chain.end());
    done.push_back("'" + getNodeName(*each.choice.chain.front()) + "'");
  }
  for (const proto::NodeProto *node : dropped)
    if (!replacements.contains(node))
      gone.insert(node->output().begin(), node->output().end());
  if (done.empty())
    return done;
  // Keep the order of the file. The new nodes stand in place of the root,
  // before all readers.
  std::remove_reference_t<decltype(*scope.nodes)> nodes;
  for (proto::NodeProto &node : *scope.nodes) {
    for (proto::NodeProto &one : replacements[&node])
      nodes.Add()->Swap(&one);
    if (!dropped.contains(&node))
      nodes.Add()->Swap(&node);
  }
  scope.nodes->Swap(&nodes);
  return done;
}

// True if a node of `scope` draws random numbers.
static bool draws(const DrawingScope &scope) {
  return llvm::any_of(*scope.nodes, [](const proto::NodeProto &node) {
    const StringRef op = node.op_type();
    return op == "Bernoulli" || op == "RandomUniform" ||
           op == "RandomUniformLike";
  });
}

// Finds the graphs, bodies and functions in which nodes draw random numbers.
static std::vector<DrawingScope> findScopes(Model &model) {
  proto::ModelProto &file = model.getProto();
  std::vector<DrawingScope> scopes;
  std::vector<proto::GraphProto *> graphs = findGraphs(file);
  for (proto::GraphProto *graph : graphs) {
    DrawingScope scope{graph->mutable_node(), {}, {}, model.getOpset("")};
    if (!draws(scope))
      continue;
    scope.graphs.assign(graphs.begin(), graphs.end());
    for (const proto::ValueInfoProto &output : graph->output())
      scope.outputs.push_back(output.name());
    scopes.push_back(std::move(scope));
  }
  for (proto::FunctionProto &function : *file.mutable_functions()) {
    DrawingScope scope{function.mutable_node(), {}, {}, model.getOpset("")};
    if (!draws(scope))
      continue;
    for (const proto::OperatorSetIdProto &import : function.opset_import())
      if (normalizeDomain(import.domain()).empty())
        scope.opset = import.version();
    scope.outputs.assign(function.output().begin(), function.output().end());
    scopes.push_back(std::move(scope));
  }
  return scopes;
}

llvm::Error mpc::onnx_frontend::replaceRandomMasks(RepairContext &context) {
  Model &model = context.getModel();
  std::vector<DrawingScope> scopes = findScopes(model);
  if (scopes.empty())
    return llvm::Error::success();
  proto::ModelProto &file = model.getProto();
  llvm::StringSet<> names = context.findNames(), gone;
  std::vector<std::string> done;
  for (const DrawingScope &scope : scopes)
    for (std::string &name : MaskReplacer(model, scope, names).run(gone))
      done.push_back(std::move(name));
  if (done.empty())
    return llvm::Error::success();
  // Drop the declared types of removed values.
  for (proto::GraphProto *graph : findGraphs(file)) {
    auto &infos = *graph->mutable_value_info();
    for (int i = infos.size() - 1; i >= 0; --i)
      if (gone.contains(infos.Get(i).name()))
        infos.DeleteSubrange(i, 1);
  }
  context.note("random masks are taken as Dropout, which evaluation leaves "
               "out: " +
               listFirst(done, 2));
  return llvm::Error::success();
}
