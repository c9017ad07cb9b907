// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Repair/DroppedBiases.h"

#include "frontends/ONNX/Model/ExportedProgram.h"
#include "frontends/ONNX/Model/Graph.h"
#include "frontends/ONNX/Model/HostTensor.h"
#include "frontends/ONNX/Model/Metadata.h"

#include "llvm/ADT/StringSet.h"

using namespace mpc::onnx_frontend;
using llvm::StringRef;

// The most elements that one may have: the file is a stranger's.
static constexpr int64_t kMostElements = int64_t(1) << 24;
// What those that are added may take all together.
static constexpr size_t kMostBytes = size_t(64) << 20;

// How many elements the bias of a node has whose weights are `weights`.
static std::optional<int64_t> countElements(const proto::NodeProto &node,
                                            const proto::TensorProto &weights) {
  // Attributes that say along which axis the results lie.
  int64_t group = 1;
  bool isTransposed = false;
  for (const proto::AttributeProto &attribute : node.attribute()) {
    if (attribute.name() == "group")
      group = attribute.i();
    if (attribute.name() == "transB")
      isTransposed = attribute.i() != 0;
  }
  // A damaged file may have any numbers here.
  if (weights.dims_size() < 2 || group < 1 || group > kMostElements)
    return std::nullopt;
  const int64_t first = weights.dims(0), second = weights.dims(1);
  if (first < 1 || first > kMostElements || second < 1 ||
      second > kMostElements)
    return std::nullopt;
  // Conv has weights [out, in / group, ...], Gemm [in, out] or, with transB,
  // [out, in], ConvTranspose [in, out / group, ...].
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
  return source && isParameter(*source) ? *source : StringRef();
}

static size_t getElementBytes(const proto::TensorProto &tensor) {
  switch (tensor.data_type()) {
  case proto::TensorProto::DOUBLE:
    return 8;
  case proto::TensorProto::FLOAT:
    return 4;
  default:
    return 2;
  }
}

namespace {
class BiasRestorer {
public:
  explicit BiasRestorer(Model &model)
      : model(model), graph(*model.getProto().mutable_graph()) {}

  std::string run();

private:
  void collect();
  void restore(proto::NodeProto &node);
  std::string addZeros(StringRef source, const proto::TensorProto &weights,
                       int64_t count);
  bool isZeros(const proto::TensorProto &tensor);

  Model &model;
  proto::GraphProto &graph;
  llvm::MapVector<StringRef, StringRef> signature;
  llvm::StringMap<const proto::TensorProto *> tensors;
  /// What initializers are in the program: a bias may be left elsewhere.
  llvm::StringMap<std::string> bySource;
  /// Names of all else, and those that bodies of nodes have.
  llvm::StringSet<> taken;
  size_t bytes = 0;
  std::vector<std::string> done;
};
} // namespace

void BiasRestorer::collect() {
  signature = readSignature(graph);
  taken = findBodyNames(graph);
  for (const proto::TensorProto &tensor : graph.initializer())
    if (!taken.contains(tensor.name()))
      tensors.try_emplace(tensor.name(), &tensor);
  for (const proto::ValueInfoProto &value : graph.value_info())
    if (StringRef source = findMetadata(value, kOriginalName);
        !source.empty() && tensors.contains(value.name()))
      bySource.try_emplace(source, value.name());
  for (const proto::NodeProto &node : graph.node())
    taken.insert(node.output().begin(), node.output().end());
  for (const proto::ValueInfoProto &value : graph.input())
    taken.insert(value.name());
}

// Adds the parameter `source`, of the type of `weights`; returns its name,
// empty where it cannot be.
std::string BiasRestorer::addZeros(StringRef source,
                                   const proto::TensorProto &weights,
                                   int64_t count) {
  // The name that the program had for it must be free.
  const std::string name = signature.lookup(source).str();
  const size_t size = size_t(count) * getElementBytes(weights);
  if (name.empty() || tensors.contains(name) || taken.contains(name) ||
      bytes + size > kMostBytes)
    return {};
  // Zeros in front of training are what the exporter found, and why it left
  // them out.
  bytes += size;
  proto::TensorProto &bias = *graph.add_initializer();
  bias.set_name(name);
  bias.set_data_type(weights.data_type());
  bias.add_dims(count);
  bias.set_raw_data(std::string(size, '\0'));
  // What describes parameters in the file holds for this one too.
  describeInitializer(graph, name, source);
  tensors.try_emplace(name, &bias);
  bySource.try_emplace(source, name);
  done.push_back("'" + name + "'");
  return name;
}

// A bias that has been trained since would change what the file computes.
bool BiasRestorer::isZeros(const proto::TensorProto &tensor) {
  llvm::Expected<HostTensor> values = model.decode(tensor, "initializer");
  if (values)
    return values->isSplat() && values->getNumElements() > 0 &&
           values->getDouble(0) == 0;
  // The import says what is wrong with it.
  llvm::consumeError(values.takeError());
  return false;
}

void BiasRestorer::restore(proto::NodeProto &node) {
  StringRef source = findBias(node);
  // No iterator, which ends where a bias is added to the map.
  const proto::TensorProto *weights =
      source.empty() ? nullptr : tensors.lookup(node.input(1));
  if (!weights || !holdsFloats(*weights))
    return;
  std::optional<int64_t> count = countElements(node, *weights);
  if (!count)
    return;
  std::string name = bySource.lookup(source);
  if (name.empty())
    name = addZeros(source, *weights, *count);
  if (name.empty())
    return;
  // Another's place may be of another shape.
  const proto::TensorProto &bias = *tensors.lookup(name);
  if (bias.dims_size() == 1 && bias.dims(0) == *count &&
      bias.data_type() == weights->data_type() && isZeros(bias))
    node.add_input(name);
}

std::string BiasRestorer::run() {
  collect();
  if (signature.empty())
    return {};
  for (proto::GraphProto *part : findGraphs(graph))
    for (proto::NodeProto &node : *part->mutable_node())
      restore(node);
  if (done.empty())
    return {};
  return "the exporter left out biases of zeros, which are there again: " +
         listFirst(done, 1);
}

std::string mpc::onnx_frontend::restoreBiases(Model &model) {
  return BiasRestorer(model).run();
}
