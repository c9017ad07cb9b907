// Emits kernels that reduce trailing axes, row by row.
//
// Reductions may depend on each other (softmax: a maximum, then a sum). Each
// level of reductions takes one pass over the row, which is in the first-level
// cache after the first pass. On CPUs, costly values are kept for later passes
// (RowScratch.h). A row is summed in several vectors side by side, combined in
// a fixed order. The threads of a team share the columns of a row. On a CPU,
// columns may be added up along with the rows (ColumnTotals.h).
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Kernels/ColumnSums.h"
#include "compiler/Kernels/RowScratch.h"
#include "passes/Codegen/Kernels/Loops/ThreadBlock.h"
#include "passes/Codegen/Kernels/Reduction/ColumnTotals.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

namespace {
class RowEmitter {
public:
  RowEmitter(KernelContext &context, const KernelBody &body)
      : context(context), body(body), fragments(context, body), b(context.b),
        columnGroup(body.getDimensions().back().group),
        width(context.getVectorWidth()), totals(context, body, fragments) {
    if (context.scratch)
      createKept();
  }

  void emit(Value begin, Value end);

private:
  /// The accumulators of one reduction that loops over a row carry: `vectors`
  /// vectors, and a scalar for elements that fill no vector.
  struct Slots {
    unsigned reduction;
    int64_t vectors;
  };

  /// A node whose values along a row are kept for later passes. Pass `madeIn`
  /// computes the values and stores them in `buffer`.
  struct Kept {
    unsigned node;
    Value buffer;
    std::optional<unsigned> madeIn;
  };

  void createKept();
  void readKept(Scope &scope);
  void keep(const Scope &scope);
  void emitRow(Scope &scope);
  int64_t countVectors(size_t reductionCount) const;
  /// Returns how many elements a thread processes per iteration if rows are not
  /// vectorized: four on a GPU, so that their loads overlap.
  int64_t countScalars() const {
    return width == 1 && context.target.isGPU() ? 4 : 1;
  }
  void reduceLevel(Scope &scope, unsigned level);
  void storeElements(const Scope &scope);
  Carried emitColumns(
      const Scope &outer, unsigned dimension, ArrayRef<unsigned> targets,
      int64_t vectors, ValueRange init,
      llvm::function_ref<Carried(const Scope &, int64_t slot, ValueRange)>
          element,
      BlockedChain *chain = nullptr);
  Carried accumulate(const Scope &scope, int64_t slot, ArrayRef<Slots> slots,
                     ValueRange carried);

  KernelContext &context;
  const KernelBody &body;
  FragmentEmitter fragments;
  ImplicitLocOpBuilder &b;
  /// The axis group of the columns: 1, or 2 with column sums.
  unsigned columnGroup;
  int64_t width;
  ColumnTotals totals;
  SmallVector<Kept> kept;
  /// The strides that turn a position in a row into an offset in a buffer of
  /// kept values.
  Strides strides;
  unsigned pass = 0;
};
} // namespace

/// Creates the buffers of values that are kept for later passes (RowScratch.h).
/// An op that is computed at several places, with different values, is not
/// kept.
void RowEmitter::createKept() {
  auto [first, end] = body.getGroup(columnGroup);
  strides.assign(body.getDimensions().size(), 0);
  for (unsigned dimension = first; dimension < end; ++dimension)
    strides[dimension] = body.getSizeAfter(dimension, columnGroup);
  for (RowScratch scratch : findRowScratch(context.kernel)) {
    auto isOfOp = [&](const Node &node) { return node.op == scratch.op; };
    if (llvm::count_if(body.getNodes(), isOfOp) != 1)
      continue;
    Value buffer = context.createScratch(
        scratch.offset, getReductionSpace(context.kernel).reduced,
        elementOf(scratch.op->getResult(0)));
    kept.push_back({body.getNode(scratch.op), buffer, std::nullopt});
  }
}

/// Loads the kept values that earlier passes have stored, at the column of
/// `scope`.
void RowEmitter::readKept(Scope &scope) {
  for (const Kept &own : kept)
    if (own.madeIn && *own.madeIn < pass)
      scope.values[own.node].assign({context.load(
          own.buffer, fragments.getOffset(scope, strides), scope.width, 1)});
}

/// Stores the kept values at the column of `scope`, if the current pass is the
/// first to compute them.
void RowEmitter::keep(const Scope &scope) {
  for (Kept &own : kept) {
    if (scope.values[own.node].empty() || own.madeIn.value_or(pass) < pass)
      continue;
    own.madeIn = pass;
    fragments.store(scope.values[own.node].front(), own.buffer,
                    fragments.getOffset(scope, strides), scope.width, 1);
  }
}

/// Emits the loops over the columns of a row, and calls `element` for every
/// vector or scalar. `slot` is the number of the vector among the `vectors`
/// side by side; -1 for a chunk narrower than a vector.
Carried RowEmitter::emitColumns(
    const Scope &outer, unsigned dimension, ArrayRef<unsigned> targets,
    int64_t vectors, ValueRange init,
    llvm::function_ref<Carried(const Scope &, int64_t, ValueRange)> element,
    BlockedChain *chain) {
  // Outer dimensions of the columns get a loop each.
  int64_t size = body.getDimensions()[dimension].size;
  unsigned last = body.getDimensions().size() - 1;
  Team team =
      dimension == body.getLargest(columnGroup) ? context.columns : Team();
  if (dimension < last) {
    int64_t additions =
        llvm::divideCeilSigned(body.getSizeAfter(dimension, columnGroup),
                               width > 1 ? width * vectors : 1);
    return emitLoop(b, size, 1, init,
                    [&](Value index, ValueRange carried) {
                      Scope scope = outer;
                      scope.enter(dimension, index);
                      fragments.evaluate(scope, targets);
                      return emitColumns(scope, dimension + 1, targets, vectors,
                                         carried, element, chain);
                    },
                    team, {chain, additions});
  }
  // The last dimension is processed in vectors, `vectors` side by side. All
  // scalars add to one sum.
  return emitChunks(b, size, width, vectors, init,
                    [&](Chunk chunk, ValueRange carried) {
                      Carried values(carried);
                      for (int64_t slot = 0; slot < chunk.count; ++slot) {
                        Scope scope = outer;
                        scope.width = chunk.width;
                        scope.enter(last, chunk.getVector(b, slot));
                        readKept(scope);
                        fragments.evaluate(scope, targets);
                        keep(scope);
                        values = element(
                            scope, chunk.width == width ? slot : -1, values);
                      }
                      return values;
                    },
                    team, {chain, width > 1 ? 1 : vectors});
}

Carried RowEmitter::accumulate(const Scope &scope, int64_t slot,
                               ArrayRef<Slots> slots, ValueRange carried) {
  Carried values(carried);
  unsigned first = 0;
  for (const Slots &own : slots) {
    Accumulator accumulator(b, body.getNodes()[own.reduction].op);
    Value input = fragments.getReductionInput(scope, own.reduction);
    if (slot >= 0 && slot < own.vectors && width > 1) {
      Value &target = values[first + slot];
      if (!isa<VectorType>(input.getType()))
        input = vector::BroadcastOp::create(b, target.getType(), input);
      target = accumulator.combine(target, input);
    } else {
      // A scalar input has the same value in all `scope.width` elements, so
      // combine it once per element.
      Value &target = values[first + own.vectors];
      if (scope.width > 1 && !isa<VectorType>(input.getType()))
        for (int64_t lane = 0; lane < scope.width; ++lane)
          target = accumulator.combine(target, input);
      else
        target = accumulator.combine(target, accumulator.combineLanes(input));
    }
    first += own.vectors + 1;
  }
  return values;
}

/// Returns how many vectors are summed side by side: enough chains of additions
/// to hide their latency, without spilling. On a GPU, many threads per
/// processor also hide latency.
int64_t RowEmitter::countVectors(size_t reductionCount) const {
  unsigned last = body.getDimensions().size() - 1;
  int64_t run = body.getDimensions().back().size;
  if (last == body.getLargest(columnGroup))
    run /= context.columns.size;
  int64_t wanted = reductionCount > 2 ? 2 : 4;
  if (context.target.isGPU())
    wanted /= 2;
  if (width == 1)
    return 0;
  return run >= width * wanted ? wanted : run >= width ? 1 : 0;
}

void RowEmitter::reduceLevel(Scope &scope, unsigned level) {
  SmallVector<unsigned> reductions = body.getReductions(level);
  unsigned firstColumn = body.getGroup(columnGroup).first;
  int64_t vectors = countVectors(reductions.size());

  // Each reduction has vector accumulators, and a scalar one for the rest.
  SmallVector<Slots> slots;
  SmallVector<unsigned> inputs;
  Carried init;
  AccumulatorChain chain(b);
  for (unsigned reduction : reductions) {
    slots.push_back({reduction, vectors});
    inputs.push_back(body.getNodes()[reduction].operands[0].node);
    Accumulator accumulator(b, body.getNodes()[reduction].op);
    for (int64_t i = 0; i < vectors; ++i)
      init.push_back(accumulator.getInit(width));
    init.push_back(accumulator.getInit(1));
    chain.carry(body.getNodes()[reduction].op, width, vectors);
    chain.carry(body.getNodes()[reduction].op, 1);
  }
  fragments.evaluate(scope, inputs);
  // One pass over the columns feeds all reductions of the level.
  Carried sums = emitColumns(
      scope, firstColumn, inputs, std::max(vectors, countScalars()), init,
      [&](const Scope &at, int64_t slot, ValueRange carried) {
        return accumulate(at, slot, slots, carried);
      },
      chain.ifNeeded());

  // Combine the vectors, then their lanes, then the scalar with the rest, then
  // the values of the team's other threads.
  unsigned first = 0;
  for (const Slots &own : slots) {
    Accumulator accumulator(b, body.getNodes()[own.reduction].op);
    ValueRange all(sums);
    Value total = all[first + own.vectors];
    if (own.vectors > 0) {
      Value lanes = accumulator.combine(all.slice(first, own.vectors));
      total = accumulator.combine(accumulator.combineLanes(lanes), total);
    }
    total = combineColumns(context, accumulator, total);
    fragments.setValue(scope, own.reduction, accumulator.finish(total));
    first += own.vectors + 1;
  }
}

void RowEmitter::storeElements(const Scope &scope) {
  // Store the outputs with a value for every column, except column sums: those
  // are stored at the end of a part of rows.
  uint64_t columns = body.getGroupMask(columnGroup);
  SmallVector<const Output *> ofElements;
  SmallVector<unsigned> targets(totals.getInputs());
  for (const Output &output : body.getOutputs())
    if ((output.dimensions & columns) &&
        !llvm::is_contained(body.getColumnSums(), output.value.node)) {
      ofElements.push_back(&output);
      targets.push_back(output.value.node);
    }
  if (targets.empty())
    return;
  emitColumns(scope, body.getGroup(columnGroup).first, targets, countScalars(),
              {}, [&](const Scope &at, int64_t, ValueRange) {
                for (const Output *output : ofElements)
                  fragments.store(at, *output);
                totals.accumulate(at);
                return Carried();
              });
}

void RowEmitter::emitRow(Scope &scope) {
  pass = 0;
  for (Kept &own : kept)
    own.madeIn.reset();
  for (unsigned level = 1; level <= body.getLevelCount(); ++level, ++pass)
    reduceLevel(scope, level);
  fragments.evaluate(scope, body.getOutputNodes());
  uint64_t columns = body.getGroupMask(columnGroup);
  // Outputs with one element per row are stored once, by the row's first
  // thread.
  SmallVector<const Output *> ofRow;
  for (const Output &output : body.getOutputs())
    if (!(output.dimensions & columns))
      ofRow.push_back(&output);
  if (!ofRow.empty())
    emitWhere(b, isFirst(b, context.columns), [&] {
      for (const Output *output : ofRow)
        fragments.store(scope, *output);
    });
  storeElements(scope);
}

void RowEmitter::emit(Value begin, Value end) {
  Scope outer = fragments.createScope();
  fragments.evaluate(outer, body.getOutputNodes());
  if (!totals.isEmpty())
    return totals.emitParts(outer, begin, end,
                            [&](Scope &scope) { emitRow(scope); });
  emitLoop(
      b, begin, end, 1, {},
      [&](Value row, ValueRange) {
        Scope scope = outer;
        fragments.enterGroup(scope, 0, row);
        fragments.evaluate(scope, body.getOutputNodes());
        emitRow(scope);
        return Carried();
      },
      context.rows);
}

/// Checks that the column sum `sum` adds up the rows that `hero` reduces, in
/// the same parts as the column sum `first`.
static LogicalResult checkColumnSum(Operation *sum, Operation *first,
                                    Operation *hero) {
  ColumnGroups groups = ColumnGroups::get(sum),
               others = ColumnGroups::get(first);
  std::optional<ReductionSpace> space = getReductionSpace(sum);
  if (shapeOf(sum->getOperand(0)) == shapeOf(hero->getOperand(0)) && space &&
      space->inner == getReductionSpace(hero)->reduced &&
      groups.sizes == others.sizes &&
      cast<ReductionOpInterface>(sum).getReductionParts() ==
          cast<ReductionOpInterface>(first).getReductionParts())
    return success();
  return sum->emitOpError("expected to add up the rows of its kernel, in the "
                          "parts that other sums have, found ")
         << sum->getOperand(0).getType() << " in a kernel over "
         << hero->getOperand(0).getType();
}

/// Emits the loops of a row kernel that also makes column sums.
static LogicalResult emitRowsAndColumns(KernelContext &context,
                                        ArrayRef<Operation *> sums) {
  Operation *columnSum = sums.front();
  if (!context.target.addsColumnsBesideRows())
    return columnSum->emitOpError(
               "reduces columns in a row kernel, which target '")
           << context.target.getName() << "' does not support";
  Operation *hero = findReduction(context.kernel.getBody().front());
  for (Operation *sum : sums)
    if (failed(checkColumnSum(sum, columnSum, hero)))
      return failure();
  ColumnGroups groups = ColumnGroups::get(columnSum);
  FailureOr<KernelBody> body =
      KernelBody::create(context.kernel, shapeOf(columnSum->getOperand(0)),
                         groups.sizes, groups.split);
  if (failed(body))
    return failure();
  RowEmitter(context, *body).emit(context.bounds[0], context.bounds[1]);
  return success();
}

LogicalResult codegen::emitRowReduce(KernelContext &context) {
  Block &ops = context.kernel.getBody().front();
  if (auto sums = findColumnSums(ops); !sums.empty())
    return emitRowsAndColumns(context, sums);
  Operation *hero = findReduction(ops);
  ArrayRef<int64_t> space = shapeOf(hero->getOperand(0));
  auto reduction = cast<ReductionOpInterface>(hero);
  SmallVector<int64_t> axes = reduction.getReducedAxes();
  int64_t rows = space.size();
  while (rows > 0 &&
         (space[rows - 1] == 1 || llvm::is_contained(axes, rows - 1)))
    --rows;
  std::optional<SplitAxis> split;
  if (int64_t parts = reduction.getReductionParts(); parts > 1) {
    // The rows are all axes before the split axis, including axes of size 1.
    rows = axes.front();
    split = {rows, parts};
  }
  SmallVector<int64_t> groups = {rows + (split ? 1 : 0),
                                 static_cast<int64_t>(space.size()) - rows};
  FailureOr<KernelBody> body =
      KernelBody::create(context.kernel, space, groups, split);
  if (failed(body))
    return failure();
  RowEmitter(context, *body).emit(context.bounds[0], context.bounds[1]);
  return success();
}
