// Describes, in the JSON of runtime/ArtifactFormat.h, what the code of each
// kernel expects: buffers and division of work. When the runtime loads an
// artifact, it compares each step with the kernel that the step calls.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_ARTIFACT_KERNELSTOJSON_H
#define MPC_COMPILER_ARTIFACT_KERNELSTOJSON_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/Support/JSON.h"

namespace mpc {

/// Adds "type" and "shape" to `object`. Fails, with a diagnostic at `op`, if
/// artifacts do not support the element type.
mlir::LogicalResult addType(llvm::json::Object &object, mlir::Operation *op,
                            mlir::ShapedType type);

/// Returns an entry, by kernel name, for each kernel that a step of `module`
/// calls. A kernel on empty tensors has no step, and thus no entry.
mlir::FailureOr<llvm::json::Object> kernelsToJSON(mlir::ModuleOp module);

} // namespace mpc

#endif // MPC_COMPILER_ARTIFACT_KERNELSTOJSON_H
