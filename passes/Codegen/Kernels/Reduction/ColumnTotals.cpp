// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/Kernels/Reduction/ColumnTotals.h"

#include "compiler/Kernels/ColumnBands.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

/// The axis group of the columns. Groups are (outer, rows of a part, columns).
static constexpr unsigned kColumns = 2;

ColumnGroups ColumnGroups::get(Operation *op) {
  auto reduction = cast<ReductionOpInterface>(op);
  ArrayRef<int64_t> space = shapeOf(op->getOperand(0));
  SmallVector<int64_t> axes = reduction.getReducedAxes();
  // An axis of size 1 joins the group before or the reduced group, whether it
  // is reduced or not.
  int64_t rank = space.size(), first = 0;
  while (first < rank &&
         (space[first] == 1 || !llvm::is_contained(axes, first)))
    ++first;
  int64_t end = first;
  while (end < rank && (space[end] == 1 || llvm::is_contained(axes, end)))
    ++end;
  ColumnGroups groups;
  if (int64_t parts = reduction.getReductionParts(); parts > 1)
    groups.split = {first, parts};
  groups.sizes = {first + (groups.split ? 1 : 0), end - first, rank - end};
  return groups;
}

ColumnTotals::ColumnTotals(KernelContext &context, const KernelBody &body,
                           FragmentEmitter &fragments)
    : context(context), body(body), fragments(fragments), b(context.b) {
  if (isEmpty())
    return;
  for (unsigned sum : body.getColumnSums())
    inputs.push_back(body.getNodes()[sum].operands[0].node);
  auto countElements = [&](unsigned group) {
    unsigned first = body.getGroup(group).first;
    return body.getDimensions()[first].size * body.getSizeAfter(first, group);
  };
  length = countElements(1);
  columns = countElements(kColumns);
  createBuffers();
}

// Creates a buffer of sums and a buffer of totals for each column sum, with
// kTotalBytes bytes per column, enough for any type.
void ColumnTotals::createBuffers() {
  int64_t offset = 0;
  auto create = [&](Type type) {
    Value buffer = context.createScratch(offset, columns, type);
    offset += columns * kTotalBytes;
    return buffer;
  };
  for (unsigned sum : body.getColumnSums()) {
    Operation *op = body.getNodes()[sum].op;
    sums.push_back(create(Accumulator::getType(op)));
    totals.push_back(create(Accumulator::getTotalType(op)));
  }
}

//===----------------------------------------------------------------------===//
// Columns
//===----------------------------------------------------------------------===//

void ColumnTotals::forColumns(llvm::function_ref<void(Chunk chunk)> emit) {
  emitChunks(b, columns, context.getVectorWidth(), 1, {},
             [&](Chunk chunk, ValueRange) {
               emit(chunk);
               return Carried();
             });
}

AccumulatorChain ColumnTotals::createChain(int64_t width) const {
  AccumulatorChain chain(b);
  for (unsigned sum : body.getColumnSums())
    chain.carry(body.getNodes()[sum].op, width);
  return chain;
}

Carried ColumnTotals::load(const Buffers &buffers, Chunk chunk) {
  return llvm::map_to_vector<6>(buffers, [&](Value buffer) {
    return context.load(buffer, chunk.index, chunk.width, /*multiple=*/1);
  });
}

void ColumnTotals::store(const Buffers &buffers, Chunk chunk,
                         ValueRange values) {
  for (auto [buffer, value] : llvm::zip_equal(buffers, values))
    context.store(value, buffer, chunk.index, /*multiple=*/1);
}

void ColumnTotals::accumulate(const Scope &at) {
  if (isEmpty())
    return;
  // Find the column of the first element: its row-major index in the group of
  // columns.
  Strides strides(body.getDimensions().size(), 0);
  auto [first, end] = body.getGroup(kColumns);
  for (unsigned dimension = first; dimension < end; ++dimension)
    strides[dimension] = body.getSizeAfter(dimension, kColumns);
  Chunk chunk{fragments.getOffset(at, strides), at.width};
  Carried values = load(sums, chunk);
  for (auto [value, sum] : llvm::zip_equal(values, body.getColumnSums())) {
    Value input = fragments.getReductionInput(at, sum);
    input = Lanes(b, b.getF32Type()).broadcast(input, value);
    value = Accumulator(b, body.getNodes()[sum].op).combine(value, input);
  }
  store(sums, chunk, values);
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// Emits rows [first, end) of a part as one band. Sets the sums to their
/// initial values, then calls `emitRow` for each row, which adds to the sums.
void ColumnTotals::emitBand(const Scope &part, Value first, Value end,
                            llvm::function_ref<void(Scope &row)> emitRow) {
  forColumns([&](Chunk chunk) {
    store(sums, chunk, createChain(chunk.width).start());
  });
  emitLoop(b, first, end, 1, {}, [&](Value row, ValueRange) {
    Scope scope = part;
    fragments.enterGroup(scope, 1, row);
    fragments.evaluate(scope, body.getOutputNodes());
    emitRow(scope);
    return Carried();
  });
}

/// Converts the totals of a part to the results' types and stores them.
void ColumnTotals::finish(const Scope &part) {
  forColumns([&](Chunk chunk) {
    Carried values = createChain(chunk.width).close(load(totals, chunk));
    Scope scope = part;
    for (auto [value, sum] : llvm::zip_equal(values, body.getColumnSums()))
      fragments.setValue(scope, sum,
                         Accumulator(b, body.getNodes()[sum].op).finish(value));
    // Columns are adjacent in the result, even if several axes form them. So
    // the offset within a row is the number of the column.
    for (const Output &output : body.getOutputs()) {
      if (!llvm::is_contained(body.getColumnSums(), output.value.node))
        continue;
      Strides strides = output.strides;
      auto [first, end] = body.getGroup(kColumns);
      std::fill(strides.begin() + first, strides.begin() + end, 0);
      Value offset =
          addIndex(b, fragments.getOffset(part, strides), chunk.index);
      fragments.store(scope.values[output.value.node].front(),
                      context.buffers[output.argument], offset, chunk.width,
                      /*multiple=*/1);
    }
  });
}

void ColumnTotals::emitParts(const Scope &outer, Value begin, Value end,
                             llvm::function_ref<void(Scope &row)> emitRow) {
  Value size = createIndex(b, length);
  Value first = arith::DivUIOp::create(b, begin, size);
  Value last = arith::DivUIOp::create(b, end, size);
  emitLoop(b, first, last, 1, {}, [&](Value number, ValueRange) {
    Scope part = outer;
    fragments.enterGroup(part, 0, number);
    fragments.evaluate(part, body.getOutputNodes());
    // Totals of each part start from the neutral element.
    forColumns([&](Chunk chunk) {
      AccumulatorChain chain = createChain(chunk.width);
      store(totals, chunk, chain.open(chain.start()));
    });
    // Add the sums of each band of rows to the totals.
    emitLoop(b, length, kBandRows, {}, [&](Value from, ValueRange) {
      Value to = arith::MinUIOp::create(b, addIndex(b, from, kBandRows), size);
      emitBand(part, from, to, emitRow);
      forColumns([&](Chunk chunk) {
        store(totals, chunk,
              createChain(chunk.width)
                  .add(load(totals, chunk), load(sums, chunk)));
      });
      return Carried();
    });
    finish(part);
    return Carried();
  });
}
