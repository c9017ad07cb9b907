// The geometry of sliding windows, shared by pooling and convolution.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_LOOPS_WINDOW_H
#define MPC_PASSES_CODEGEN_KERNELS_LOOPS_WINDOW_H

#include "passes/Codegen/Kernels/Loops/Loops.h"

namespace mpc::codegen {

/// One spatial axis of a sliding window: input position = output position *
/// stride - padBegin + tap * dilation.
struct WindowAxis {
  int64_t inputSize = 1, outputSize = 1, taps = 1;
  int64_t stride = 1, dilation = 1, padBegin = 0, padEnd = 0;
};

/// A range of loop indices.
struct Bounds {
  mlir::Value lower, upper;
};

/// The taps at which the window of output position `out` reads inside the
/// input.
Bounds getTaps(mlir::ImplicitLocOpBuilder &b, const WindowAxis &axis,
               mlir::Value out);

/// The output positions whose tap `tap` reads inside the input.
Bounds getOutputs(mlir::ImplicitLocOpBuilder &b, const WindowAxis &axis,
                  mlir::Value tap);

/// The input position that `out` reads at `tap`.
mlir::Value getInput(mlir::ImplicitLocOpBuilder &b, const WindowAxis &axis,
                     mlir::Value out, mlir::Value tap);

/// A position on the other side of a window, and whether there is one.
struct Neighbour {
  mlir::Value position, exists;
};

/// The input position that `out` reads at `tap`, inside the input or not.
Neighbour getReader(mlir::ImplicitLocOpBuilder &b, const WindowAxis &axis,
                    mlir::Value out, mlir::Value tap);

/// The output position that reads input position `in` at `tap`.
Neighbour getWriter(mlir::ImplicitLocOpBuilder &b, const WindowAxis &axis,
                    mlir::Value in, mlir::Value tap);

/// Where activations keep their axes: sizes and strides of a row-major buffer
/// with channels first or last.
struct Activations {
  Activations(llvm::ArrayRef<int64_t> shape, bool channelsLast);

  int64_t channels;
  int64_t batchStride, channelStride;
  llvm::SmallVector<int64_t> spatial, spatialStrides;
};

/// A nest of loops over `bounds`, outermost first.
Carried emitNest(mlir::ImplicitLocOpBuilder &b, llvm::ArrayRef<Bounds> bounds,
                 mlir::ValueRange init,
                 llvm::function_ref<Carried(mlir::ValueRange indices,
                                            mlir::ValueRange carried)>
                     body);

/// `onTrue` where `condition`, else `onFalse`.
Carried emitIfElse(mlir::ImplicitLocOpBuilder &b, mlir::Value condition,
                   llvm::function_ref<Carried()> onTrue,
                   llvm::function_ref<Carried()> onFalse);

/// `body` where `condition`, else `init` unchanged.
Carried emitIf(mlir::ImplicitLocOpBuilder &b, mlir::Value condition,
               mlir::ValueRange init, llvm::function_ref<Carried()> body);

/// Sum of indices times strides.
mlir::Value linearize(mlir::ImplicitLocOpBuilder &b, mlir::ValueRange indices,
                      llvm::ArrayRef<int64_t> strides);

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_LOOPS_WINDOW_H
