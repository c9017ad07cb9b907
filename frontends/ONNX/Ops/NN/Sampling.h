// Reading between elements: values at places that are computed at run time, as
// weighted sums of the elements around them. What GridSample, RoiAlign and
// DeformConv share.
//
// Places are computed in f64, which precision leaves as it is: which elements
// are read must not depend on what is rounded where.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_OPS_NN_SAMPLING_H
#define MPC_FRONTENDS_ONNX_OPS_NN_SAMPLING_H

#include "frontends/ONNX/Importer/Assemble.h"

namespace mpc::onnx_frontend {

/// One element that is read along an axis: its place (i64, perhaps outside of
/// the axis) and its weight (f64, null for 1).
struct Tap {
  mlir::Value place, weight;
};

/// What is read outside of an axis: 0, or the element at the edge.
enum class Outside { Zero, Edge };

/// One axis of the data and the elements that are read along it.
struct SampledAxis {
  int64_t size;
  llvm::SmallVector<Tap> taps;
  Outside outside = Outside::Zero;
};

//===--- Arithmetic of places ---===//

/// x as f64; null where x is.
mlir::Value toPlace(NodeImporter &node, mlir::Value x);
/// `x * factor + offset`.
mlir::Value scalePlace(NodeImporter &node, mlir::Value x, double factor,
                       double offset);
/// The bounds where x is beyond them, with no gradient there; NaN stays.
mlir::Value clampPlace(NodeImporter &node, mlir::Value x, double low,
                       double high);
/// The integer at or below x, as i64, and how far x is above it.
std::pair<mlir::Value, mlir::Value> splitPlace(NodeImporter &node,
                                               mlir::Value x);
/// The integer closest to x as i64, the even one of two.
mlir::Value roundPlace(NodeImporter &node, mlir::Value x);

/// The two elements around x, weighted by how close they are.
llvm::SmallVector<Tap> linearTaps(NodeImporter &node, mlir::Value x);

//===--- Reading ---===//

/// The data, of shape (batch..., C, extents...), at all combinations of the
/// taps of its last axes, whose places and weights have the shape (batch...,
/// O): of shape (batch..., C, O), each element times the product of its
/// weights, in f32 or, where the data is, in f64. Without weights elements stay
/// as they are. Places never name anything but elements of the axes.
llvm::SmallVector<mlir::Value> readTaps(NodeImporter &node, mlir::Value data,
                                        int64_t batchDims,
                                        llvm::ArrayRef<SampledAxis> axes);
/// The sum of them in the data's type.
mlir::Value sumTaps(NodeImporter &node, mlir::Value data, int64_t batchDims,
                    llvm::ArrayRef<SampledAxis> axes);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_OPS_NN_SAMPLING_H
