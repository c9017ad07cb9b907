// Computes the geometry of sliding windows, for pooling and convolution.
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

/// The range [lower, upper) of a loop's indices.
struct LoopBounds {
  mlir::Value lower, upper;
};

/// Returns the taps at which the window of output position `out` reads inside
/// the input.
LoopBounds getTaps(mlir::ImplicitLocOpBuilder &b, const WindowAxis &axis,
                   mlir::Value out);

/// Returns the output positions whose tap `tap` reads inside the input.
LoopBounds getOutputs(mlir::ImplicitLocOpBuilder &b, const WindowAxis &axis,
                      mlir::Value tap);

/// Returns the input position that `out` reads at `tap`. May be in the padding,
/// outside the input.
mlir::Value getInput(mlir::ImplicitLocOpBuilder &b, const WindowAxis &axis,
                     mlir::Value out, mlir::Value tap);

/// A position of the input that an output position reads, or the reverse, and a
/// flag that the position exists.
struct Neighbour {
  mlir::Value position, exists;
};

/// Returns the input position that `out` reads at `tap`, and a flag that it is
/// inside the input.
Neighbour findInput(mlir::ImplicitLocOpBuilder &b, const WindowAxis &axis,
                    mlir::Value out, mlir::Value tap);

/// Returns the output position that reads input position `in` at `tap`, and a
/// flag that there is one.
Neighbour findOutput(mlir::ImplicitLocOpBuilder &b, const WindowAxis &axis,
                     mlir::Value in, mlir::Value tap);

/// The layout of activations: sizes and strides of a row-major buffer with
/// channels first or last.
struct Activations {
  Activations(llvm::ArrayRef<int64_t> shape, bool channelsLast);

  int64_t channels;
  int64_t batchStride, channelStride;
  llvm::SmallVector<int64_t> spatial, spatialStrides;
};

/// Emits a nest of loops over `bounds`, outermost first.
Carried emitNest(mlir::ImplicitLocOpBuilder &b,
                 llvm::ArrayRef<LoopBounds> bounds, mlir::ValueRange init,
                 llvm::function_ref<Carried(mlir::ValueRange indices,
                                            mlir::ValueRange carried)>
                     body);

/// Emits `onTrue` if `condition` is true, otherwise `onFalse`.
Carried emitIfElse(mlir::ImplicitLocOpBuilder &b, mlir::Value condition,
                   llvm::function_ref<Carried()> onTrue,
                   llvm::function_ref<Carried()> onFalse);

/// Emits `body` if `condition` is true; otherwise `init` passes unchanged.
Carried emitIf(mlir::ImplicitLocOpBuilder &b, mlir::Value condition,
               mlir::ValueRange init, llvm::function_ref<Carried()> body);

/// Emits the sum of indices times strides.
mlir::Value linearize(mlir::ImplicitLocOpBuilder &b, mlir::ValueRange indices,
                      llvm::ArrayRef<int64_t> strides);

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_LOOPS_WINDOW_H
