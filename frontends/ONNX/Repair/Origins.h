// Finds the meaning of initializers in the program, by metadata of PyTorch's
// exporter.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_ORIGINS_H
#define MPC_FRONTENDS_ONNX_REPAIR_ORIGINS_H

#include "frontends/ONNX/Model/ExportedProgram.h"
#include "frontends/ONNX/Model/Graph.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace mpc::onnx_frontend {

/// True if the initializer `value` consists of elements of the program's
/// parameters, each at most once: training `value` then trains the parameters.
/// `unitMultiples` come from findUnitMultiples().
bool isMovedParameter(const Graph &graph, const proto::ValueInfoProto &value,
                      const llvm::StringSet<> &unitMultiples);

/// Returns the origin of each value that the metadata describe: PyTorch's kind,
/// like "PARAMETER", or kFoldedOrigin for values folded from constants.
llvm::StringMap<std::string> findOrigins(const Graph &graph);

/// Returns the initializers of one element that the exporter folded from
/// constants, such as the root of an attention's scale. The shape is [1] if the
/// attention has a mask.
llvm::StringSet<>
findComputedNumbers(const Graph &graph,
                    const llvm::StringMap<std::string> &origins);

inline constexpr llvm::StringLiteral kParameterOrigin = "PARAMETER";
inline constexpr llvm::StringLiteral kFoldedOrigin = "constants";

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_ORIGINS_H
