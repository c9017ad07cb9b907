// Emits pointwise kernels and epilogues.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/KernelSpace.h"
#include "passes/Codegen/Kernels/FragmentEmitter.h"
#include "passes/Codegen/Kernels/Loops/Loops.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

namespace {
/// Emits the loops over one kernel's elements. All outputs have the space's
/// shape.
class PointwiseEmitter {
public:
  PointwiseEmitter(KernelContext &context, const KernelBody &body)
      : context(context), body(body), fragments(context, body), b(context.b),
        targets(body.getOutputNodes()) {}

  FragmentEmitter &getFragments() { return fragments; }

  /// Emits one loop over [lower, upper) of the only dimension.
  void emitFlat(Value lower, Value upper) {
    Scope scope = fragments.createScope();
    fragments.evaluate(scope, targets);
    emitRun(scope, lower, upper);
  }

  /// Emits rows [lower, upper) of group 0; `row` emits the content of a row.
  void emitRows(Value lower, Value upper,
                llvm::function_ref<void(Scope &, Value row)> row) {
    Scope outer = fragments.createScope();
    fragments.evaluate(outer, targets);
    emitLoop(
        b, lower, upper, 1, {},
        [&](Value index, ValueRange) {
          Scope scope = outer;
          fragments.enterGroup(scope, 0, index);
          fragments.evaluate(scope, targets);
          row(scope, index);
          return Carried();
        },
        context.rows);
  }

  /// Emits loops over all of group 1.
  void emitColumns(Scope &outer) {
    auto [first, end] = body.getGroup(1);
    emitColumns(outer, first, end);
  }

  /// Emits [lower, upper) of the last dimension.
  void emitRun(const Scope &outer, Value lower, Value upper) {
    int64_t width = context.getVectorWidth();
    int64_t size = body.getDimensions().back().size;
    SmallVector<ChunkShape> shapes = {{width, 1}};
    // A block of threads starts and ends at whole vectors, unless the last
    // vector is not full.
    if (!context.target.isGPU() || size % width != 0)
      shapes.push_back({1, 1});
    emitDynamicChunks(
        b, lower, upper, size, shapes,
        [&](Chunk chunk) { emitChunk(outer, chunk); }, context.columns);
  }

private:
  void emitColumns(const Scope &outer, unsigned dimension, unsigned end) {
    int64_t size = body.getDimensions()[dimension].size;
    Team team = dimension == body.getLargest(1) ? context.columns : Team();
    // The last dimension is processed in vectors; each outer dimension gets a
    // loop.
    if (dimension + 1 == end) {
      emitChunks(
          b, size, context.getVectorWidth(), 1, {},
          [&](Chunk chunk, ValueRange) {
            emitChunk(outer, chunk);
            return Carried();
          },
          team);
      return;
    }
    // Values that depend on the outer index alone are computed once per
    // iteration.
    emitLoop(
        b, size, 1, {},
        [&](Value index, ValueRange) {
          Scope scope = outer;
          scope.enter(dimension, index);
          fragments.evaluate(scope, targets);
          emitColumns(scope, dimension + 1, end);
          return Carried();
        },
        team);
  }

  void emitChunk(const Scope &outer, Chunk chunk) {
    Scope scope = outer;
    scope.width = chunk.width;
    scope.enter(body.getDimensions().size() - 1, chunk.index);
    fragments.evaluate(scope, targets);
    for (const Output &output : body.getOutputs())
      fragments.store(scope, output);
  }

  KernelContext &context;
  const KernelBody &body;
  FragmentEmitter fragments;
  ImplicitLocOpBuilder &b;
  SmallVector<unsigned> targets;
};
} // namespace

/// Returns how many leading axes of `space` one index of the partition stands
/// for, if an index has `inner` elements.
static int64_t countRowAxes(ArrayRef<int64_t> space, int64_t inner) {
  int64_t axes = space.size(), elements = 1;
  while (axes > 0 && elements < inner)
    elements *= space[--axes];
  return axes;
}

LogicalResult codegen::emitPointwise(KernelContext &context) {
  ArrayRef<int64_t> space = getElementShape(context.kernel);
  const KernelPartition &partition = context.partition;
  int64_t rank = space.size();
  Value begin = context.bounds[0], end = context.bounds[1];
  // Without broadcasts, the space is flat and needs one loop.
  if (partition.inner == 1) {
    FailureOr<KernelBody> body =
        KernelBody::create(context.kernel, space, {rank});
    if (failed(body))
      return failure();
    if (body->getDimensions().size() == 1) {
      PointwiseEmitter(context, *body).emitFlat(begin, end);
      return success();
    }
  }
  // Otherwise, loop over rows, and over the columns within each row.
  int64_t rowAxes = countRowAxes(space, partition.inner);
  FailureOr<KernelBody> body =
      KernelBody::create(context.kernel, space, {rowAxes, rank - rowAxes});
  if (failed(body))
    return failure();
  PointwiseEmitter emitter(context, *body);
  emitter.emitRows(begin, end,
                   [&](Scope &scope, Value) { emitter.emitColumns(scope); });
  return success();
}

LogicalResult codegen::emitEpilogue(KernelContext &context) {
  // Use the product's shape: results may have another order of axes.
  ArrayRef<int64_t> space = shapeOf(context.kernel.getArgument(0));
  int64_t rank = space.size();
  FailureOr<KernelBody> body =
      KernelBody::create(context.kernel, space, {rank - 1, 1},
                         /*split=*/std::nullopt, /*hasTile=*/true);
  if (failed(body))
    return failure();
  ImplicitLocOpBuilder &b = context.b;
  Value rowBegin = context.bounds[0], rowEnd = context.bounds[1];
  Value colBegin = context.bounds[2], colEnd = context.bounds[3];
  Value ld = context.bounds[4];
  PointwiseEmitter emitter(context, *body);
  emitter.emitRows(rowBegin, rowEnd, [&](Scope &scope, Value row) {
    // The tile starts at element (row_begin, col_begin).
    Value tileRow = arith::SubIOp::create(b, row, rowBegin);
    Value rowStart = arith::MulIOp::create(b, tileRow, ld);
    emitter.getFragments().setTileBase(
        arith::SubIOp::create(b, rowStart, colBegin));
    emitter.emitRun(scope, colBegin, colEnd);
  });
  return success();
}
