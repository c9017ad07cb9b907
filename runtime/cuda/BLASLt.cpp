// Describes matrix products to cuBLASLt and runs them.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/BLASLt.h"
#include "runtime/cuda/Driver.h"
#include "runtime/cuda/ProductParts.h"
#include "runtime/cuda/SharedLibrary.h"

#include <algorithm>

namespace mpc::runtime::cuda {
namespace {

/// The workspace that NVIDIA recommends for Hopper; enough for older GPUs.
constexpr size_t kWorkspaceBytes = size_t(32) << 20;
/// The alignment that the library assumes of a pointer by default.
constexpr uint32_t kFullAlignment = 256;
/// The most algorithms that the library may propose. Proposals are sorted by
/// speed, so the first that fits is the fastest.
constexpr int kCandidates = 8;

/// A matrix as the library sees it, column-major: `ld` elements between
/// columns, and `stride` elements between the matrices of a batch.
struct MatrixShape {
  uint64_t rows, columns;
  int64_t ld, stride;
};

/// A prepared product. The descriptors live as long as the step.
class BLASMatMulStep : public CUDAStep {
public:
  BLASMatMulStep(BLASLt &library, const ProductPart &part)
      : library(library), step(part.step), operands(part.operands),
        beta32(part.adds ? 1 : 0), beta64(part.adds ? 1 : 0) {}
  ~BLASMatMulStep() override;

  Status prepare();
  Status enqueue(Stream stream) override;

private:
  /// The operands that one library call reads and writes.
  struct Call {
    DeviceOperand a, b, c;
  };

  void findCalls();
  Status enqueue(const Call &call, Stream stream);
  uint32_t getAlignment(DeviceOperand Call::*operand) const;
  Status describeOperands();
  Status describeProduct();
  Status describeEpilogue(const Fused &fused);
  Status chooseAlgorithm();
  Status createLayout(BLASLayout &layout, DType type,
                      const MatrixShape &matrix);
  template <typename Value>
  Status set(BLASMatMulAttribute attribute, const Value &value);
  template <typename Value>
  Status set(BLASPreference preference, BLASPreferenceAttribute attribute,
             const Value &value);
  Status setPreferences(BLASPreference preference);

  BLASLt &library;
  MatMulStep step;
  MatMulAddresses operands;
  std::vector<Call> calls;
  BLASMatMul product = nullptr;
  BLASLayout aLayout = nullptr, bLayout = nullptr, cLayout = nullptr;
  BLASAlgorithm algorithm = {};
  size_t workspaceBytes = 0;
  // The factors of alpha * a * b + beta * c, in both types in which the library
  // may compute.
  float alpha32 = 1, beta32 = 0;
  double alpha64 = 1, beta64 = 0;
};

/// A product in several parts (ProductParts.h), computed by one library call
/// after the other.
class SplitMatMulStep : public CUDAStep {
public:
  explicit SplitMatMulStep(std::vector<std::unique_ptr<CUDAStep>> parts)
      : parts(std::move(parts)) {}

  Status enqueue(Stream stream) override {
    for (const std::unique_ptr<CUDAStep> &part : parts)
      if (Status status = part->enqueue(stream); !status.ok())
        return status;
    return Status();
  }

private:
  std::vector<std::unique_ptr<CUDAStep>> parts;
};

} // namespace

static BLASType toBLAS(DType type) {
  switch (type) {
  case DType::F16:
    return BLASType::F16;
  case DType::BF16:
    return BLASType::BF16;
  case DType::F64:
    return BLASType::F64;
  default: // the plan's verifier admits no other
    return BLASType::F32;
  }
}

static BLASCompute toBLAS(Compute compute) {
  switch (compute) {
  case Compute::F32:
    return BLASCompute::F32;
  case Compute::TF32:
    return BLASCompute::FastTF32;
  case Compute::F64:
    return BLASCompute::F64;
  }
  return BLASCompute::F32;
}

/// Returns cuBLASLt's epilogue for a fused operation. Operands swap (BLASLt.h),
/// so the library's A is the step's b.
static BLASEpilogue toBLAS(FusedKind kind) {
  switch (kind) {
  case FusedKind::Bias:
    return BLASEpilogue::Bias;
  case FusedKind::ReluBias:
    return BLASEpilogue::ReluBias;
  case FusedKind::ReluAuxBias:
    return BLASEpilogue::ReluAuxBias;
  case FusedKind::DRelu:
    return BLASEpilogue::DRelu;
  case FusedKind::DReluBGrad:
    return BLASEpilogue::DReluBGrad;
  case FusedKind::BGradA:
    return BLASEpilogue::BGradB;
  case FusedKind::BGradB:
    return BLASEpilogue::BGradA;
  }
  return BLASEpilogue::Default;
}

//===----------------------------------------------------------------------===//
// The library
//===----------------------------------------------------------------------===//

StatusOr<std::unique_ptr<BLASLt>> BLASLt::open(Workspace &workspace) {
  StatusOr<std::unique_ptr<BLASLt>> newest = open(workspace, kBLASLtNames);
  if (newest.ok())
    return newest;
  // A driver for CUDA 12 loads cuBLASLt 13, but cannot create its handle.
  StatusOr<std::unique_ptr<BLASLt>> older = open(workspace, kOlderBLASLtNames);
  return older.ok() ? std::move(older) : std::move(newest);
}

StatusOr<std::unique_ptr<BLASLt>> BLASLt::open(Workspace &workspace,
                                               LibraryNames names) {
  StatusOr<SharedLibrary> library =
      SharedLibrary::open(names, "cuBLASLt of CUDA 12 or 13");
  if (!library.ok())
    return library.status();
  std::unique_ptr<BLASLt> blas(new BLASLt(workspace));
#define MPC_CUDA_FIND(result, member, symbol, ...)                             \
  if (Status status = library->find(#symbol, blas->call.member); !status.ok()) \
    return status;
  MPC_CUDA_BLASLT_FUNCTIONS(MPC_CUDA_FIND)
#undef MPC_CUDA_FIND
  Status status =
      blas->check(blas->call.create(&blas->handle), "create a handle");
  if (!status.ok())
    return status;
  if (status = workspace.reserve(kWorkspaceBytes); !status.ok())
    return status;
  return blas;
}

BLASLt::~BLASLt() {
  if (handle)
    (void)call.destroy(handle);
}

Status BLASLt::check(BLASStatus status, const char *what) const {
  if (status == BLASStatus::Success)
    return Status();
  return Status(StatusCode::Device,
                "cuBLASLt " + std::to_string(call.getVersion()) + " cannot " +
                    what + ": " + describe(status));
}

std::string BLASLt::describe(BLASStatus status) const {
  const char *text = call.getStatusString(status);
  return std::string(text ? text : "unknown status") + " (" +
         std::to_string(static_cast<int>(status)) + ")";
}

StatusOr<std::unique_ptr<CUDAStep>>
BLASLt::prepare(const MatMulStep &step, const MatMulAddresses &operands) {
  std::vector<std::unique_ptr<CUDAStep>> prepared;
  for (const ProductPart &part : splitProduct(step, operands)) {
    auto next = std::make_unique<BLASMatMulStep>(*this, part);
    if (Status status = next->prepare(); !status.ok())
      return status;
    prepared.push_back(std::move(next));
  }
  if (prepared.size() == 1)
    return std::move(prepared.front());
  return std::unique_ptr<CUDAStep>(
      std::make_unique<SplitMatMulStep>(std::move(prepared)));
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

static DeviceOperand advance(const DeviceOperand &operand, int64_t elements) {
  auto *bytes = static_cast<char *>(operand.data);
  return {operand.type,
          bytes + elements * static_cast<int64_t>(sizeOf(operand.type))};
}

/// Fills `calls`, with a library call for each index of the outer batch axes,
/// since the library supports a single batch axis. Example: attention reads its
/// heads from [samples, tokens, heads * 64]. Heads are 64 elements apart and
/// are the library's batch; samples are an outer axis, so each sample is one
/// call.
void BLASMatMulStep::findCalls() {
  const OuterAxes &outer = step.outer;
  int64_t count = countMatrices(step) / step.batch;
  for (int64_t index = 0; index < count; ++index) {
    auto offsetOf = [&](const std::vector<int64_t> &strides) {
      return offsetOfMatrix(outer, strides, index * step.batch, step.batch, 0);
    };
    calls.push_back({advance(operands.a, step.offsetA + offsetOf(outer.a)),
                     advance(operands.b, step.offsetB + offsetOf(outer.b)),
                     advance(operands.c, offsetOf(outer.c))});
  }
}

/// Returns the largest alignment, in bytes, that an operand's addresses have in
/// all calls.
uint32_t BLASMatMulStep::getAlignment(DeviceOperand Call::*operand) const {
  uint32_t alignment = kFullAlignment;
  for (const Call &call : calls)
    alignment = std::min(alignment, (call.*operand).alignment(kFullAlignment));
  return alignment;
}

//===----------------------------------------------------------------------===//
// Description of a product
//===----------------------------------------------------------------------===//

BLASMatMulStep::~BLASMatMulStep() {
  for (BLASLayout layout : {aLayout, bLayout, cLayout})
    if (layout)
      (void)library.call.layoutDestroy(layout);
  if (product)
    (void)library.call.matMulDestroy(product);
}

template <typename Value>
Status BLASMatMulStep::set(BLASMatMulAttribute attribute, const Value &value) {
  return library.check(library.call.matMulSetAttribute(product, attribute,
                                                       &value, sizeof(value)),
                       "describe a matrix product");
}

template <typename Value>
Status BLASMatMulStep::set(BLASPreference preference,
                           BLASPreferenceAttribute attribute,
                           const Value &value) {
  return library.check(library.call.preferenceSetAttribute(
                           preference, attribute, &value, sizeof(value)),
                       "describe what an algorithm may do");
}

Status BLASMatMulStep::createLayout(BLASLayout &layout, DType type,
                                    const MatrixShape &matrix) {
  // `ld` is the distance between columns, as BLAS counts it.
  Status status = library.check(
      library.call.layoutCreate(&layout, toBLAS(type), matrix.rows,
                                matrix.columns, matrix.ld),
      "describe a matrix");
  if (!status.ok() || step.batch == 1)
    return status;
  // A batch is a number of matrices at a fixed distance.
  auto count = static_cast<int32_t>(step.batch);
  status = library.check(
      library.call.layoutSetAttribute(layout, BLASLayoutAttribute::BatchCount,
                                      &count, sizeof(count)),
      "describe a batch");
  if (!status.ok())
    return status;
  return library.check(library.call.layoutSetAttribute(
                           layout, BLASLayoutAttribute::StridedBatchOffset,
                           &matrix.stride, sizeof(matrix.stride)),
                       "describe a batch");
}

/// Describes the matrices a, b and c to the library. A row in memory is a
/// column for the library, which is column-major.
Status BLASMatMulStep::describeOperands() {
  auto transposed = [](int64_t rows, int64_t columns, int64_t ld,
                       int64_t stride) {
    return MatrixShape{static_cast<uint64_t>(columns),
                       static_cast<uint64_t>(rows), ld, stride};
  };
  MatrixShape a =
      transposed(step.transA ? step.k : step.m, step.transA ? step.m : step.k,
                 step.lda, step.strideA);
  MatrixShape b =
      transposed(step.transB ? step.n : step.k, step.transB ? step.k : step.n,
                 step.ldb, step.strideB);
  MatrixShape c = transposed(step.m, step.n, step.ldc, step.strideC);
  Status status = createLayout(aLayout, operands.a.type, a);
  if (status.ok())
    status = createLayout(bLayout, operands.b.type, b);
  if (status.ok())
    status = createLayout(cLayout, operands.c.type, c);
  return status;
}

Status BLASMatMulStep::describeProduct() {
  alpha64 = step.alpha;
  alpha32 = static_cast<float>(step.alpha);
  BLASType scale = step.compute == Compute::F64 ? BLASType::F64 : BLASType::F32;
  Status status = library.check(
      library.call.matMulCreate(&product, toBLAS(step.compute), scale),
      "describe a matrix product");
  auto operation = [](bool transposed) {
    return transposed ? BLASOperation::Transpose : BLASOperation::None;
  };
  if (status.ok())
    status = set(BLASMatMulAttribute::TransA, operation(step.transB));
  if (status.ok())
    status = set(BLASMatMulAttribute::TransB, operation(step.transA));
  if (status.ok() && step.fused)
    status = describeEpilogue(*step.fused);
  return status;
}

Status BLASMatMulStep::describeEpilogue(const Fused &fused) {
  Status status = set(BLASMatMulAttribute::Epilogue, toBLAS(fused.kind));
  // cuBLASLt has a single pointer for a bias and for a bias gradient; no
  // epilogue has both.
  const DeviceOperand &vector = fused.bias ? operands.bias : operands.biasGrad;
  if (status.ok() && (fused.bias || fused.biasGrad))
    status = set(BLASMatMulAttribute::BiasPointer, vector.data);
  if (status.ok() && (fused.bias || fused.biasGrad))
    status = set(BLASMatMulAttribute::BiasDataType, toBLAS(vector.type));
  if (status.ok() && fused.aux)
    status = set(BLASMatMulAttribute::EpilogueAuxPointer, operands.aux.data);
  if (status.ok() && fused.aux)
    status = set(BLASMatMulAttribute::EpilogueAuxLd, auxRowBits(step.n));
  return status;
}

//===----------------------------------------------------------------------===//
// Choice of an algorithm
//===----------------------------------------------------------------------===//

Status BLASMatMulStep::setPreferences(BLASPreference preference) {
  using Attribute = BLASPreferenceAttribute;
  Status status =
      set(preference, Attribute::MaxWorkspaceBytes, uint64_t(kWorkspaceBytes));
  // If an algorithm splits the depth, it must add the partial sums in fp32 and
  // in a fixed order.
  if (status.ok())
    status = set(preference, Attribute::ReductionSchemeMask,
                 BLASReduction::ComputeType);
  const std::pair<Attribute, DeviceOperand Call::*> pointers[] = {
      {Attribute::MinAlignmentA, &Call::b},
      {Attribute::MinAlignmentB, &Call::a},
      {Attribute::MinAlignmentC, &Call::c},
      {Attribute::MinAlignmentD, &Call::c}};
  for (const auto &[attribute, operand] : pointers)
    if (status.ok())
      status = set(preference, attribute, getAlignment(operand));
  return status;
}

static std::string describeStep(const MatMulStep &step,
                                const MatMulAddresses &operands) {
  auto name = [](const DeviceOperand &operand) {
    return std::string(nameOf(operand.type));
  };
  return name(operands.a) + " x " + name(operands.b) + " to " +
         name(operands.c) + ", " +
         (step.outer.extents.empty()
              ? ""
              : std::to_string(countMatrices(step) / step.batch) + " times ") +
         std::to_string(step.batch) + " of " + std::to_string(step.m) + "x" +
         std::to_string(step.n) + "x" + std::to_string(step.k) +
         (step.transA ? ", a transposed" : "") +
         (step.transB ? ", b transposed" : "") +
         (step.fused ? ", with an epilogue" : "");
}

Status BLASMatMulStep::chooseAlgorithm() {
  // The preferences exclude algorithms that sum in a varying order, and
  // algorithms that need more workspace than kWorkspaceBytes.
  BLASPreference preference = nullptr;
  Status status = library.check(library.call.preferenceCreate(&preference),
                                "describe what an algorithm may do");
  if (!status.ok())
    return status;
  BLASHeuristic found[kCandidates] = {};
  int count = 0;
  BLASStatus asked = BLASStatus::Success;
  status = setPreferences(preference);
  if (status.ok())
    asked = library.call.getHeuristic(library.handle, product, bLayout, aLayout,
                                      cLayout, cLayout, preference, kCandidates,
                                      found, &count);
  (void)library.call.preferenceDestroy(preference);
  if (!status.ok())
    return status;
  // Take the first proposal within the preferences.
  for (int i = 0; asked == BLASStatus::Success && i < count; ++i) {
    if (found[i].state != BLASStatus::Success ||
        found[i].workspaceBytes > kWorkspaceBytes)
      continue;
    algorithm = found[i].algorithm;
    workspaceBytes = found[i].workspaceBytes;
    logChoice("cuBLASLt proposal " + std::to_string(i) + " of " +
              std::to_string(count) + ", workspace " +
              std::to_string(workspaceBytes) +
              " bytes: " + describeStep(step, operands));
    return Status();
  }
  return Status(
      StatusCode::Device,
      "cuBLASLt " + std::to_string(library.call.getVersion()) +
          " has no deterministic algorithm for " +
          describeStep(step, operands) +
          (asked == BLASStatus::Success ? "" : ": " + library.describe(asked)) +
          (step.fused ? "; compile the model with --contractions "
                        "bare, for products without epilogues"
                      : "") +
          kCPUAlternative);
}

Status BLASMatMulStep::prepare() {
  findCalls();
  Status status = describeOperands();
  if (status.ok())
    status = describeProduct();
  if (status.ok())
    status = chooseAlgorithm();
  return status;
}

Status BLASMatMulStep::enqueue(Stream stream) {
  for (const Call &call : calls)
    if (Status status = enqueue(call, stream); !status.ok())
      return status;
  return Status();
}

Status BLASMatMulStep::enqueue(const Call &call, Stream stream) {
  bool wide = step.compute == Compute::F64;
  const void *alpha = wide ? static_cast<const void *>(&alpha64) : &alpha32;
  const void *beta = wide ? static_cast<const void *>(&beta64) : &beta32;
  return library.check(
      library.call.matMul(
          library.handle, product, alpha, call.b.data, bLayout, call.a.data,
          aLayout, beta, call.c.data, cLayout, call.c.data, cLayout, &algorithm,
          toHostPointer(library.workspace.take()), workspaceBytes, stream),
      "multiply");
}

} // namespace mpc::runtime::cuda
