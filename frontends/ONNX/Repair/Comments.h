// Drops attributes that describe a node to people.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_COMMENTS_H
#define MPC_FRONTENDS_ONNX_REPAIR_COMMENTS_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// Editors of graphs store remarks in attributes of their own, like
/// 'description', and ONNX Runtime refuses such files. Drops text attributes of
/// ONNX and com.microsoft nodes if no operator defines the name, and adds each
/// name to `warnings`. Numeric attributes stay: an operator may compute with
/// them.
void dropComments(Model &model, std::vector<std::string> &warnings);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_COMMENTS_H
