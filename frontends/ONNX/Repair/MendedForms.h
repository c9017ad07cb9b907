// Nodes in the form that another opset has for them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_MENDEDFORMS_H
#define MPC_FRONTENDS_ONNX_REPAIR_MENDEDFORMS_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// Gives the nodes of ONNX's own ops the form that their opset has, and adds
/// what was found to `warnings`:
///   - an attribute of a later opset, or an op that the opset does not have,
///     means that the file's opset is a later one. It is an error if another
///     node would mean something else there. An attribute that says what holds
///     without it is left out;
///   - an attribute that has become an input, such as the `axes` of a
///     reduction, becomes one, and an input that is still an attribute one;
///   - an op that ONNX does not have and ONNX Runtime has is taken for that;
///   - integers get the type that the op has for them, such as the int64 of a
///     shape.
llvm::Error mendForms(Model &model, std::vector<std::string> &warnings);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_MENDEDFORMS_H
