// Writes plan ops as the JSON of runtime/ArtifactFormat.h.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_ARTIFACT_PLANTOJSON_H
#define MPC_COMPILER_ARTIFACT_PLANTOJSON_H

#include "compiler/Artifact/DataSection.h"
#include "runtime/Names.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"

#include <optional>

namespace mpc {

/// Returns the artifact's element type for an MLIR type, such as DType::F32 for
/// f32; nullopt if buffers do not support the type.
std::optional<DType> toDType(mlir::Type type);

/// The members of a plan's JSON object that come from the IR. Callers of
/// writeArtifact add model, precision, recipe and target.
struct PlanMembers {
  /// The size in bytes of the constants, which come first in the data section.
  int64_t constantBytes = 0;
  llvm::json::Array state;
  llvm::json::Object functions;
  /// Expectations of the code of each called kernel (KernelsToJSON.h), by
  /// kernel name.
  llvm::json::Object kernels;
};

/// Writes every `mpc.variable` and `plan.program` of `module` as JSON. Appends
/// initial values and constants to `data`. Fails, with a diagnostic, on a type
/// that artifacts do not support, or on a constant without data.
mlir::FailureOr<PlanMembers> planToJSON(mlir::ModuleOp module,
                                        DataSection &data);

} // namespace mpc

#endif // MPC_COMPILER_ARTIFACT_PLANTOJSON_H
