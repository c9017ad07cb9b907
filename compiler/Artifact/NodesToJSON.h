// Describes the work of each step of a plan, and the model's nodes that the
// step computes, for `mpc profile`.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_ARTIFACT_NODESTOJSON_H
#define MPC_COMPILER_ARTIFACT_NODESTOJSON_H

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/JSON.h"

namespace mpc {

/// The training phase of each node, by the node's name. The loss counts as
/// forward.
using NodePhases = llvm::StringMap<Phase>;

/// Collects the phases of all ops of `module` under the names in their
/// locations. Call before the Fusion stage, which drops phases.
NodePhases collectPhases(mlir::ModuleOp module);

/// Describes the steps of each `plan.program` of `module`, in the JSON form of
/// runtime/NodesFormat.h. The kernels must still have their bodies.
llvm::json::Object nodesToJSON(mlir::ModuleOp module, const NodePhases &phases);

} // namespace mpc

#endif // MPC_COMPILER_ARTIFACT_NODESTOJSON_H
