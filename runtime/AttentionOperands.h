// The operands of an attention step: which kind of step takes an operand, and
// where the operand's elements lie in memory.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_ATTENTIONOPERANDS_H
#define MPC_RUNTIME_ATTENTIONOPERANDS_H

#include "runtime/PlanSchema.h"

#include <algorithm>
#include <array>

namespace mpc::runtime {

/// The operands of an attention step but its statistics, which are dense.
enum class AttentionOperand {
  Query,
  Key,
  Value,
  Bias,
  Output,
  DOutput,
  DQuery,
  DKey,
  DValue
};

inline constexpr std::array kAttentionOperands = {
    AttentionOperand::Query,  AttentionOperand::Key,
    AttentionOperand::Value,  AttentionOperand::Bias,
    AttentionOperand::Output, AttentionOperand::DOutput,
    AttentionOperand::DQuery, AttentionOperand::DKey,
    AttentionOperand::DValue};

/// Returns the operand's key in a plan.
constexpr const char *nameOf(AttentionOperand operand) {
  constexpr std::array names = {"query",   "key",    "value",
                                "bias",    "output", "d_output",
                                "d_query", "d_key",  "d_value"};
  return names[static_cast<size_t>(operand)];
}

/// True if steps of this kind take the operand. The bias is optional.
constexpr bool isTaken(AttentionOperand operand, AttentionKind kind) {
  return kind == AttentionKind::Gradient || operand < AttentionOperand::DOutput;
}

constexpr bool isWritten(AttentionOperand operand, AttentionKind kind) {
  return kind == AttentionKind::Forward ? operand == AttentionOperand::Output
                                        : operand > AttentionOperand::DOutput;
}

/// Returns the index of the operand's buffer; nullopt if the step has no such
/// operand.
inline std::optional<size_t> bufferOf(const AttentionStep &step,
                                      AttentionOperand operand) {
  switch (operand) {
  case AttentionOperand::Query:
    return step.query;
  case AttentionOperand::Key:
    return step.key;
  case AttentionOperand::Value:
    return step.value;
  case AttentionOperand::Bias:
    return step.bias;
  case AttentionOperand::Output:
    return step.output;
  case AttentionOperand::DOutput:
    return step.dOutput;
  case AttentionOperand::DQuery:
    return step.dQuery;
  case AttentionOperand::DKey:
    return step.dKey;
  case AttentionOperand::DValue:
    return step.dValue;
  }
  return std::nullopt;
}

/// An axis of an operand. The stride counts elements.
struct StridedAxis {
  int64_t extent, stride;
};

/// The elements of an operand in a buffer: samples, heads, tokens and columns;
/// of a bias samples, heads, queries and keys. The offset counts elements.
struct StridedBlock {
  int64_t offset;
  std::array<StridedAxis, 4> axes;

  /// Returns the number of elements from the start of the buffer to the last
  /// element; nullopt on 64-bit overflow, or if the offset or a stride is
  /// negative. Extents are positive.
  std::optional<int64_t> countReached() const {
    int64_t last = offset;
    if (offset < 0)
      return std::nullopt;
    for (const StridedAxis &axis : axes) {
      int64_t way = 0;
      if (axis.stride < 0 ||
          __builtin_mul_overflow(axis.extent - 1, axis.stride, &way) ||
          __builtin_add_overflow(last, way, &last))
        return std::nullopt;
    }
    if (__builtin_add_overflow(last, 1, &last))
      return std::nullopt;
    return last;
  }

  /// Returns the number of elements that the axes with a stride below `limit`
  /// span, from their first to their last element. Requires a known
  /// countReached().
  int64_t spanBelow(int64_t limit) const {
    int64_t span = 1;
    for (const StridedAxis &axis : axes)
      if (axis.stride < limit)
        span += (axis.extent - 1) * axis.stride;
    return span;
  }

  /// True if no two indices share an element: each stride is at least what the
  /// axes of smaller strides span. Requires a known countReached().
  bool hasDistinctElements() const {
    std::array<StridedAxis, 4> sorted = axes;
    std::sort(sorted.begin(), sorted.end(),
              [](const StridedAxis &a, const StridedAxis &b) {
                return a.stride < b.stride;
              });
    int64_t span = 1;
    for (const StridedAxis &axis : sorted) {
      if (axis.extent == 1)
        continue;
      if (axis.stride < span)
        return false;
      span += (axis.extent - 1) * axis.stride;
    }
    return true;
  }
};

/// True if all strides of the block from `period` on are multiples of `period`,
/// and the other axes span at most `period` elements.
inline bool repeatsEvery(const StridedBlock &block, int64_t period) {
  for (const StridedAxis &axis : block.axes)
    if (axis.extent > 1 && axis.stride >= period && axis.stride % period != 0)
      return false;
  return block.spanBelow(period) <= period;
}

/// True if `a` and `b`, whose offsets count from the start of one memory, are
/// known to share no element: one ends before the other begins, or they lie
/// side by side in each period of a common stride. In [B, S, 3, H, D], queries
/// and keys are H * D apart in each of the tokens. Requires known
/// countReached().
inline bool areApart(const StridedBlock &a, const StridedBlock &b) {
  if (*a.countReached() <= b.offset || *b.countReached() <= a.offset)
    return true;
  for (const StridedAxis &axis : a.axes) {
    const int64_t period = axis.stride;
    if (period < 1 || !repeatsEvery(a, period) || !repeatsEvery(b, period))
      continue;
    // The distance from the start of `a` to the start of `b` within a period.
    const int64_t distance = ((b.offset - a.offset) % period + period) % period;
    if (a.spanBelow(period) <= distance &&
        distance + b.spanBelow(period) <= period)
      return true;
  }
  return false;
}

/// Returns where the elements of an operand lie.
inline StridedBlock blockOf(const AttentionShape &shape,
                            AttentionOperand operand) {
  auto heads = [&](const HeadLayout &at, bool ofKeys,
                   int64_t width) -> StridedBlock {
    return {at.offset,
            {{{shape.batch, at.batch},
              {ofKeys ? shape.keyHeads : shape.heads, at.head},
              {ofKeys ? shape.keys : shape.queries, at.token},
              {width, 1}}}};
  };
  switch (operand) {
  case AttentionOperand::Query:
    return heads(shape.queryAt, false, shape.size);
  case AttentionOperand::Key:
    return heads(shape.keyAt, true, shape.size);
  case AttentionOperand::Value:
    return heads(shape.valueAt, true, shape.columns);
  case AttentionOperand::Output:
    return heads(shape.outputAt, false, shape.columns);
  case AttentionOperand::DOutput:
    return heads(shape.dOutputAt, false, shape.columns);
  case AttentionOperand::DQuery:
    return heads(shape.dQueryAt, false, shape.size);
  case AttentionOperand::DKey:
    return heads(shape.dKeyAt, true, shape.size);
  case AttentionOperand::DValue:
    return heads(shape.dValueAt, true, shape.columns);
  case AttentionOperand::Bias:
    break;
  }
  const BiasLayout &at = shape.biasAt;
  return {at.offset,
          {{{shape.batch, at.batch},
            {shape.heads, at.head},
            {shape.queries, at.query},
            {shape.keys, at.key}}}};
}

} // namespace mpc::runtime

#endif // MPC_RUNTIME_ATTENTIONOPERANDS_H
