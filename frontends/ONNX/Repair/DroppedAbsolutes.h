// Absolute values that PyTorch's exporter leaves out.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_DROPPEDABSOLUTES_H
#define MPC_FRONTENDS_ONNX_REPAIR_DROPPEDABSOLUTES_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// Distances of torch.cdist(a, b, p) and of nn.PairwiseDistance(p), which the
/// older exporter writes as sum((a - b)^p)^(1 / (p + eps)): right for an even
/// p, while for another, as p = 1, what is below 0 has a wrong sign or no
/// power. Puts an Abs before such powers, those in bodies of If and Loop too.
/// Of p = inf, where that is 1, makes the largest absolute value. Returns what
/// was done, as a note; empty where nothing was.
std::string restoreAbsolutes(Model &model);

/// Whether sum(x^power)^root is a distance as that exporter writes it, with an
/// eps of at most 0.01. It gives the root a shape of [1] (`isVector`), by which
/// it is told from the program's own root of `power` where eps is below what
/// float32 holds of 1 / (power + eps).
bool isRootOfDistance(double power, double root, bool isVector);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_DROPPEDABSOLUTES_H
