// Reads axes, ranges and shapes from a node's inputs and attributes. Builders
// and folders use these functions.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_IMPORTER_SHAPEARGUMENTS_H
#define MPC_FRONTENDS_ONNX_IMPORTER_SHAPEARGUMENTS_H

#include "frontends/ONNX/Importer/Importer.h"

namespace mpc::onnx_frontend {

/// Infer the shape that Reshape, Squeeze or Unsqueeze gives its first input.
/// Report an error if the node states no valid shape.
mlir::FailureOr<llvm::SmallVector<int64_t>> inferReshape(NodeImporter &node);
mlir::FailureOr<llvm::SmallVector<int64_t>> inferSqueeze(NodeImporter &node);
mlir::FailureOr<llvm::SmallVector<int64_t>> inferUnsqueeze(NodeImporter &node);

/// The axes of a reduction, sorted.
struct Reduction {
  llvm::SmallVector<int64_t> axes;
  bool keepDims;
  /// True if the op returns its input unchanged, because it has no axes and
  /// noop_with_empty_axes is set.
  bool isIdentity;
};
mlir::FailureOr<Reduction> readReduction(NodeImporter &node);

/// Selects `count` elements along `axis` from `offset`, `step` apart. Steps may
/// be negative.
struct SliceRange {
  int64_t axis, offset, count, step;
};
/// Reads the ranges of Slice: attributes before opset 10, inputs from then on.
mlir::FailureOr<llvm::SmallVector<SliceRange>>
readSliceRanges(NodeImporter &node);

/// The parts that Split cuts axis `axis` into. There is one length per output;
/// the sum is the extent of the axis.
struct SplitParts {
  int64_t axis;
  llvm::SmallVector<int64_t> lengths;
};
mlir::FailureOr<SplitParts> readSplitParts(NodeImporter &node);

/// Reads the permutation of Transpose; by default the axes in reverse order.
mlir::FailureOr<llvm::SmallVector<int64_t>> readPermutation(NodeImporter &node);

/// Reads the axis of Concat.
mlir::FailureOr<int64_t> readConcatAxis(NodeImporter &node);
/// Defines ConcatTraining's second output: the extent of every input along
/// `axis`.
mlir::LogicalResult defineLengths(NodeImporter &node, int64_t axis);

/// Defines output `output` as a tensor of `shape` filled with the only element
/// of `element`. The number of elements is not limited.
mlir::LogicalResult defineSplat(NodeImporter &node, unsigned output,
                                llvm::ArrayRef<int64_t> shape,
                                const HostTensor &element);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_SHAPEARGUMENTS_H
