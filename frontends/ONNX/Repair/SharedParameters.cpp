// Warns of parameters merged by an exporter.
//
// The file has a single parameter where, as far as the nodes show, the program
// has several with equal initial values. The program would train these
// parameters to different values; a merged parameter keeps them equal.
//
// Before:
//
// ```
// <ir_version: 8, opset_import: ["" : 17]>
// g (float[4,2] x) => (float[4,2] y)
// <float[2] scale = {1, 1}>
// {
//   h = LayerNormalization (x, scale)
//   y = LayerNormalization (h, scale)
// }
// ```
//
// After:
//
// ```
// warning: parameter 'scale' is read by 2 normalizations, so their parameters
//     are trained as one; ...
// ```
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Model/Metadata.h"
#include "frontends/ONNX/Repair/Repair.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

// Warns of parameters with several names. Some exporters merge equal
// initializers and give each other name an Identity. The import trains a single
// parameter, as in the file, but the program may have several with equal
// initial values.
static void warnAliases(const LossContext &context) {
  // Collect the names that Identity gives to each parameter, and the names that
  // other nodes read.
  llvm::StringSet<> read;
  llvm::MapVector<StringRef, std::vector<StringRef>> names;
  for (const proto::NodeProto *node : context.nodes) {
    if (node->op_type() != "Identity" || node->output_size() != 1) {
      for (const std::string &input : node->input())
        read.insert(input);
      continue;
    }
    const ValueFacts value = context.findFacts(node->output(0));
    if (!value.aliasOf.empty() && value.stateRole == Role::Parameter)
      names[value.aliasOf].push_back(node->output(0));
  }
  // A parameter read under a single name is not merged.
  for (auto &[parameter, aliases] : names) {
    llvm::erase_if(aliases,
                   [&](StringRef name) { return !read.contains(name); });
    if (aliases.empty() || (aliases.size() == 1 && !read.contains(parameter)))
      continue;
    context.getModel().warn(
        "parameter '" + parameter + "' is also read as '" +
        llvm::join(aliases, "', '") +
        "' (through Identity), so all are trained as one parameter; exporters "
        "merge parameters that are equal; to keep them apart, export in "
        "training mode");
  }
}

static bool isNormalization(StringRef op) {
  return op.ends_with("Normalization");
}

static bool isContraction(StringRef op) {
  return op == "MatMul" || op == "Gemm" || op == "Conv";
}

static constexpr llvm::StringLiteral kMerged =
    ", so their parameters are trained as one; PyTorch's exporter merges "
    "parameters that are equal; to keep them apart, export with "
    "torch.onnx.export(..., optimize=False)";

// Returns the name of the weight of a MatMul, Gemm or Conv, read directly or
// through a Transpose. Empty for other nodes.
static StringRef findWeight(const proto::NodeProto &node,
                            const llvm::StringMap<StringRef> &transposedFrom) {
  if (!isContraction(node.op_type()) || node.input_size() < 2)
    return {};
  auto it = transposedFrom.find(node.input(1));
  return it == transposedFrom.end() ? StringRef(node.input(1)) : it->second;
}

// Warns if several normalizations read a parameter whose elements are all
// equal. PyTorch's exporter merges parameters that start equal, like scales of
// 1. Does not warn if two contractions share a weight: then the model applies
// layers several times, and rightly shares all parameters.
static void warnMergedNormalizations(const LossContext &context) {
  llvm::StringMap<StringRef> transposedFrom;
  for (const proto::NodeProto *node : context.nodes)
    if (node->op_type() == "Transpose" && node->input_size() == 1 &&
        node->output_size() == 1)
      transposedFrom[node->output(0)] = node->input(0);
  // The normalizations that read each scale or bias. Several calls of a module
  // count once.
  llvm::MapVector<StringRef, llvm::SetVector<StringRef>> readers;
  llvm::StringSet<> weights;
  for (const proto::NodeProto *node : context.nodes) {
    StringRef weight = findWeight(*node, transposedFrom);
    if (!weight.empty() && context.findFacts(weight).stateRole &&
        !weights.insert(weight).second)
      return;
    if (!isNormalization(node->op_type()) || node->output_size() == 0)
      continue;
    StringRef reader = findModule(*node).value_or(node->output(0));
    for (int index : {1, 2})
      if (index < node->input_size())
        readers[node->input(index)].insert(reader);
  }
  // Keep trained parameters whose elements are all equal and that several
  // normalizations read.
  readers.remove_if([&](const auto &entry) {
    const ValueFacts value = context.findFacts(entry.first);
    return entry.second.size() < 2 || value.stateRole != Role::Parameter ||
           !value.constant || !value.constant->isSplat();
  });
  if (readers.empty())
    return;
  auto &[name, modules] = readers.front();
  context.getModel().warn("parameter '" + name + "' is read by " +
                          Twine(modules.size()) + " normalizations" +
                          countOthers(readers.size()) + kMerged);
}

/// The largest number of elements of a merged tensor.
static constexpr int64_t kLargestMerged = 1024;

// Warns of parameters read by nodes of two modules: the program probably had
// two parameters with equal values, like the scales of two new LayerNorms, and
// the exporter merged the two. A module called twice reads a parameter twice,
// which is no loss. Nodes without a module in the metadata are ignored.
static void warnMergedModules(const LossContext &context) {
  llvm::MapVector<StringRef, llvm::SetVector<StringRef>> scopes;
  for (const proto::NodeProto *node : context.nodes) {
    std::optional<StringRef> scope = findModule(*node);
    if (!scope)
      continue;
    for (const std::string &input : node->input()) {
      const ValueFacts value = context.findFacts(input);
      // Skip large tensors, which the exporter does not merge.
      if (value.stateRole == Role::Parameter && value.constant &&
          value.constant->getNumElements() <= kLargestMerged)
        scopes[input].insert(*scope);
    }
  }
  // Drop parameters read by a single module.
  scopes.remove_if([](const auto &entry) { return entry.second.size() < 2; });
  if (scopes.empty())
    return;
  // Give a single warning, with a parameter as example.
  auto &[name, readers] = scopes.front();
  context.getModel().warn("parameter '" + name + "' is read in " +
                          Twine(readers.size()) + " modules, such as '" +
                          readers[0] + "' and '" + readers[1] + "'" +
                          countOthers(scopes.size()) + kMerged);
}

// True if the exporter optimized the graph, as metadata of folded values show.
// Otherwise the exporter has not merged equal initializers.
static bool isOptimized(const proto::GraphProto &graph) {
  return llvm::any_of(graph.value_info(), [](const auto &value) {
    return !findMetadata(value, kFoldedFrom).empty();
  });
}

void mpc::onnx_frontend::warnShared(const LossContext &context) {
  if (!context.findFacts)
    return;
  warnAliases(context);
  if (isOptimized(context.getModel().getProto().graph()))
    warnMergedModules(context);
  else
    warnMergedNormalizations(context);
}
