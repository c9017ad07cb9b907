// Checks a plan's structs against each other: every index in range, every
// buffer inside its memory, every operand as large as its step reads it. All
// arithmetic on numbers from the file is checked for overflow.
//
// What a kernel does inside the buffers it is given is the compiler's
// responsibility and cannot be checked here.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/ArtifactFormat.h"
#include "runtime/Plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

namespace mpc::runtime {
namespace {

constexpr std::array<std::string_view, 8> kStateRoles = {
    "parameter",  "frozen",  "optimizer_state", "statistic",
    "loss_scale", "counter", "accumulator",     "derived"};
constexpr std::array<std::string_view, 3> kInputRoles = {"data", "label",
                                                         "scalar"};
constexpr std::array<std::string_view, 8> kOutputRoles = {
    "loss",      "sample_loss", "prediction", "correct",
    "grad_norm", "finite",      "loss_scale", "output"};

/// Extents of contractions stay below this, so that products of two of them
/// and an element size fit 64 bits, and the library's 32-bit fields hold them.
constexpr int64_t kMaxExtent = (int64_t(1) << 31) - 1;
/// Axes of a batch; no model has tensors of so many.
constexpr size_t kMaxOuterAxes = 64;

/// Of a block, on any GPU.
constexpr int64_t kMaxThreads = 1024;
/// What a block of any GPU can have at most (Hopper: 227 KiB).
constexpr int64_t kMaxSharedBytes = 227 * 1024;
/// Of a worker on a CPU: more is no scratch, and is to be in the arena.
constexpr int64_t kMaxScratchBytes = 16 << 20;

/// A number that remembers whether computing it overflowed.
struct Checked {
  int64_t value = 0;
  bool overflowed = false;

  Checked(int64_t value) : value(value) {}
  Checked operator*(Checked other) const {
    Checked result = 0;
    result.overflowed =
        __builtin_mul_overflow(value, other.value, &result.value) ||
        overflowed || other.overflowed;
    return result;
  }
  Checked operator+(Checked other) const {
    Checked result = 0;
    result.overflowed =
        __builtin_add_overflow(value, other.value, &result.value) ||
        overflowed || other.overflowed;
    return result;
  }
  bool operator<=(int64_t limit) const { return !overflowed && value <= limit; }
  bool operator==(int64_t other) const { return !overflowed && value == other; }
};

/// A matrix of rows x columns with leading dimension `ld`, once for every index
/// of `axes`, each an extent and the elements between neighbours.
struct Matrix {
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

class PlanVerifier {
public:
  PlanVerifier(const Plan &plan, int64_t dataBytes)
      : plan(plan), dataBytes(dataBytes) {}

  Status verify();

private:
  void fail(const std::string &what) {
    if (failure.ok())
      failure = Status(StatusCode::InvalidInput,
                       "invalid plan: " + where + ": " + what);
  }
  /// Fails with `what` unless `condition` holds; gives the condition back.
  bool expect(bool condition, const char *what) {
    if (!condition)
      fail(what);
    return condition;
  }

  void verifyState(const StateVariable &state);
  void verifyFunction(const Function &function);
  std::optional<int64_t> findLimit(const Buffer &buffer);
  void verifyBuffer(const Buffer &buffer);
  bool verifyMoving(const ForStep &step);
  template <size_t N>
  void verifyValues(const std::vector<FunctionValue> &values,
                    const std::array<std::string_view, N> &roles);
  void verifySteps(const std::vector<Step> &steps);

  void verifyStep(const LaunchStep &step);
  void verifyStep(const MatMulStep &step);
  void verifyStep(const ConvStep &step);
  void verifyStep(const CopyStep &step);
  void verifyStep(const IfStep &step);
  void verifyStep(const ForStep &step);

  void verifyRows(const StridedRows &strided, const Buffer &src,
                  const Buffer &dst);
  bool verifyArgs(const std::vector<size_t> &args);
  bool verifyEpilogue(const std::optional<Epilogue> &epilogue,
                      const std::optional<size_t> &written);
  const Buffer *contractionOperand(size_t index, Compute compute);
  bool verifyGPUTypes(Compute compute, const Buffer &first,
                      const Buffer &second, const Buffer &result);
  bool verifyTarget(const MatMulStep &step);
  void verifyFused(const MatMulStep &step, const Buffer &c);
  void verifyFusedOperand(const std::optional<size_t> &index, bool wanted,
                          const char *name, DType type, Checked elements);
  bool verifyWritten(const Buffer &written,
                     std::initializer_list<const Buffer *> read);
  bool verifyOuter(const MatMulStep &step);
  void verifyMatrix(const Buffer &buffer, const char *name,
                    const Matrix &matrix);
  void verifyApart(const Matrix &matrix);
  bool verifyGeometry(const ConvStep &step);

  const Plan &plan;
  int64_t dataBytes;
  const Function *function = nullptr;
  /// How far the loops around a step move buffers from where they start: the
  /// lowest offset and the highest.
  std::map<size_t, std::pair<int64_t, int64_t>> reach;
  std::string where = "plan";
  Status failure;
};

} // namespace

template <size_t N>
static bool contains(const std::array<std::string_view, N> &list,
                     std::string_view value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

static bool isContractionType(DType type, Compute compute) {
  if (compute == Compute::F64)
    return type == DType::F64;
  return type == DType::F32 || type == DType::BF16 || type == DType::F16;
}

static bool overlap(const Buffer &a, const Buffer &b) {
  return a.space == b.space && a.index == b.index &&
         a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

static Checked product(const std::vector<int64_t> &extents) {
  Checked result = 1;
  for (int64_t extent : extents)
    result = result * extent;
  return result;
}

static bool allWithin(const std::vector<int64_t> &values, int64_t low,
                      int64_t high) {
  return std::all_of(values.begin(), values.end(), [&](int64_t value) {
    return value >= low && value <= high;
  });
}

//===----------------------------------------------------------------------===//
// State, buffers, inputs and outputs
//===----------------------------------------------------------------------===//

void PlanVerifier::verifyState(const StateVariable &state) {
  where = "state '" + state.name + "'";
  if (!contains(kStateRoles, state.role))
    fail("unknown role '" + state.role + "'");
  if (!state.data)
    return;
  const DataRange &data = *state.data;
  if (!expect(data.offset >= 0 && data.offset % format::kDataAlignment == 0,
              "its initial value is not aligned") ||
      !expect(data.bytes == state.bytes,
              "its initial value has another size than its type and shape"))
    return;
  expect(data.offset <= dataBytes && data.bytes <= dataBytes - data.offset,
         "its initial value lies outside the data section");
}

/// The bytes of the memory that a buffer lies in.
std::optional<int64_t> PlanVerifier::findLimit(const Buffer &buffer) {
  switch (buffer.space) {
  case Space::Arena:
    return function->arenaBytes;
  case Space::Constant:
    return plan.constantBytes;
  case Space::State:
    if (!expect(buffer.index < plan.state.size(), "no such state variable"))
      return std::nullopt;
    return plan.state[buffer.index].bytes;
  case Space::Input:
    // Inputs were checked before; the buffer an input names has its full size.
    if (!expect(buffer.index < function->inputs.size(), "no such input"))
      return std::nullopt;
    return function->buffers[function->inputs[buffer.index].buffer].bytes;
  }
  return std::nullopt;
}

void PlanVerifier::verifyBuffer(const Buffer &buffer) {
  std::optional<int64_t> limit = findLimit(buffer);
  if (!limit)
    return;
  if (!expect(buffer.offset >= 0 && buffer.offset % sizeOf(buffer.type) == 0,
              "its offset is negative or not aligned to its type"))
    return;
  expect(buffer.offset <= *limit && buffer.bytes <= *limit - buffer.offset,
         "it reaches outside its memory");
}

template <size_t N>
void PlanVerifier::verifyValues(const std::vector<FunctionValue> &values,
                                const std::array<std::string_view, N> &roles) {
  std::set<std::string_view> names;
  for (const FunctionValue &value : values) {
    if (!names.insert(value.name).second)
      fail("'" + value.name + "' is there twice");
    if (!contains(roles, value.role))
      fail("'" + value.name + "' has the unknown role '" + value.role + "'");
    if (value.buffer >= function->buffers.size())
      fail("'" + value.name + "' names a buffer that does not exist");
  }
}

void PlanVerifier::verifyFunction(const Function &checked) {
  function = &checked;
  std::string prefix = "function '" + checked.name + "'";
  where = prefix + ", inputs";
  expect(checked.arenaBytes >= 0, "the arena's size is negative");
  verifyValues(checked.inputs, kInputRoles);
  for (size_t i = 0; i < checked.inputs.size() && failure.ok(); ++i) {
    const Buffer &buffer = checked.buffers[checked.inputs[i].buffer];
    expect(buffer.space == Space::Input && buffer.index == i &&
               buffer.offset == 0,
           "an input's buffer is not the memory of that input");
    const std::optional<int64_t> &size = checked.inputs[i].indexSize;
    expect(!size || (*size >= 0 &&
                     (buffer.type == DType::I32 || buffer.type == DType::I64)),
           "an index size is not that of indices");
  }
  where = prefix + ", outputs";
  verifyValues(checked.outputs, kOutputRoles);
  for (size_t i = 0; i < checked.buffers.size() && failure.ok(); ++i) {
    where = prefix + ", buffer " + std::to_string(i);
    verifyBuffer(checked.buffers[i]);
  }
  if (failure.ok())
    verifySteps(checked.steps);
}

Status PlanVerifier::verify() {
  expect(plan.constantBytes >= 0 && plan.constantBytes <= dataBytes,
         "there are more constants than data");
  std::set<std::string_view> names;
  Checked total = 0;
  for (const StateVariable &state : plan.state) {
    verifyState(state);
    total = total + state.bytes;
    expect(!total.overflowed, "the sizes of all state add up to no number");
    if (!names.insert(state.name).second)
      fail("there are two of that name");
  }
  for (const auto &[name, checked] : plan.functions)
    if (failure.ok())
      verifyFunction(checked);
  return failure;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

void PlanVerifier::verifySteps(const std::vector<Step> &steps) {
  for (size_t i = 0; i < steps.size() && failure.ok(); ++i) {
    where = "function '" + function->name + "', step " + std::to_string(i) +
            " ('" + steps[i].name + "')";
    std::visit([&](const auto &step) { verifyStep(step); }, steps[i].op);
  }
}

bool PlanVerifier::verifyArgs(const std::vector<size_t> &args) {
  size_t count = function->buffers.size();
  return expect(std::all_of(args.begin(), args.end(),
                            [&](size_t arg) { return arg < count; }),
                "an argument names a buffer that does not exist");
}

void PlanVerifier::verifyStep(const LaunchStep &step) {
  expect(!step.kernel.empty(), "the kernel has no name");
  if (!expect(step.extent >= 0 && step.grain >= 1,
              "the extent is negative or the grain is not positive") ||
      !verifyArgs(step.args))
    return;
  if (!plan.target.isGPU()) {
    // The device adds the two to cut the extent into slices.
    expect(!(Checked(step.extent) + step.grain).overflowed,
           "extent and grain add up to no number");
    expect(step.threads == 0 && step.sharedBytes == 0,
           "threads and shared memory are for GPUs alone");
    expect(step.scratchBytes >= 0 && step.scratchBytes <= kMaxScratchBytes,
           "a worker cannot have that much scratch memory");
    return;
  }
  expect(step.threads >= 1 && step.threads <= kMaxThreads,
         "a block has between 1 and 1024 threads");
  expect(step.scratchBytes == 0, "scratch memory is for CPUs alone");
  expect(step.sharedBytes >= 0 && step.sharedBytes <= kMaxSharedBytes,
         "a block cannot have that much shared memory");
  expect(step.extent / step.grain < kMaxExtent, "there are too many blocks");
}

/// A result goes either to a buffer or through an epilogue.
bool PlanVerifier::verifyEpilogue(const std::optional<Epilogue> &epilogue,
                                  const std::optional<size_t> &written) {
  if (!expect(epilogue.has_value() != written.has_value(),
              "it needs either a result buffer or an epilogue") ||
      !expect(!epilogue || !plan.target.isGPU(),
              "a GPU's library calls no epilogue"))
    return false;
  return !epilogue || (expect(!epilogue->kernel.empty(),
                              "the epilogue's kernel has no name") &&
                       verifyArgs(epilogue->args));
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

/// Each outer axis has a stride of every operand. A GPU's library has none.
bool PlanVerifier::verifyOuter(const MatMulStep &step) {
  const OuterAxes &outer = step.outer;
  size_t count = outer.extents.size();
  return expect(outer.a.size() == count && outer.b.size() == count &&
                    outer.c.size() == count,
                "outer axes have other numbers of strides") &&
         expect(count <= kMaxOuterAxes, "it has too many outer axes") &&
         expect(count == 0 || !plan.target.isGPU(),
                "a GPU's library takes a batch of one axis") &&
         expect(allWithin(outer.extents, 1, kMaxExtent),
                "an extent is out of range");
}

/// All elements of all matrices are elements of the buffer.
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
    return fail(std::string("the strides of '") + name + "' are impossible");
  if (!(last <= numElements(buffer.shape)))
    fail(std::string("'") + name +
         "' is smaller than the step reads it: " + toString(buffer.shape));
}

/// No two elements of the result are one: along every axis, from the closest
/// neighbours on, the next index is beyond all that the axes before reach.
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

/// The types that a GPU's libraries multiply.
bool PlanVerifier::verifyGPUTypes(Compute compute, const Buffer &first,
                                  const Buffer &second, const Buffer &result) {
  return expect(first.type == second.type,
                "a GPU's library takes operands of one type") &&
         expect(result.type == first.type || result.type == DType::F32,
                "the result has neither the operands' type nor f32") &&
         expect(compute != Compute::TF32 || first.type == DType::F32,
                "tf32 is for f32 operands");
}

/// What a GPU's library decides itself, and a CPU's cannot do.
bool PlanVerifier::verifyTarget(const MatMulStep &step) {
  if (plan.target.isGPU())
    return expect(step.tileM == 0 && step.tileN == 0,
                  "a GPU's library chooses its tiles");
  return expect(step.compute == Compute::F32 && !step.fused,
                "compute and fused are for GPUs alone") &&
         expect(allWithin({step.tileM, step.tileN}, 1, kMaxExtent),
                "a tile size is out of range");
}

/// An operand of the library's tail is there exactly where its kind wants it.
void PlanVerifier::verifyFusedOperand(const std::optional<size_t> &index,
                                      bool wanted, const char *name, DType type,
                                      Checked elements) {
  std::string operand = std::string("'") + name + "'";
  if (index.has_value() != wanted)
    return fail(operand + (wanted ? " is missing" : " is not of this kind"));
  if (!wanted)
    return;
  if (*index >= function->buffers.size())
    return fail(operand + " names a buffer that does not exist");
  const Buffer &buffer = function->buffers[*index];
  if (buffer.type != type || !(elements == numElements(buffer.shape)))
    fail(operand + " has another type or size than the product: " +
         std::string(nameOf(buffer.type)) + " " + toString(buffer.shape));
}

void PlanVerifier::verifyFused(const MatMulStep &step, const Buffer &c) {
  using Kind = Fused::Kind;
  const Fused &fused = *step.fused;
  Kind kind = fused.kind;
  expect(step.batches() == 1, "a fused product has no batches");
  // The library sums an operand while it reads it, in one order alone.
  expect(kind != Kind::BGradA || step.transA,
         "'bgrad_a' sums an a that is transposed");
  expect(kind != Kind::BGradB || !step.transB,
         "'bgrad_b' sums a b that is not transposed");
  verifyFusedOperand(fused.bias,
                     kind == Kind::Bias || kind == Kind::ReluBias ||
                         kind == Kind::ReluAuxBias,
                     "bias", c.type, step.n);
  verifyFusedOperand(
      fused.biasGrad,
      kind == Kind::DReluBGrad || kind == Kind::BGradA || kind == Kind::BGradB,
      "bias_grad", c.type, kind == Kind::BGradA ? step.m : step.n);
  bool writesAux = kind == Kind::ReluAuxBias;
  verifyFusedOperand(
      fused.aux, writesAux || kind == Kind::DRelu || kind == Kind::DReluBGrad,
      "aux", DType::U8, Checked(step.m) * (Fused::auxRowBits(step.n) / 8));
  if (!failure.ok())
    return;
  // Nothing that is written may overlap anything else of the step.
  std::vector<size_t> read = {step.a, step.b}, written = {*step.c};
  if (fused.bias)
    read.push_back(*fused.bias);
  if (fused.aux)
    (writesAux ? written : read).push_back(*fused.aux);
  if (fused.biasGrad)
    written.push_back(*fused.biasGrad);
  for (size_t i = 0; i < written.size(); ++i) {
    const Buffer &result = function->buffers[written[i]];
    for (size_t other : read)
      verifyWritten(result, {&function->buffers[other]});
    for (size_t j = 0; j < i; ++j)
      verifyWritten(result, {&function->buffers[written[j]]});
  }
  for (const LaunchStep &launch : fused.unfused)
    verifyStep(launch);
}

void PlanVerifier::verifyStep(const MatMulStep &step) {
  const Buffer *a = contractionOperand(step.a, step.compute);
  const Buffer *b = contractionOperand(step.b, step.compute);
  if (!a || !b || !verifyEpilogue(step.epilogue, step.c) || !verifyTarget(step))
    return;
  if (!expect(allWithin({step.batch, step.m, step.n, step.k}, 1, kMaxExtent),
              "an extent is out of range"))
    return;
  if (!verifyOuter(step))
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
  if (!step.c)
    return;
  const Buffer *c = contractionOperand(*step.c, step.compute);
  if (!c || !verifyWritten(*c, {a, b}))
    return;
  if (plan.target.isGPU() && !verifyGPUTypes(step.compute, *a, *b, *c))
    return;
  Matrix results(step, 0, step.m, step.n, step.ldc, step.strideC, step.outer.c);
  verifyMatrix(*c, "c", results);
  verifyApart(results);
  if (step.fused)
    verifyFused(step, *c);
}

bool PlanVerifier::verifyGeometry(const ConvStep &step) {
  size_t rank = step.inSpatial.size();
  for (const auto *list : {&step.outSpatial, &step.kernel, &step.strides,
                           &step.dilations, &step.padsBegin, &step.padsEnd})
    if (!expect(list->size() == rank && rank >= 1 && rank <= 3,
                "spatial lists differ in length, or are not 1 to 3 long"))
      return false;
  for (const auto *list : {&step.inSpatial, &step.outSpatial, &step.kernel,
                           &step.strides, &step.dilations})
    if (!expect(allWithin(*list, 1, kMaxExtent), "an extent is out of range"))
      return false;
  if (!expect(allWithin(step.padsBegin, 0, kMaxExtent) &&
                  allWithin(step.padsEnd, 0, kMaxExtent),
              "padding is out of range") ||
      !expect(allWithin(
                  {step.batch, step.groups, step.inChannels, step.outChannels},
                  1, kMaxExtent) &&
                  step.inChannels % step.groups == 0 &&
                  step.outChannels % step.groups == 0,
              "channels are out of range or not a multiple of the groups"))
    return false;
  for (size_t i = 0; i < rank; ++i) {
    // No overflow: all of these are below 2^31.
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

void PlanVerifier::verifyStep(const ConvStep &step) {
  const std::optional<size_t> &written = step.kind == ConvKind::Forward ? step.y
                                         : step.kind == ConvKind::InputGrad
                                             ? step.x
                                             : step.w;
  expect(step.kind != ConvKind::WeightGrad || !step.epilogue,
         "a weight gradient takes no epilogue");
  expect(plan.target.isGPU() || (step.compute == Compute::F32 &&
                                 step.filterLayout == FilterLayout::OIHW),
         "compute and filter layouts are for GPUs alone");
  if (!verifyEpilogue(step.epilogue, written) || !verifyGeometry(step))
    return;
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
                  "' has another size than the convolution: " +
                  toString(buffer->shape));
  }
  if (!written)
    return;
  const Buffer &result = function->buffers[*written];
  std::vector<const Buffer *> read;
  for (const auto &operand : operands)
    if (&operand.index != &written)
      read.push_back(&function->buffers[*operand.index]);
  // Unlike products, convolutions of 16-bit operands have no wider results
  // there.
  if (verifyWritten(result, {read[0], read[1]}) && plan.target.isGPU() &&
      verifyGPUTypes(step.compute, *read[0], *read[1], result))
    expect(result.type == read[0]->type,
           "a GPU's library convolves in one type");
}

void PlanVerifier::verifyStep(const CopyStep &step) {
  size_t count = function->buffers.size();
  if (!expect(step.src < count && step.dst < count,
              "it names a buffer that does not exist"))
    return;
  const Buffer &src = function->buffers[step.src];
  const Buffer &dst = function->buffers[step.dst];
  if (step.strided)
    verifyRows(*step.strided, src, dst);
  else
    expect(src.type == dst.type && src.bytes == dst.bytes,
           "source and destination differ in type or size");
  verifyWritten(dst, {&src});
}

void PlanVerifier::verifyRows(const StridedRows &strided, const Buffer &src,
                              const Buffer &dst) {
  expect(!plan.target.isGPU(), "a GPU copies whole buffers");
  expect(src.type == dst.type, "source and destination differ in type");
  const std::optional<RowTarget> &target = strided.target;
  if (!expect(strided.rows >= 1 && (target || dst.bytes % strided.rows == 0),
              "its rows do not fill the destination"))
    return;
  int64_t row = target ? target->rowBytes : dst.bytes / strided.rows;
  auto verifySide = [&](const Buffer &buffer, int64_t offset, int64_t stride,
                        const std::string &side) {
    if (row < 0 || offset < 0 || stride < row)
      return fail("its rows overlap or begin before the " + side);
    Checked end = Checked(strided.rows - 1) * stride + offset + row;
    if (!(end <= buffer.bytes))
      fail("its rows end behind the " + side);
  };
  verifySide(src, strided.offset, strided.stride, "source");
  if (target)
    verifySide(dst, target->offset, target->stride, "destination");
}

void PlanVerifier::verifyStep(const IfStep &step) {
  if (!expect(step.predicate < function->buffers.size(),
              "the predicate names a buffer that does not exist"))
    return;
  const Buffer &predicate = function->buffers[step.predicate];
  expect(predicate.type == DType::I1 && numElements(predicate.shape) == 1,
         "the predicate is not one i1");
  expect(!plan.target.isGPU(), "a GPU runs no conditional steps");
  verifySteps(step.then);
  verifySteps(step.otherwise);
}

/// All that the loop moves, in all iterations of it and of the loops around it,
/// stays inside its memory.
bool PlanVerifier::verifyMoving(const ForStep &step) {
  std::set<size_t> seen;
  for (const MovingBuffer &moving : step.moving) {
    if (!expect(moving.buffer < function->buffers.size(),
                "it moves a buffer that does not exist") ||
        !expect(seen.insert(moving.buffer).second,
                "it moves a buffer twice at once"))
      return false;
    const Buffer &buffer = function->buffers[moving.buffer];
    auto [entry, isNew] =
        reach.try_emplace(moving.buffer, buffer.offset, buffer.offset);
    auto &[low, high] = entry->second;
    Checked way = Checked(step.count - 1) * moving.bytes;
    Checked moved = way + (moving.bytes < 0 ? low : high);
    std::optional<int64_t> limit = findLimit(buffer);
    if (!expect(!moved.overflowed && moving.bytes % sizeOf(buffer.type) == 0,
                "it moves a buffer too far, or by half an element") ||
        !limit)
      return false;
    (moving.bytes < 0 ? low : high) = moved.value;
    if (!expect(low >= 0 && high <= *limit - buffer.bytes,
                "it moves a buffer out of its memory"))
      return false;
  }
  return true;
}

void PlanVerifier::verifyStep(const ForStep &step) {
  if (!expect(step.count >= 1 && step.count < kMaxExtent,
              "a loop has between 1 and 2^31 - 2 iterations"))
    return;
  const auto outside = reach;
  if (verifyMoving(step))
    verifySteps(step.steps);
  reach = outside;
}

//===----------------------------------------------------------------------===//
// Entry points
//===----------------------------------------------------------------------===//

Status verifyPlan(const Plan &plan, int64_t dataBytes) {
  return PlanVerifier(plan, dataBytes).verify();
}

} // namespace mpc::runtime
