// Reads values between elements: at positions computed at run time, as weighted
// sums of the surrounding elements. Shared by GridSample, RoiAlign and
// DeformConv.
//
// Positions are computed in f64, which the Precision stage leaves alone:
// rounding must not change which elements are read.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_OPS_NN_SAMPLING_H
#define MPC_FRONTENDS_ONNX_OPS_NN_SAMPLING_H

#include "frontends/ONNX/Importer/Assemble.h"

namespace mpc::onnx_frontend {

/// One element to read along an axis: its position (i64, possibly outside the
/// axis) and its weight (f64, null for 1).
struct Tap {
  mlir::Value place, weight;
};

/// The value read outside an axis: 0, or the element at the edge.
enum class Outside { Zero, Edge };

/// One axis of the data, and the elements to read along it.
struct SampledAxis {
  int64_t size;
  llvm::SmallVector<Tap> taps;
  Outside outside = Outside::Zero;
};

//===--- Arithmetic of places ---===//

/// Casts x to f64, the type of positions; null if x is null.
mlir::Value toPlace(NodeImporter &node, mlir::Value x);
/// Returns `x * factor + offset`.
mlir::Value scalePlace(NodeImporter &node, mlir::Value x, double factor,
                       double offset);
/// Clamps x to [low, high], without a gradient outside. NaN stays NaN.
mlir::Value clampPlace(NodeImporter &node, mlir::Value x, double low,
                       double high);
/// Returns the integer at or below x as i64, and the distance of x above it.
std::pair<mlir::Value, mlir::Value> splitPlace(NodeImporter &node,
                                               mlir::Value x);
/// Rounds x to the closest integer, as i64; ties go to the even integer.
mlir::Value roundPlace(NodeImporter &node, mlir::Value x);

/// Returns the two elements around position x, with the weights of linear
/// interpolation.
llvm::SmallVector<Tap> linearTaps(NodeImporter &node, mlir::Value x);

//===--- Reading ---===//

/// Reads the data, (batch..., C, extents...), at all combinations of one tap
/// per axis, for the last axes. Returns one value per combination. Positions
/// and weights have shape (batch..., O), each result (batch..., C, O). Each
/// element is multiplied by the product of its weights, in f32, or in f64 for
/// f64 data; without weights, elements stay unchanged. Positions outside an
/// axis are handled, so no read is out of bounds.
llvm::SmallVector<mlir::Value> readTaps(NodeImporter &node, mlir::Value data,
                                        int64_t batchDims,
                                        llvm::ArrayRef<SampledAxis> axes);
/// Sums the results of readTaps, in the data's type.
mlir::Value sumTaps(NodeImporter &node, mlir::Value data, int64_t batchDims,
                    llvm::ArrayRef<SampledAxis> axes);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_OPS_NN_SAMPLING_H
