// Who does a contraction: a library, or a kernel that Codegen generates.
//
// One table answers, by target and types; whoever plans asks here and nowhere
// else. An override takes the place
// of the table, for tests and for measuring one against the other, but not of
// what each of the two can do.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_KERNELS_CONTRACTIONTABLE_H
#define MPC_COMPILER_KERNELS_CONTRACTIONTABLE_H

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Target/TargetInfo.h"

namespace mpc {

/// Who does `contraction` on `target`: as the override says, else as the table
/// says, as far as the one chosen can do it at all.
ContractionProvider
getContractionProvider(mlir::Operation *contraction, const TargetInfo &target,
                       std::optional<ContractionProvider> override = {});

/// Whether a convolution, or a gradient of one, is a matrix product over
/// pixels: one tap, one group, no strides and no padding.
bool isMatrixProduct(mlir::Operation *convolution);

/// Whether it is one over every so many pixels, if not over all: as above, with
/// any strides.
bool hasOneTap(mlir::Operation *convolution);

/// Whether a conv_weight_grad of 16-bit operands can have a result of f32.
/// cuDNN has no such engine on a GPU: its sums are f32, but what it writes has
/// the operands' type. To have it wide, both operands would have to be, at four
/// times the cost: twice the traffic and half the rate.
bool hasWideWeightGradient(mlir::Operation *gradient, const TargetInfo &target);

/// Whether the library that convolves on `target` takes filters with their
/// input channels last; see compiler/Dialect/MPC/Shapes/FilterLayout.h.
bool takesInputChannelsLast(const TargetInfo &target);

} // namespace mpc

#endif // MPC_COMPILER_KERNELS_CONTRACTIONTABLE_H
