// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Training/StepValues.h"

#include "llvm/ADT/StringSet.h"

using namespace mpc::onnx_frontend;
using llvm::SmallVector;
using llvm::StringRef;

StepValues::StepValues(const Graph &graph, const ImportOptions &options)
    : graph(graph), options(options) {
  for (const proto::ValueInfoProto *input : graph.getInputs())
    inputs[input->name()] = input;
}

bool mpc::onnx_frontend::isDeclaredScalar(const proto::ValueInfoProto *output) {
  const auto &tensor = output->type().tensor_type();
  return tensor.has_shape() &&
         llvm::all_of(tensor.shape().dim(), [](const auto &dim) {
           return dim.has_dim_value() && dim.dim_value() == 1;
         });
}

// Follows the Identities that exporters add to initializers with several
// readers.
StringRef StepValues::resolve(StringRef name) const {
  for (unsigned i = 0; i < 16 && !isState(name); ++i) {
    const proto::NodeProto *producer = graph.getProducer(name);
    if (!producer || producer->op_type() != "Identity" ||
        producer->input_size() != 1)
      break;
    name = producer->input(0);
  }
  return name;
}

// Returns the declared type and shape; -1 for unknown extents.
static std::pair<int32_t, SmallVector<int64_t>>
getDeclared(const proto::ValueInfoProto &value) {
  const auto &tensor = value.type().tensor_type();
  SmallVector<int64_t> shape;
  for (const auto &dim : tensor.shape().dim())
    shape.push_back(dim.has_dim_value() ? dim.dim_value() : -1);
  return {tensor.elem_type(), shape};
}

bool StepValues::fits(const proto::ValueInfoProto &output,
                      StringRef state) const {
  if (!output.type().has_tensor_type())
    return false;
  auto [type, shape] = getDeclared(output);
  int32_t stateType = 0;
  SmallVector<int64_t> stateShape;
  if (const proto::TensorProto *tensor = graph.getInitializer(state)) {
    stateType = tensor->data_type();
    stateShape.assign(tensor->dims().begin(), tensor->dims().end());
  } else if (const proto::ValueInfoProto *input = inputs.lookup(state)) {
    std::tie(stateType, stateShape) = getDeclared(*input);
  }
  // A shape or extent that is not declared matches any.
  if (type != stateType)
    return false;
  if (!output.type().tensor_type().has_shape())
    return true;
  return shape.size() == stateShape.size() &&
         llvm::all_of(llvm::zip(shape, stateShape), [](auto pair) {
           auto [a, b] = pair;
           return a == b || a < 0 || b < 0;
         });
}

bool StepValues::isSmall(StringRef name) const {
  auto isScalar = [](const auto &dims) {
    return llvm::all_of(dims, [](int64_t extent) { return extent == 1; });
  };
  if (const proto::TensorProto *tensor = graph.getInitializer(name))
    return isScalar(tensor->dims());
  if (const proto::ValueInfoProto *input = inputs.lookup(name))
    return isScalar(getDeclared(*input).second);
  const proto::NodeProto *producer = graph.getProducer(name);
  return producer && producer->op_type() == "Constant";
}

StringRef StepValues::findScalarInput(StringRef name) const {
  for (unsigned i = 0; i < 16; ++i) {
    name = resolve(name);
    if (isState(name))
      return {};
    if (isInput(name))
      return isSmall(name) ? name : StringRef();
    const proto::NodeProto *producer = graph.getProducer(name);
    bool isMoved =
        producer && producer->input_size() > 0 &&
        (producer->op_type() == "Reshape" || producer->op_type() == "Squeeze" ||
         producer->op_type() == "Unsqueeze" || producer->op_type() == "Cast");
    if (!isMoved)
      return {};
    name = producer->input(0);
  }
  return {};
}

bool StepValues::isOne(StringRef name) const {
  const proto::TensorProto *tensor = graph.getInitializer(name);
  if (!tensor || !isSmall(name))
    return false;
  auto value = graph.getModel().decode(*tensor, "initializer '" + name + "'");
  if (!value) {
    llvm::consumeError(value.takeError());
    return false;
  }
  return value->getNumElements() == 1 && value->getDouble(0) == 1.0;
}

std::optional<StringRef> StepValues::findByName(StringRef output) const {
  for (StringRef suffix :
       {"_new", ".new", "_updated", ".updated", "_optimizer_end", "_out",
        ".out", "_next", ".next"}) {
    StringRef base = output;
    if (base.consume_back(suffix) && isState(base))
      return base;
  }
  for (StringRef prefix : {"new_", "updated_", "next_"}) {
    StringRef base = output;
    if (base.consume_front(prefix) && isState(base))
      return base;
  }
  return std::nullopt;
}

SmallVector<StringRef> mpc::onnx_frontend::getYielded(const Graph &graph) {
  SmallVector<StringRef> yielded;
  for (const proto::NodeProto *node : graph.getNodes())
    if (node->op_type() == "YieldOp")
      for (StringRef value : node->input())
        if (!value.empty() && !llvm::is_contained(yielded, value))
          yielded.push_back(value);
  return yielded;
}

llvm::StringSet<> mpc::onnx_frontend::findGradientSeeds(const Graph &graph) {
  llvm::StringMap<unsigned> readers;
  for (const proto::NodeProto *node : graph.getNodes())
    for (StringRef value : getReadValues(*node))
      ++readers[value];
  llvm::StringSet<> seeds;
  // Find constants that are named as the gradient of a value y: `y_grad`.
  for (const proto::NodeProto *node : graph.getNodes())
    for (StringRef value : node->output())
      if (const proto::TensorProto *seed =
              graph.getInitializer((value + "_grad").str()))
        if (readers.contains(seed->name()))
          seeds.insert(seed->name());
  // Find constants that only the gradient node of a cross entropy reads, under
  // any name, as the gradient of the loss.
  for (const proto::NodeProto *node : graph.getNodes()) {
    StringRef op = node->op_type();
    if (op.contains("SoftmaxCrossEntropy") && op.ends_with("Grad") &&
        node->input_size() > 0 && graph.getInitializer(node->input(0)) &&
        readers.lookup(node->input(0)) == 1)
      seeds.insert(node->input(0));
  }
  return seeds;
}

bool mpc::onnx_frontend::isGradientNode(const proto::NodeProto &node) {
  StringRef op = node.op_type();
  return op == "Gradient" || op.ends_with("Grad") || op.contains("Grad_") ||
         op.starts_with("ConvGrad") || op == "YieldOp";
}

bool mpc::onnx_frontend::isLossNode(const proto::NodeProto &node) {
  StringRef op = node.op_type();
  return (op.ends_with("Loss") || op.ends_with("LossInternal") ||
          op.ends_with("LossInternal2") ||
          op.ends_with("SoftmaxCrossEntropy")) &&
         node.output_size() > 0 && !node.output(0).empty();
}

bool mpc::onnx_frontend::isScalingNode(const proto::NodeProto &node) {
  static const llvm::StringSet<> known = {
      "All",        "Group", "IsAllFinite", "IsFinite", "MixedPrecisionScale",
      "ReduceAllL2"};
  StringRef domain = normalizeDomain(node.domain());
  return (domain.empty() || domain == "com.microsoft") &&
         known.contains(node.op_type());
}
