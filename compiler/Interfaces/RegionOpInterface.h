// How an op can share a kernel with its neighbours.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_REGIONOPINTERFACE_H
#define MPC_COMPILER_INTERFACES_REGIONOPINTERFACE_H

#include "mlir/IR/OpDefinition.h"

namespace mpc {

/// What part an op can take in a kernel.
enum class RegionRole {
  /// Known at compile time; costs nothing where it is a splat.
  Constant,
  /// The result at an index depends only on the operands, broadcast by NumPy's
  /// rules, at that index, and on the index itself.
  Elementwise,
  /// Sums, means or maxima over axes: the hero of a row or column kernel.
  Reduction,
  /// Matrix products and convolutions: an epilogue can follow.
  Contraction,
  /// The same bytes under another shape; no kernel at all.
  View,
  /// Moves elements (transpose, concat, slice) without computing.
  Movement,
  /// Sliding windows.
  Window,
  /// Writes elements to places that indices name.
  Scatter,
  /// Each element depends on those before it along an axis.
  Cumulative,
  /// Decomposed into the others by the Fusion stage.
  Composite,
};

} // namespace mpc

#include "compiler/Interfaces/RegionOpInterface.h.inc"

namespace mpc {

/// "reduction", as messages call the ops of a role.
llvm::StringRef stringifyRegionRole(RegionRole role);

/// Whether `op` takes part in kernels as `role`.
bool hasRole(mlir::Operation *op, RegionRole role);

/// The matrix product or convolution in the body of a region or kernel; null
/// where there is none.
mlir::Operation *findContraction(mlir::Block &body);

} // namespace mpc

#endif // MPC_COMPILER_INTERFACES_REGIONOPINTERFACE_H
