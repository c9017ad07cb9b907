// Finds how a Max, Min or Clip passes on the gradient of an element that equals
// its bound. Frameworks, and versions of PyTorch, differ.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_OPS_MATH_CLAMPSHARES_H
#define MPC_FRONTENDS_ONNX_OPS_MATH_CLAMPSHARES_H

#include "frontends/ONNX/Importer/NodeImporter.h"

#include <optional>

namespace mpc::onnx_frontend {

/// Returns the share of the gradient that an element equal to its bound
/// receives, if `node` is a Max or Min that PyTorch's exporter wrote for clamp.
/// The metadata or the node's name tell. Until PyTorch 2.14 the share is 1.
/// Since 2.15 the share is 0 if the bound is a number. Otherwise nullopt: the
/// share is 1/2, as for any Max.
std::optional<double> findShareAtBound(NodeImporter &node);

/// Like findShareAtBound, for a Clip between `min` and `max`. `areKnown` is
/// true if both bounds are constants.
///
/// PyTorch's hardtanh passes no gradient at its bounds, in any version, and
/// neither does ReLU6 of PyTorch and TensorFlow. A Clip in a file of PyTorch is
/// taken as a clamp: without metadata, constants are numbers, and all other
/// bounds are tensors. In other files the share is 1.
std::optional<double> findShareInClip(NodeImporter &node,
                                      std::optional<double> min,
                                      std::optional<double> max, bool areKnown);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_OPS_MATH_CLAMPSHARES_H
