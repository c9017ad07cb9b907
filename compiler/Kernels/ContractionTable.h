// Decides who computes a contraction: a library, or a kernel that Codegen
// generates.
//
// One table decides by target and types, and every planner asks here. An
// override replaces the choice of the table, for tests and measurements. An
// override cannot choose a provider that is unable to compute the contraction.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_KERNELS_CONTRACTIONTABLE_H
#define MPC_COMPILER_KERNELS_CONTRACTIONTABLE_H

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Target/TargetInfo.h"

namespace mpc {

/// Returns the provider of `contraction` on `target`: the override's, or else
/// the table's choice. If the chosen provider cannot compute the contraction,
/// returns the other provider.
ContractionProvider
getContractionProvider(mlir::Operation *contraction, const TargetInfo &target,
                       std::optional<ContractionProvider> override = {});

/// True if a convolution, or a gradient of a convolution, is a matrix product
/// over all pixels: one tap, one group, no strides and no padding.
bool isMatrixProduct(mlir::Operation *convolution);

/// True if a convolution has one tap, one group and no padding, with any
/// strides: a matrix product over every n-th pixel.
bool hasOneTap(mlir::Operation *convolution);

/// True if a conv_weight_grad of 16-bit operands may have an f32 result on
/// `target`. On a GPU, only gradients that are matrix products can: cuDNN sums
/// in f32, but rounds the result to the operands' type. An f32 result would
/// need f32 operands, at four times the cost: twice the traffic and half the
/// rate.
bool hasWideWeightGradient(mlir::Operation *gradient, const TargetInfo &target);

/// True if the convolution library of `target` takes filters with input
/// channels last; see compiler/Dialect/MPC/Shapes/FilterLayout.h.
bool takesInputChannelsLast(const TargetInfo &target);

} // namespace mpc

#endif // MPC_COMPILER_KERNELS_CONTRACTIONTABLE_H
