// Restores biases of zeros that PyTorch's exporter leaves out.
//
// The exporter drops a bias that is zero, so the bias would never be trained.
// Adds the bias back to Gemm, Conv and ConvTranspose. The call in the node's
// metadata names the parameter, so a layer called twice gets a single bias.
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

// Limits the elements of one added bias: the file is untrusted.
static constexpr int64_t kMostZeros = int64_t(1) << 24;
// Limits the bytes of all added biases together.
static constexpr size_t kMostZeroBytes = size_t(64) << 20;

// Counts the elements of the bias of `node` from its weights; nullopt if the
// shapes are invalid or too large.
static std::optional<int64_t> countElements(const proto::NodeProto &node,
                                            const proto::TensorProto &weights) {
  // These attributes decide which axis of the weights is the output axis.
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

// Finds the program's bias parameter of a node without a bias operand; empty if
// the program has none either.
static StringRef findBias(const proto::NodeProto &node) {
  StringRef op = node.op_type();
  if (!node.domain().empty() || node.input_size() != 2 ||
      (op != "Gemm" && op != "Conv" && op != "ConvTranspose"))
    return {};
  ProgramCall call = readCall(node);
  std::optional<int> argument = findArgument(call, op, 2);
  // A keyword may be a factor of the bias, which is not handled.
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
  const llvm::MapVector<StringRef, StringRef> &signature =
      model.getProgram().signature;
  llvm::StringMap<const proto::TensorProto *> tensors;
  /// Initializer by the program's parameter: a layer may already have its bias
  /// under another name.
  llvm::StringMap<std::string> bySource;
  /// All names that a new bias must not take, including names inside bodies.
  llvm::StringSet<> taken;
  size_t bytes = 0;
  std::vector<std::string> done;
};
} // namespace

void BiasRestorer::collect() {
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

// Adds the parameter `source` as `count` zeros of the type of `weights`.
// Returns the new name; empty if the name is taken or the limit is reached.
std::string BiasRestorer::addZeros(StringRef source,
                                   const proto::TensorProto &weights,
                                   int64_t count) {
  // Readers of the file expect the program's own name.
  const std::string name = signature.lookup(source).str();
  const size_t size = size_t(count) * getElementBytes(weights);
  if (name.empty() || tensors.contains(name) || taken.contains(name) ||
      bytes + size > kMostZeroBytes)
    return {};
  // The exporter drops only biases that are zero, so zeros are exact.
  bytes += size;
  proto::TensorProto &bias = *graph.add_initializer();
  bias.set_name(name);
  bias.set_data_type(weights.data_type());
  bias.add_dims(count);
  bias.set_raw_data(std::string(size, '\0'));
  // Add the metadata that other parameters of the file have.
  describeInitializer(graph, name, source);
  tensors.try_emplace(name, &bias);
  bySource.try_emplace(source, name);
  done.push_back("'" + name + "'");
  return name;
}

// True if all elements are zero. A bias trained since would change the results.
bool BiasRestorer::isZeros(const proto::TensorProto &tensor) {
  llvm::Expected<HostTensor> values = model.decode(tensor, "initializer");
  if (values)
    return values->isSplat() && values->getNumElements() > 0 &&
           values->getDouble(0) == 0;
  // Drop the error: the import will report the tensor.
  llvm::consumeError(values.takeError());
  return false;
}

void BiasRestorer::restore(proto::NodeProto &node) {
  StringRef source = findBias(node);
  // Look the weights up again, by name: adding a bias invalidates map
  // iterators.
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
  // A bias found by its parameter may have another shape or type.
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
  context.note(BiasRestorer(context.getModel()).run());
  return llvm::Error::success();
}
