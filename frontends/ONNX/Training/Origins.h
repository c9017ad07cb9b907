// What PyTorch's exporter says that initializers were in the program.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_ORIGINS_H
#define MPC_FRONTENDS_ONNX_TRAINING_ORIGINS_H

#include "frontends/ONNX/Model/ExportedProgram.h"
#include "frontends/ONNX/Model/Graph.h"

namespace mpc::onnx_frontend {

/// Whether the exporter has made the initializer `value` of elements of the
/// program's parameters, each at most once: to train it is to train them.
bool isMovedParameter(const Graph &graph, const proto::ValueInfoProto &value,
                      const ProgramNames &names);

/// For each value that the exporter says it of: what it was in the program, in
/// PyTorch's words, or that it was computed from constants.
llvm::StringMap<std::string> findOrigins(const Graph &graph);
inline constexpr llvm::StringLiteral kParameterOrigin = "PARAMETER";
inline constexpr llvm::StringLiteral kFoldedOrigin = "constants";

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_ORIGINS_H
