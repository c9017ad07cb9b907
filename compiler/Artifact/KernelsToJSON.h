// What the code of kernels is made for, as the JSON of
// runtime/ArtifactFormat.h: the runtime compares the steps that call them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_ARTIFACT_KERNELSTOJSON_H
#define MPC_COMPILER_ARTIFACT_KERNELSTOJSON_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/Support/JSON.h"

namespace mpc {

/// Adds "type" and "shape" to `object`. Fails, with a diagnostic at `op`, where
/// artifacts have no such element type.
mlir::LogicalResult addType(llvm::json::Object &object, mlir::Operation *op,
                            mlir::ShapedType type);

/// An entry for each kernel that steps of `module` call. Kernels of values
/// without elements have no step.
mlir::FailureOr<llvm::json::Object> kernelsToJSON(mlir::ModuleOp module);

} // namespace mpc

#endif // MPC_COMPILER_ARTIFACT_KERNELSTOJSON_H
