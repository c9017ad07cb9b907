// Absolute values that PyTorch's exporter leaves out.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_MODEL_DROPPEDABSOLUTES_H
#define MPC_FRONTENDS_ONNX_MODEL_DROPPEDABSOLUTES_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// Distances of torch.cdist(a, b, p) and of nn.PairwiseDistance(p), which the
/// older exporter writes as sum((a - b)^p)^(1 / (p + 1e-6)): right for an even
/// p, while for another, as p = 1, what is below 0 has a wrong sign or no
/// power. Puts an Abs before such powers. Returns what was done, as a note;
/// empty where nothing was.
std::string restoreAbsolutes(Model &model);

/// Whether sum(x^power)^root is a distance as that exporter writes it.
bool isRootOfDistance(double power, double root);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_DROPPEDABSOLUTES_H
