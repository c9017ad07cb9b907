// Attributes that describe a node to people.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_COMMENTS_H
#define MPC_FRONTENDS_ONNX_REPAIR_COMMENTS_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// Tools that edit graphs leave remarks in attributes of their own, such as
/// 'description'. ONNX Runtime refuses such files. Takes text out of nodes of
/// ONNX and com.microsoft, under names that no operator there has for a text,
/// and adds to `warnings` which. Numbers stay: an operator may compute with
/// them.
void dropComments(Model &model, std::vector<std::string> &warnings);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_COMMENTS_H
