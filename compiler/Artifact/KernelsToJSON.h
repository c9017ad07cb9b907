// Describes what the code of kernels expects, as JSON of
// runtime/ArtifactFormat.h. The runtime compares the steps that call the
// kernels.
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

/// Returns an entry for each kernel that a step of `module` calls. Kernels on
/// empty tensors have no step.
mlir::FailureOr<llvm::json::Object> kernelsToJSON(mlir::ModuleOp module);

} // namespace mpc

#endif // MPC_COMPILER_ARTIFACT_KERNELSTOJSON_H
