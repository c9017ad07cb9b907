// Verifies the matrix products and convolutions of a plan.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/verify/PlanVerifier.h"

#include <algorithm>
#include <cmath>

namespace mpc::runtime {

/// Limit on the number of OuterAxes of a product, more than any model has.
static constexpr size_t kMaxOuterAxes = 64;

/// An operand or the result of a batched product: row-major matrices of rows x
/// columns with leading dimension `ld`. `axes` has the extent of each batch
/// axis, and the stride in elements.
struct PlanVerifier::Matrix {
  int64_t offset, rows, columns, ld;
  std::vector<std::pair<int64_t, int64_t>> axes;

  Matrix(const MatMulStep &step, int64_t offset, int64_t rows, int64_t columns,
         int64_t ld, int64_t stride, const std::vector<int64_t> &outer)
      : offset(offset), rows(rows), columns(columns),
        ld(ld), axes{{step.batch, stride}} {
    for (size_t i = 0; i < outer.size(); ++i)
      axes.emplace_back(step.outer.extents[i], outer[i]);
  }
};

static bool isContractionType(DType type, Compute compute) {
  if (compute == Compute::F64)
    return type == DType::F64;
  return type == DType::F32 || type == DType::BF16 || type == DType::F16;
}

static Checked product(const std::vector<int64_t> &extents) {
  Checked result = 1;
  for (int64_t extent : extents)
    result = result * extent;
  return result;
}

/// Checks for a result buffer or an epilogue, not both.
bool PlanVerifier::verifyEpilogue(const std::optional<Epilogue> &epilogue,
                                  const std::optional<size_t> &written) {
  return expect(epilogue.has_value() != written.has_value(),
                "it needs either a result buffer or an epilogue") &&
         expect(!epilogue || !plan.target.isGPU(),
                "a GPU's library calls no epilogue");
}

const Buffer *PlanVerifier::contractionOperand(size_t index, Compute compute) {
  if (!expect(index < function->buffers.size(),
              "an operand names a buffer that does not exist"))
    return nullptr;
  const Buffer &buffer = function->buffers[index];
  if (!isContractionType(buffer.type, compute)) {
    fail(std::string(compute == Compute::F64
                         ? "contractions in f64 take f64, not "
                         : "contractions take f32, bf16 and f16, not ") +
         std::string(nameOf(buffer.type)));
    return nullptr;
  }
  return &buffer;
}

bool PlanVerifier::verifyWritten(const Buffer &written,
                                 std::initializer_list<const Buffer *> read) {
  if (!expect(written.space == Space::Arena || written.space == Space::State,
              "it writes to a constant or an input"))
    return false;
  return expect(std::none_of(read.begin(), read.end(),
                             [&](const Buffer *buffer) {
                               return overlap(written, *buffer);
                             }),
                "its result overlaps an operand");
}

/// Checks that every outer axis of the batch has a stride for each of a, b and
/// c.
bool PlanVerifier::verifyOuter(const MatMulStep &step) {
  const OuterAxes &outer = step.outer;
  size_t count = outer.extents.size();
  return expect(outer.a.size() == count && outer.b.size() == count &&
                    outer.c.size() == count,
                "an operand has not one stride for each outer axis") &&
         expect(count <= kMaxOuterAxes, "it has too many outer axes");
}

/// Checks the reach of all matrices of the batch against `buffer`.
void PlanVerifier::verifyMatrix(const Buffer &buffer, const char *name,
                                const Matrix &matrix) {
  bool isPossible = matrix.offset >= 0 && matrix.ld >= matrix.columns &&
                    matrix.ld <= kMaxExtent;
  Checked last = Checked(matrix.offset) + Checked(matrix.rows - 1) * matrix.ld +
                 matrix.columns;
  for (auto [extent, stride] : matrix.axes) {
    isPossible &= stride >= 0;
    last = last + Checked(extent - 1) * stride;
  }
  if (!isPossible)
    return fail(std::string("the strides of '") + name +
                "' are impossible: expected a leading dimension of at least " +
                std::to_string(matrix.columns) +
                ", and no negative offset or stride, found " +
                std::to_string(matrix.ld) + " and offset " +
                std::to_string(matrix.offset));
  if (!(last <= numElements(buffer.shape)))
    fail(std::string("'") + name +
         "' is smaller than what the step reads, found " +
         toString(buffer.shape) +
         (last.overflowed
              ? std::string()
              : ", expected " + std::to_string(last.value) + " elements"));
}

/// Checks that no two elements of the result share memory. Visits axes by
/// ascending stride: each stride must be at least the number of elements that
/// all axes before span.
void PlanVerifier::verifyApart(const Matrix &matrix) {
  std::vector<std::pair<int64_t, int64_t>> axes; // stride, extent
  for (auto [extent, stride] : matrix.axes)
    axes.emplace_back(stride, extent);
  axes.emplace_back(matrix.ld, matrix.rows);
  std::sort(axes.begin(), axes.end());
  Checked reach = matrix.columns;
  for (auto [stride, extent] : axes) {
    if (extent == 1)
      continue;
    if (!expect(reach <= stride, "results of the batch overlap"))
      return;
    reach = reach + Checked(extent - 1) * stride;
  }
}

/// Checks the rows that a product passes to its epilogue. `matrix` must map
/// each of them to a different row of a dense result of `elements` elements.
void PlanVerifier::verifyRows(const Matrix &matrix, int64_t elements) {
  bool isPossible = matrix.ld >= matrix.columns && matrix.ld <= kMaxExtent &&
                    matrix.ld % matrix.columns == 0;
  Checked last = Checked(matrix.rows - 1) * matrix.ld + matrix.columns;
  for (auto [extent, stride] : matrix.axes) {
    isPossible &= stride >= 0 && stride % matrix.columns == 0;
    last = last + Checked(extent - 1) * stride;
  }
  if (expect(isPossible && last <= elements,
             "the strides of its epilogue's operands are impossible"))
    verifyApart(matrix);
}

/// Checks the types of operands and result for a GPU's libraries.
bool PlanVerifier::verifyGPUTypes(Compute compute, const Buffer &first,
                                  const Buffer &second, const Buffer &result) {
  return expect(first.type == second.type,
                "a GPU's library takes operands of one type") &&
         expect(result.type == first.type || result.type == DType::F32,
                "the result has neither the operands' type nor f32") &&
         expect(compute != Compute::TF32 || first.type == DType::F32,
                "tf32 is for f32 operands");
}

/// Checks that a product on a CPU fuses no operation but bgrad_a or bgrad_b,
/// which sum an operand.
bool PlanVerifier::verifyTarget(const MatMulStep &step) {
  return expect(
      plan.target.isGPU() || !step.fused ||
          (isSumOfOperand(step.fused->kind) && step.fused->unfused.empty()),
      "on a CPU, only sums of an operand can be fused");
}

/// Checks a buffer of the fused operation, such as the bias. `index` must be
/// set exactly if the operation takes the buffer (`wanted`). The buffer must
/// have this type and number of elements.
void PlanVerifier::verifyFusedOperand(const std::optional<size_t> &index,
                                      bool wanted, const char *name, DType type,
                                      Checked elements) {
  std::string operand = std::string("'") + name + "'";
  if (index.has_value() != wanted)
    return fail(operand + (wanted ? " is missing"
                                  : " does not belong to this kind "
                                    "of fused product"));
  if (!wanted)
    return;
  if (*index >= function->buffers.size())
    return fail(operand + " names a buffer that does not exist");
  const Buffer &buffer = function->buffers[*index];
  if (buffer.type != type || !(elements == numElements(buffer.shape)))
    fail(operand + " has another type or size than the product, found " +
         std::string(nameOf(buffer.type)) + " " + toString(buffer.shape) +
         ", expected " + std::to_string(elements.value) + " of " +
         std::string(nameOf(type)));
}

/// Checks the operation fused with a product. `c` is the buffer of the
/// result; null if an epilogue gets the result, which happens only on a CPU.
void PlanVerifier::verifyFused(const MatMulStep &step, const Buffer *c) {
  using Kind = FusedKind;
  const Fused &fused = *step.fused;
  Kind kind = fused.kind;
  expect(countMatrices(step) == 1, "a fused product has no batches");
  // The library sums an operand while it reads the operand, and can do so for
  // one memory layout only.
  expect(kind != Kind::BGradA || step.transA,
         "'bgrad_a' sums an a that is transposed");
  expect(kind != Kind::BGradB || !step.transB,
         "'bgrad_b' sums a b that is not transposed");
  const DType type = plan.target.isGPU() ? c->type : DType::F32;
  const FusedBuffers takes = getFusedBuffers(kind);
  verifyFusedOperand(fused.bias, takes.bias, "bias", type, step.n);
  verifyFusedOperand(fused.biasGrad, takes.biasGrad, "bias_grad", type,
                     kind == Kind::BGradA ? step.m : step.n);
  // aux is the mask of a relu: relu_aux_bias writes it, drelu reads it.
  verifyFusedOperand(fused.aux, takes.aux, "aux", DType::U8,
                     Checked(step.m) * (auxRowBits(step.n) / 8));
  if (!failure.ok())
    return;
  // A written buffer must overlap no other buffer of the step.
  std::vector<size_t> read = {step.a, step.b}, written;
  if (step.c)
    written.push_back(*step.c);
  if (fused.bias)
    read.push_back(*fused.bias);
  if (fused.aux)
    (takes.writesAux() ? written : read).push_back(*fused.aux);
  if (fused.biasGrad)
    written.push_back(*fused.biasGrad);
  for (size_t i = 0; i < written.size(); ++i) {
    const Buffer &result = function->buffers[written[i]];
    for (size_t other : read)
      verifyWritten(result, {&function->buffers[other]});
    for (size_t j = 0; j < i; ++j)
      verifyWritten(result, {&function->buffers[written[j]]});
  }
  // `unfused` has the kernels that replace the fused operation if the library
  // has no algorithm. They are verified like all launches.
  for (const LaunchStep &launch : fused.unfused)
    verifyStep(launch);
}

void PlanVerifier::verifyStep(const MatMulStep &step) {
  const Buffer *a = contractionOperand(step.a, step.compute);
  const Buffer *b = contractionOperand(step.b, step.compute);
  if (!a || !b || !verifyEpilogue(step.epilogue, step.c))
    return;
  // Check the extents first: negative extents could pass verifyMatrix.
  if (!verifyOuter(step) || !expectInRange(step) || !verifyTarget(step))
    return;
  Checked elements = Checked(step.batch) * step.m * step.n;
  for (int64_t extent : step.outer.extents)
    elements = elements * extent;
  if (!expect(elements <= INT64_MAX / 8, "the result is too large"))
    return;
  expect(std::isfinite(step.alpha), "alpha is not finite");
  verifyMatrix(*a, "a",
               {step, step.offsetA, step.transA ? step.k : step.m,
                step.transA ? step.m : step.k, step.lda, step.strideA,
                step.outer.a});
  verifyMatrix(*b, "b",
               {step, step.offsetB, step.transB ? step.n : step.k,
                step.transB ? step.k : step.n, step.ldb, step.strideB,
                step.outer.b});
  Matrix results(step, 0, step.m, step.n, step.ldc, step.strideC, step.outer.c);
  if (!step.c) {
    verifyRows(results, elements.value);
    verifyTiles(*step.epilogue, elements.value / step.n, step.n,
                {step.a, step.b});
    if (step.fused)
      verifyFused(step, nullptr);
    return;
  }
  // The library writes c while it reads a and b, so c must not overlap them.
  const Buffer *c = contractionOperand(*step.c, step.compute);
  if (!c || !verifyWritten(*c, {a, b}))
    return;
  if (plan.target.isGPU() && !verifyGPUTypes(step.compute, *a, *b, *c))
    return;
  verifyMatrix(*c, "c", results);
  verifyApart(results);
  if (step.fused)
    verifyFused(step, c);
}

bool PlanVerifier::verifyGeometry(const ConvStep &step) {
  size_t rank = step.inSpatial.size();
  for (const auto *list : {&step.outSpatial, &step.kernel, &step.strides,
                           &step.dilations, &step.padsBegin, &step.padsEnd})
    if (!expect(list->size() == rank && rank >= 1 && rank <= 3,
                "spatial lists differ in length, or are not 1 to 3 long"))
      return false;
  // expectInRange limits extents to 2^31 - 1, so a product of two extents fits
  // 64 bits.
  if (!expectInRange(step) ||
      !expect(step.inChannels % step.groups == 0 &&
                  step.outChannels % step.groups == 0,
              "channels are out of range or not a multiple of the groups"))
    return false;
  // The output must have one element per position of the kernel on the padded
  // input. Otherwise the library would read or write beyond a buffer.
  for (size_t i = 0; i < rank; ++i) {
    if (!expect(format::canStepThrough(step.inSpatial[i], step.padsBegin[i],
                                       step.padsEnd[i], step.strides[i]),
                "an input, its padding and the stride are too long together"))
      return false;
    // All factors are below 2^31, so nothing overflows.
    int64_t window = step.dilations[i] * (step.kernel[i] - 1) + 1;
    int64_t room =
        step.inSpatial[i] + step.padsBegin[i] + step.padsEnd[i] - window;
    if (!expect(room >= 0 && room / step.strides[i] + 1 == step.outSpatial[i],
                "the output's extent is not what input, kernel, strides, "
                "dilations and padding give"))
      return false;
  }
  return true;
}

/// Returns the operand that the convolution writes: y for forward, x for
/// input_grad, w for weight_grad.
static const std::optional<size_t> &writtenBy(const ConvStep &step) {
  return step.kind == ConvKind::Forward     ? step.y
         : step.kind == ConvKind::InputGrad ? step.x
                                            : step.w;
}

// Checks the epilogue of a convolution, which gets the whole result as one
// matrix with a row per pixel and a column per channel.
void PlanVerifier::verifyConvTiles(const ConvStep &step) {
  const bool isForward = step.kind == ConvKind::Forward;
  const Checked pixels = Checked(step.batch) *
                         product(isForward ? step.outSpatial : step.inSpatial);
  verifyTiles(*step.epilogue, pixels,
              isForward ? step.outChannels : step.inChannels,
              {*step.w, isForward ? *step.x : *step.y});
}

void PlanVerifier::verifyStep(const ConvStep &step) {
  const std::optional<size_t> &written = writtenBy(step);
  expect(step.kind != ConvKind::WeightGrad || !step.epilogue,
         "a weight gradient takes no epilogue");
  if (!verifyEpilogue(step.epilogue, written) || !verifyGeometry(step))
    return;
  // Compute the required sizes of the three operands with overflow checks.
  Checked inputs =
      Checked(step.batch) * step.inChannels * product(step.inSpatial);
  Checked outputs =
      Checked(step.batch) * step.outChannels * product(step.outSpatial);
  Checked weights = Checked(step.outChannels) *
                    (step.inChannels / step.groups) * product(step.kernel);
  struct {
    const std::optional<size_t> &index;
    Checked elements;
    const char *name;
  } operands[] = {
      {step.x, inputs, "x"}, {step.w, weights, "w"}, {step.y, outputs, "y"}};
  // Only the written operand may be null: an epilogue then gets the result in
  // tiles.
  for (const auto &operand : operands) {
    if (!operand.index) {
      if (&operand.index != &written)
        return fail(std::string("operand '") + operand.name + "' is missing");
      if (!expect(operand.elements <= INT64_MAX / 8, "the result is too large"))
        return;
      continue;
    }
    const Buffer *buffer = contractionOperand(*operand.index, step.compute);
    if (!buffer)
      return;
    if (!(operand.elements == numElements(buffer->shape)))
      return fail(std::string("operand '") + operand.name +
                  "' has another size than the convolution, found " +
                  toString(buffer->shape) + ", expected " +
                  std::to_string(operand.elements.value) + " elements");
  }
  if (step.epilogue)
    return verifyConvTiles(step);
  // The library reads the inputs while it writes the result, so they must not
  // overlap.
  const Buffer &result = function->buffers[*written];
  std::vector<const Buffer *> read;
  for (const auto &operand : operands)
    if (&operand.index != &written)
      read.push_back(&function->buffers[*operand.index]);
  // On a GPU, the result of a convolution has the operands' type. A product of
  // 16-bit operands may also have an f32 result.
  if (verifyWritten(result, {read[0], read[1]}) && plan.target.isGPU() &&
      verifyGPUTypes(step.compute, *read[0], *read[1], result))
    expect(result.type == read[0]->type,
           "a GPU's library convolves in one type");
}

} // namespace mpc::runtime
