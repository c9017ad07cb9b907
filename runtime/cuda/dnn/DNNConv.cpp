// Describes convolutions and their gradients to cuDNN.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/SharedLibrary.h"
#include "runtime/cuda/dnn/DNNPlan.h"
#include "runtime/cuda/dnn/DNNProbe.h"

#include <cstdio>

namespace mpc::runtime::cuda {
namespace {

constexpr uint32_t kAlignment = 16;

/// Numbers of the tensors of a convolution's graph.
enum ConvTensorId : int64_t { kX = 1, kW = 2, kY = 3 };

class DNNConvStep : public CUDAStep {
public:
  DNNConvStep(DNN &library, const ConvStep &step,
              const ConvAddresses &operands);

  Status prepare();
  Status enqueue(Stream stream) override;

private:
  using Extents = std::vector<int64_t>;

  DNNGraph::Node tensor(DNNGraph &graph, ConvTensorId id,
                        const DeviceOperand &operand, const Extents &dimensions,
                        bool channelsLast) const;
  DNNGraph::Node convolution(DNNGraph &graph) const;
  void addOperation(DNNGraph &graph) const;
  bool isOfFloat32() const;
  StatusOr<bool> keepsBits(const DNNPlan &candidate) const;
  static DNNBindings bindingsOf(const std::array<void *, 3> &addresses);
  std::string describe() const;

  DNN &library;
  ConvStep step;
  ConvAddresses operands;
  std::shared_ptr<const DNNPlan> plan;
  std::unique_ptr<DNNObject> variantPack;
};

} // namespace

/// Returns the strides of a tensor (N, C, spatial...), in elements. C is
/// innermost in memory if `channelsLast`; otherwise the order is as written.
static std::vector<int64_t> stridesOf(const std::vector<int64_t> &dimensions,
                                      bool channelsLast) {
  std::vector<int64_t> strides(dimensions.size());
  int64_t stride = 1;
  if (channelsLast) {
    strides[1] = 1;
    stride = dimensions[1];
  }
  for (size_t i = dimensions.size(); i-- > 0;) {
    if (channelsLast && i == 1)
      continue;
    strides[i] = stride;
    stride *= dimensions[i];
  }
  return strides;
}

/// Returns the dimensions [first, second, spatial...].
static std::vector<int64_t> withLeading(int64_t first, int64_t second,
                                        const std::vector<int64_t> &spatial) {
  std::vector<int64_t> dimensions = {first, second};
  dimensions.insert(dimensions.end(), spatial.begin(), spatial.end());
  return dimensions;
}

//===----------------------------------------------------------------------===//
// The graph
//===----------------------------------------------------------------------===//

DNNConvStep::DNNConvStep(DNN &library, const ConvStep &step,
                         const ConvAddresses &operands)
    : library(library), step(step), operands(operands) {
  // The library supports two and three spatial dimensions. Give a single one a
  // leading dimension of extent 1, which changes nothing in memory.
  if (step.inSpatial.size() > 1)
    return;
  ConvStep &s = this->step;
  for (Extents *ones :
       {&s.inSpatial, &s.outSpatial, &s.kernel, &s.strides, &s.dilations})
    ones->insert(ones->begin(), 1);
  for (Extents *zeros : {&s.padsBegin, &s.padsEnd})
    zeros->insert(zeros->begin(), 0);
}

DNNGraph::Node DNNConvStep::tensor(DNNGraph &graph, ConvTensorId id,
                                   const DeviceOperand &operand,
                                   const Extents &dimensions,
                                   bool channelsLast) const {
  return graph.memory(id, toDNN(operand.type), dimensions,
                      stridesOf(dimensions, channelsLast),
                      int64_t(operand.alignment(kAlignment)));
}

DNNGraph::Node DNNConvStep::convolution(DNNGraph &graph) const {
  DNNGraph::Node conv = graph.add(DNNDescriptorType::Convolution);
  const DNNConvMode mode = DNNConvMode::CrossCorrelation;
  graph.set(conv, DNNAttribute::ConvolutionComputeType,
            step.compute == Compute::F64 ? DNNType::F64 : DNNType::F32);
  graph.set(conv, DNNAttribute::ConvolutionMode,
            DNNAttributeType::ConvolutionMode, &mode, 1);
  graph.set(conv, DNNAttribute::ConvolutionSpatialDims,
            int64_t(step.inSpatial.size()));
  graph.set(conv, DNNAttribute::ConvolutionPrePaddings, step.padsBegin);
  graph.set(conv, DNNAttribute::ConvolutionPostPaddings, step.padsEnd);
  graph.set(conv, DNNAttribute::ConvolutionDilations, step.dilations);
  graph.set(conv, DNNAttribute::ConvolutionFilterStrides, step.strides);
  graph.finish(conv);
  return conv;
}

namespace {
/// The names in cuDNN's ABI for one kind of convolution: the type of the
/// descriptor, and the attributes.
struct ConvNames {
  DNNDescriptorType type;
  DNNAttribute convolution, x, w, y, alpha, beta;
};
} // namespace

/// Indexed by ConvKind: forward, input gradient, weight gradient.
static constexpr std::array<ConvNames, 3> convNames = {
    {{DNNDescriptorType::ConvForward, DNNAttribute::ConvForwardConvolution,
      DNNAttribute::ConvForwardX, DNNAttribute::ConvForwardW,
      DNNAttribute::ConvForwardY, DNNAttribute::ConvForwardAlpha,
      DNNAttribute::ConvForwardBeta},
     {DNNDescriptorType::ConvBackwardData,
      DNNAttribute::ConvBackwardDataConvolution,
      DNNAttribute::ConvBackwardDataDX, DNNAttribute::ConvBackwardDataW,
      DNNAttribute::ConvBackwardDataDY, DNNAttribute::ConvBackwardDataAlpha,
      DNNAttribute::ConvBackwardDataBeta},
     {DNNDescriptorType::ConvBackwardFilter,
      DNNAttribute::ConvBackwardFilterConvolution,
      DNNAttribute::ConvBackwardFilterX, DNNAttribute::ConvBackwardFilterDW,
      DNNAttribute::ConvBackwardFilterDY, DNNAttribute::ConvBackwardFilterAlpha,
      DNNAttribute::ConvBackwardFilterBeta}}};

void DNNConvStep::addOperation(DNNGraph &graph) const {
  const ConvNames &kind = convNames[static_cast<size_t>(step.kind)];
  // Describe x, w and y as [batch or output channels, channels, spatial...]. In
  // memory, channels of x and y are innermost. Channels of filters are
  // innermost only in the layout OHWI.
  const DNNGraph::Node x =
      tensor(graph, kX, operands.x,
             withLeading(step.batch, step.inChannels, step.inSpatial), true);
  const DNNGraph::Node w = tensor(
      graph, kW, operands.w,
      withLeading(step.outChannels, step.inChannels / step.groups, step.kernel),
      step.filterLayout == FilterLayout::OHWI);
  const DNNGraph::Node y =
      tensor(graph, kY, operands.y,
             withLeading(step.batch, step.outChannels, step.outSpatial), true);
  // `conv` holds paddings, strides, dilations and the type of the sums.
  const DNNGraph::Node conv = convolution(graph);
  // cuDNN computes y = alpha * conv + beta * y. Set alpha = 1 and beta = 0, in
  // the type of the sums.
  const DNNGraph::Node operation = graph.add(kind.type);
  graph.set(operation, kind.convolution, conv);
  graph.set(operation, kind.x, x);
  graph.set(operation, kind.w, w);
  graph.set(operation, kind.y, y);
  if (step.compute == Compute::F64) {
    const double alpha = 1, beta = 0;
    graph.set(operation, kind.alpha, DNNAttributeType::Double, &alpha, 1);
    graph.set(operation, kind.beta, DNNAttributeType::Double, &beta, 1);
  } else {
    const float alpha = 1, beta = 0;
    graph.set(operation, kind.alpha, DNNAttributeType::Float, &alpha, 1);
    graph.set(operation, kind.beta, DNNAttributeType::Float, &beta, 1);
  }
  graph.append(operation);
}

//===----------------------------------------------------------------------===//
// The plan
//===----------------------------------------------------------------------===//

/// True if the step must compute in float32: all operands are f32, and tf32 is
/// not allowed.
bool DNNConvStep::isOfFloat32() const {
  return operands.x.type == DType::F32 && operands.w.type == DType::F32 &&
         operands.y.type == DType::F32 && step.compute != Compute::TF32;
}

/// True if the plan `candidate` computes in float32. Runs the plan on test data
/// to find out (DNNProbe.h), since an engine may round operands to tf32 without
/// a numerical note.
StatusOr<bool> DNNConvStep::keepsBits(const DNNPlan &candidate) const {
  StatusOr<double> error = measureRounding(
      library.workspace.getMemory(), library.stream, step,
      candidate.workspaceBytes(),
      [&](const std::array<void *, 3> &addresses, void *workspace) {
        StatusOr<std::unique_ptr<DNNObject>> pack =
            candidate.bind(bindingsOf(addresses), workspace);
        return pack.ok() ? candidate.execute(**pack, "convolve")
                         : pack.status();
      });
  if (!error.ok())
    return error.status();
  // The comparison is also false if the error is NaN.
  if (*error <= kMaxRounding)
    return true;
  char size[32];
  std::snprintf(size, sizeof(size), "%.1e", *error);
  logChoice(candidate.getEngine().describe() +
            " rounds its operands: a product of f32 is off by " + size +
            ", relative; passed over for " + describe());
  return false;
}

std::string DNNConvStep::describe() const {
  auto name = [](const DeviceOperand &operand) {
    return std::string(nameOf(operand.type));
  };
  static constexpr std::array<const char *, 3> kinds = {
      "the forward convolution", "the convolution's input gradient",
      "the convolution's weight gradient"};
  return std::string(kinds[static_cast<size_t>(step.kind)]) + " of x " +
         name(operands.x) + " " +
         toString(withLeading(step.batch, step.inChannels, step.inSpatial)) +
         ", w " + name(operands.w) + " " +
         toString(withLeading(step.outChannels, step.inChannels / step.groups,
                              step.kernel)) +
         ", y " + name(operands.y) + " " +
         toString(withLeading(step.batch, step.outChannels, step.outSpatial)) +
         ", strides " + toString(step.strides) + ", dilations " +
         toString(step.dilations) + ", padding " + toString(step.padsBegin) +
         " and " + toString(step.padsEnd);
}

Status DNNConvStep::prepare() {
  auto graph = std::make_shared<DNNGraph>(library, "describe a convolution");
  addOperation(*graph);
  if (Status status = graph->complete(); !status.ok())
    return status;
  DNNDemands demands;
  demands.operation = describe();
  int rounding = 0; // plans that were rejected because they round operands
  if (isOfFloat32()) {
    // With f32 operands, tensor cores mean tf32.
    demands.allowsTensorCores = false;
    demands.isExact = [&](const DNNPlan &candidate) {
      StatusOr<bool> keeps = keepsBits(candidate);
      rounding += keeps.ok() && !*keeps;
      return keeps;
    };
  }
  demands.remark = [&] {
    return rounding ? " that computes in float32 (" + std::to_string(rounding) +
                          " would round their operands to tf32, which --tf32 "
                          "allows)"
                    : std::string();
  };
  demands.remedy = kCPUAlternative;
  StatusOr<std::shared_ptr<const DNNPlan>> found =
      findPlan(library, std::move(graph), demands);
  if (!found.ok())
    return found.status();
  plan = std::move(*found);
  return Status();
}

//===----------------------------------------------------------------------===//
// Execution
//===----------------------------------------------------------------------===//

DNNBindings DNNConvStep::bindingsOf(const std::array<void *, 3> &addresses) {
  DNNBindings bindings;
  bindings.add(kX, addresses[0]);
  bindings.add(kW, addresses[1]);
  bindings.add(kY, addresses[2]);
  return bindings;
}

Status DNNConvStep::enqueue(Stream) {
  // Bind at the first run, when the workspace has its final size. From then on
  // the addresses are fixed.
  if (!variantPack) {
    StatusOr<std::unique_ptr<DNNObject>> pack = plan->bind(
        bindingsOf({operands.x.data, operands.w.data, operands.y.data}),
        toHostPointer(library.workspace.take()));
    if (!pack.ok())
      return pack.status();
    variantPack = std::move(*pack);
  }
  return plan->execute(*variantPack, "convolve");
}

StatusOr<std::unique_ptr<CUDAStep>>
DNN::prepare(const ConvStep &step, const ConvAddresses &operands) {
  auto prepared = std::make_unique<DNNConvStep>(*this, step, operands);
  if (Status status = prepared->prepare(); !status.ok())
    return status;
  return std::unique_ptr<CUDAStep>(std::move(prepared));
}

} // namespace mpc::runtime::cuda
