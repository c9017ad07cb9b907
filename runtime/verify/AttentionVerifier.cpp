// Verifies the attention steps of a plan.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/AttentionOperands.h"
#include "runtime/verify/PlanVerifier.h"

#include <cmath>

namespace mpc::runtime {

static std::string quote(AttentionOperand operand) {
  return std::string("'") + nameOf(operand) + "'";
}

/// Checks each operand: present for the step's kind, of a type for GPUs, and
/// within the buffer.
bool PlanVerifier::verifyTypes(const AttentionStep &step) {
  for (AttentionOperand operand : kAttentionOperands) {
    const std::optional<size_t> index = bufferOf(step, operand);
    const bool isBias = operand == AttentionOperand::Bias;
    if (!isTaken(operand, step.kind) && index) {
      fail(quote(operand) + " belongs to a gradient");
      return false;
    }
    if (!index) {
      if (isTaken(operand, step.kind) && !isBias) {
        fail(quote(operand) + " is missing");
        return false;
      }
      continue;
    }
    if (*index >= function->buffers.size()) {
      fail(quote(operand) + " names a buffer that does not exist");
      return false;
    }
    const Buffer &buffer = function->buffers[*index];
    // The query is the first operand, so the buffer exists.
    const DType type = function->buffers[step.query].type;
    if (!expect(type == DType::F16 || type == DType::BF16,
                "attention takes f16 or bf16"))
      return false;
    if (buffer.type != type && !(isBias && buffer.type == DType::F32)) {
      fail(quote(operand) + " has another type than the query, found " +
           std::string(nameOf(buffer.type)) + ", expected " +
           std::string(nameOf(type)));
      return false;
    }
    const std::optional<int64_t> reached =
        blockOf(step, operand).countReached();
    if (!reached || *reached > numElements(buffer.shape)) {
      fail(quote(operand) + " is smaller than what the step uses, found " +
           toString(buffer.shape) +
           (reached ? ", expected " + std::to_string(*reached) + " elements"
                    : ", expected strides that are not negative"));
      return false;
    }
  }
  return true;
}

bool PlanVerifier::verifyStatistics(const AttentionStep &step) {
  if (!step.statistics)
    return expect(step.kind == AttentionKind::Forward,
                  "'statistics' is missing");
  if (!expect(*step.statistics < function->buffers.size(),
              "'statistics' names a buffer that does not exist"))
    return false;
  const Buffer &buffer = function->buffers[*step.statistics];
  const Checked expected = Checked(step.batch) * step.heads * step.queries;
  return expect(buffer.type == DType::F32 &&
                    expected == numElements(buffer.shape),
                "'statistics' is not one f32 for each query of each head");
}

namespace {
/// The elements that an operand uses, with the offset counted from the start of
/// the buffer's memory.
struct UsedMemory {
  const Buffer *buffer;
  StridedBlock block;
  int64_t elementBytes;

  int64_t begin() const { return block.offset * elementBytes; }
  int64_t end() const { return *block.countReached() * elementBytes; }

  bool isApart(const UsedMemory &other) const {
    if (buffer->space != other.buffer->space ||
        buffer->index != other.buffer->index)
      return true;
    if (elementBytes == other.elementBytes)
      return areApart(block, other.block);
    return end() <= other.begin() || other.end() <= begin();
  }
};
} // namespace

/// Returns the memory of `block`, which lies in `buffer`; nullopt on overflow.
static std::optional<UsedMemory> findMemory(const Buffer &buffer,
                                            StridedBlock block) {
  const int64_t bytes = sizeOf(buffer.type);
  // Offsets of buffers are multiples of the element's size.
  block.offset += buffer.offset / bytes;
  const std::optional<int64_t> reached = block.countReached();
  if (!reached || *reached > INT64_MAX / bytes)
    return std::nullopt;
  return UsedMemory{&buffer, block, bytes};
}

/// Checks the results: each element once, and no element of another operand.
void PlanVerifier::verifyResults(const AttentionStep &step) {
  std::vector<UsedMemory> all;
  std::vector<size_t> written;
  auto add = [&](size_t index, const StridedBlock &block, bool isResult) {
    const Buffer &buffer = function->buffers[index];
    std::optional<UsedMemory> memory = findMemory(buffer, block);
    if (!expect(memory.has_value(), "an operand reaches too far") ||
        !expect(!isResult || buffer.space == Space::Arena ||
                    buffer.space == Space::State,
                "it writes to a constant or an input"))
      return;
    if (isResult)
      written.push_back(all.size());
    all.push_back(*memory);
  };
  for (AttentionOperand operand : kAttentionOperands)
    if (const std::optional<size_t> index = bufferOf(step, operand)) {
      const bool isResult = isWritten(operand, step.kind);
      if (isResult && !blockOf(step, operand).hasDistinctElements())
        fail("the strides of " + quote(operand) + " let results overlap");
      add(*index, blockOf(step, operand), isResult);
    }
  if (step.statistics)
    add(*step.statistics,
        {0,
         {{{step.batch, step.heads * step.queries},
           {step.heads, step.queries},
           {step.queries, 1},
           {1, 1}}}},
        step.kind == AttentionKind::Forward);
  if (!failure.ok())
    return;
  for (size_t result : written)
    for (size_t other = 0; other < all.size(); ++other)
      expect(result == other || all[result].isApart(all[other]),
             "its results overlap each other or an operand");
}

void PlanVerifier::verifyStep(const AttentionStep &step) {
  if (!expect(plan.target.isGPU(), "only a GPU has steps for attention") ||
      !expectInRange(step) ||
      !expect(step.heads % step.keyHeads == 0,
              "the heads of queries are not a multiple of those of keys") ||
      !expect(std::isfinite(step.scale), "scale is not finite") ||
      !expect(!step.causalOffset ||
                  (*step.causalOffset >= 0 && *step.causalOffset <= kMaxExtent),
              "a query sees no key, or the causal offset is too large"))
    return;
  if (verifyTypes(step) && verifyStatistics(step))
    verifyResults(step);
}

} // namespace mpc::runtime
