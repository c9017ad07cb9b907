// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Model/DroppedBiases.h"

#include "frontends/ONNX/Model/ExportedProgram.h"
#include "frontends/ONNX/Model/Metadata.h"

#include "llvm/ADT/StringSet.h"

using namespace mpc::onnx_frontend;
using llvm::StringRef;

// The most elements that one may have: the file is a stranger's.
static constexpr int64_t kMostElements = int64_t(1) << 24;

// How many elements the bias of a node has whose weights are `weights`.
static std::optional<int64_t> countElements(const proto::NodeProto &node,
                                            const proto::TensorProto &weights) {
  int64_t group = 1;
  bool isTransposed = false;
  for (const proto::AttributeProto &attribute : node.attribute()) {
    if (attribute.name() == "group")
      group = attribute.i();
    if (attribute.name() == "transB")
      isTransposed = attribute.i() != 0;
  }
  if (weights.dims_size() < 2 || group < 1 || group > kMostElements)
    return std::nullopt;
  const int64_t first = weights.dims(0), second = weights.dims(1);
  if (first < 1 || first > kMostElements || second < 1 ||
      second > kMostElements)
    return std::nullopt;
  int64_t count = first;
  if (node.op_type() == "Gemm")
    count = isTransposed ? first : second;
  if (node.op_type() == "ConvTranspose")
    count = second * group;
  return count <= kMostElements ? std::optional(count) : std::nullopt;
}

// The parameter that a product without a bias has in the program as one; empty
// where it has none there.
static StringRef findBias(const proto::NodeProto &node) {
  StringRef op = node.op_type();
  if (!node.domain().empty() || node.input_size() != 2 ||
      (op != "Gemm" && op != "Conv" && op != "ConvTranspose"))
    return {};
  ProgramCall call = readCall(node);
  std::optional<int> argument = findArgument(call, op, 2);
  // A factor of the bias would be a keyword.
  if (!argument || call.hasKeywords)
    return {};
  std::optional<StringRef> source = call.findSource(*argument);
  return source && source->starts_with("p_") ? *source : StringRef();
}

// A parameter of zeros, of the type of `weights`.
static void addZeros(proto::GraphProto &graph, const std::string &name,
                     const proto::TensorProto &weights, int64_t count,
                     StringRef source) {
  const size_t elementBytes =
      weights.data_type() == proto::TensorProto::DOUBLE  ? 8
      : weights.data_type() == proto::TensorProto::FLOAT ? 4
                                                         : 2;
  proto::TensorProto &bias = *graph.add_initializer();
  bias.set_name(name);
  bias.set_data_type(weights.data_type());
  bias.add_dims(count);
  bias.set_raw_data(std::string(size_t(count) * elementBytes, '\0'));
  describeInitializer(graph, name, source);
}

std::string mpc::onnx_frontend::restoreBiases(Model &model) {
  proto::GraphProto &graph = *model.getProto().mutable_graph();
  llvm::StringMap<StringRef> signature = readSignature(graph);
  if (signature.empty())
    return {};
  llvm::StringMap<const proto::TensorProto *> tensors;
  for (const proto::TensorProto &tensor : graph.initializer())
    tensors.try_emplace(tensor.name(), &tensor);
  // What initializers are in the program: a bias may be left elsewhere.
  llvm::StringMap<std::string> bySource;
  for (const proto::ValueInfoProto &value : graph.value_info())
    if (StringRef source = findMetadata(value, kOriginalName);
        !source.empty() && tensors.contains(value.name()))
      bySource.try_emplace(source, value.name());
  llvm::StringSet<> taken;
  for (const proto::NodeProto &node : graph.node())
    taken.insert(node.output().begin(), node.output().end());
  for (const proto::ValueInfoProto &value : graph.input())
    taken.insert(value.name());

  std::vector<std::string> done;
  for (proto::NodeProto &node : *graph.mutable_node()) {
    StringRef source = findBias(node);
    auto weights = source.empty() ? tensors.end() : tensors.find(node.input(1));
    if (weights == tensors.end() || !isFloatTensor(*weights->second))
      continue;
    std::optional<int64_t> count = countElements(node, *weights->second);
    if (!count)
      continue;
    auto known = bySource.find(source);
    if (known == bySource.end()) {
      const std::string name = signature.lookup(source).str();
      if (name.empty() || tensors.contains(name) || taken.contains(name))
        continue;
      addZeros(graph, name, *weights->second, *count, source);
      tensors.try_emplace(name,
                          &graph.initializer(graph.initializer_size() - 1));
      known = bySource.try_emplace(source, name).first;
      done.push_back(name);
    }
    // Another's place may be of another shape.
    const proto::TensorProto &bias = *tensors.lookup(known->second);
    if (bias.dims_size() == 1 && bias.dims(0) == *count &&
        bias.data_type() == weights->second->data_type())
      node.add_input(known->second);
  }
  if (done.empty())
    return {};
  std::string text = "the exporter left out biases of zeros, which are there "
                     "again: '" +
                     done[0] + "'";
  if (done.size() > 1)
    text += " and " + std::to_string(done.size() - 1) + " more";
  return text;
}
