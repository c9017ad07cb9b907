// Restores biases of zeros left out by PyTorch's exporter.
//
// The exporter drops a bias of zeros, so the bias could not be trained. Adds
// the bias again to Gemm, Conv and ConvTranspose. The call in the node's
// metadata names the bias, so two nodes of a layer share a bias.
//
// Before:
//
// ```
// <ir_version: 10, opset_import: ["" : 18], producer_name: "pytorch">
// # pkg.torch.export.ExportedProgram.graph_signature:
//     p_fc_weight: PARAMETER target='fc.weight'\np_fc_bias: PARAMETER
//     target='fc.bias'
// g (float[1,2] x) => (float[1,3] y)
// <float[3,2] "fc.weight" = {1, 2, 3, 4, 5, 6}>
// {
//   # pkg.torch.onnx.fx_node: %linear : call_function[target=
//       torch.ops.aten.linear.default](args = (%x, %p_fc_weight, %p_fc_bias),
//       kwargs = {})
//   y = Gemm <transB: int = 1> (x, "fc.weight")
// }
// ```
//
// After:
//
// ```
// float[3,2] "fc.weight" = {1, 2, 3, 4, 5, 6},
// ...
// float[3] "fc.bias" = {0, 0, 0}
// ...
// y = Gemm <transB: int = 1> (x, "fc.weight", "fc.bias")
// ```
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Repair/Repair.h"

#include "frontends/ONNX/Model/ExportedProgram.h"
#include "frontends/ONNX/Model/Graph.h"
#include "frontends/ONNX/Model/HostTensor.h"
#include "frontends/ONNX/Model/Metadata.h"

#include "llvm/ADT/StringSet.h"

using namespace mpc::onnx_frontend;
using llvm::StringRef;

// Limits the elements of each added bias, because the file is untrusted.
static constexpr int64_t kMostZeros = int64_t(1) << 24;
// Limits the bytes of all added biases together.
static constexpr size_t kMostZeroBytes = size_t(64) << 20;

// Counts the elements of a valid bias of `node`, from the shape of its weights;
// nullopt if the shape is invalid or the bias too large.
static std::optional<int64_t> countElements(const proto::NodeProto &node,
                                            const proto::TensorProto &weights) {
  // Read the attributes that decide which axis of the weights is the output
  // axis.
  int64_t group = 1;
  bool isTransposed = false;
  for (const proto::AttributeProto &attribute : node.attribute()) {
    if (attribute.name() == "group")
      group = attribute.i();
    if (attribute.name() == "transB")
      isTransposed = attribute.i() != 0;
  }
  // Check every size: the file is untrusted.
  if (weights.dims_size() < 2 || group < 1 || group > kMostZeros)
    return std::nullopt;
  const int64_t first = weights.dims(0), second = weights.dims(1);
  if (first < 1 || first > kMostZeros || second < 1 || second > kMostZeros)
    return std::nullopt;
  // Conv has weights [out, in / group, ...], Gemm [in, out] or, with transB,
  // [out, in], ConvTranspose [in, out / group, ...].
  int64_t count = first;
  if (node.op_type() == "Gemm")
    count = isTransposed ? first : second;
  if (node.op_type() == "ConvTranspose")
    count = second * group;
  return count <= kMostZeros ? std::optional(count) : std::nullopt;
}

// For a node without a bias in the file, returns the bias in the node's call,
// by its name in the program, like "p_fc_bias". Empty if the call has no bias
// either.
static StringRef findBias(const proto::NodeProto &node) {
  StringRef op = node.op_type();
  if (!node.domain().empty() || node.input_size() != 2 ||
      (op != "Gemm" && op != "Conv" && op != "ConvTranspose"))
    return {};
  ProgramCall call = readCall(node);
  std::optional<int> argument = findArgument(call, op, 2);
  // Skip calls with keywords: a keyword may be a factor of the bias.
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
  explicit BiasRestorer(RepairContext &context)
      : model(context.getModel()), graph(context.getGraph()),
        taken(context.findNames()) {}

  std::string run();

private:
  void collect();
  void restore(proto::NodeProto &node);
  std::string addZeros(StringRef source, const proto::TensorProto &weights,
                       int64_t count);
  bool isZeros(const proto::TensorProto &tensor);

  Model &model;
  proto::GraphProto &graph;
  const llvm::MapVector<StringRef, StringRef> &signature =
      model.getProgram().signature;
  llvm::StringMap<const proto::TensorProto *> tensors;
  /// The initializer of each parameter of the program, like "fc.bias" for
  /// "p_fc_bias". The file may have a layer's bias already, under another name.
  llvm::StringMap<std::string> bySource;
  /// All names in the file: a new bias needs an unused name.
  llvm::StringSet<> taken;
  size_t bytes = 0;
  std::vector<std::string> done;
};
} // namespace

void BiasRestorer::collect() {
  const llvm::StringSet<> bodyNames = findBodyNames(graph);
  for (const proto::TensorProto &tensor : graph.initializer())
    if (!bodyNames.contains(tensor.name()))
      tensors.try_emplace(tensor.name(), &tensor);
  for (const proto::ValueInfoProto &value : graph.value_info())
    if (StringRef source = findMetadata(value, kOriginalName);
        !source.empty() && tensors.contains(value.name()))
      bySource.try_emplace(source, value.name());
}

// Adds an initializer of `count` zeros, with the element type of `weights`, for
// the program's parameter `source`, like "p_fc_bias". Returns the name of the
// bias; empty if the name is in use or the limit is reached.
std::string BiasRestorer::addZeros(StringRef source,
                                   const proto::TensorProto &weights,
                                   int64_t count) {
  // Use the name in the program, like "fc.bias": checkpoints and options use
  // the name.
  const std::string name = signature.lookup(source).str();
  const size_t size = size_t(count) * getElementBytes(weights);
  if (name.empty() || bytes + size > kMostZeroBytes ||
      !taken.insert(name).second)
    return {};
  // The exporter drops only biases of zeros, so zeros are exact.
  bytes += size;
  proto::TensorProto &bias = *graph.add_initializer();
  bias.set_name(name);
  bias.set_data_type(weights.data_type());
  bias.add_dims(count);
  bias.set_raw_data(std::string(size, '\0'));
  // Add the exporter's metadata of a parameter.
  describeInitializer(graph, name, source);
  tensors.try_emplace(name, &bias);
  bySource.try_emplace(source, name);
  done.push_back("'" + name + "'");
  return name;
}

// True if all elements are zero. The exporter drops only zeros; other values
// mean a file trained since the export.
bool BiasRestorer::isZeros(const proto::TensorProto &tensor) {
  llvm::Expected<HostTensor> values = model.decode(tensor, "initializer");
  if (values)
    return values->isSplat() && values->getNumElements() > 0 &&
           values->getDouble(0) == 0;
  // Drop the error: the import reports undecodable tensors.
  llvm::consumeError(values.takeError());
  return false;
}

void BiasRestorer::restore(proto::NodeProto &node) {
  StringRef source = findBias(node);
  // Look up tensors by name at each node: adding a bias invalidates iterators
  // of the map.
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
  // A bias already in the file may have another shape or type.
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

llvm::Error mpc::onnx_frontend::restoreBiases(RepairContext &context) {
  context.note(BiasRestorer(context).run());
  return llvm::Error::success();
}
