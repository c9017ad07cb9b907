// Prepares and executes steps of attention: checks what the library supports,
// finds a plan, and binds the operands.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/SharedLibrary.h"
#include "runtime/cuda/dnn/DNNAttentionGraph.h"
#include "runtime/cuda/dnn/DNNPlan.h"

#include <limits>

namespace mpc::runtime::cuda {

static const char *const kProductsAlternative =
    "; compile the model with --attention products";

/// The elements of a vector that the library reads or writes at once.
static constexpr int64_t kVectorElements = kAttentionAlignment / 2;

//===----------------------------------------------------------------------===//
// Limits of the library
//===----------------------------------------------------------------------===//

/// Returns why this version of the library must not compute the step; empty if
/// it may. NVIDIA lists these faults, and the library does not report them.
static std::string findFault(const AttentionStep &step, size_t version,
                             int capability) {
  if (version < 91002)
    return "attention needs cuDNN 9.10.2 or newer";
  if (step.kind == AttentionKind::Forward)
    return {};
  constexpr int64_t kUnit = 128;
  if (version <= 91500 && step.keys % kUnit != 0)
    return "the number of keys is not a multiple of " + std::to_string(kUnit) +
           ", which needs cuDNN 9.15.1 or newer";
  if (version < 91800 && capability / 10 == 10)
    return "a deterministic gradient on sm_" + std::to_string(capability) +
           " needs cuDNN 9.18 or newer";
  return {};
}

/// Returns why the library has no graph for the step; empty if it may have one.
static std::string findRefusal(const AttentionStep &step,
                               const AttentionAddresses &operands,
                               int capability) {
  if (capability < 80)
    return "attention needs a GPU of sm_80 or newer, found sm_" +
           std::to_string(capability);
  if (step.size % kVectorElements != 0 || step.columns % kVectorElements != 0)
    return "expected heads with a multiple of 8 columns";
  if (isMasked(step) && *step.causalOffset != 0) {
    if (*step.causalOffset != step.keys - step.queries)
      return "expected a causal offset of 0 or " +
             std::to_string(step.keys - step.queries) + ", found " +
             std::to_string(*step.causalOffset);
    if (step.bias)
      return "a causal offset and a bias exclude each other";
  }
  if (step.kind == AttentionKind::Gradient) {
    if (step.queries == 1 && step.keys == 1)
      return "a single query and key have no gradient in cuDNN";
    const int64_t widest = capability / 10 == 9 ? 256 : 128;
    const bool isLarge = step.size > widest || step.columns > widest;
    const bool isSpecial =
        capability / 10 == 10 && step.size == 192 && step.columns == 128;
    if (isLarge && !isSpecial)
      return "the gradient takes heads of at most " + std::to_string(widest) +
             " columns";
  }
  for (AttentionOperand operand : kAttentionOperands) {
    if (operand == AttentionOperand::Bias || !bufferOf(step, operand))
      continue;
    StridedBlock block = blockOf(step, operand);
    const auto address =
        reinterpret_cast<uintptr_t>(operands.get(operand).data) +
        static_cast<uintptr_t>(block.offset) * sizeof(uint16_t);
    bool isAligned = address % kAttentionAlignment == 0;
    for (size_t axis = 0; axis + 1 < block.axes.size(); ++axis)
      isAligned &= block.axes[axis].extent == 1 ||
                   block.axes[axis].stride % kVectorElements == 0;
    if (!isAligned)
      return std::string("'") + nameOf(operand) +
             "' is not aligned to 16 bytes, in its address or a stride";
  }
  return {};
}

/// Loads the compiler that cuDNN compiles graphs with. cuDNN asks the loader
/// for a bare name, which the loader knows once the library is in the process.
static Status loadCompiler(const DNNFunctions &call) {
  const size_t version = call.getVersion();
  const size_t cuda = call.getCUDAVersion() / 1000;
  const std::string name = "libnvrtc.so." + std::to_string(cuda);
  const std::string need = "NVRTC of CUDA " + std::to_string(cuda) +
                           " (for attention by cuDNN " +
                           toLibraryVersion(version) +
                           ", unless the model is compiled with --attention "
                           "products)";
  return SharedLibrary::open({name.c_str()}, need.c_str()).status();
}

Status checkAttentionLibraries(int capability) {
  StatusOr<SharedLibrary> library = SharedLibrary::open(kDNNNames, "cuDNN 9");
  if (!library.ok())
    return library.status();
  DNNFunctions call;
#define MPC_CUDA_FIND(result, member, symbol, ...)                             \
  if (Status status = library->find(#symbol, call.member); !status.ok())       \
    return status;
  MPC_CUDA_DNN_FUNCTIONS(MPC_CUDA_FIND)
#undef MPC_CUDA_FIND
  // A step that has every fault which a newer version mends.
  AttentionStep step;
  step.kind = AttentionKind::Gradient;
  step.keys = 1;
  const size_t version = call.getVersion();
  if (std::string fault = findFault(step, version, capability); !fault.empty())
    return Status(StatusCode::Device,
                  "cuDNN " + toLibraryVersion(version) +
                      " cannot compute all attention: " + fault);
  return loadCompiler(call);
}

//===----------------------------------------------------------------------===//
// The step
//===----------------------------------------------------------------------===//

namespace {
/// Numbers that a graph gets by their addresses.
struct AttentionNumbers {
  float scale = 1, one = 1;
  float minusInfinity = -std::numeric_limits<float>::infinity();
  int32_t keys = 0, queries = 0;
};

class DNNAttentionStep : public CUDAStep {
public:
  DNNAttentionStep(DNN &library, const AttentionStep &step,
                   const AttentionAddresses &operands)
      : library(library), step(step), operands(operands) {
    numbers.scale = static_cast<float>(step.scale);
    numbers.keys = static_cast<int32_t>(step.keys);
    numbers.queries = static_cast<int32_t>(step.queries);
  }

  Status prepare();
  Status enqueue(Stream stream) override;

private:
  std::string describe() const;
  void demandOrder(DNNDemands &demands) const;
  void *addressOf(AttentionTensorId id, void *outputDots);
  DNNBindings bindAll(void *outputDots);

  /// The bytes of the sums of d_output * output, which precede the scratch
  /// memory of the plan.
  size_t dotsBytes() const {
    constexpr size_t kUnit = 256;
    if (step.kind == AttentionKind::Forward)
      return 0;
    const auto bytes =
        static_cast<size_t>(step.batch * step.heads * step.queries) *
        sizeof(float);
    return (bytes + kUnit - 1) / kUnit * kUnit;
  }

  DNN &library;
  const AttentionStep step;
  const AttentionAddresses operands;
  AttentionNumbers numbers;
  std::vector<AttentionTensorId> others;
  std::shared_ptr<const DNNPlan> plan;
  std::unique_ptr<DNNObject> variantPack;
};
} // namespace

std::string DNNAttentionStep::describe() const {
  auto count = [](int64_t number) { return std::to_string(number); };
  std::string text = step.kind == AttentionKind::Forward
                         ? "attention"
                         : "attention's gradient";
  text += " of " +
          std::string(nameOf(operands.get(AttentionOperand::Query).type)) +
          ", batch " + count(step.batch) + ", heads " + count(step.heads);
  if (step.heads != step.keyHeads)
    text += " over " + count(step.keyHeads);
  text += " of " + count(step.size);
  if (step.size != step.columns)
    text += " and " + count(step.columns);
  text += " columns, " + count(step.queries) + " queries, " + count(step.keys) +
          " keys";
  if (isMasked(step))
    text += ", causal" + (*step.causalOffset == 0
                              ? std::string()
                              : " from offset " + count(*step.causalOffset));
  return text + (step.bias ? ", with a bias" : "");
}

Status DNNAttentionStep::prepare() {
  const size_t version = library.call.getVersion();
  std::string refusal = findRefusal(step, operands, library.capability);
  if (refusal.empty())
    refusal = findFault(step, version, library.capability);
  if (!refusal.empty())
    return Status(StatusCode::Device,
                  "cuDNN " + toLibraryVersion(version) + " cannot compute " +
                      describe() + ": " + refusal + kProductsAlternative);
  if (Status status = loadCompiler(library.call); !status.ok())
    return status;
  auto graph = std::make_shared<DNNGraph>(library, "describe an attention");
  AttentionGraph builder(*graph, step, operands);
  if (step.kind == AttentionKind::Forward)
    builder.addForward();
  else
    builder.addGradient();
  others = builder.getOthers();
  if (Status status = graph->complete(); !status.ok())
    return Status(status.getCode(), status.message() + ", for " + describe() +
                                        kProductsAlternative);
  DNNDemands demands;
  demands.operation = describe();
  demands.maxWorkspaceBytes = std::numeric_limits<size_t>::max();
  demands.ownBytes = dotsBytes();
  demands.remedy = kProductsAlternative;
  if (step.kind == AttentionKind::Gradient)
    demandOrder(demands);
  StatusOr<std::shared_ptr<const DNNPlan>> found =
      findPlan(library, std::move(graph), demands);
  if (!found.ok())
    return found.status();
  plan = std::move(*found);
  return Status();
}

/// Makes the gradient of the queries a sum in one order.
void DNNAttentionStep::demandOrder(DNNDemands &demands) const {
  // NVIDIA names the ordered engine for sm_10x, which takes no bias.
  if (library.capability / 10 == 10 && !step.bias) {
    demands.named = DNNDemands::Named{
        5, {{DNNKnob::KernelConfig, 31}, {DNNKnob::Stages, 2}}};
    return;
  }
  // Elsewhere an engine has an order if it keeps the scores' gradients.
  demands.isExact = [this](const DNNPlan &plan) -> StatusOr<bool> {
    const auto scores = static_cast<size_t>(step.batch * step.heads) *
                        static_cast<size_t>(step.queries * step.keys);
    if (plan.workspaceBytes() >= scores * sizeof(uint16_t))
      return true;
    logChoice(
        plan.getEngine().describe() +
        " is passed over, as it adds up gradients in any order: " + describe());
    return false;
  };
}

void *DNNAttentionStep::addressOf(AttentionTensorId id, void *outputDots) {
  switch (id) {
  case kStatistics:
    return operands.statistics.data;
  case kOutputDots:
    return outputDots;
  case kScale:
    return &numbers.scale;
  case kMinusInfinity:
    return &numbers.minusInfinity;
  case kOne:
    return &numbers.one;
  case kKeys:
    return &numbers.keys;
  case kQueries:
    return &numbers.queries;
  }
  return nullptr;
}

DNNBindings DNNAttentionStep::bindAll(void *outputDots) {
  DNNBindings bindings;
  for (AttentionOperand operand : kAttentionOperands) {
    if (!bufferOf(step, operand))
      continue;
    const DeviceOperand &memory = operands.get(operand);
    const int64_t offset = blockOf(step, operand).offset * sizeOf(memory.type);
    bindings.add(idOf(operand), static_cast<std::byte *>(memory.data) + offset);
  }
  for (AttentionTensorId id : others)
    bindings.add(id, addressOf(id, outputDots));
  return bindings;
}

Status DNNAttentionStep::enqueue(Stream) {
  // Bind at the first run, when the workspace has its final size. From then on
  // the addresses are fixed.
  if (!variantPack) {
    const DevicePointer scratch = library.workspace.take();
    StatusOr<std::unique_ptr<DNNObject>> pack = plan->bind(
        bindAll(toHostPointer(scratch)), toHostPointer(scratch + dotsBytes()));
    if (!pack.ok())
      return pack.status();
    variantPack = std::move(*pack);
  }
  return plan->execute(*variantPack, "compute an attention");
}

StatusOr<std::unique_ptr<CUDAStep>>
DNN::prepare(const AttentionStep &step, const AttentionAddresses &operands) {
  auto prepared = std::make_unique<DNNAttentionStep>(*this, step, operands);
  if (Status status = prepared->prepare(); !status.ok())
    return status;
  return std::unique_ptr<CUDAStep>(std::move(prepared));
}

} // namespace mpc::runtime::cuda
