// Gemm of stacks of matrices, which ONNX has for matrices alone.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_STACKEDGEMMS_H
#define MPC_FRONTENDS_ONNX_REPAIR_STACKEDGEMMS_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// Tools that join MatMul and Add to a Gemm leave stacks of matrices stacks:
/// such a node becomes MatMul and Add again. Adds what was found to `warnings`.
void splitStackedGemms(Model &model, std::vector<std::string> &warnings);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_STACKEDGEMMS_H
