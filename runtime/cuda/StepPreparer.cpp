// Prepares kernel launches and copies, and passes products and convolutions on
// to the libraries.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/StepPreparer.h"

#include "runtime/cuda/IndexCheck.h"

#include <cassert>

namespace mpc::runtime::cuda {
namespace {

/// Shared memory that a block gets without a request.
constexpr int64_t kDefaultSharedBytes = 48 << 10;
/// Limit on the blocks of a one-dimensional launch.
constexpr int64_t kMaxBlocks = (int64_t(1) << 31) - 1;
/// Limit on the steps of a function, which become a single graph.
constexpr size_t kMaxSteps = size_t(1) << 20;

class KernelLaunch : public CUDAStep {
public:
  KernelLaunch(const CUDADriver &driver, Kernel kernel, const LaunchStep &step,
               int64_t blocks, std::vector<void *> buffers)
      : driver(driver), kernel(kernel), blocks(static_cast<unsigned>(blocks)),
        threads(static_cast<unsigned>(step.threads)),
        sharedBytes(static_cast<unsigned>(step.sharedBytes)),
        buffers(std::move(buffers)) {
    assert(blocks > 0 && blocks <= kMaxBlocks && step.threads > 0 &&
           "a launch has blocks and threads");
    for (void *&buffer : this->buffers)
      parameters.push_back(&buffer);
  }

  Status enqueue(Stream stream) override {
    return driver.check(driver.call.launchKernel(kernel, blocks, 1, 1, threads,
                                                 1, 1, sharedBytes, stream,
                                                 parameters.data(), nullptr),
                        "launch its kernel");
  }

private:
  const CUDADriver &driver;
  Kernel kernel;
  unsigned blocks, threads, sharedBytes;
  std::vector<void *> buffers;    ///< addresses on the GPU
  std::vector<void *> parameters; ///< pointers to these addresses
};

class DeviceCopy : public CUDAStep {
public:
  DeviceCopy(const CUDADriver &driver, void *to, void *from, int64_t bytes)
      : driver(driver), to(toDevicePointer(to)), from(toDevicePointer(from)),
        bytes(static_cast<size_t>(bytes)) {}

  Status enqueue(Stream stream) override {
    return driver.check(driver.call.memcpyDtoDAsync(to, from, bytes, stream),
                        "copy");
  }

private:
  const CUDADriver &driver;
  DevicePointer to, from;
  size_t bytes;
};

/// Several prepared steps that stand for one step of the plan.
class Sequence : public CUDAStep {
public:
  explicit Sequence(std::vector<std::unique_ptr<CUDAStep>> steps)
      : steps(std::move(steps)) {}

  Status enqueue(Stream stream) override {
    for (const auto &step : steps)
      if (Status status = step->enqueue(stream); !status.ok())
        return status;
    return Status();
  }

private:
  std::vector<std::unique_ptr<CUDAStep>> steps;
};

/// A step with nothing to do, such as a copy of 0 bytes.
class NoWork : public CUDAStep {
public:
  Status enqueue(Stream) override { return Status(); }
};

/// Waits for an exchange that runs on another stream.
class Join : public CUDAStep {
public:
  explicit Join(CUDAStep &exchange) : exchange(exchange) {}

  Status enqueue(Stream stream) override { return exchange.join(stream); }

private:
  CUDAStep &exchange;
};

using Prepared = StatusOr<std::unique_ptr<CUDAStep>>;

class CUDAStepPreparer {
public:
  CUDAStepPreparer(StepResources resources, const Function &function,
                   const std::vector<void *> &buffers)
      : use(resources), function(function), buffers(buffers) {}

  /// Appends all steps of the function. The steps of a loop are appended once
  /// per iteration.
  Status prepareAll(std::vector<NamedStep> &prepared);

private:
  Status prepare(const Step &step, std::vector<NamedStep> &prepared);
  Prepared prepare(const Step &step);
  Prepared prepare(const LaunchStep &step);
  Prepared prepare(const CopyStep &step);
  Prepared prepare(const MatMulStep &step);
  Prepared prepare(const ConvStep &step);
  Prepared prepare(const AttentionStep &step);
  Prepared prepare(const CheckIndicesStep &step);
  Prepared prepare(const AllReduceStep &step);
  Prepared prepare(const ReduceScatterStep &step);
  Prepared prepare(const AllGatherStep &step);
  std::vector<RankPart> partsOf(const std::vector<OwnedPart> &parts) const;
  Prepared note(Prepared exchange);
  Prepared prepare(const IfStep &step);
  Status unroll(const ForStep &step, std::vector<NamedStep> &prepared);
  void joinUpTo(size_t count, const std::string &name,
                std::vector<NamedStep> &prepared);
  DeviceOperand operand(const std::optional<size_t> &index) const {
    if (!index)
      return {};
    return {function.buffers[*index].type, buffers[*index]};
  }
  Status allowSharedMemory(Kernel kernel, const LaunchStep &step);
  Status openDNN();
  Prepared prepareUnfused(const MatMulStep &step);

  StepResources use;
  const Function &function;
  size_t owner = 0;            ///< index of the step being prepared
  std::vector<void *> buffers; ///< addresses in the current iteration of loops
  std::vector<CUDAStep *> exchanges; ///< so far, in order
  size_t numJoined = 0;              ///< of `exchanges`
};

} // namespace

Status CUDAStepPreparer::allowSharedMemory(Kernel kernel,
                                           const LaunchStep &step) {
  if (step.sharedBytes <= kDefaultSharedBytes)
    return Status();
  if (step.sharedBytes > use.gpu.maxSharedBytes)
    return Status(StatusCode::Device,
                  "kernel '" + step.kernel + "' needs " +
                      std::to_string(step.sharedBytes) +
                      " bytes of shared memory, a block of " +
                      use.gpu.describe() + " can have " +
                      std::to_string(use.gpu.maxSharedBytes) +
                      "; compile the model for this GPU (--target)");
  return use.driver.check(
      use.driver.call.funcSetAttribute(
          kernel, FunctionAttribute::MaxDynamicSharedSizeBytes,
          static_cast<int>(step.sharedBytes)),
      "give kernel '" + step.kernel + "' its shared memory");
}

Prepared CUDAStepPreparer::prepare(const LaunchStep &step) {
  StatusOr<Kernel> kernel = use.kernels.kernel(step.kernel);
  if (!kernel.ok())
    return kernel.status();
  // Round up by a separate term: adding grain - 1 before the division could
  // overflow.
  int64_t blocks = step.extent / step.grain + (step.extent % step.grain != 0);
  if (blocks == 0)
    return std::unique_ptr<CUDAStep>(std::make_unique<NoWork>());
  if (blocks > kMaxBlocks)
    return Status(StatusCode::Device, "kernel '" + step.kernel + "' needs " +
                                          std::to_string(blocks) +
                                          " blocks, a launch has at most " +
                                          std::to_string(kMaxBlocks) +
                                          "; use a smaller batch");
  if (Status status = allowSharedMemory(*kernel, step); !status.ok())
    return status;
  std::vector<void *> addresses;
  for (size_t index : step.args)
    addresses.push_back(buffers[index]);
  return std::unique_ptr<CUDAStep>(std::make_unique<KernelLaunch>(
      use.driver, *kernel, step, blocks, std::move(addresses)));
}

Prepared CUDAStepPreparer::prepare(const CopyStep &step) {
  int64_t bytes = function.buffers[step.src].bytes;
  if (bytes == 0)
    return std::unique_ptr<CUDAStep>(std::make_unique<NoWork>());
  return std::unique_ptr<CUDAStep>(std::make_unique<DeviceCopy>(
      use.driver, buffers[step.dst], buffers[step.src], bytes));
}

Prepared CUDAStepPreparer::prepare(const MatMulStep &step) {
  if (!use.blas) {
    StatusOr<std::unique_ptr<BLASLt>> opened = BLASLt::open(use.workspace);
    if (!opened.ok())
      return opened.status();
    use.blas = std::move(*opened);
  }
  MatMulAddresses operands{
      operand(step.a), operand(step.b), operand(step.c), {}, {}, {}};
  if (step.fused) {
    operands.bias = operand(step.fused->bias);
    operands.aux = operand(step.fused->aux);
    operands.biasGrad = operand(step.fused->biasGrad);
  }
  Prepared prepared = use.blas->prepare(step, operands);
  // If the library has no algorithm for a product with its fused operation, the
  // library computes the product alone, and kernels do the rest.
  bool isCandidate = step.fused && !step.fused->unfused.empty();
  if (prepared.ok() || !isCandidate ||
      prepared.status().getCode() != StatusCode::Device)
    return prepared;
  logChoice("kernels beside a product: " + prepared.status().message());
  return prepareUnfused(step);
}

/// Prepares the product alone, then the launches that replace the fused
/// operation.
Prepared CUDAStepPreparer::prepareUnfused(const MatMulStep &step) {
  assert(step.fused && !step.fused->unfused.empty() &&
         "kernels can replace the fused operation");
  MatMulStep product = step;
  product.fused.reset();
  std::vector<std::unique_ptr<CUDAStep>> steps;
  Prepared prepared = prepare(product);
  if (!prepared.ok())
    return prepared;
  steps.push_back(std::move(*prepared));
  for (const LaunchStep &launch : step.fused->unfused) {
    prepared = prepare(launch);
    if (!prepared.ok())
      return prepared;
    steps.push_back(std::move(*prepared));
  }
  return std::unique_ptr<CUDAStep>(
      std::make_unique<Sequence>(std::move(steps)));
}

Status CUDAStepPreparer::openDNN() {
  if (use.dnn)
    return Status();
  StatusOr<std::unique_ptr<DNN>> opened =
      DNN::open(use.stream, use.workspace, 10 * use.gpu.major + use.gpu.minor);
  if (!opened.ok())
    return opened.status();
  use.dnn = std::move(*opened);
  return Status();
}

Prepared CUDAStepPreparer::prepare(const ConvStep &step) {
  if (Status status = openDNN(); !status.ok())
    return status;
  return use.dnn->prepare(step,
                          {operand(step.x), operand(step.w), operand(step.y)});
}

Prepared CUDAStepPreparer::prepare(const AttentionStep &step) {
  if (Status status = openDNN(); !status.ok())
    return status;
  AttentionAddresses operands;
  for (AttentionOperand each : kAttentionOperands)
    operands.operands[static_cast<size_t>(each)] =
        operand(bufferOf(step, each));
  operands.statistics = operand(step.statistics);
  return use.dnn->prepare(step, operands);
}

Prepared CUDAStepPreparer::prepare(const CheckIndicesStep &step) {
  const Buffer &buffer = function.buffers[step.buffer];
  if (buffer.bytes == 0)
    return std::unique_ptr<CUDAStep>(std::make_unique<NoWork>());
  return IndexCheck::create(use.driver, step, buffer, buffers[step.buffer]);
}

Prepared CUDAStepPreparer::prepare(const AllReduceStep &step) {
  const Buffer &buffer = function.buffers[step.buffer];
  if (!use.nccl || buffer.bytes == 0)
    return note(std::unique_ptr<CUDAStep>(std::make_unique<NoWork>()));
  return note(use.nccl->prepare(
      operand(step.buffer),
      static_cast<size_t>(buffer.bytes / sizeOf(buffer.type)), step.kind));
}

std::vector<RankPart>
CUDAStepPreparer::partsOf(const std::vector<OwnedPart> &parts) const {
  std::vector<RankPart> result;
  for (const OwnedPart &part : parts) {
    assert(buffers[part.buffer] && "all ranks hold what they exchange");
    result.push_back({buffers[part.buffer],
                      static_cast<size_t>(function.buffers[part.buffer].bytes),
                      use.shares.ownerOf(part.owner)});
  }
  return result;
}

Prepared CUDAStepPreparer::prepare(const ReduceScatterStep &step) {
  if (!use.nccl)
    return std::unique_ptr<CUDAStep>(std::make_unique<NoWork>());
  return note(use.nccl->prepareReduceToOwners(
      partsOf(step.parts), function.buffers[step.parts.front().buffer].type,
      step.kind));
}

Prepared CUDAStepPreparer::prepare(const AllGatherStep &step) {
  if (!use.nccl)
    return std::unique_ptr<CUDAStep>(std::make_unique<NoWork>());
  return note(use.nccl->prepareGatherFromOwners(partsOf(step.parts)));
}

/// Adds `exchange` to the exchanges for which later steps wait.
Prepared CUDAStepPreparer::note(Prepared exchange) {
  if (exchange.ok() && use.nccl)
    exchanges.push_back(exchange->get());
  return exchange;
}

Prepared CUDAStepPreparer::prepare(const IfStep &) {
  // The plan's verifier rejects conditions in plans for a GPU.
  return Status(StatusCode::Unsupported, "a GPU runs no conditional steps");
}

Status CUDAStepPreparer::unroll(const ForStep &step,
                                std::vector<NamedStep> &prepared) {
  const std::vector<void *> outside = buffers;
  for (int64_t i = 0; i < step.count; ++i) {
    if (prepared.size() > kMaxSteps)
      return Status(StatusCode::Device,
                    "a function's loops are unrolled on a GPU, to " +
                        std::to_string(kMaxSteps) + " steps at most");
    for (const Step &inner : step.steps)
      if (Status status = prepare(inner, prepared); !status.ok())
        return status;
    for (const MovingBuffer &moving : step.moving)
      buffers[moving.buffer] =
          static_cast<std::byte *>(buffers[moving.buffer]) + moving.bytes;
  }
  buffers = outside;
  return Status();
}

Status CUDAStepPreparer::prepare(const Step &step,
                                 std::vector<NamedStep> &prepared) {
  if (const auto *loop = std::get_if<ForStep>(&step.op))
    return unroll(*loop, prepared);
  Prepared one = prepare(step);
  if (!one.ok())
    return Status(one.status().getCode(), "'" + step.name + "' in function '" +
                                              function.name +
                                              "': " + one.status().message());
  prepared.push_back({step.name, std::move(*one), owner});
  return Status();
}

/// Makes the stream wait for the first `count` exchanges.
void CUDAStepPreparer::joinUpTo(size_t count, const std::string &name,
                                std::vector<NamedStep> &prepared) {
  if (!use.nccl || count <= numJoined)
    return;
  assert(count <= exchanges.size() && "exchanges precede their readers");
  // Exchanges run in order, so the last one ends after the others.
  numJoined = count;
  prepared.push_back(
      {name, std::make_unique<Join>(*exchanges[count - 1]), owner});
}

Status CUDAStepPreparer::prepareAll(std::vector<NamedStep> &prepared) {
  const std::vector<size_t> before = findReductionsBefore(function, buffers);
  for (owner = 0; owner < function.steps.size(); ++owner) {
    const Step &step = function.steps[owner];
    // The variables of other ranks have no memory here.
    if (step.owner && !use.shares.owns(*step.owner))
      continue;
    joinUpTo(before[owner], step.name, prepared);
    if (Status status = prepare(step, prepared); !status.ok())
      return status;
  }
  if (!exchanges.empty()) {
    owner = function.steps.size() - 1;
    joinUpTo(exchanges.size(), function.steps.back().name, prepared);
  }
  return Status();
}

/// Prepares a step that is not a loop.
Prepared CUDAStepPreparer::prepare(const Step &step) {
  return std::visit(
      [&](const auto &op) -> Prepared {
        if constexpr (std::is_same_v<decltype(op), const ForStep &>)
          return Status(StatusCode::Internal, "a loop is one step");
        else
          return prepare(op);
      },
      step.op);
}

StatusOr<std::vector<NamedStep>>
prepareSteps(StepResources resources, const Function &function,
             const std::vector<void *> &buffers) {
  assert(buffers.size() == function.buffers.size() && "an address per buffer");
  CUDAStepPreparer preparer(resources, function, buffers);
  std::vector<NamedStep> steps;
  if (Status status = preparer.prepareAll(steps); !status.ok())
    return status;
  return steps;
}

} // namespace mpc::runtime::cuda
