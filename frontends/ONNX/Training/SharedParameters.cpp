// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Training/SharedParameters.h"

#include "frontends/ONNX/Model/Metadata.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

// Exporters merge initializers that are equal and give each reader an Identity.
// What the file says is done, but parameters that start equal need not be meant
// to stay so.
static void warnAliases(FunctionImporter &function,
                        ArrayRef<const proto::NodeProto *> nodes) {
  // Aliases of parameters, and which of them are read.
  llvm::StringSet<> read;
  llvm::MapVector<StringRef, std::vector<StringRef>> names;
  for (const proto::NodeProto *node : nodes) {
    if (node->op_type() != "Identity" || node->output_size() != 1) {
      for (const std::string &input : node->input())
        read.insert(input);
      continue;
    }
    const ImportedValue &value = function.lookup(node->output(0));
    if (!value.aliasOf.empty() && value.stateRole == Role::Parameter)
      names[value.aliasOf].push_back(node->output(0));
  }
  // Read by one name alone it is an ordinary parameter, whatever it is called.
  for (auto &[parameter, aliases] : names) {
    llvm::erase_if(aliases,
                   [&](StringRef name) { return !read.contains(name); });
    if (aliases.empty() || (aliases.size() == 1 && !read.contains(parameter)))
      continue;
    function.getModule().warn(
        "parameter '" + parameter + "' also stands for '" +
        llvm::join(aliases, "', '") +
        "' (Identity), and they are trained as one; exporters merge parameters "
        "that are equal unless they export in training mode");
  }
}

static bool isNormalization(StringRef op) {
  return op.ends_with("Normalization");
}

static bool isContraction(StringRef op) {
  return op == "MatMul" || op == "Gemm" || op == "Conv";
}

static constexpr llvm::StringLiteral kMerged =
    ", and they are trained as one; PyTorch's exporter merges parameters that "
    "are equal: torch.onnx.export(..., optimize=False) keeps them apart";

// The weight that a contraction reads: what an exporter transposes at each
// call, Transpose(w) in front of a MatMul, is w.
static StringRef findWeight(const proto::NodeProto &node,
                            const llvm::StringMap<StringRef> &transposedFrom) {
  if (!isContraction(node.op_type()) || node.input_size() < 2)
    return {};
  auto it = transposedFrom.find(node.input(1));
  return it == transposedFrom.end() ? StringRef(node.input(1)) : it->second;
}

// PyTorch's exporter also merges parameters that start equal by name alone, as
// the scales of all normalizations do: then several of these read one of ones.
// Where weights are shared too, the model applies its layers several times.
static void warnMergedNormalizations(FunctionImporter &function,
                                     ArrayRef<const proto::NodeProto *> nodes) {
  llvm::StringMap<StringRef> transposedFrom;
  for (const proto::NodeProto *node : nodes)
    if (node->op_type() == "Transpose" && node->input_size() == 1 &&
        node->output_size() == 1)
      transposedFrom[node->output(0)] = node->input(0);
  // The normalizations that read each scale and bias: all calls of one module
  // are one. Weights that are read twice mean that layers are shared on
  // purpose.
  llvm::MapVector<StringRef, llvm::SetVector<StringRef>> readers;
  llvm::StringSet<> weights;
  for (const proto::NodeProto *node : nodes) {
    StringRef weight = findWeight(*node, transposedFrom);
    if (!weight.empty() && function.lookup(weight).stateRole &&
        !weights.insert(weight).second)
      return;
    if (!isNormalization(node->op_type()) || node->output_size() == 0)
      continue;
    StringRef reader = findModule(*node).value_or(node->output(0));
    for (int index : {1, 2})
      if (index < node->input_size())
        readers[node->input(index)].insert(reader);
  }
  // Parameters of equal elements that several read were merged.
  readers.remove_if([&](const auto &entry) {
    const ImportedValue &value = function.lookup(entry.first);
    return entry.second.size() < 2 || value.stateRole != Role::Parameter ||
           !value.constant || !value.constant->isSplat();
  });
  if (readers.empty())
    return;
  auto &[name, modules] = readers.front();
  function.getModule().warn("parameter '" + name + "' is read by " +
                            Twine(modules.size()) + " normalizations" +
                            countOthers(readers.size()) + kMerged);
}

/// PyTorch's exporter leaves larger tensors apart.
static constexpr int64_t kLargestMerged = 1024;

// Warns of parameters that the exporter merged because their values were equal,
// such as the scales of two fresh LayerNorms. A module that is applied twice
// reads its own parameter twice; but a parameter that nodes of two modules read
// was two parameters in the program. Nodes without a module's name say nothing.
static void warnMergedModules(FunctionImporter &function,
                              ArrayRef<const proto::NodeProto *> nodes) {
  // The modules that read each parameter.
  llvm::MapVector<StringRef, llvm::SetVector<StringRef>> scopes;
  for (const proto::NodeProto *node : nodes) {
    std::optional<StringRef> scope = findModule(*node);
    if (!scope)
      continue;
    for (const std::string &input : node->input()) {
      const ImportedValue &value = function.lookup(input);
      // A table or a weight of many elements is not equal to another by chance.
      if (value.stateRole == Role::Parameter && value.constant &&
          value.constant->getNumElements() <= kLargestMerged)
        scopes[input].insert(*scope);
    }
  }
  // One module that reads its parameter is what everyone expects.
  scopes.remove_if([](const auto &entry) { return entry.second.size() < 2; });
  if (scopes.empty())
    return;
  // One example, and how many more there are.
  auto &[name, readers] = scopes.front();
  function.getModule().warn("parameter '" + name + "' is read in " +
                            Twine(readers.size()) + " modules, such as '" +
                            readers[0] + "' and '" + readers[1] + "'" +
                            countOthers(scopes.size()) + kMerged);
}

// An exporter that does not optimize merges nothing, and computes nothing.
static bool isOptimized(const proto::GraphProto &graph) {
  return llvm::any_of(graph.value_info(), [](const auto &value) {
    return !findMetadata(value, kFoldedFrom).empty();
  });
}

void mpc::onnx_frontend::warnShared(FunctionImporter &function,
                                    const Graph &graph,
                                    ArrayRef<const proto::NodeProto *> nodes) {
  warnAliases(function, nodes);
  if (isOptimized(graph.getModel().getProto().graph()))
    warnMergedModules(function, nodes);
  else
    warnMergedNormalizations(function, nodes);
}
