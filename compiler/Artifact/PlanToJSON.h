// Plan ops as the JSON of runtime/ArtifactFormat.h.
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

/// The artifact's word for an element type: f32 -> DType::F32; nothing for
/// types that buffers cannot have.
std::optional<DType> toDType(mlir::Type type);

/// The members of a plan that the IR holds; the ArtifactWriter's caller adds
/// model, precision, recipe and target.
struct PlanMembers {
  /// How much of the data, from its start, is constants.
  int64_t constantBytes = 0;
  llvm::json::Array state;
  llvm::json::Object functions;
  /// What the code of each kernel that steps call is made for.
  llvm::json::Object kernels;
};

/// What every `mpc.variable` and `plan.program` of `module` says. Initial
/// values and constants are appended to `data`. Fails, with a diagnostic, on a
/// type that artifacts do not know or a constant without data.
mlir::FailureOr<PlanMembers> planToJSON(mlir::ModuleOp module,
                                        DataSection &data);

} // namespace mpc

#endif // MPC_COMPILER_ARTIFACT_PLANTOJSON_H
