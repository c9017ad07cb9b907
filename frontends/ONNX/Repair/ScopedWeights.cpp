// Restores weights transposed and numbered by PyTorch's older exporter.
//
// The older exporter folds the transposition of a linear layer's weight into an
// initializer like "onnx::MatMul_57". Restores the layout and the name of the
// program. The bias of the product keeps the program's name, and the node's
// name contains the modules, as in "/encoder/layer.0/query/MatMul". The bias,
// or else the modules, give the name "encoder.layer.0.query.weight". Afterwards
// the file has the restored weight and a Transpose, like files of the newer
// exporter after TransposedWeights.cpp.
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
/// Facts about a scope: the start of node names that tells the modules around a
/// node, like "/layer.0/ff/ff.0". The exporter writes only the last part of
/// each module's name, but "ff.0" for module 0 of a list ff.
struct Scope {
  int products = 0;
  /// True if the scope has nodes other than a MatMul and the Add of a bias.
  bool hasOthers = false;
  /// The name of the innermost module in the program, like "layer.0.ff.0", as
  /// found from a parameter like "layer.0.ff.0.bias" of a node in the scope;
  /// nullopt if unknown. `isAmbiguous` if two parameters show different names.
  std::optional<std::string> module;
  bool isAmbiguous = false;
};

class WeightNamer {
public:
  explicit WeightNamer(RepairContext &context)
      : model(context.getModel()), graph(context.getGraph()),
        taken(context.findNames()) {}

  std::string run();

private:
  void collectNumbered();
  void collectScopes();
  void learn(StringRef scope, StringRef module);
  std::string nameByBias(const proto::NodeProto &product) const;
  std::string nameByScope(StringRef scope) const;

  Model &model;
  proto::GraphProto &graph;
  /// `taken`: the names of all values. `initializers`: the names of
  /// initializers.
  llvm::StringSet<> taken, initializers;
  /// Initializers of rank 2 with a name made up by the exporter:
  /// "onnx::MatMul_57".
  llvm::StringMap<proto::TensorProto *> numbered;
  llvm::StringMap<Scope> scopes;
  /// For each value to which an Add adds a bias: the Add and the name of the
  /// bias.
  llvm::StringMap<std::pair<const proto::NodeProto *, StringRef>> biases;
};
} // namespace

static bool isNumberedWeight(StringRef name) {
  return name.consume_front("onnx::MatMul_") && !name.empty() &&
         llvm::all_of(name, llvm::isDigit);
}

// Returns the scope of a node: "/fc" for "/fc/MatMul". Empty if the node's name
// has no scope, is too long, or has an empty part, as in "//MatMul".
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
  for (proto::TensorProto &tensor : *graph.mutable_initializer()) {
    initializers.insert(tensor.name());
    if (isNumberedWeight(tensor.name()) && tensor.dims_size() == 2 &&
        holdsFloats(tensor))
      numbered[tensor.name()] = &tensor;
  }
  for (const auto *list : {&graph.input(), &graph.output()})
    for (const proto::ValueInfoProto &value : *list)
      numbered.erase(value.name());
}

// Records that `scope` is the module named `module`, if the name ends with the
// last part of the scope: "/layer.0/fc" and "layer.0.fc". Then does the same
// for the enclosing scopes.
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
    StringRef scope = scopeOf(node);
    if (scope.empty())
      continue;
    // A node in an inner module counts as "other node" of all enclosing
    // modules.
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

// Derives the weight's name from the bias of the product: "fc.weight" from
// "fc.bias", "in_proj_weight" from "in_proj_bias". Empty if no named bias is
// added.
std::string WeightNamer::nameByBias(const proto::NodeProto &product) const {
  if (product.output_size() == 0)
    return {};
  auto [add, bias] = biases.lookup(product.output(0));
  if (!add || scopeOf(*add) != scopeOf(product) || bias.starts_with("onnx::") ||
      bias.starts_with("/") || !bias.consume_back("bias"))
    return {};
  return (bias + "weight").str();
}

// Derives the weight's name from the scope of the product. Empty unless the
// scope is a linear layer.
std::string WeightNamer::nameByScope(StringRef scope) const {
  // A linear layer has one product, and no other nodes except the bias.
  const Scope &layer = scopes.find(scope)->second;
  if (layer.products != 1 || layer.hasOthers)
    return {};
  // Start from the innermost enclosing module whose name in the program is
  // known, or from the root of the program.
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
  // A module in a list repeats the list's name: the scope
  // `/encoder/encoder.layers/encoder.layers.0` is the module encoder.layers.0.
  StringRef outer = lastPart(around);
  for (StringRef part : llvm::reverse(parts)) {
    StringRef own = part;
    if (!outer.empty() && own.consume_front(outer) && own.starts_with("."))
      module += own;
    else
      module += (module.empty() ? "" : ".") + part.str();
    outer = part;
  }
  // Names in a program have no empty part.
  const bool isName = !module.empty() && module.front() != '.' &&
                      module.back() != '.' && !StringRef(module).contains("..");
  return isName ? module + ".weight" : std::string();
}

std::string WeightNamer::run() {
  // Only the older exporter makes up names like `onnx::MatMul_412`; most files
  // have none.
  collectNumbered();
  if (numbered.empty())
    return {};
  collectScopes();
  // Find linear layers: a MatMul by a numbered matrix in a module's scope.
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
    // Prefer the name from the bias, which is complete. A scope may leave parts
    // out.
    std::string name = nameByBias(node);
    if (name.empty())
      name = nameByScope(scope);
    if (name.empty() || taken.contains(name))
      continue;
    // PyTorch stores weights as [out, in]. Transpose the matrix back;
    // addTransposes inserts the Transpose for the MatMul.
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
  // Give a single note, with a weight as example.
  addTransposes(graph, matrices);
  return "the exporter transposed and numbered weights, which have the "
         "program's names and layout again: " +
         listFirst(done, 1) + " is '" + matrices.front().second +
         "' in the file";
}

llvm::Error mpc::onnx_frontend::nameScopedWeights(RepairContext &context) {
  context.note(WeightNamer(context).run());
  return llvm::Error::success();
}
