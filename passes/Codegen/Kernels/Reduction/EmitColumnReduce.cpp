// Emits kernels that reduce leading or middle axes.
//
// The space is (outer, reduced, inner). A slice owns some of the outer x inner
// results. Vectors lie along the inner axis, several side by side. A pass over
// the reduced axis thus reads whole cache lines and needs no sums across lanes.
// Wide rows are read in bands instead (EmitColumnBands.cpp). On a GPU a block
// owns as many vectors as a team has threads; its teams share the reduced axes
// and combine their sums.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/ColumnBands.h"
#include "passes/Codegen/Kernels/FragmentEmitter.h"
#include "passes/Codegen/Kernels/Loops/ThreadBlock.h"
#include "passes/Codegen/Kernels/Reduction/Accumulators.h"
#include "passes/Codegen/Kernels/Reduction/ColumnRuns.h"
#include "passes/Codegen/Kernels/Reduction/ColumnTotals.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

namespace {
class ColumnEmitter {
public:
  ColumnEmitter(KernelContext &context, const KernelBody &body)
      : context(context), body(body), fragments(context, body), b(context.b),
        outputNodes(body.getOutputNodes()) {}

  void emit(Value begin, Value end);
  void emitBlock(Value block);

private:
  using Scopes = SmallVector<Scope, 4>;

  /// Returns the outputs that have a value for every row and depend on `level`
  /// levels of reductions. The next pass over the rows stores such outputs.
  SmallVector<const Output *> getElementOutputs(unsigned level) const;

  void emitChunk(const Scope &outer, Chunk chunk);
  void emitColumns(Scopes &scopes);
  void emitPass(Scopes &scopes, unsigned level);
  Carried reduce(const Scopes &scopes, ArrayRef<unsigned> reductions,
                 int64_t rows);
  int64_t countRows(const Scopes &scopes, size_t reductionCount) const;
  void storeElements(const Scope &scope);
  Carried emitReduced(const Scopes &scopes, unsigned dimension,
                      ArrayRef<unsigned> reductions, int64_t rows,
                      ValueRange init, BlockedChain *chain);
  Carried accumulate(const Scopes &scopes, ArrayRef<unsigned> reductions,
                     int64_t row, int64_t rows, ValueRange carried);

  KernelContext &context;
  const KernelBody &body;
  FragmentEmitter fragments;
  ImplicitLocOpBuilder &b;
  SmallVector<unsigned> outputNodes;
  /// The outputs with a value for every row that the current pass stores.
  SmallVector<const Output *> elementOutputs;
  /// True if this thread has columns of its own; null if every thread has
  /// columns.
  Value hasColumns;
};
} // namespace

SmallVector<const Output *>
ColumnEmitter::getElementOutputs(unsigned level) const {
  SmallVector<const Output *> outputs;
  for (const Output &output : body.getOutputs())
    if ((output.dimensions & body.getGroupMask(1)) &&
        body.getNodes()[output.value.node].level == level)
      outputs.push_back(&output);
  return outputs;
}

void ColumnEmitter::storeElements(const Scope &scope) {
  if (elementOutputs.empty())
    return;
  emitWhere(b, hasColumns, [&] {
    for (const Output *output : elementOutputs)
      fragments.store(scope, *output);
  });
}

/// Adds one row to accumulators. `rows` rows have separate accumulators, and
/// this is number `row`. Carried values are ordered by reduction, then row,
/// then vector.
Carried ColumnEmitter::accumulate(const Scopes &scopes,
                                  ArrayRef<unsigned> reductions, int64_t row,
                                  int64_t rows, ValueRange carried) {
  Carried values(carried);
  for (auto [position, reduction] : llvm::enumerate(reductions)) {
    Accumulator accumulator(b, body.getNodes()[reduction].op);
    for (auto [vector, scope] : llvm::enumerate(scopes)) {
      Value &target = values[(position * rows + row) * scopes.size() + vector];
      Value input = fragments.getReductionInput(scope, reduction);
      input = Lanes(b, b.getF32Type()).broadcast(input, target);
      target = accumulator.combine(target, input);
    }
  }
  return values;
}

Carried ColumnEmitter::emitReduced(const Scopes &outer, unsigned dimension,
                                   ArrayRef<unsigned> reductions, int64_t rows,
                                   ValueRange init, BlockedChain *chain) {
  // In each row, compute the operands of reductions, and the values to store.
  SmallVector<unsigned> inputs;
  for (unsigned reduction : reductions)
    inputs.push_back(body.getNodes()[reduction].operands[0].node);
  for (const Output *output : elementOutputs)
    inputs.push_back(output->value.node);
  auto enter = [&](Value index) {
    Scopes scopes = outer;
    for (Scope &scope : scopes) {
      scope.enter(dimension, index);
      fragments.evaluate(scope, inputs);
    }
    return scopes;
  };
  // Outer dimensions of the rows get a loop each, and the inner loops
  // accumulate.
  int64_t size = body.getDimensions()[dimension].size;
  Team team = dimension == body.getLargest(1) ? context.rows : Team();
  if (dimension + 1 < body.getGroup(1).second) {
    int64_t additions =
        llvm::divideCeilSigned(body.getSizeAfter(dimension, /*group=*/1), rows);
    return emitLoop(b, size, 1, init,
                    [&](Value index, ValueRange carried) {
                      return emitReduced(enter(index), dimension + 1,
                                         reductions, rows, carried, chain);
                    },
                    team, {chain, additions});
  }
  // In the last dimension, process `rows` rows at once, so that their loads
  // overlap.
  return emitChunks(b, size, 1, rows, init,
                    [&](Chunk chunk, ValueRange carried) {
                      Carried values(carried);
                      for (int64_t row = 0; row < chunk.count; ++row) {
                        Scopes scopes = enter(chunk.getVector(b, row));
                        values =
                            accumulate(scopes, reductions, row, rows, values);
                        for (const Scope &scope : scopes)
                          storeElements(scope);
                      }
                      return values;
                    },
                    team, {chain});
}

/// Returns how many rows are summed separately. If there are few vectors, more
/// separate sums hide the latency of additions. On a GPU, each lane of a vector
/// is a register, so only as many rows as fit 16 registers.
int64_t ColumnEmitter::countRows(const Scopes &scopes,
                                 size_t reductionCount) const {
  if (scopes.size() > 1 || reductionCount > 2)
    return 1;
  if (!context.target.isGPU())
    return 4;
  constexpr int64_t registers = 16;
  int64_t used = scopes.front().width * std::max<int64_t>(reductionCount, 1);
  return std::clamp<int64_t>(registers / used, 1, 4);
}

/// Emits the pass over the reduced axes and returns the sums, ordered by
/// reduction, then row, then vector.
Carried ColumnEmitter::reduce(const Scopes &scopes,
                              ArrayRef<unsigned> reductions, int64_t rows) {
  int64_t vectors = scopes.size(), width = scopes.front().width;
  Carried init;
  AccumulatorChain chain(b);
  for (unsigned reduction : reductions) {
    Operation *op = body.getNodes()[reduction].op;
    init.append(rows * vectors, Accumulator(b, op).getInit(width));
    chain.carry(op, width, rows * vectors);
  }
  return emitReduced(scopes, body.getGroup(1).first, reductions, rows, init,
                     chain.ifNeeded());
}

/// Emits one pass over the reduced axes: the reductions of `level`, if any, and
/// the stores of outputs that have a value for every row.
void ColumnEmitter::emitPass(Scopes &scopes, unsigned level) {
  SmallVector<unsigned> reductions = body.getReductions(level);
  elementOutputs = getElementOutputs(level - 1);
  if (reductions.empty() && elementOutputs.empty())
    return;
  int64_t vectors = scopes.size();
  int64_t rows = countRows(scopes, reductions.size());
  Carried sums = reduce(scopes, reductions, rows);
  for (auto [position, reduction] : llvm::enumerate(reductions)) {
    Accumulator accumulator(b, body.getNodes()[reduction].op);
    for (auto [vector, scope] : llvm::enumerate(scopes)) {
      SmallVector<Value> parts;
      for (int64_t row = 0; row < rows; ++row)
        parts.push_back(sums[(position * rows + row) * vectors + vector]);
      Value sum = combineRows(context, accumulator, accumulator.combine(parts));
      fragments.setValue(scope, reduction, accumulator.finish(sum));
    }
  }
}

void ColumnEmitter::emitChunk(const Scope &outer, Chunk chunk) {
  Scopes scopes(chunk.count, outer);
  unsigned last = body.getDimensions().size() - 1;
  for (auto [vector, scope] : llvm::enumerate(scopes)) {
    scope.width = chunk.width;
    scope.enter(last, chunk.getVector(b, vector));
    fragments.evaluate(scope, outputNodes);
  }
  emitColumns(scopes);
}

/// Emits all passes for the vectors of columns at `scopes`, then stores the
/// results.
void ColumnEmitter::emitColumns(Scopes &scopes) {
  for (unsigned level = 1; level <= body.getLevelCount() + 1; ++level) {
    emitPass(scopes, level);
    for (Scope &scope : scopes)
      fragments.evaluate(scope, outputNodes);
  }
  Value mayStore = isFirst(b, context.rows);
  if (mayStore && hasColumns)
    mayStore = arith::AndIOp::create(b, mayStore, hasColumns);
  emitWhere(b, mayStore, [&] {
    for (Scope &scope : scopes)
      for (const Output &output : body.getOutputs())
        if (!(output.dimensions & body.getGroupMask(1)))
          fragments.store(scope, output);
  });
}

void ColumnEmitter::emit(Value begin, Value end) {
  // The more columns of a row are read at once, the faster. Use as many vectors
  // as let the sums take half of the registers.
  int64_t vectors = countReductions(context.kernel) > 1 ? 4 : 8;
  SmallVector<ChunkShape> shapes = getColumnShapes(context, body, vectors);
  emitRuns(context, body, fragments, begin, end,
           [&](const Scope &outer, Value lower, Value upper) {
             emitDynamicChunks(b, lower, upper,
                               body.getDimensions().back().size, shapes,
                               [&](Chunk chunk) { emitChunk(outer, chunk); });
           });
}

// Emits the work of block n of a GPU. There are `blocks` blocks per outer
// index, so the outer index is n / blocks. The block owns as many vectors of
// columns as a team has threads, from n % blocks * team.size on. All threads
// take part in every sum; threads past the last column sum that column again.
void ColumnEmitter::emitBlock(Value block) {
  const Team &team = context.columns;
  // Split the block number into outer index and columns, then find the thread's
  // vector.
  int64_t width = context.getVectorWidth();
  int64_t vectors = context.partition.inner / width;
  int64_t blocks = llvm::divideCeilSigned(vectors, team.size);
  SmallVector<Value> parts = splitIndex(b, block, {1, blocks});
  Value vector = team.shift(b, mulIndex(b, parts[1], team.size), 1);
  if (vectors % team.size != 0) {
    hasColumns = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, vector,
                                       createIndex(b, vectors));
    vector = arith::MinUIOp::create(b, vector, createIndex(b, vectors - 1));
  }
  // Enter outer and inner dimensions; emitColumns sums over the rows.
  Scope scope = fragments.createScope();
  scope.width = width;
  fragments.enterGroup(scope, 0, parts[0]);
  fragments.enterGroup(scope, 2, mulIndex(b, vector, width));
  fragments.evaluate(scope, outputNodes);
  Scopes scopes(1, scope);
  emitColumns(scopes);
}

LogicalResult codegen::emitColumnReduce(KernelContext &context) {
  Operation *hero = findReduction(context.kernel.getBody().front());
  ColumnGroups groups = ColumnGroups::get(hero);
  FailureOr<KernelBody> body = KernelBody::create(
      context.kernel, shapeOf(hero->getOperand(0)), groups.sizes, groups.split);
  if (failed(body))
    return failure();
  // Wide rows have totals in scratch memory (ColumnBands.h).
  if (context.scratch)
    return emitColumnBands(context, *body);
  ColumnEmitter emitter(context, *body);
  if (context.target.isGPU())
    emitter.emitBlock(context.bounds[0]);
  else
    emitter.emit(context.bounds[0], context.bounds[1]);
  return success();
}
