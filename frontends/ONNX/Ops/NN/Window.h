// Reads the attributes of sliding windows: convolution and pooling, forward and
// backward.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_OPS_NN_WINDOW_H
#define MPC_FRONTENDS_ONNX_OPS_NN_WINDOW_H

#include "frontends/ONNX/Importer/Importer.h"

namespace mpc::onnx_frontend {

/// The rules of an average pool at the edges of the input. `ceilMode` keeps the
/// last window if it starts inside the input but ends outside. `countsPadding`
/// includes positions in the padding in the divisor.
struct PoolEdges {
  bool ceilMode = false, countsPadding = false;
};

/// Reads ceil_mode and count_include_pad.
PoolEdges readPoolEdges(NodeImporter &node);

/// The attributes of a sliding window, with defaults filled in and auto_pad
/// turned into pads.
struct Window {
  llvm::SmallVector<int64_t> kernel, strides, pads, dilations;

  llvm::SmallVector<mlir::NamedAttribute> convAttributes(NodeImporter &node,
                                                         int64_t group) const;
  llvm::SmallVector<mlir::NamedAttribute> poolAttributes(NodeImporter &node,
                                                         bool ceilMode) const;
  /// Like poolAttributes, for average pools. Includes the dilations unless all
  /// are 1.
  llvm::SmallVector<mlir::NamedAttribute> meanAttributes(NodeImporter &node,
                                                         PoolEdges edges) const;
};

/// Reads kernel_shape, strides, pads, dilations and auto_pad of a node over an
/// input of `inputShape`, (N, C, spatial...). `kernel` is the spatial shape of
/// a convolution's weight; empty for pooling, which must have kernel_shape.
mlir::FailureOr<Window> readWindow(NodeImporter &node,
                                   llvm::ArrayRef<int64_t> inputShape,
                                   llvm::ArrayRef<int64_t> kernel);

/// Creates the convolution of a node with an input, a weight and an optional
/// bias. Reports an error and returns null if invalid.
mlir::Value emitConvolution(NodeImporter &node);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_OPS_NN_WINDOW_H
