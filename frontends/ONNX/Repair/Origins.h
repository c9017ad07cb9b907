// Finds what each initializer is in the exported program, a parameter or a
// constant, by the metadata of PyTorch's exporter.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_ORIGINS_H
#define MPC_FRONTENDS_ONNX_REPAIR_ORIGINS_H

#include "frontends/ONNX/Model/ExportedProgram.h"
#include "frontends/ONNX/Model/Graph.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace mpc::onnx_frontend {

/// True if the initializer `value` consists of elements of parameters, each at
/// most once: training `value` then trains the parameters. `unitMultiples` is
/// the result of findUnitMultiples().
bool isMovedParameter(const Graph &graph, const proto::ValueInfoProto &value,
                      const llvm::StringSet<> &unitMultiples);

/// Returns what each value is in the program, as far as the metadata tell:
/// PyTorch's word, like "PARAMETER" or "BUFFER", or kFoldedOrigin for a value
/// folded from constants.
llvm::StringMap<std::string> findOrigins(const Graph &graph);

/// Returns the initializers of one element that the exporter folded from
/// constants, like the scale of an attention. The shape is [], or [1] if the
/// attention has a mask.
llvm::StringSet<>
findComputedNumbers(const Graph &graph,
                    const llvm::StringMap<std::string> &origins);

inline constexpr llvm::StringLiteral kParameterOrigin = "PARAMETER";
inline constexpr llvm::StringLiteral kFoldedOrigin = "constants";

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_ORIGINS_H
