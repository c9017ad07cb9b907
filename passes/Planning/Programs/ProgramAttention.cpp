// Adds the attention that a GPU's library computes, as steps of a program.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Contractions/ProductLayout.h"
#include "passes/Planning/Programs/ProgramBuilder.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

// Returns the place of heads [batch, heads, tokens, width]. An axis with one
// index has no stride, so gets that of adjacent heads.
static runtime::HeadLayout getHeads(ArrayRef<int64_t> shape,
                                    ProductPlace place) {
  assert(shape.size() == 4 && place.strides[3] == 1 &&
         "rows of adjacent elements");
  for (size_t axis = 3; axis-- > 0;)
    if (shape[axis] == 1)
      place.strides[axis] = shape[axis + 1] * place.strides[axis + 1];
  return {place.offset, place.strides[0], place.strides[1], place.strides[2]};
}

static runtime::HeadLayout getReadHeads(Value value) {
  return getHeads(shapeOf(value), getOperandPlace(value));
}

// Returns the place of `result` in the memory of its step. A plan.place writes
// a box, which does not begin at the first element.
static runtime::HeadLayout getWrittenHeads(Value result) {
  ProductPlace place = getResultPlace(result);
  if (plan::PlaceOp box = findPlace(result))
    place.offset = box.getFirstElement();
  return getHeads(shapeOf(result), std::move(place));
}

// Returns the place of a bias, which repeats along axes of one element.
static runtime::BiasLayout getBiasLayout(Value bias) {
  ProductPlace place = getOperandPlace(bias);
  for (auto [extent, stride] : llvm::zip_equal(shapeOf(bias), place.strides))
    if (extent == 1)
      stride = 0;
  return {place.offset, place.strides[0], place.strides[1], place.strides[2],
          place.strides[3]};
}

// Returns the sizes of an attention, and the places of the operands that
// forward pass and gradient share. Leaves out the output's place.
template <typename Op>
static runtime::AttentionShape getAttentionShape(Op op) {
  runtime::AttentionShape shape;
  ArrayRef<int64_t> query = shapeOf(op.getQuery()), key = shapeOf(op.getKey());
  shape.batch = query[0];
  shape.heads = query[1];
  shape.queries = query[2];
  shape.size = query[3];
  shape.keyHeads = key[1];
  shape.keys = key[2];
  shape.columns = shapeOf(op.getValue())[3];
  shape.queryAt = getReadHeads(op.getQuery());
  shape.keyAt = getReadHeads(op.getKey());
  shape.valueAt = getReadHeads(op.getValue());
  if (op.getBias())
    shape.biasAt = getBiasLayout(op.getBias());
  return shape;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

// Gives a result memory, in which a plan.arrange and a plan.place behind it put
// the elements.
Value ProgramBuilder::placeArranged(Value result) {
  Value written = result;
  if (plan::PlaceOp place = findPlace(result))
    written = place.getOutput();
  else if (plan::ArrangeOp arrange = findArrange(result))
    written = arrange.getOutput();
  llvm::SmallPtrSet<Operation *, 4> taken;
  return buffers[written] =
             chooseBuffer(written.getDefiningOp(), written, Reads(), taken);
}

void ProgramBuilder::addAttention(LibraryAttentionOp op) {
  runtime::AttentionShape shape = getAttentionShape(op);
  shape.outputAt = getWrittenHeads(op.getOutput());
  Value output = placeArranged(op.getOutput()), statistics;
  // Without a gradient, no step reads statistics.
  if (!op.getStatistics().use_empty())
    statistics = placeArranged(op.getStatistics());
  MLIRContext *context = op.getContext();
  plan::AttentionOp::create(
      builder, op.getLoc(),
      plan::AttentionKindAttr::get(context, AttentionKind::Forward),
      buffers.lookup(op.getQuery()), buffers.lookup(op.getKey()),
      buffers.lookup(op.getValue()),
      op.getBias() ? buffers.lookup(op.getBias()) : Value(), output, statistics,
      Value(), Value(), Value(), Value(),
      plan::AttentionShapeAttr::get(context, shape), op.getScaleAttr(),
      op.getCausalOffsetAttr());
}

void ProgramBuilder::addAttention(LibraryAttentionGradOp op) {
  runtime::AttentionShape shape = getAttentionShape(op);
  shape.outputAt = getReadHeads(op.getOutput());
  shape.dOutputAt = getReadHeads(op.getDOutput());
  shape.dQueryAt = getWrittenHeads(op.getDQuery());
  shape.dKeyAt = getWrittenHeads(op.getDKey());
  shape.dValueAt = getWrittenHeads(op.getDValue());
  Value dQuery = placeArranged(op.getDQuery());
  Value dKey = placeArranged(op.getDKey());
  Value dValue = placeArranged(op.getDValue());
  MLIRContext *context = op.getContext();
  plan::AttentionOp::create(
      builder, op.getLoc(),
      plan::AttentionKindAttr::get(context, AttentionKind::Gradient),
      buffers.lookup(op.getQuery()), buffers.lookup(op.getKey()),
      buffers.lookup(op.getValue()),
      op.getBias() ? buffers.lookup(op.getBias()) : Value(),
      buffers.lookup(op.getOutput()), buffers.lookup(op.getStatistics()),
      buffers.lookup(op.getDOutput()), dQuery, dKey, dValue,
      plan::AttentionShapeAttr::get(context, shape), op.getScaleAttr(),
      op.getCausalOffsetAttr());
}
