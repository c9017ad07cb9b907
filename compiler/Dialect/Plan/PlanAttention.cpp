// Verifies plan.attention.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/Plan/StepAttributes.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::plan;
using mpc::runtime::AttentionOperand;

Value plan::AttentionOp::getBuffer(AttentionOperand operand) {
  switch (operand) {
  case AttentionOperand::Query:
    return getQuery();
  case AttentionOperand::Key:
    return getKey();
  case AttentionOperand::Value:
    return getValue();
  case AttentionOperand::Bias:
    return getBias();
  case AttentionOperand::Output:
    return getOutput();
  case AttentionOperand::DOutput:
    return getDOutput();
  case AttentionOperand::DQuery:
    return getDQuery();
  case AttentionOperand::DKey:
    return getDKey();
  case AttentionOperand::DValue:
    return getDValue();
  }
  llvm_unreachable("unknown operand of attention");
}

SmallVector<Value> plan::AttentionOp::getWrittenBuffers() {
  SmallVector<Value> written;
  for (AttentionOperand operand : runtime::kAttentionOperands)
    if (Value buffer = getBuffer(operand);
        buffer && runtime::isWritten(operand, getKind()))
      written.push_back(buffer);
  if (getStatistics() && getKind() == AttentionKind::Forward)
    written.push_back(getStatistics());
  return written;
}

static double countScores(plan::AttentionOp op) {
  const runtime::AttentionShape &shape = op.getShape();
  const auto keys = static_cast<double>(shape.keys);
  const auto queries = static_cast<double>(shape.queries);
  double seen = queries * keys;
  if (op.getCausalOffset()) {
    // Query i sees min(keys, i + offset + 1) keys.
    const auto first = static_cast<double>(*op.getCausalOffset()) + 1;
    const double partial = std::clamp(keys - first, 0.0, queries);
    seen = partial * (first + (partial - 1) / 2) + (queries - partial) * keys;
  }
  return seen * static_cast<double>(shape.batch) *
         static_cast<double>(shape.heads);
}

double plan::AttentionOp::countOperations() {
  const auto size = static_cast<double>(getShape().size);
  const auto columns = static_cast<double>(getShape().columns);
  const bool isForward = getKind() == AttentionKind::Forward;
  return 2 * countScores(*this) *
         (isForward ? size + columns : 3 * size + 2 * columns);
}

double plan::AttentionOp::countBytes() {
  double bytes = 0;
  for (AttentionOperand operand : runtime::kAttentionOperands) {
    const Value buffer = getBuffer(operand);
    if (!buffer)
      continue;
    auto operandBytes = static_cast<double>(
        getElementBytes(cast<MemRefType>(buffer.getType()).getElementType()));
    for (const runtime::StridedAxis &axis :
         runtime::blockOf(getShape(), operand).axes)
      operandBytes *= axis.stride == 0 ? 1 : static_cast<double>(axis.extent);
    bytes += operandBytes;
  }
  if (getStatistics())
    bytes += static_cast<double>(
        getBufferBytes(cast<MemRefType>(getStatistics().getType())));
  if (getKind() == AttentionKind::Gradient)
    bytes += 2 * countScores(*this) *
             static_cast<double>(getElementBytes(
                 cast<MemRefType>(getQuery().getType()).getElementType()));
  return bytes;
}

// Verifies that the op has the operand if and only if its kind takes the
// operand, and that the operand's elements lie within the buffer.
static LogicalResult verifyOperand(plan::AttentionOp op,
                                   AttentionOperand operand) {
  const Value buffer = op.getBuffer(operand);
  const bool isBias = operand == AttentionOperand::Bias;
  const bool takes = runtime::isTaken(operand, op.getKind());
  if (static_cast<bool>(buffer) != takes && !(isBias && !buffer))
    return op.emitOpError("kind \"")
           << stringify(op.getKind())
           << (takes ? "\" needs " : "\" does not take ")
           << runtime::nameOf(operand);
  if (!buffer)
    return success();
  const auto type = cast<MemRefType>(buffer.getType());
  const Type element =
      cast<MemRefType>(op.getQuery().getType()).getElementType();
  if (type.getElementType() != element &&
      !(isBias && type.getElementType().isF32()))
    return op.emitOpError("expected ")
           << runtime::nameOf(operand) << " to have the query's type "
           << element << ", found " << type;
  const runtime::StridedBlock block = runtime::blockOf(op.getShape(), operand);
  const std::optional<int64_t> reached = block.countReached();
  if (!reached || *reached > type.getNumElements())
    return op.emitOpError("expected the elements of ")
           << runtime::nameOf(operand) << " to lie within " << type
           << ", found strides that reach "
           << (reached ? std::to_string(*reached) : "too many") << " elements";
  if (runtime::isWritten(operand, op.getKind()) && !block.hasDistinctElements())
    return op.emitOpError("expected results apart from each other, found "
                          "strides that let elements of ")
           << runtime::nameOf(operand) << " overlap";
  return success();
}

LogicalResult plan::AttentionOp::verify() {
  const runtime::AttentionShape &shape = getShape();
  if (const char *message = runtime::findOutOfRange(shape, /*isGPU=*/true))
    return emitOpError(message);
  if (shape.heads % shape.keyHeads != 0)
    return emitOpError("expected a multiple of ")
           << shape.keyHeads << " heads, found " << shape.heads;
  const Type type = cast<MemRefType>(getQuery().getType()).getElementType();
  if (!type.isF16() && !type.isBF16())
    return emitOpError("expected f16 or bf16, found ") << type;
  if (getCausalOffset() && static_cast<int64_t>(*getCausalOffset()) < 0)
    return emitOpError("expected a key for every query, found the causal "
                       "offset ")
           << static_cast<int64_t>(*getCausalOffset());
  for (AttentionOperand operand : runtime::kAttentionOperands)
    if (failed(verifyOperand(*this, operand)))
      return failure();
  // Extents are below 2^31, so a product of two fits 64 bits.
  const auto expected =
      MemRefType::get({shape.batch, shape.heads, shape.queries},
                      Float32Type::get(getContext()));
  if (getStatistics() ? getStatistics().getType() != expected
                      : getKind() == AttentionKind::Gradient) {
    InFlightDiagnostic error = emitOpError("expected statistics of ")
                               << expected << ", found ";
    return getStatistics() ? error << getStatistics().getType()
                           : error << "none";
  }
  return verifyWrites(*this);
}
