// Rewrites nodes from the form of another opset.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_MENDEDFORMS_H
#define MPC_FRONTENDS_ONNX_REPAIR_MENDEDFORMS_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// Gives nodes of ONNX's own ops the form of the file's opset, and adds
/// findings to `warnings`:
///   - An attribute of a later opset raises the file's opset. Fails if this
///     would change the meaning of another node. An attribute that only states
///     the default is dropped instead.
///   - An attribute that has become an input, such as the `axes` of a
///     reduction, becomes an input, and the reverse for older opsets.
///   - An op that only ONNX Runtime has gets the domain com.microsoft.
///   - Integers get the type that the op expects, such as int64 for a shape.
llvm::Error mendForms(Model &model, std::vector<std::string> &warnings);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_MENDEDFORMS_H
