// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/Kernels/Reduction/ColumnRuns.h"

#include "compiler/Kernels/ColumnBands.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

SmallVector<ChunkShape> codegen::getColumnShapes(KernelContext &context,
                                                 const KernelBody &body,
                                                 int64_t vectors) {
  int64_t width = context.getVectorWidth();
  vectors = std::min(vectors, kColumnBlock / width);
  SmallVector<ChunkShape> shapes = {{width, vectors}};
  // Slices begin and end at multiples of kColumnBlock or at the ends of runs.
  // One shape suffices if runs are whole blocks.
  if (body.getDimensions().back().size % kColumnBlock == 0)
    return shapes;
  if (vectors > 4)
    shapes.push_back({width, 4});
  for (int64_t lanes = width; lanes >= 1; lanes /= 2)
    shapes.push_back({lanes, 1});
  return shapes;
}

void codegen::emitRuns(KernelContext &context, const KernelBody &body,
                       FragmentEmitter &fragments, Value begin, Value end,
                       RunBody emit) {
  ImplicitLocOpBuilder &b = context.b;
  ArrayRef<Dimension> dimensions = body.getDimensions();
  unsigned last = dimensions.size() - 1;
  int64_t run = dimensions[last].size;
  // The outer dimensions. The number of a run is split into indices along them.
  SmallVector<unsigned> outerDimensions;
  SmallVector<int64_t> outerSizes;
  for (unsigned d = 0; d < last; ++d)
    if (dimensions[d].group != 1) {
      outerDimensions.push_back(d);
      outerSizes.push_back(dimensions[d].size);
    }
  // Visit the runs that the slice [begin, end) covers; the first and last may
  // be cut.
  emitRunLoop(b, begin, end, run, [&](Value number, Value lower, Value upper) {
    Scope scope = fragments.createScope();
    for (auto [dimension, index] :
         llvm::zip_equal(outerDimensions, splitIndex(b, number, outerSizes)))
      scope.enter(dimension, index);
    fragments.evaluate(scope, body.getOutputNodes());
    emit(scope, lower, upper);
  });
}
