// Restores absolute values that PyTorch's exporter leaves out.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_DROPPEDABSOLUTES_H
#define MPC_FRONTENDS_ONNX_REPAIR_DROPPEDABSOLUTES_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// Restores |a - b| in torch.cdist(a, b, p) and nn.PairwiseDistance(p). The
/// older exporter writes sum((a - b)^p)^(1 / (p + eps)). Only an even p gives
/// right results: otherwise negative differences keep the sign (p = 1) or have
/// no power. Inserts an Abs before such powers, also in bodies of If and Loop.
/// For p = inf the exported formula computes 1, and becomes the largest
/// absolute value. Returns a note of the changes; empty if there are none.
std::string restoreAbsolutes(Model &model);

/// True if sum(x^power)^root is a distance as the older exporter writes it,
/// with 0 < eps <= 0.01. If eps is below the rounding of float32, only the
/// root's shape of [1] (`isVector`) tells the exporter's root from the
/// program's own.
bool isRootOfDistance(double power, double root, bool isVector);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_DROPPEDABSOLUTES_H
