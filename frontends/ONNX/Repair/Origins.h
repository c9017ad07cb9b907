// What PyTorch's exporter says that initializers were in the program.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_ORIGINS_H
#define MPC_FRONTENDS_ONNX_REPAIR_ORIGINS_H

#include "frontends/ONNX/Model/ExportedProgram.h"
#include "frontends/ONNX/Model/Graph.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace mpc::onnx_frontend {

/// Whether the exporter has made the initializer `value` of elements of the
/// program's parameters, each at most once: to train it is to train them.
bool isMovedParameter(const Graph &graph, const proto::ValueInfoProto &value,
                      const ProgramNames &names);

/// For each value that the exporter says it of: what it was in the program, in
/// PyTorch's words, or that it was computed from constants.
llvm::StringMap<std::string> findOrigins(const Graph &graph);

/// The initializers of one number that the exporter computed from constants,
/// such as the root of an attention's scale, which it writes with a shape of
/// [1] where the attention has a mask.
llvm::StringSet<>
findComputedNumbers(const Graph &graph,
                    const llvm::StringMap<std::string> &origins);

inline constexpr llvm::StringLiteral kParameterOrigin = "PARAMETER";
inline constexpr llvm::StringLiteral kFoldedOrigin = "constants";

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_ORIGINS_H
