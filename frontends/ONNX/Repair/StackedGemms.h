// Splits Gemm nodes whose operands are stacks of matrices.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_STACKEDGEMMS_H
#define MPC_FRONTENDS_ONNX_REPAIR_STACKEDGEMMS_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// ONNX allows only matrices in a Gemm. Tools that fuse MatMul and Add produce
/// Gemm nodes with stacks of matrices, such as [batch, rows, columns]. Replaces
/// such a node by MatMul and Add, and adds a warning to `warnings`.
void splitStackedGemms(Model &model, std::vector<std::string> &warnings);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_STACKEDGEMMS_H
