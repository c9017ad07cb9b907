// Drops a Conv bias of zeros with a wrong length.
//
// PyTorch's exporter writes such a bias for a Conv3d without a bias.
//
// Before:
//
// ```
// <ir_version: 8, opset_import: ["" : 17]>
// g (float[1,1,1,1,2] x) => (float[1,2,1,1,2] y)
// <float[2,1,1,1,1] w = {1, 2}, float[2,2] b = {0, 0, 0, 0}>
// {
//   y = Conv (x, w, b)
// }
// ```
//
// After:
//
// ```
// y = Conv (x, w)
// ```
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Model/Graph.h"
#include "frontends/ONNX/Model/HostTensor.h"
#include "frontends/ONNX/Model/NodeScope.h"
#include "frontends/ONNX/Repair/Repair.h"

#include "llvm/Support/MathExtras.h"

using namespace mpc::onnx_frontend;
using llvm::StringRef;

namespace {
class BiasDropper {
public:
  explicit BiasDropper(RepairContext &context)
      : context(context), model(context.getModel()), scope(model) {}

  void run();

private:
  std::optional<int64_t> countZeros(StringRef value, int64_t channels);
  void mendBias(proto::NodeProto &node);

  RepairContext &context;
  Model &model;
  NodeScope scope;
  bool warns = true;
};
} // namespace

static bool hasElements(const proto::TensorProto &tensor, int64_t count) {
  int64_t found = 1;
  for (int64_t extent : tensor.dims())
    if (llvm::MulOverflow(found, extent, found))
      return false;
  return found == count;
}

// Counts the elements of `value`, the bias of a Conv of `channels` output
// channels, if all are zero. nullopt if others are, or if a constant bias has
// the right length.
std::optional<int64_t> BiasDropper::countZeros(StringRef value,
                                               int64_t channels) {
  const proto::TensorProto *tensor = scope.findTensor(value);
  const proto::NodeProto *node = scope.findProducer(value);
  // Without the attribute `value`, ConstantOfShape makes zeros.
  const bool isFilled = !tensor && node &&
                        node->op_type() == "ConstantOfShape" &&
                        node->input_size() == 1 && node->attribute_size() == 0;
  if (isFilled) {
    int64_t count = 1;
    const auto shape = scope.readIntegers(node->input(0));
    for (int64_t extent : shape.value_or(llvm::SmallVector<int64_t>()))
      if (llvm::MulOverflow(count, extent, count))
        return std::nullopt;
    return shape ? std::optional(count) : std::nullopt;
  }
  if (!tensor || hasElements(*tensor, channels))
    return std::nullopt;
  llvm::Expected<HostTensor> values = model.decode(*tensor, "tensor");
  // Drop the error: the import reports undecodable tensors.
  if (!values)
    return llvm::consumeError(values.takeError()), std::nullopt;
  const int64_t count = values->getNumElements();
  const bool isZeros = values->isFloat() && values->isSplat() && count > 0 &&
                       values->getDouble(0) == 0;
  return isZeros ? std::optional(count) : std::nullopt;
}

// Drops a Conv bias of zeros with a wrong length: PyTorch's exporter by mistake
// writes zeros of shape [M, 2] for a Conv3d without a bias.
void BiasDropper::mendBias(proto::NodeProto &node) {
  if (node.op_type() != "Conv" || node.input_size() != 3 ||
      node.input(2).empty())
    return;
  const proto::TensorProto *weight = scope.findTensor(node.input(1));
  if (!weight || weight->dims_size() == 0)
    return;
  const std::optional<int64_t> count =
      countZeros(node.input(2), weight->dims(0));
  if (!count || *count == weight->dims(0))
    return;
  if (warns)
    context.warn("node '" + getNodeName(node) + "' (Conv): a bias of " +
                 std::to_string(*count) + " zeros, expected " +
                 std::to_string(weight->dims(0)) + "; taken as none");
  warns = false;
  node.mutable_input()->RemoveLast();
}

void BiasDropper::run() {
  for (proto::GraphProto *graph : findGraphs(model.getProto()))
    for (proto::NodeProto &node : *graph->mutable_node())
      mendBias(node);
}

llvm::Error mpc::onnx_frontend::dropWrongBiases(RepairContext &context) {
  BiasDropper(context).run();
  return llvm::Error::success();
}
