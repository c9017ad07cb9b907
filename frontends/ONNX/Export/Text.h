// Prints a model as ONNX text, the syntax of onnx.parser.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_EXPORT_TEXT_H
#define MPC_FRONTENDS_ONNX_EXPORT_TEXT_H

#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

namespace mpc::onnx_frontend {

class Model;

/// Prints the main graph and the functions of `model`, as repaired. Calls of
/// functions are as in the file. onnx.parser.parse_model reads the text:
///   - Tensors of more than `mostElements` elements have external data at the
///     location "__elided__". So have element types that mpc does not read.
///   - The metadata that repairs read are comments, "# KEY: VALUE", before
///     their graph, value or node.
///   - In names of bodies, '_' replaces each character that is not allowed in
///     an identifier.
///   - Sparse tensors, which the syntax lacks, are comments.
/// Error if the data of a smaller tensor cannot be read.
llvm::Error printText(Model &model, int64_t mostElements,
                      llvm::raw_ostream &os);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_EXPORT_TEXT_H
