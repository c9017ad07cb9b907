// Describes convolutions and their gradients to cuDNN and chooses an engine.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/DNN.h"
#include "runtime/cuda/DNNProbe.h"
#include "runtime/cuda/SharedLibrary.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>

namespace mpc::runtime::cuda {
namespace {

/// The most scratch memory of an engine. Engines that need more are skipped.
constexpr int64_t kMaxWorkspaceBytes = int64_t(1) << 30;
/// The most configurations that mpc considers per graph, more than the library
/// proposes.
constexpr int64_t kMaxCandidates = 256;
constexpr uint32_t kAlignment = 16;
constexpr size_t kMaxNotes = 32;

/// Numbers of the tensors of a cuDNN graph. A variant pack gives each numbered
/// tensor an address.
enum TensorId : int64_t { kX = 1, kW = 2, kY = 3 };

class DNNConvStep : public CUDAStep {
public:
  DNNConvStep(DNN &library, const ConvStep &step,
              const ConvAddresses &operands);

  Status prepare();
  Status enqueue(Stream stream) override;

private:
  using Extents = std::vector<int64_t>;

  DNNObject &keep(DNNDescriptorType type, const char *what);
  StatusOr<DNNObject *> tensor(TensorId id, const DeviceOperand &operand,
                               const Extents &dimensions, bool channelsLast);
  StatusOr<DNNObject *> convolution();
  StatusOr<DNNObject *> operation();
  StatusOr<DNNObject *> graph();
  StatusOr<std::vector<DNNObject>> candidates(const DNNObject &graph,
                                              DNNHeuristicMode mode);
  /// A cuDNN engine's number among all engines of the library, and the
  /// library's numerical notes about it.
  struct EngineFacts {
    int64_t index = 0;
    std::vector<DNNNumericalNote> notes;
  };
  StatusOr<EngineFacts> factsOf(const DNNObject &config);
  bool isOfFloat32() const;
  bool keepsPromises(const EngineFacts &engine) const;
  StatusOr<bool> keepsBits(const EngineFacts &engine,
                           const std::string &proposal,
                           const DNNObject &candidate, int64_t scratchBytes);
  StatusOr<bool> tryConfig(DNNObject config, const std::string &proposal);
  Status chooseEngine(const DNNObject &graph);
  StatusOr<std::unique_ptr<DNNObject>>
  bind(const std::array<void *, 3> &addresses, void *workspace);
  Status execute(const DNNObject &plan, const DNNObject &pack) const;
  std::string describe() const;

  DNN &library;
  ConvStep step;
  ConvAddresses operands;
  /// Descriptors that the plan may refer to, and that therefore live as long as
  /// the step.
  std::vector<std::unique_ptr<DNNObject>> kept;
  std::unique_ptr<DNNObject> plan, variantPack;
  int rounding = 0; ///< plans that were rejected because they round operands
  Status shortage;  ///< the error of the last failed workspace allocation
};

} // namespace

static DNNType toDNN(DType type) {
  switch (type) {
  case DType::F16:
    return DNNType::F16;
  case DType::BF16:
    return DNNType::BF16;
  case DType::F64:
    return DNNType::F64;
  default: // the plan's verifier admits no other
    return DNNType::F32;
  }
}

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

DNNObject &DNNConvStep::keep(DNNDescriptorType type, const char *what) {
  kept.push_back(std::make_unique<DNNObject>(library, type, what));
  return *kept.back();
}

/// Finalizes `object`; returns the object, or the first failure.
static StatusOr<DNNObject *> finalized(DNNObject &object) {
  if (Status status = object.finalize(); !status.ok())
    return status;
  return &object;
}

StatusOr<DNNObject *> DNNConvStep::tensor(TensorId id,
                                          const DeviceOperand &operand,
                                          const Extents &dimensions,
                                          bool channelsLast) {
  DNNObject &tensor = keep(DNNDescriptorType::Tensor, "describe a tensor");
  tensor.set(DNNAttribute::TensorDataType, toDNN(operand.type));
  tensor.set(DNNAttribute::TensorDimensions, dimensions);
  tensor.set(DNNAttribute::TensorStrides, stridesOf(dimensions, channelsLast));
  tensor.set(DNNAttribute::TensorUniqueId, int64_t(id));
  tensor.set(DNNAttribute::TensorByteAlignment,
             int64_t(operand.alignment(kAlignment)));
  return finalized(tensor);
}

StatusOr<DNNObject *> DNNConvStep::convolution() {
  DNNObject &conv =
      keep(DNNDescriptorType::Convolution, "describe a convolution");
  DNNConvMode mode = DNNConvMode::CrossCorrelation;
  conv.set(DNNAttribute::ConvolutionComputeType,
           step.compute == Compute::F64 ? DNNType::F64 : DNNType::F32);
  conv.set(DNNAttribute::ConvolutionMode, DNNAttributeType::ConvolutionMode,
           &mode, 1);
  conv.set(DNNAttribute::ConvolutionSpatialDims,
           int64_t(step.inSpatial.size()));
  conv.set(DNNAttribute::ConvolutionPrePaddings, step.padsBegin);
  conv.set(DNNAttribute::ConvolutionPostPaddings, step.padsEnd);
  conv.set(DNNAttribute::ConvolutionDilations, step.dilations);
  conv.set(DNNAttribute::ConvolutionFilterStrides, step.strides);
  return finalized(conv);
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

StatusOr<DNNObject *> DNNConvStep::operation() {
  const ConvNames &kind = convNames[static_cast<size_t>(step.kind)];

  // Describe x, w and y as [batch or output channels, channels, spatial...]. In
  // memory, channels of x and y are innermost. Channels of filters are
  // innermost only in the layout OHWI.
  StatusOr<DNNObject *> x =
      tensor(kX, operands.x,
             withLeading(step.batch, step.inChannels, step.inSpatial), true);
  if (!x.ok())
    return x;
  StatusOr<DNNObject *> w = tensor(
      kW, operands.w,
      withLeading(step.outChannels, step.inChannels / step.groups, step.kernel),
      step.filterLayout == FilterLayout::OHWI);
  if (!w.ok())
    return w;
  StatusOr<DNNObject *> y =
      tensor(kY, operands.y,
             withLeading(step.batch, step.outChannels, step.outSpatial), true);
  if (!y.ok())
    return y;
  // `conv` holds paddings, strides, dilations and the type of the sums.
  StatusOr<DNNObject *> conv = convolution();
  if (!conv.ok())
    return conv;

  // cuDNN computes y = alpha * conv + beta * y. Set alpha = 1 and beta = 0, in
  // the type of the sums.
  DNNObject &operation = keep(kind.type, "describe a convolution");
  operation.set(kind.convolution, **conv);
  operation.set(kind.x, **x);
  operation.set(kind.w, **w);
  operation.set(kind.y, **y);
  if (step.compute == Compute::F64) {
    const double alpha = 1, beta = 0;
    operation.set(kind.alpha, DNNAttributeType::Double, &alpha, 1);
    operation.set(kind.beta, DNNAttributeType::Double, &beta, 1);
  } else {
    const float alpha = 1, beta = 0;
    operation.set(kind.alpha, DNNAttributeType::Float, &alpha, 1);
    operation.set(kind.beta, DNNAttributeType::Float, &beta, 1);
  }
  return finalized(operation);
}

StatusOr<DNNObject *> DNNConvStep::graph() {
  StatusOr<DNNObject *> op = operation();
  if (!op.ok())
    return op;
  DNNObject &graph =
      keep(DNNDescriptorType::OperationGraph, "describe a convolution");
  graph.set(DNNAttribute::OperationGraphHandle, DNNAttributeType::Handle,
            &library.handle, 1);
  graph.set(DNNAttribute::OperationGraphOps, **op);
  return finalized(graph);
}

//===----------------------------------------------------------------------===//
// The engine
//===----------------------------------------------------------------------===//

/// Returns the configurations that the library proposes, the fastest first.
/// Empty if there are none.
StatusOr<std::vector<DNNObject>>
DNNConvStep::candidates(const DNNObject &graph, DNNHeuristicMode mode) {
  std::vector<DNNObject> configs;
  DNNObject heuristic(library, DNNDescriptorType::EngineHeuristic,
                      "propose an engine");
  heuristic.set(DNNAttribute::HeuristicOperationGraph, graph);
  heuristic.set(DNNAttribute::HeuristicMode, DNNAttributeType::HeuristicMode,
                &mode, 1);
  // The library reports that it has no engine by rejecting the graph here.
  if (!heuristic.finalize().ok())
    return configs;
  int64_t count = 0;
  DNNStatus asked = library.call.getAttribute(
      heuristic.get(), DNNAttribute::HeuristicResults,
      DNNAttributeType::BackendDescriptor, 0, &count, nullptr);
  if (Status status = library.check(asked, "count engines"); !status.ok())
    return status;
  count = std::min(count, kMaxCandidates);
  std::vector<DNNDescriptor> handles;
  for (int64_t i = 0; i < count; ++i) {
    configs.emplace_back(library, DNNDescriptorType::EngineConfig,
                         "describe an engine");
    handles.push_back(configs.back().get());
  }
  if (count == 0)
    return configs;
  // The library may fill in fewer configurations than it counted.
  int64_t given = 0;
  asked = library.call.getAttribute(
      heuristic.get(), DNNAttribute::HeuristicResults,
      DNNAttributeType::BackendDescriptor, count, &given, handles.data());
  if (Status status = library.check(asked, "list engines"); !status.ok())
    return status;
  while (configs.size() > static_cast<size_t>(std::max<int64_t>(given, 0)))
    configs.pop_back();
  return configs;
}

/// Returns the index of a configuration's cuDNN engine, and cuDNN's numerical
/// notes about it.
StatusOr<DNNConvStep::EngineFacts>
DNNConvStep::factsOf(const DNNObject &config) {
  DNNObject engine(library, DNNDescriptorType::Engine, "describe an engine");
  DNNDescriptor handle = engine.get();
  int64_t count = 0;
  DNNStatus asked = library.call.getAttribute(
      config.get(), DNNAttribute::EngineConfigEngine,
      DNNAttributeType::BackendDescriptor, 1, &count, &handle);
  if (Status status = library.check(asked, "name an engine"); !status.ok())
    return status;
  EngineFacts facts;
  asked = library.call.getAttribute(
      engine.get(), DNNAttribute::EngineGlobalIndex, DNNAttributeType::Int64, 1,
      &count, &facts.index);
  if (Status status = library.check(asked, "number an engine"); !status.ok())
    return status;
  facts.notes.resize(kMaxNotes);
  asked = library.call.getAttribute(
      engine.get(), DNNAttribute::EngineNumericalNote,
      DNNAttributeType::NumericalNote, kMaxNotes, &count, facts.notes.data());
  if (Status status = library.check(asked, "describe an engine"); !status.ok())
    return status;
  facts.notes.resize(
      static_cast<size_t>(std::clamp<int64_t>(count, 0, kMaxNotes)));
  return facts;
}

/// True if the step must compute in float32: all operands are f32, and tf32 is
/// not allowed.
bool DNNConvStep::isOfFloat32() const {
  return operands.x.type == DType::F32 && operands.w.type == DType::F32 &&
         operands.y.type == DType::F32 && step.compute != Compute::TF32;
}

/// True if no known note says that an engine gives different bits in each run,
/// or computes in another type than the step's. A note that a later version of
/// the library added is only logged, since its meaning is unknown.
bool DNNConvStep::keepsPromises(const EngineFacts &engine) const {
  for (DNNNumericalNote note : engine.notes)
    // A note may be harmless, exclude the engine, or be unknown.
    switch (note) {
    case DNNNumericalNote::TensorCore:
      // With f32 operands, tensor cores mean tf32.
      if (isOfFloat32())
        return false;
      break;
    case DNNNumericalNote::DownConvertInputs:
    case DNNNumericalNote::ReducedPrecisionReduction:
    case DNNNumericalNote::FFT:
    case DNNNumericalNote::Nondeterministic:
    case DNNNumericalNote::Winograd:
    case DNNNumericalNote::Winograd4x4:
    case DNNNumericalNote::Winograd6x6:
    case DNNNumericalNote::Winograd13x13:
      return false;
    case DNNNumericalNote::StrictNaNPropagation:
      break;
    default:
      logChoice("cuDNN engine " + std::to_string(engine.index) +
                " has a numerical note this runtime does not know, " +
                std::to_string(static_cast<int>(note)) + "; used anyway");
    }
  return true;
}

/// True if the plan `candidate` computes in float32, or if the step need not.
/// Runs the plan on test data to find out (DNNProbe.h), since an engine may
/// round operands to tf32 without a numerical note. `proposal` distinguishes
/// configurations of one engine.
StatusOr<bool> DNNConvStep::keepsBits(const EngineFacts &engine,
                                      const std::string &proposal,
                                      const DNNObject &candidate,
                                      int64_t scratchBytes) {
  if (!isOfFloat32())
    return true;
  // Reuse the result for an equal convolution, engine and proposal.
  std::string key =
      describe() + ", filters " +
      (step.filterLayout == FilterLayout::OHWI ? "OHWI" : "OIHW") +
      ", aligned to";
  for (const DeviceOperand *each : {&operands.x, &operands.w, &operands.y})
    key += " " + std::to_string(each->alignment(kAlignment));
  const std::string name = "cuDNN engine " + std::to_string(engine.index);
  key += ": " + name + ", " + proposal;
  auto known = library.keepsBits.find(key);
  if (known == library.keepsBits.end()) {
    StatusOr<double> error = measureRounding(
        library.workspace.getMemory(), library.stream, step,
        static_cast<size_t>(scratchBytes),
        [&](const std::array<void *, 3> &addresses, void *workspace) {
          StatusOr<std::unique_ptr<DNNObject>> pack =
              bind(addresses, workspace);
          return pack.ok() ? execute(candidate, **pack) : pack.status();
        });
    if (!error.ok())
      return error.status();
    // The comparison is also false if the error is NaN.
    const bool keeps = *error <= kMaxRounding;
    known = library.keepsBits.emplace(key, keeps).first;
    char size[32];
    std::snprintf(size, sizeof(size), "%.1e", *error);
    if (!keeps)
      logChoice(name + " rounds its operands: a product of f32 is off by " +
                size + ", relative; passed over for " + describe());
  }
  rounding += !known->second;
  return known->second;
}

/// Makes the plan of a configuration. False if the engine cannot run the step,
/// does not compute in the step's type, or has no room for its workspace.
StatusOr<bool> DNNConvStep::tryConfig(DNNObject config,
                                      const std::string &proposal) {
  StatusOr<EngineFacts> engine = factsOf(config);
  if (!engine.ok())
    return engine.status();
  if (!keepsPromises(*engine))
    return false;
  // A plan is an engine compiled for this graph.
  auto candidate = std::make_unique<DNNObject>(
      library, DNNDescriptorType::ExecutionPlan, "plan a convolution");
  candidate->set(DNNAttribute::ExecutionPlanHandle, DNNAttributeType::Handle,
                 &library.handle, 1);
  candidate->set(DNNAttribute::ExecutionPlanEngineConfig, config);
  // A proposal may fail for this particular shape.
  if (!candidate->finalize().ok())
    return false;
  // The workspace needs device memory beyond the memory that mpc has planned,
  // so its size is limited.
  int64_t bytes = 0, count = 0;
  DNNStatus asked = library.call.getAttribute(
      candidate->get(), DNNAttribute::ExecutionPlanWorkspaceSize,
      DNNAttributeType::Int64, 1, &count, &bytes);
  if (Status status = library.check(asked, "size its workspace"); !status.ok())
    return status;
  if (bytes < 0 || bytes > kMaxWorkspaceBytes)
    return false;
  StatusOr<bool> keeps = keepsBits(*engine, proposal, *candidate, bytes);
  if (!keeps.ok() || !*keeps)
    return keeps;
  // Lack of memory is not final: another engine may need less.
  if (shortage = library.workspace.reserve(static_cast<size_t>(bytes));
      !shortage.ok()) {
    logChoice("cuDNN engine " + std::to_string(engine->index) +
              " is passed over, as there is no room for its workspace of " +
              std::to_string(bytes) + " bytes: " + describe());
    return false;
  }
  // The first engine that works is taken and logged.
  kept.push_back(std::make_unique<DNNObject>(std::move(config)));
  plan = std::move(candidate);
  std::string notes;
  for (DNNNumericalNote note : engine->notes)
    notes += " " + std::to_string(static_cast<int>(note));
  logChoice("cuDNN engine " + std::to_string(engine->index) + ", notes" +
            (notes.empty() ? " none" : notes) + ", workspace " +
            std::to_string(bytes) + " bytes: " + describe());
  return true;
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

Status DNNConvStep::chooseEngine(const DNNObject &graph) {
  // Take the first proposal that works. cuDNN sorts them by estimated speed.
  for (DNNHeuristicMode mode :
       {DNNHeuristicMode::A, DNNHeuristicMode::Fallback}) {
    StatusOr<std::vector<DNNObject>> configs = candidates(graph, mode);
    if (!configs.ok())
      return configs.status();
    for (size_t i = 0; i < configs->size(); ++i) {
      StatusOr<bool> works =
          tryConfig(std::move((*configs)[i]),
                    "proposal " + std::to_string(i) + " of mode " +
                        std::to_string(static_cast<int>(mode)));
      if (!works.ok())
        return works.status();
      if (*works)
        return Status();
    }
  }
  // No proposal works: memory is short, or no engine keeps mpc's promises.
  if (!shortage.ok())
    return shortage;
  return Status(StatusCode::Device,
                "cuDNN " + std::to_string(library.call.getVersion()) +
                    " has no deterministic engine for " + describe() +
                    (rounding ? " that computes in float32 (" +
                                    std::to_string(rounding) +
                                    " would round their operands to tf32, "
                                    "which --tf32 allows)"
                              : "") +
                    kCPUAlternative);
}

Status DNNConvStep::prepare() {
  StatusOr<DNNObject *> described = graph();
  if (!described.ok())
    return described.status();
  return chooseEngine(**described);
}

//===----------------------------------------------------------------------===//
// Execution
//===----------------------------------------------------------------------===//

/// Makes a variant pack: the addresses of x, w and y, and of the workspace.
StatusOr<std::unique_ptr<DNNObject>>
DNNConvStep::bind(const std::array<void *, 3> &addresses, void *workspace) {
  const std::vector<int64_t> ids = {kX, kW, kY};
  auto pack = std::make_unique<DNNObject>(
      library, DNNDescriptorType::VariantPack, "bind a convolution's operands");
  pack->set(DNNAttribute::VariantPackUniqueIds, ids);
  pack->set(DNNAttribute::VariantPackDataPointers,
            DNNAttributeType::VoidPointer, addresses.data(), addresses.size());
  pack->set(DNNAttribute::VariantPackWorkspace, DNNAttributeType::VoidPointer,
            &workspace, 1);
  if (Status status = pack->finalize(); !status.ok())
    return status;
  return pack;
}

Status DNNConvStep::execute(const DNNObject &plan,
                            const DNNObject &pack) const {
  return library.check(
      library.call.execute(library.handle, plan.get(), pack.get()), "convolve");
}

Status DNNConvStep::enqueue(Stream) {
  // Bind at the first run, when the workspace has its final size. From then on
  // the addresses are fixed.
  if (!variantPack) {
    StatusOr<std::unique_ptr<DNNObject>> pack =
        bind({operands.x.data, operands.w.data, operands.y.data},
             toHostPointer(library.workspace.take()));
    if (!pack.ok())
      return pack.status();
    variantPack = std::move(*pack);
  }
  return execute(*plan, *variantPack);
}

StatusOr<std::unique_ptr<CUDAStep>>
DNN::prepare(const ConvStep &step, const ConvAddresses &operands) {
  auto prepared = std::make_unique<DNNConvStep>(*this, step, operands);
  if (Status status = prepared->prepare(); !status.ok())
    return status;
  return std::unique_ptr<CUDAStep>(std::move(prepared));
}

} // namespace mpc::runtime::cuda
