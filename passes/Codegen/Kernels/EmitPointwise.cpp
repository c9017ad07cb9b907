// Emits pointwise kernels, and epilogues: elementwise ops that a library's
// product applies to each tile of its result.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/KernelSpace.h"
#include "passes/Codegen/Kernels/FragmentEmitter.h"
#include "passes/Codegen/Kernels/Loops/Loops.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

namespace {
/// Emits the loops over one kernel's elements. All outputs have the shape of
/// the iteration space.
class PointwiseEmitter {
public:
  PointwiseEmitter(KernelContext &context, const KernelBody &body)
      : context(context), body(body), fragments(context, body), b(context.b),
        targets(body.getOutputNodes()) {}

  FragmentEmitter &getFragments() { return fragments; }

  /// For a body with a single dimension, emits one loop over its indices
  /// [lower, upper).
  void emitFlat(Value lower, Value upper) {
    Scope scope = fragments.createScope();
    fragments.evaluate(scope, targets);
    emitRun(scope, lower, upper);
  }

  /// Emits a loop over the rows [lower, upper): indices of the axis group 0.
  /// `row` emits the body of the loop.
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

  /// Emits the loops over all columns of a row: the axis group 1.
  void emitColumns(Scope &outer) {
    auto [first, end] = body.getGroup(1);
    emitColumns(outer, first, end);
  }

  /// Emits a loop over the indices [lower, upper) of the last dimension.
  void emitRun(const Scope &outer, Value lower, Value upper) {
    int64_t width = context.getVectorWidth();
    int64_t size = body.getDimensions().back().size;
    SmallVector<ChunkShape> shapes = {{width, 1}};
    // On a GPU, slices start and end at whole vectors. Single elements remain
    // only if the size is no multiple of the vector width.
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

/// Returns how many leading axes of `space` form the rows, if a row has `inner`
/// elements. Example: one axis of [4, 6, 8] if `inner` is 48.
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
  // With broadcasts, loop over rows, and over the columns within each row.
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
  // Loop over the shape of the product, since results may have their axes in
  // another order.
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
    // Argument 0 is a tile whose first element is (row_begin, col_begin) of the
    // product, and whose rows are `ld` elements apart.
    Value tileRow = arith::SubIOp::create(b, row, rowBegin);
    Value rowStart = arith::MulIOp::create(b, tileRow, ld);
    emitter.getFragments().setTileBase(
        arith::SubIOp::create(b, rowStart, colBegin));
    emitter.emitRun(scope, colBegin, colEnd);
  });
  return success();
}
