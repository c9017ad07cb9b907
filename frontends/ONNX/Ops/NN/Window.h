// Attributes of sliding windows: convolution and pooling, forward and backward.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_OPS_NN_WINDOW_H
#define MPC_FRONTENDS_ONNX_OPS_NN_WINDOW_H

#include "frontends/ONNX/Importer/Importer.h"

namespace mpc::onnx_frontend {

/// A window with all defaults and paddings resolved.
struct Window {
  llvm::SmallVector<int64_t> kernel, strides, pads, dilations;

  llvm::SmallVector<mlir::NamedAttribute> convAttributes(NodeImporter &node,
                                                         int64_t group) const;
  llvm::SmallVector<mlir::NamedAttribute> poolAttributes(NodeImporter &node,
                                                         bool ceilMode) const;
  /// The same of a mean, which has dilations where they are not all 1.
  llvm::SmallVector<mlir::NamedAttribute>
  meanAttributes(NodeImporter &node, bool ceilMode, bool countsPadding) const;
};

/// Reads kernel_shape, strides, pads, dilations and auto_pad of a node over an
/// input of that shape (N, C, spatial...). `kernel` is what a convolution's
/// weight says; empty for pooling, which must have kernel_shape.
mlir::FailureOr<Window> readWindow(NodeImporter &node,
                                   llvm::ArrayRef<int64_t> inputShape,
                                   llvm::ArrayRef<int64_t> kernel);

/// The convolution of a node with input 0, a weight and a bias or none, as its
/// window and `group` say; null, with a finding, where it is none.
mlir::Value emitConvolution(NodeImporter &node);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_OPS_NN_WINDOW_H
