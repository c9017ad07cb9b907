// Emits column reductions that read wide rows in memory order, a band of rows
// at a time, with totals in scratch memory (ColumnBands.h).
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/ColumnBands.h"
#include "passes/Codegen/Kernels/Reduction/Accumulators.h"
#include "passes/Codegen/Kernels/Reduction/ColumnRuns.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

namespace {
/// Adjacent vectors of columns: the position of each vector in the loops, and
/// the offset of its totals in the buffers of totals.
struct Columns {
  SmallVector<Scope, 4> scopes;
  SmallVector<Value, 4> places;
};

class BandEmitter {
public:
  BandEmitter(KernelContext &context, const KernelBody &body);

  void emit();

private:
  /// Columns [first, end) of a run, at most as many as a buffer of totals
  /// holds.
  struct ColumnRange {
    Value first, end;
  };

  void createTotals();
  void emitRange(const Scope &outer, ColumnRange range);
  void emitBands(const Scope &outer, unsigned dimension, ColumnRange range);
  Carried sumBand(const Columns &at, unsigned dimension, Value row, Value end);
  Carried accumulate(ArrayRef<Scope> scopes, ValueRange carried);
  void finish(Columns &at);

  void forColumns(const Scope &outer, ColumnRange range,
                  llvm::function_ref<void(Columns &at)> emit);
  AccumulatorChain createChain(const Columns &at);
  Carried loadTotals(const Columns &at);
  void storeTotals(const Columns &at, ValueRange values);

  Operation *opOf(unsigned reduction) const {
    return body.getNodes()[reduction].op;
  }
  /// True if `output` has a value for every row.
  bool isOfRows(const Output &output) const {
    return output.dimensions & body.getGroupMask(1);
  }

  KernelContext &context;
  const KernelBody &body;
  FragmentEmitter fragments;
  ImplicitLocOpBuilder &b;
  SmallVector<unsigned> outputNodes, reductions;
  /// Nodes that are computed anew for every row.
  SmallVector<unsigned> rowNodes;
  SmallVector<ChunkShape> shapes;
  /// The number of columns in a buffer of totals. Each reduction has a buffer.
  int64_t columns;
  SmallVector<Value> totals;
};
} // namespace

BandEmitter::BandEmitter(KernelContext &context, const KernelBody &body)
    : context(context), body(body), fragments(context, body), b(context.b),
      outputNodes(body.getOutputNodes()), reductions(body.getReductions(1)),
      shapes(getColumnShapes(context, body, /*vectors=*/4)),
      columns(context.partition.scratch /
              (kTotalBytes * countReductions(context.kernel))) {
  for (unsigned reduction : reductions)
    rowNodes.push_back(body.getNodes()[reduction].operands[0].node);
  for (const Output &output : body.getOutputs())
    if (isOfRows(output))
      rowNodes.push_back(output.value.node);
}

void BandEmitter::createTotals() {
  for (auto [number, reduction] : llvm::enumerate(reductions))
    totals.push_back(context.createScratch(
        static_cast<int64_t>(number) * columns * kTotalBytes, columns,
        Accumulator::getTotalType(opOf(reduction))));
}

void BandEmitter::forColumns(const Scope &outer, ColumnRange range,
                             llvm::function_ref<void(Columns &at)> emit) {
  unsigned last = body.getDimensions().size() - 1;
  emitDynamicChunks(b, range.first, range.end,
                    std::min(columns, body.getDimensions().back().size), shapes,
                    [&](Chunk chunk) {
                      Columns at;
                      for (int64_t vector = 0; vector < chunk.count; ++vector) {
                        Value column = chunk.getVector(b, vector);
                        Scope &scope = at.scopes.emplace_back(outer);
                        scope.width = chunk.width;
                        scope.enter(last, column);
                        fragments.evaluate(scope, outputNodes);
                        at.places.push_back(
                            arith::SubIOp::create(b, column, range.first));
                      }
                      emit(at);
                    });
}

//===----------------------------------------------------------------------===//
// Totals
//===----------------------------------------------------------------------===//

/// Creates the chain of the sums of the columns `at`. Sums are ordered by
/// reduction, then by vector.
AccumulatorChain BandEmitter::createChain(const Columns &at) {
  AccumulatorChain chain(b);
  for (unsigned reduction : reductions)
    chain.carry(opOf(reduction), at.scopes.front().width, at.scopes.size());
  return chain;
}

Carried BandEmitter::loadTotals(const Columns &at) {
  Carried values;
  for (Value buffer : totals)
    for (Value place : at.places)
      values.push_back(
          context.load(buffer, place, at.scopes.front().width, /*multiple=*/1));
  return values;
}

void BandEmitter::storeTotals(const Columns &at, ValueRange values) {
  for (auto [number, value] : llvm::enumerate(values))
    context.store(value, totals[number / at.places.size()],
                  at.places[number % at.places.size()], /*multiple=*/1);
}

//===----------------------------------------------------------------------===//
// Bands
//===----------------------------------------------------------------------===//

Carried BandEmitter::accumulate(ArrayRef<Scope> scopes, ValueRange carried) {
  Carried values(carried);
  for (auto [position, reduction] : llvm::enumerate(reductions)) {
    Accumulator accumulator(b, opOf(reduction));
    for (auto [vector, scope] : llvm::enumerate(scopes)) {
      Value &target = values[position * scopes.size() + vector];
      Value input = fragments.getReductionInput(scope, reduction);
      input = Lanes(b, b.getF32Type()).broadcast(input, target);
      target = accumulator.combine(target, input);
    }
  }
  return values;
}

/// Emits one band: sums rows [row, end) in registers, and stores the outputs
/// that have a value for every row. Returns the sums.
Carried BandEmitter::sumBand(const Columns &at, unsigned dimension, Value row,
                             Value end) {
  Carried init = createChain(at).start();
  return emitLoop(b, row, end, 1, init, [&](Value index, ValueRange carried) {
    SmallVector<Scope, 4> scopes = at.scopes;
    for (Scope &scope : scopes) {
      scope.enter(dimension, index);
      fragments.evaluate(scope, rowNodes);
    }
    Carried sums = accumulate(scopes, carried);
    for (const Scope &scope : scopes)
      for (const Output &output : body.getOutputs())
        if (isOfRows(output))
          fragments.store(scope, output);
    return sums;
  });
}

/// Emits loops over the rows along `dimension` and its inner dimensions, and
/// adds all these rows to the totals, band by band.
void BandEmitter::emitBands(const Scope &outer, unsigned dimension,
                            ColumnRange range) {
  int64_t size = body.getDimensions()[dimension].size;
  bool isLast = dimension + 1 == body.getGroup(1).second;
  int64_t step = isLast ? kBandRows : 1;
  // Only rows along the last reduced dimension form bands. Outer dimensions get
  // a loop each.
  emitLoop(b, size, step, {}, [&](Value index, ValueRange) {
    if (!isLast) {
      Scope scope = outer;
      scope.enter(dimension, index);
      fragments.evaluate(scope, outputNodes);
      emitBands(scope, dimension + 1, range);
      return Carried();
    }
    Value end = arith::MinUIOp::create(b, addIndex(b, index, step),
                                       createIndex(b, size));
    // Add the band's sums to the totals in scratch memory.
    forColumns(outer, range, [&](Columns &at) {
      Carried sums = sumBand(at, dimension, index, end);
      storeTotals(at, createChain(at).add(loadTotals(at), sums));
    });
    return Carried();
  });
}

/// Stores the results computed from the totals.
void BandEmitter::finish(Columns &at) {
  Carried sums = createChain(at).close(loadTotals(at));
  for (auto [position, reduction] : llvm::enumerate(reductions))
    for (auto [vector, scope] : llvm::enumerate(at.scopes))
      fragments.setValue(
          scope, reduction,
          Accumulator(b, opOf(reduction))
              .finish(sums[position * at.scopes.size() + vector]));
  for (Scope &scope : at.scopes) {
    fragments.evaluate(scope, outputNodes);
    for (const Output &output : body.getOutputs())
      if (!isOfRows(output))
        fragments.store(scope, output);
  }
}

void BandEmitter::emitRange(const Scope &outer, ColumnRange range) {
  forColumns(outer, range, [&](Columns &at) {
    AccumulatorChain chain = createChain(at);
    storeTotals(at, chain.open(chain.start()));
  });
  emitBands(outer, body.getGroup(1).first, range);
  forColumns(outer, range, [&](Columns &at) { finish(at); });
}

void BandEmitter::emit() {
  createTotals();
  emitRuns(
      context, body, fragments, context.bounds[0], context.bounds[1],
      [&](const Scope &outer, Value lower, Value upper) {
        emitLoop(b, lower, upper, columns, {}, [&](Value first, ValueRange) {
          Value end =
              arith::MinUIOp::create(b, addIndex(b, first, columns), upper);
          emitRange(outer, {first, end});
          return Carried();
        });
      });
}

LogicalResult codegen::emitColumnBands(KernelContext &context,
                                       const KernelBody &body) {
  if (body.getLevelCount() != 1 ||
      static_cast<int64_t>(body.getReductions(1).size()) >
          countReductions(context.kernel))
    return context.kernel.emitOpError(
               "expected all reductions in one pass, each with a total, found ")
           << body.getLevelCount() << " passes and "
           << countReductions(context.kernel) << " totals";
  BandEmitter(context, body).emit();
  return success();
}
