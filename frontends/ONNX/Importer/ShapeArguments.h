// What ops say about shapes and places: axes, ranges, parts. Read in one place
// for the builders, which make ops, and for folding, which computes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_IMPORTER_SHAPEARGUMENTS_H
#define MPC_FRONTENDS_ONNX_IMPORTER_SHAPEARGUMENTS_H

#include "frontends/ONNX/Importer/Importer.h"

namespace mpc::onnx_frontend {

/// The shape that the op gives its first input; a finding where it has none.
mlir::FailureOr<llvm::SmallVector<int64_t>> inferReshape(NodeImporter &node);
mlir::FailureOr<llvm::SmallVector<int64_t>> inferSqueeze(NodeImporter &node);
mlir::FailureOr<llvm::SmallVector<int64_t>> inferUnsqueeze(NodeImporter &node);

/// Which axes a reduction is over; `axes` is sorted.
struct Reduction {
  llvm::SmallVector<int64_t> axes;
  bool keepDims;
  /// Without axes, the op passes its input on.
  bool isIdentity;
};
mlir::FailureOr<Reduction> readReduction(NodeImporter &node);

/// Along `axis`, `count` elements from `offset`, `step` apart; steps may be
/// negative.
struct SliceRange {
  int64_t axis, offset, count, step;
};
/// Slice's ranges, which are attributes before opset 10 and inputs from then
/// on.
mlir::FailureOr<llvm::SmallVector<SliceRange>>
readSliceRanges(NodeImporter &node);

/// The parts that Split cuts an axis into: as many as the node has outputs, and
/// together as long as the axis.
struct SplitParts {
  int64_t axis;
  llvm::SmallVector<int64_t> lengths;
};
mlir::FailureOr<SplitParts> readSplitParts(NodeImporter &node);

/// Transpose's permutation, by default the axes in reverse order.
mlir::FailureOr<llvm::SmallVector<int64_t>> readPermutation(NodeImporter &node);

/// Concat's axis.
mlir::FailureOr<int64_t> readConcatAxis(NodeImporter &node);
/// ConcatTraining's second output: the length of every input along `axis`.
mlir::LogicalResult defineLengths(NodeImporter &node, int64_t axis);

/// Defines an output that holds `element`, which is one, everywhere; of any
/// size.
mlir::LogicalResult defineSplat(NodeImporter &node, unsigned output,
                                llvm::ArrayRef<int64_t> shape,
                                const HostTensor &element);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_SHAPEARGUMENTS_H
