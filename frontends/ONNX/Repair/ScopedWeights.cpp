// Names weights that PyTorch's older exporter has numbered.
//
// The older exporter folds the transposition of a linear layer's weight into
// an initializer like "onnx::MatMul_57". Restores the name and layout of the
// program. Node names contain the modules, as in
// "/encoder/layer.0/query/MatMul", and biases keep their names. So the added
// bias, or else the scope of the node, gives the name
// "encoder.layer.0.query.weight". Afterwards the file has this weight and a
// Transpose, as TransposedWeights.cpp does for files of today's exporter.
//
// Before:
//
// ```
// <ir_version: 8, opset_import: ["" : 17], producer_name: "pytorch">
// g (float[2,1,2] x) => (float[2,1,3] y)
// <float[2,3] "onnx::MatMul_7" = {1, 2, 3, 4, 5, 6},
//  float[3] "fc.bias" = {1, 2, 3}>
// {
//   ["/fc/MatMul"] m = MatMul (x, "onnx::MatMul_7")
//   ["/fc/Add"] y = Add ("fc.bias", m)
// }
// ```
//
// After:
//
// ```
// float[3,2] "fc.weight" = {1, 4, 2, 5, 3, 6},
// ...
// ["transpose_of_onnx::MatMul_7"] "onnx::MatMul_7" = Transpose
//     <perm: ints = [1, 0]> ("fc.weight")
// ["/fc/MatMul"] m = MatMul (x, "onnx::MatMul_7")
// ```
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Repair/Repair.h"

#include "frontends/ONNX/Model/Graph.h"
#include "frontends/ONNX/Repair/TransposedWeights.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mpc::onnx_frontend;
using llvm::StringRef;

namespace {
/// The facts about a scope, like "/layer.0/ff/ff.0". The exporter names a
/// module by the last part of its name; for a module in a list, by the list's
/// name too ("ff.0").
struct Scope {
  int products = 0;
  /// True if the scope has nodes other than a product and the add of a bias.
  bool hasOthers = false;
  /// The module's name in the program, like "layer.0.ff.0", known from a
  /// parameter "layer.0.ff.0.bias". `isAmbiguous` if two parameters disagree.
  std::optional<std::string> module;
  bool isAmbiguous = false;
};

class WeightNamer {
public:
  explicit WeightNamer(Model &model)
      : model(model), graph(*model.getProto().mutable_graph()) {}

  std::string run();

private:
  void collectNumbered();
  void collectScopes();
  void learn(StringRef scope, StringRef module);
  std::string nameByBias(const proto::NodeProto &product) const;
  std::string nameByScope(StringRef scope) const;

  Model &model;
  proto::GraphProto &graph;
  /// The names of all values, including names in bodies.
  llvm::StringSet<> taken, initializers;
  /// Matrices with a number of the exporter as name.
  llvm::StringMap<proto::TensorProto *> numbered;
  llvm::StringMap<Scope> scopes;
  /// By a value: the Add of the value and a named bias, and the bias.
  llvm::StringMap<std::pair<const proto::NodeProto *, StringRef>> biases;
};
} // namespace

static bool isNumberedWeight(StringRef name) {
  return name.consume_front("onnx::MatMul_") && !name.empty() &&
         llvm::all_of(name, llvm::isDigit);
}

// Returns the modules of a node: "/fc" for "/fc/MatMul". Empty if the name does
// not say, is too long, or has an unnamed module, as in "//MatMul".
static StringRef scopeOf(const proto::NodeProto &node) {
  constexpr size_t mostCharacters = 1000, mostModules = 50;
  StringRef name = node.name();
  if (!name.starts_with("/") || name.contains("//") ||
      name.size() > mostCharacters || name.count('/') > mostModules)
    return {};
  return name.rsplit('/').first;
}

static StringRef lastPart(StringRef scope) { return scope.rsplit('/').second; }

void WeightNamer::collectNumbered() {
  taken = findBodyNames(graph);
  for (proto::TensorProto &tensor : *graph.mutable_initializer()) {
    taken.insert(tensor.name());
    initializers.insert(tensor.name());
    if (isNumberedWeight(tensor.name()) && tensor.dims_size() == 2 &&
        holdsFloats(tensor))
      numbered[tensor.name()] = &tensor;
  }
  for (const auto *list : {&graph.input(), &graph.output()})
    for (const proto::ValueInfoProto &value : *list) {
      taken.insert(value.name());
      numbered.erase(value.name());
    }
}

// Records the module of a scope if the last part of `scope` ends the name
// `module`. Then does the same for the enclosing scopes.
void WeightNamer::learn(StringRef scope, StringRef module) {
  while (!scope.empty()) {
    StringRef part = lastPart(scope), rest = module;
    if (!rest.consume_back(part) || !(rest.empty() || rest.ends_with(".")))
      return;
    Scope &known = scopes[scope];
    if (known.module && *known.module != module)
      known.isAmbiguous = true;
    known.module = module.str();
    // "/ff/ff.0" is module "0" of the list "ff".
    scope = scope.rsplit('/').first;
    StringRef outer = lastPart(scope);
    if (StringRef own = part;
        !outer.empty() && own.consume_front(outer) && own.starts_with("."))
      module = module.drop_back(own.size());
    else
      module = rest.drop_back(rest.ends_with(".") ? 1 : 0);
  }
}

void WeightNamer::collectScopes() {
  static const llvm::StringSet<> plain = {"Add", "Constant", "Cast", "Identity",
                                          "Transpose"};
  for (const proto::NodeProto &node : graph.node()) {
    taken.insert(node.output().begin(), node.output().end());
    StringRef scope = scopeOf(node);
    if (scope.empty())
      continue;
    // A node in an inner module also belongs to the outer modules.
    const bool isProduct = node.op_type() == "MatMul";
    scopes[scope].products += isProduct;
    for (StringRef around = scope; !around.empty();
         around = around.rsplit('/').first)
      scopes[around].hasOthers |=
          around.size() != scope.size() ||
          !(isProduct || plain.contains(node.op_type()));
    for (const std::string &input : node.input())
      if (initializers.contains(input) && !isNumberedWeight(input))
        if (auto [module, leaf] = StringRef(input).rsplit('.'); !leaf.empty())
          learn(scope, module);
    if (node.op_type() == "Add" && node.input_size() == 2)
      for (int i : {0, 1})
        if (StringRef(node.input(i)).ends_with("bias"))
          biases[node.input(1 - i)] = {&node, node.input(i)};
  }
}

// Names the weight after the added bias: "fc.bias" gives "fc.weight", and
// "in_proj_bias" gives "in_proj_weight". Empty if no named bias is added.
std::string WeightNamer::nameByBias(const proto::NodeProto &product) const {
  if (product.output_size() == 0)
    return {};
  auto [add, bias] = biases.lookup(product.output(0));
  if (!add || scopeOf(*add) != scopeOf(product) || bias.starts_with("onnx::") ||
      bias.starts_with("/") || !bias.consume_back("bias"))
    return {};
  return (bias + "weight").str();
}

// Names the weight after its scope; empty unless the scope is a linear layer.
std::string WeightNamer::nameByScope(StringRef scope) const {
  // A linear layer has one product, and no other ops with weights.
  const Scope &layer = scopes.find(scope)->second;
  if (layer.products != 1 || layer.hasOthers)
    return {};
  // Start from the innermost module whose name is known, or else from the
  // program.
  llvm::SmallVector<StringRef> parts;
  StringRef around = scope;
  std::string module;
  for (; !around.empty(); around = around.rsplit('/').first) {
    auto known = scopes.find(around);
    if (known->second.module && !known->second.isAmbiguous) {
      module = *known->second.module;
      break;
    }
    parts.push_back(lastPart(around));
  }
  // Scopes repeat the path: `/encoder/encoder.layers/encoder.layers.0` is
  // encoder.layers.0.
  StringRef outer = lastPart(around);
  for (StringRef part : llvm::reverse(parts)) {
    StringRef own = part;
    if (!outer.empty() && own.consume_front(outer) && own.starts_with("."))
      module += own;
    else
      module += (module.empty() ? "" : ".") + part.str();
    outer = part;
  }
  // Programs have no names with an empty part.
  const bool isName = !module.empty() && module.front() != '.' &&
                      module.back() != '.' && !StringRef(module).contains("..");
  return isName ? module + ".weight" : std::string();
}

std::string WeightNamer::run() {
  // Only the older exporter writes initializers such as `onnx::MatMul_412`.
  collectNumbered();
  if (numbered.empty())
    return {};
  collectScopes();
  // A linear layer without its name: MatMul by a numbered matrix in a module's
  // scope.
  std::vector<std::pair<std::string, std::string>> matrices;
  std::vector<std::string> done;
  for (const proto::NodeProto &node : graph.node()) {
    if (node.op_type() != "MatMul" || !node.domain().empty() ||
        node.input_size() != 2 || node.output_size() != 1)
      continue;
    auto found = numbered.find(node.input(1));
    StringRef scope = scopeOf(node);
    if (found == numbered.end() || scope.empty())
      continue;
    // The name of the bias is the better evidence for the module.
    std::string name = nameByBias(node);
    if (name.empty())
      name = nameByScope(scope);
    if (name.empty() || taken.contains(name))
      continue;
    // PyTorch stores [out, in]: transpose the matrix back and insert a
    // Transpose.
    const std::string former = found->getKey().str();
    if (!transposeInitializer(model, *found->second, name))
      continue;
    numbered.erase(found);
    taken.insert(name);
    done.push_back("'" + name + "'");
    matrices.emplace_back(name, former);
  }
  if (matrices.empty())
    return {};
  // Give one note for all weights, with an example.
  addTransposes(graph, matrices);
  return "the exporter transposed and numbered weights, which have the "
         "program's names and layout again: " +
         listFirst(done, 1) + " is '" + matrices.front().second +
         "' in the file";
}

llvm::Error mpc::onnx_frontend::nameScopedWeights(RepairContext &context) {
  context.note(WeightNamer(context.getModel()).run());
  return llvm::Error::success();
}
